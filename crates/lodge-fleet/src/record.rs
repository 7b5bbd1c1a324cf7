//! One message of a session's log: who wrote it, what it holds, and the digest that ties it to all before it.

use async_nats::HeaderMap;
use bytes::Bytes;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{FileChange, Owner, jetstream::Stored};

/// The format of what a fleet keeps. A version that changes it, or adds a kind of message, has the next number.
pub(crate) const FORMAT: u32 = 1;

const FORMAT_HEADER: &str = "Lodge-Format";
const APPEND: &str = "Lodge-Append";
const KIND: &str = "Lodge-Kind";
const HOST: &str = "Lodge-Host";
const EPOCH: &str = "Lodge-Epoch";
const FIRST: &str = "Lodge-First";
const COUNT: &str = "Lodge-Count";
const CHAIN: &str = "Lodge-Chain";
const BODY: &str = "Lodge-Body";

/// A digest of everything that a log holds up to a message.
pub(crate) type Chain = [u8; 16];

/// A place in a session's log, right after one of its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tip {
    pub(crate) sequence: u64,
    pub(crate) events: u64,
    pub(crate) epoch: u64,
    pub(crate) chain: Chain,
}

impl Tip {
    /// Before the first message of every log.
    pub const START: Self = Self {
        sequence: 0,
        events: 0,
        epoch: 0,
        chain: [0; 16],
    };

    /// The message's sequence in its stream; 0 before the first.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many events the log has up to here.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The epoch of whoever claimed the log last.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// What a message of a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A run of events.
    Events,
    /// A host takes the log over. It holds no events; it is what shuts out all earlier owners.
    Claim,
    /// What the session keeps beside its log has changed. It holds no events.
    Files,
    /// The session was deleted.
    Deleted,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Claim => "claim",
            Self::Files => "files",
            Self::Deleted => "deleted",
        }
    }

    fn named(name: &str) -> Option<Self> {
        let kinds = [Self::Events, Self::Claim, Self::Files, Self::Deleted];
        kinds.into_iter().find(|kind| kind.name() == name)
    }
}

/// A message before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) append: Uuid,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
    pub(crate) count: u64,
    /// The events, one a line; a line break between two of them.
    pub(crate) body: Bytes,
    /// Where the body is when the message does not hold it.
    pub(crate) elsewhere: Option<String>,
}

impl Draft {
    /// Where the log is after this message, but for the sequence, which the server gives.
    pub(crate) fn after(&self, tip: &Tip) -> Tip {
        let mut chain = Context::new(&SHA256);
        chain.update(&tip.chain);
        let fields = [self.kind.name(), &self.owner.host, &self.append.to_string()];
        for field in fields {
            chain.update(&(field.len() as u64).to_be_bytes());
            chain.update(field.as_bytes());
        }
        for number in [self.owner.epoch, tip.events, self.count] {
            chain.update(&number.to_be_bytes());
        }
        chain.update(&self.body);
        Tip {
            sequence: 0,
            events: tip.events + self.count,
            epoch: self.owner.epoch,
            chain: chain.finish().as_ref()[..16]
                .try_into()
                .expect("a SHA-256 has 32 bytes"),
        }
    }

    pub(crate) fn headers(&self, tip: &Tip) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(FORMAT_HEADER, FORMAT.to_string());
        headers.insert(APPEND, self.append.to_string());
        headers.insert(KIND, self.kind.name());
        headers.insert(HOST, self.owner.host.as_str());
        headers.insert(EPOCH, self.owner.epoch.to_string());
        headers.insert(FIRST, tip.events.to_string());
        headers.insert(COUNT, self.count.to_string());
        headers.insert(CHAIN, hex(&self.after(tip).chain));
        if let Some(hash) = &self.elsewhere {
            headers.insert(BODY, hash.as_str());
        }
        headers
    }
}

/// Whether a later version wrote a message. What else it says may mean something else.
pub(crate) fn is_newer(message: &Stored) -> bool {
    let format = message.header(FORMAT_HEADER).map(str::parse);
    format.is_some_and(|format: Result<u32, _>| format.is_ok_and(|format| format > FORMAT))
}

/// The id of the append that made a message.
pub(crate) fn append_id(message: &Stored) -> Option<Uuid> {
    message.header(APPEND)?.parse().ok()
}

/// Where the body of a message is when the message does not hold it.
pub(crate) fn body_elsewhere(message: &Stored) -> Option<&str> {
    message.header(BODY)
}

