//! The copy of a session's log in a host's home, and the files beside it. It holds what the fleet has, from the beginning on, and is checked event by
//! event before the host goes on with it. A log that was never in the fleet is brought into it.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use lodge_events::Event;
use lodge_log::{COPY_FILE, FileStore, LogError, Position, Store as _, is_rewind, without_rewound};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{
    Fleet, FleetError, FleetLog, Host, Intent, Kind, MovingFiles, Owner, Record, SessionFiles, Tip, Writer,
    files::{self, Recorded},
};

/// In a session's directory: a copy that differed from the fleet's log.
const ASIDE: &str = "events.differs.jsonl";
/// How often a session that somebody uses meanwhile is tried to be exported.
const EXPORT_TRIES: u32 = 5;
/// The most that is brought into the fleet at once.
const RUN: usize = 256 << 10;
/// So much of a log is fetched before it is written.
const PART: usize = 4 << 20;

type Hash = [u8; 32];

fn hash(event: &[u8]) -> Hash {
    digest(&SHA256, event)
        .as_ref()
        .try_into()
        .expect("a SHA-256 has 32 bytes")
}

/// What a home has of a log.
#[derive(Default)]
struct Copy {
    exists: bool,
    joined: bool,
    mark: Option<Mark>,
    events: Vec<Hash>,
}

/// Up to where a copy was compared with the fleet's log: what is before that need not be read again.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Mark {
    /// The place in the fleet's log.
    tip: Tip,
    /// So many events the copy had then.
    copied: usize,
    /// Of these events.
    digest: Hash,
    /// What the log says of files up to there.
    files: Recorded,
    /// Who had the session. Nobody, when the copy was only fetched: the files beside it were not.
    owner: Owner,
}

fn digest_of(events: &[Hash]) -> Hash {
    hash(events.as_flattened())
}

/// What the fleet has of a session.
#[derive(Default)]
struct History {
    events: Vec<Bytes>,
    files: Recorded,
    /// Who had the session last.
    owner: Option<Owner>,
}

impl History {
    /// What is before a mark, without the events.
    fn up_to(mark: &Mark) -> Self {
        Self {
            events: Vec::new(),
            files: mark.files.clone(),
            owner: Some(mark.owner.clone()),
        }
    }

    /// All of it.
    async fn read(log: &FleetLog) -> Result<Self, FleetError> {
        let mut history = Self::default();
        let mut reader = log.read(Tip::START).await?;
        while let Some(record) = reader.next().await? {
            history.take_in(&record);
        }
        Ok(history)
    }

    fn take_in(&mut self, record: &Record) {
        self.events.extend(record.events.iter().cloned());
        files::apply(&mut self.files, &record.files);
        if record.kind == Kind::Claim {
            self.owner = Some(record.owner.clone());
        }
    }
}

impl Host {
    /// Takes a session that was just made in this home and has an empty log there.
    ///
    /// # Errors
    /// As [`Host::take`].
    pub async fn create_with_copy(
        &self,
        session: &str,
        files: &Arc<FileStore>,
        moving: MovingFiles,
    ) -> Result<(Writer, SessionFiles), FleetError> {
        let writer = self.take(session, Intent::Create, Tip::START, |_| Ok(())).await?;
        let dir = in_home(files, session, |files, session| {
            mark_joined(files, session, None)?;
            files.dir(session)
        });
        Ok((writer, SessionFiles::new(dir.await?, moving, Recorded::new())))
    }

