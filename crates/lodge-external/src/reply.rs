//! The answers that requests of a program wait for.

use std::{collections::HashMap, sync::Arc};

use lodge_rpc::{Error, Peer};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

/// An answer that the program offers to its question for permission.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionOption {
    /// Its id.
    pub option_id: String,
    /// What it says.
    #[serde(default)]
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once` or `reject_always`.
    pub kind: String,
}

/// The requests that wait for their answers, by their ids as JSON. A program may withdraw them.
pub(crate) type Open = Arc<Mutex<HashMap<String, CancellationToken>>>;

/// The answer that a request of the program waits for. Dropped, it is that nobody is there to answer.
pub struct Reply {
    open: Option<(Value, Peer)>,
    all: Open,
    withdrawn: CancellationToken,
    kind: Kind,
    /// What the request takes of the room for what waits.
    _room: Option<OwnedSemaphorePermit>,
}

/// What a request asks for, as far as answers to it differ.
pub(crate) enum Kind {
    /// A permission, with the answers that the program offers.
    Permission(Vec<PermissionOption>),
    /// An answer of people.
    Elicitation,
    Other,
}

/// The ways to allow a request that the program offers.
#[derive(Debug)]
pub struct Ways {
    /// Their names.
    pub names: Vec<String>,
    /// Whether they allow more than this once. The program then offers no other.
    pub last: bool,
}

const ONCE: &str = "allow_once";
const ALWAYS: &str = "allow_always";

impl Reply {
    pub(crate) fn new(id: Value, peer: Peer, all: Open, kind: Kind, room: Option<OwnedSemaphorePermit>) -> Self {
        let withdrawn = CancellationToken::new();
        all.lock().insert(id.to_string(), withdrawn.clone());
        Self {
            open: Some((id, peer)),
            all,
            withdrawn,
            kind,
            _room: room,
        }
    }

    fn send(&mut self, result: Result<Value, Error>) {
        if let Some((id, peer)) = self.open.take() {
            self.all.lock().remove(&id.to_string());
            peer.respond(&id, result);
        }
    }

    /// Cancelled once the program withdraws the request.
    pub fn withdrawn(&self) -> CancellationToken {
        self.withdrawn.clone()
    }

    /// Waits until the program has read what it was told before.
    pub async fn room(&self) {
        if let Some((_, peer)) = &self.open {
            peer.room().await;
        }
    }

    /// Answers.
    pub fn answer(mut self, result: Result<Value, String>) {
        self.send(result.map_err(Error::internal));
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &PermissionOption> {
        let options: &[PermissionOption] = match &self.kind {
            Kind::Permission(options) => options,
            Kind::Elicitation | Kind::Other => &[],
        };
        options.iter().filter(move |option| option.kind == kind)
    }

    /// The kind of the options that allow it: this once, or for longer where there are only such.
    fn allowing(&self) -> &'static str {
        match self.of_kind(ONCE).next() {
            Some(_) => ONCE,
            None => ALWAYS,
        }
    }

    /// The ways to allow it. What people allow for longer is remembered by whoever asks them, so a way that lasts is chosen only
    /// by a person.
    pub fn ways_to_allow(&self) -> Ways {
        let kind = self.allowing();
        Ways {
            names: self.of_kind(kind).map(|option| option.name.clone()).collect(),
            last: kind == ALWAYS,
        }
    }

    /// Allows it in one of the ways that there are. A program that offers none is told that nobody wants it.
    pub fn allow(self, way: usize) {
        let chosen = self.of_kind(self.allowing()).nth(way);
        let chosen = chosen.map(|option| option.option_id.clone());
        self.choose(chosen);
    }

    /// Refuses it.
    pub fn refuse(self) {
        let chosen = self.of_kind("reject_once").chain(self.of_kind("reject_always")).next();
        let chosen = chosen.map(|option| option.option_id.clone());
        self.choose(chosen);
    }

    fn choose(mut self, option: Option<String>) {
        let outcome = match option {
            Some(id) => json!({ "outcome": "selected", "optionId": id }),
            None => json!({ "outcome": "cancelled" }),
        };
        self.send(Ok(json!({ "outcome": outcome })));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let nobody = match self.kind {
            Kind::Permission(_) => Ok(json!({ "outcome": { "outcome": "cancelled" } })),
            Kind::Elicitation => Ok(json!({ "action": "cancel" })),
            Kind::Other => Err(Error::cancelled()),
        };
        self.send(nobody);
    }
}