/// Who wrote a message.
pub(crate) fn owner(message: &Stored) -> Option<Owner> {
    Some(Owner {
        host: message.header(HOST)?.to_owned(),
        epoch: message.header(EPOCH)?.parse().ok()?,
    })
}

/// Where the log is after a message, as the message itself says.
pub(crate) fn claimed_tip(message: &Stored) -> Option<Tip> {
    let number = |name: &str| message.header(name)?.parse::<u64>().ok();
    let chain = message.header(CHAIN)?;
    let digits = (0..chain.len()).step_by(2).map(|at| chain.get(at..at + 2));
    let bytes = digits.map(|digits| u8::from_str_radix(digits?, 16).ok());
    Some(Tip {
        sequence: message.sequence,
        events: number(FIRST)?.checked_add(number(COUNT)?)?,
        epoch: number(EPOCH)?,
        chain: bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()?,
    })
}

/// The place after a message that says that the session was deleted, from which a session of the same id begins. Nothing for other
/// messages.
pub(crate) fn after_deletion(message: &Stored) -> Option<Tip> {
    let deleted = kind(message) == Some(Kind::Deleted);
    deleted.then(|| Tip {
        sequence: message.sequence,
        epoch: owner(message).map_or(0, |owner| owner.epoch),
        ..Tip::START
    })
}

/// What a message is.
pub(crate) fn kind(message: &Stored) -> Option<Kind> {
    Kind::named(message.header(KIND)?)
}

/// A message that was read and found to follow the one before it.
#[derive(Debug, Clone)]
pub struct Record {
    /// Where the log is after it.
    pub tip: Tip,
    /// What it is.
    pub kind: Kind,
    /// Who wrote it.
    pub owner: Owner,
    /// Its events, each one line of JSON.
    pub events: Vec<Bytes>,
    /// What became of the session's files.
    pub files: Vec<FileChange>,
}

/// Reads a message that has to follow `tip`, with its body; says what is wrong with it otherwise.
pub(crate) fn check(message: &Stored, body: Bytes, tip: &Tip) -> Result<Record, String> {
    let missing = |name: &str| format!("the header {name} is missing or unreadable");
    let number = |name: &str| {
        let text = message.header(name).and_then(|text| text.parse::<u64>().ok());
        text.ok_or_else(|| missing(name))
    };
    let draft = Draft {
        append: append_id(message).ok_or_else(|| missing(APPEND))?,
        kind: kind(message).ok_or_else(|| missing(KIND))?,
        owner: owner(message).ok_or_else(|| missing(HOST))?,
        count: number(COUNT)?,
        body,
        elsewhere: None,
    };
    let first = number(FIRST)?;
    if first != tip.events {
        return Err(format!(
            "it begins with event {first}, and event {} is next",
            tip.events
        ));
    }
    let after = draft.after(tip);
    if message.header(CHAIN) != Some(&hex(&after.chain)) {
        return Err("its digest does not follow from the messages before it".into());
    }
    if !follows(draft.kind, draft.owner.epoch, tip.epoch) {
        return Err(format!("epoch {} wrote after epoch {}", draft.owner.epoch, tip.epoch));
    }
    let (mut events, mut files) = (Vec::new(), Vec::new());
    match draft.kind {
        Kind::Files => {
            files =
                serde_json::from_slice(&draft.body).map_err(|error| format!("its files are unreadable: {error}"))?;
        }
        _ => events = split(&draft.body),
    }
    if events.len() as u64 != draft.count {
        return Err(format!("it holds {} events, not {}", events.len(), draft.count));
    }
    Ok(Record {
        tip: Tip {
            sequence: message.sequence,
            ..after
        },
        kind: draft.kind,
        owner: draft.owner,
        events,
        files,
    })
}

/// Whether a message may follow in a log whose last claim is of epoch `last`: claims go up, all else is of the claim's epoch.
pub(crate) fn follows(kind: Kind, epoch: u64, last: u64) -> bool {
    match kind {
        Kind::Claim => epoch > last,
        Kind::Events | Kind::Files | Kind::Deleted => epoch == last,
    }
}

fn split(body: &Bytes) -> Vec<Bytes> {
    if body.is_empty() {
        return Vec::new();
    }
    let lines = body.split(|byte| *byte == b'\n');
    lines.map(|line| body.slice_ref(line)).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