    /// Takes a session, and makes the copy of its log in this home, and the files beside it, what the fleet has.
    ///
    /// # Errors
    /// [`FleetError::Diverged`] when the copy has events that the fleet has not, or was never in it and has others, and it is left as it
    /// is; as [`Host::take`] otherwise.
    pub async fn open_with_copy(
        &self,
        session: &str,
        files: &Arc<FileStore>,
        moving: MovingFiles,
    ) -> Result<(Writer, SessionFiles), FleetError> {
        let mut copy = in_home(files, session, read).await?;
        let intent = match self.fleet().log(session)?.read(Tip::START).await {
            Err(FleetError::NotFound { .. } | FleetError::Deleted { .. }) if copy.exists && !copy.joined => {
                Intent::Create
            }
            Err(error) => return Err(error),
            Ok(_) => Intent::Open,
        };
        if intent == Intent::Open && !copy.exists {
            self.check_free(session).await?;
            self.fetch(session, files).await?;
            copy = in_home(files, session, read).await?;
        }
        let mark = self.good_mark(session, &copy).await?;
        let mut history = mark.as_ref().map_or_else(History::default, History::up_to);
        let take_in = |record: &Record| {
            history.take_in(record);
            Ok(())
        };
        let from = mark.as_ref().map_or(Tip::START, |mark| mark.tip);
        let mut writer = self.take(session, intent, from, take_in).await?;
        let copied = mark.map_or(0, |mark| mark.copied);
        match self
            .bring_up_to_date(&mut writer, copy, copied, history, files, moving)
            .await
        {
            Ok(beside) => Ok((writer, beside)),
            Err(error) => {
                self.release(writer).await?;
                Err(error)
            }
        }
    }

    /// Fetches a log that this home has nothing of, a part at a time. What it says of files is left for later.
    async fn fetch(&self, session: &str, files: &Arc<FileStore>) -> Result<(), FleetError> {
        let mut reader = self.fleet().log(session)?.read(Tip::START).await?;
        in_home(files, session, |files, session| {
            drop(files.create(session)?);
            mark_joined(files, session, None)
        })
        .await?;
        let (mut history, mut bytes) = (History::default(), 0);
        while let Some(record) = reader.next().await? {
            bytes += record.events.iter().map(Bytes::len).sum::<usize>();
            history.take_in(&record);
            if bytes >= PART {
                bytes = 0;
                let part = std::mem::take(&mut history.events);
                in_home(files, session, move |files, session| write(files, session, &part)).await?;
            }
        }
        let tip = reader.tip();
        let History {
            events,
            files: recorded,
            ..
        } = history;
        in_home(files, session, move |files, session| {
            write(files, session, &events)?;
            let hashes = hashes_of(files, session)?;
            let mark = Mark {
                tip,
                copied: hashes.len(),
                digest: digest_of(&hashes),
                files: recorded,
                owner: Owner::nobody(),
            };
            mark_joined(files, session, Some(&mark))
        })
        .await
    }

    /// The mark of a copy, if the copy still begins with what it speaks of, and so does the fleet's log.
    async fn good_mark(&self, session: &str, copy: &Copy) -> Result<Option<Mark>, FleetError> {
        let Some(mark) = &copy.mark else { return Ok(None) };
        let marked = copy.events.get(..mark.copied);
        let is_good = marked.is_some_and(|events| digest_of(events) == mark.digest)
            && self.fleet().log(session)?.has(&mark.tip).await?;
        Ok(is_good.then(|| mark.clone()))
    }

    /// `history` is what follows the first `copied` events of the copy.
    async fn bring_up_to_date(
        &self,
        writer: &mut Writer,
        copy: Copy,
        copied: usize,
        history: History,
        files: &Arc<FileStore>,
        moving: MovingFiles,
    ) -> Result<SessionFiles, FleetError> {
        let session = writer.log().session().to_owned();
        let diverged = |event: u64, reason: &str| FleetError::Diverged {
            session: session.clone(),
            event,
            reason: reason.to_owned(),
        };
        let History {
            mut events,
            files: recorded,
            owner,
        } = history;
        let mut compared = compare(&events, &copy.events[copied..])?;
        if copied > 0 && (!matches!(compared, Compared::Known(_)) || has_rewinds(&events)?) {
            // What it is about may be before the mark.
            events = writer.log().read(Tip::START).await?.events().await?.0;
            compared = compare(&events, &copy.events)?;
        }
        let count = events.len();
        let (mut is_aside, mut is_import) = (false, false);
        let known = match compared {
            Compared::Known(known) => known,
            Compared::Ahead if !copy.joined => {
                join(writer, &session, files, count).await?;
                is_import = true;
                count
            }
            Compared::Ahead => return Err(diverged(count as u64, "the fleet's log ends before it")),
            // All that it had is in the fleet, where every event is checked against all before it. A disk that failed is no reason to stop.
            Compared::Differs(event) if copy.joined => {
                tracing::warn!(
                    session,
                    event,
                    "the copy of a session differs from the fleet's log; it is set aside as {ASIDE}"
                );
                in_home(files, &session, |files, session| files.set_aside(session, ASIDE)).await?;
                is_aside = true;
                0
            }
            Compared::Differs(event) => return Err(diverged(event, "it is another event")),
        };
        let missing = events.split_off(known.min(count));
        let is_behind = !missing.is_empty() || !copy.exists;
        let (tip, now) = (writer.tip(), (recorded.clone(), writer.owner().clone()));
        let hashes = match is_aside || has_rewinds(&missing)? {
            true => None,
            false => Some(copy.events.into_iter().chain(missing.iter().map(|event| hash(event)))),
        };
        let hashes: Option<Vec<Hash>> = hashes.map(Iterator::collect);
        let dir = in_home(files, &session, move |files, session| {
            if is_behind {
                write(files, session, &missing)?;
            }
            let hashes = match hashes {
                Some(hashes) => hashes,
                None => hashes_of(files, session)?,
            };
            let mark = Mark {
                tip,
                copied: hashes.len(),
                digest: digest_of(&hashes),
                files: now.0,
                owner: now.1,
            };
            mark_joined(files, session, Some(&mark))?;
            files.dir(session)
        });
        let mut beside = SessionFiles::new(dir.await?, moving, recorded);
        // Whoever had it last may have files that did not reach the fleet any more, and one that was never there has them all.
        let has_files = is_import || owner.is_none_or(|owner| self.was(&owner.host));
        if is_behind || !has_files {
            beside.restore(writer.log()).await?;
        }
        Ok(beside)
    }
}

/// The events that count: those that a rewind hides are left out.
fn shown(events: &[Bytes]) -> Result<Vec<Event>, LogError> {
    let events = events.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    Ok(without_rewound(events))
}

impl Fleet {
    /// The events of a session as it is now, whoever uses it. Nobody is asked for it, and nothing is copied.
    ///
    /// # Errors
    /// When there is no such session, or its log is damaged.
    pub async fn events(&self, session: &str) -> Result<Vec<Event>, FleetError> {
        let history = History::read(&self.log(session)?).await?;
        Ok(shown(&history.events)?)
    }

    /// Copies a session to a home outside of the fleet, as it is now, whoever uses it. Answers how many events it has. When it
    /// fails, the home is as it was.
    ///
    /// # Errors
    /// [`LogError::Exists`] when the home has such a session.
    pub async fn export(&self, session: &str, to: &Arc<FileStore>, moving: MovingFiles) -> Result<usize, FleetError> {
        let log = self.log(session)?;
        let mut tries = 0;
        loop {
            let history = History::read(&log).await?;
            let mut made = in_home(to, session, |to, session| to.create(session)).await?;
            let events = history.events;
            let put = in_home(to, session, move |to, session| {
                let events = shown(&events)?;
                made.append_all(&events)?;
                made.sync()?;
                Ok((events.len(), to.dir(session)?))
            });
            let put = async {
                let (count, dir) = put.await?;
                SessionFiles::new(dir, moving, history.files).restore(&log).await?;
                Ok(count)
            };
            let error = match put.await {
                Err(error) => error,
                done => return done,
            };
            in_home(to, session, |to, session| to.delete(session)).await?;
            tries += 1;
            // Whoever uses the session may have replaced a file since its log was read.
            if !matches!(error, FleetError::BadFile { .. }) || tries == EXPORT_TRIES {
                return Err(error);
            }
        }
    }
}

/// How a copy stands to the fleet's log.
enum Compared {
    /// It is what so many of the fleet's events add up to.
    Known(usize),
    /// It has all of the fleet's events, and more.
    Ahead,
    /// It has another event at this place.
    Differs(u64),
}

/// Compares event by event. A copy may be of any time: of before a rewind, or with what the rewind hides left out of its file.
fn compare(fleet: &[Bytes], copy: &[Hash]) -> Result<Compared, FleetError> {
    let mut shown: Vec<Event> = Vec::new();
    // So many of the events that count are the copy's first ones.
    let mut same = 0;
    let mut known = copy.is_empty().then_some(0);
    let same_from = |shown: &[Event], from: usize| {
        let pairs = shown[from..].iter().zip(&copy[from..]);
        from + pairs.take_while(|(event, ours)| hash(event.json()) == **ours).count()
    };
    for (number, event) in fleet.iter().enumerate() {
        let event = parse(event)?;
        if is_rewind(&event) {
            shown.push(event);
            shown = without_rewound(shown);
            same = same_from(&shown, 0);
        } else {
            shown.push(event);
            if same + 1 == shown.len() && same < copy.len() {
                same = same_from(&shown, same);
            }
        }
        if same == shown.len() && same == copy.len() {
            known = Some(number + 1);
        }
    }
    Ok(match known {
        Some(known) => Compared::Known(known),
        None if same == shown.len() => Compared::Ahead,
        None => Compared::Differs(same as u64),
    })
}

fn parse(event: &Bytes) -> Result<Event, LogError> {
    Event::parse(event.clone()).map_err(|error| LogError::Uncommitted {
        reason: format!("an event of the fleet cannot be read: {error}"),
    })
}

/// Brings the events from number `known` on into the fleet.
async fn join(writer: &mut Writer, session: &str, files: &Arc<FileStore>, known: usize) -> Result<(), FleetError> {
    let events = in_home(files, session, move |files, session| {
        let events = files.read(session, Position::START, Position::END)?.events();
        events
            .skip(known)
            .map(|event| Ok(event?.json().clone()))
            .collect::<Result<Vec<Bytes>, LogError>>()
    })
    .await?;
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|event| {
            bytes += event.len();
            bytes <= RUN
        });
        let (run, after) = rest.split_at(fits.count().max(1));
        writer.append(run).await?;
        rest = after;
    }
    Ok(())
}

fn read(files: &FileStore, session: &str) -> Result<Copy, LogError> {
    if !files.exists(session)? {
        return Ok(Copy::default());
    }
    // Opening repairs it: what is damaged is set aside, and then the comparison says what is missing.
    drop(files.open(session)?);
    let path = marker(files, session)?;
    Ok(Copy {
        exists: true,
        joined: path.exists(),
        mark: std::fs::read(path)
            .ok()
            .and_then(|mark| serde_json::from_slice(&mark).ok()),
        events: hashes_of(files, session)?,
    })
}

fn hashes_of(files: &FileStore, session: &str) -> Result<Vec<Hash>, LogError> {
    let events = files.read(session, Position::START, Position::END)?.events();
    events.map(|event| Ok(hash(event?.json()))).collect()
}

fn has_rewinds(events: &[Bytes]) -> Result<bool, FleetError> {
    for event in events {
        if is_rewind(&parse(event)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn write(files: &FileStore, session: &str, events: &[Bytes]) -> Result<(), LogError> {
    let mut log = match files.exists(session)? {
        true => files.open(session)?.log,
        false => files.create(session)?,
    };
    let events: Vec<Event> = events.iter().map(parse).collect::<Result<_, _>>()?;
    // A rewind is the first of what is written with it.
    for part in events.chunk_by(|_, next| !is_rewind(next)) {
        for run in part.chunks(256) {
            log.append_all(run)?;
        }
    }
    log.sync()
}

/// The file that says that the log was in the fleet as a whole. If the fleet has none, it was deleted there. The file holds a [`Mark`], or
/// nothing.
fn marker(files: &FileStore, session: &str) -> Result<PathBuf, LogError> {
    Ok(files.dir(session)?.join(COPY_FILE))
}

fn mark_joined(files: &FileStore, session: &str, mark: Option<&Mark>) -> Result<(), LogError> {
    let path = marker(files, session)?;
    let mark = mark.map(|mark| serde_json::to_vec(mark).expect("a mark is plain data"));
    lodge_files::replace(&path, &mark.unwrap_or_default()).map_err(|source| LogError::Io {
        op: "write",
        path,
        source,
    })
}

/// Does something with files where nobody waits for them.
async fn in_home<T: Send + 'static>(
    files: &Arc<FileStore>,
    session: &str,
    run: impl FnOnce(&FileStore, &str) -> Result<T, LogError> + Send + 'static,
) -> Result<T, FleetError> {
    let (files, session) = (files.clone(), session.to_owned());
    let done = tokio::task::spawn_blocking(move || run(&files, &session)).await;
    Ok(done.expect("reading and writing a log does not panic")?)
}
