//! Subscribing, leaving, coming back: the exactly-once hand-over between a snapshot and the stream.

use std::{collections::HashSet, sync::Arc};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{ChatEntry, Closing, Conn, Core, Peer, Sent, Service, Spelt, Subscriber, Uri};
use crate::{
    automations,
    dialect::seed,
    version::Dialect,
    wire::{Envelope, envelope_of, to_json},
};

/// A page of older turns is at most this long.
const PAGE_TURNS: usize = 50;

/// What a client may subscribe to.
enum Target {
    Root,
    Session(Uri),
    Chat(Uri),
    Service(Uri),
}

/// Why a client cannot subscribe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSubscription {
    /// There is no such channel here.
    Unknown,
    /// The connection has as many as it may have.
    TooMany,
}

/// What a client that comes back gets.
pub(crate) enum Resumed {
    /// The envelopes it missed, and the channels that are no more.
    Replay {
        actions: Vec<Box<RawValue>>,
        missing: Vec<String>,
    },
    /// Everything anew.
    Snapshots(Vec<Box<RawValue>>),
}

impl Core {
    fn target(&self, uri: &str, dialect: Dialect) -> Option<Target> {
        let uri = automations::meant(uri);
        if let Some((uri, entry)) = self.services.get_key_value(uri) {
            return entry.service.is_known_in(dialect).then(|| Target::Service(uri.clone()));
        }
        let session = || Some(Target::Session(self.sessions.get_key_value(uri)?.0.clone()));
        match dialect {
            Dialect::Seed if uri == seed::ROOT => Some(Target::Root),
            Dialect::Seed => session(),
            // Editors spell it in several ways.
            Dialect::Modern if uri.starts_with("ahp-root:") => Some(Target::Root),
            Dialect::Modern => match self.chats.get_key_value(uri) {
                Some((uri, _)) => Some(Target::Chat(uri.clone())),
                None => session(),
            },
        }
    }

    /// The channels behind one subscription: the seed's sessions are a session and its default chat.
    fn channels_behind(&self, target: &Target, dialect: Dialect) -> Vec<Uri> {
        match target {
            Target::Root => vec![self.root_uri.clone()],
            Target::Chat(uri) | Target::Service(uri) => vec![uri.clone()],
            Target::Session(uri) => {
                let chat = self.sessions.get(uri).map(|session| session.default_chat.clone());
                let chat = chat.filter(|_| dialect == Dialect::Seed);
                std::iter::once(uri.clone()).chain(chat).collect()
            }
        }
    }

    /// Whether somebody could subscribe to this now.
    pub(crate) fn is_open(&self, uri: &str, dialect: Dialect) -> bool {
        self.target(uri, dialect).is_some()
    }

    /// Subscribes and takes the snapshot that the stream continues.
    pub(crate) fn subscribe(
        &mut self,
        conn: &Arc<Conn>,
        peer: &Peer,
        uri: &str,
        turns: Option<usize>,
    ) -> Result<Option<Box<RawValue>>, NoSubscription> {
        let target = self.target(uri, peer.dialect).ok_or(NoSubscription::Unknown)?;
        let behind = self.channels_behind(&target, peer.dialect);
        let held = self.heard.get(&conn.id).map_or(0, HashSet::len);
        if held + behind.len() > self.bounds.subscriptions {
            return Err(NoSubscription::TooMany);
        }
        let mut start = 0;
        for channel in &behind {
            if let Some(chat) = self.chats.get(channel) {
                let bytes = match turns {
                    Some(_) => usize::MAX,
                    // Editors of this family never send fetchTurns: what is not in the snapshot they never show.
                    None if peer.name.starts_with("vscode") => self.bounds.whole_bytes,
                    None => self.bounds.window_bytes,
                };
                start = chat.store().window(turns.unwrap_or(usize::MAX), bytes);
            }
            self.join(channel, conn, peer, start);
        }
        let stateless = matches!(&target, Target::Service(uri) if self.is_stateless(uri));
        Ok((!stateless).then(|| self.snapshot(uri, &target, peer, start)))
    }

    /// Whether a channel has no state and no past.
    fn is_stateless(&self, channel: &str) -> bool {
        matches!(self.service(channel), Some(Service::Telemetry(_)))
    }

    fn join(&mut self, uri: &Uri, conn: &Arc<Conn>, peer: &Peer, start: usize) {
        let Some(channel) = self.channel_mut(uri) else { return };
        match channel.listener_mut(conn.id) {
            Some(subscriber) => subscriber.start = start,
            None => channel.subscribers.push(Subscriber {
                conn: conn.clone(),
                peer: peer.clone(),
                start,
            }),
        }
        self.heard.entry(conn.id).or_default().insert(uri.clone());
    }

    /// Stops the stream of one channel to one connection. True when it was there.
    fn leave(&mut self, uri: &str, conn: u64) -> bool {
        if let Some(channel) = self.channel_mut(uri) {
            channel.subscribers.retain(|subscriber| subscriber.conn.id != conn);
        }
        self.heard.get_mut(&conn).is_some_and(|heard| heard.remove(uri))
    }

    fn snapshot(&self, uri: &str, target: &Target, peer: &Peer, start: usize) -> Box<RawValue> {
        debug_assert!(self.held.borrow().is_none(), "what is held back has no number yet");
        let state = match (target, peer.dialect) {
            (Target::Root, Dialect::Modern) => to_json(&self.root),
            (Target::Root, Dialect::Seed) => to_json(&seed::root(&self.root)),
            (Target::Chat(chat), _) if peer.is_editor() => {
                crate::uri::with_slashes(&to_json(&self.chats[chat].store().view(start)))
            }
            (Target::Chat(chat), _) => to_json(&self.chats[chat].store().view(start)),
            (Target::Service(service), Dialect::Modern) => to_json(&self.services[service].service.view()),
            (Target::Service(service), Dialect::Seed) => {
                to_json(&seed::terminal(self.services[service].service.view()))
            }
            (Target::Session(session), Dialect::Modern) => to_json(&self.sessions[session].view(peer.is_editor())),
            (Target::Session(session), Dialect::Seed) => to_json(&seed::session(self, session, start)),
        };
        let (resource, seq) = (to_json(&uri), self.numbers.last());
        let json = format!(r#"{{"resource":{resource},"state":{state},"fromSeq":{seq}}}"#);
        // The text was made by the serialiser just above, so it is JSON.
        RawValue::from_string(json).unwrap_or_default()
    }

    /// Ends a subscription. True when it was there.
    pub(crate) fn unsubscribe(&mut self, conn: u64, peer: &Peer, uri: &str) -> bool {
        let Some(target) = self.target(uri, peer.dialect) else {
            return false;
        };
        let mut left = false;
        for channel in self.channels_behind(&target, peer.dialect) {
            left |= self.leave(&channel, conn);
        }
        left
    }

    /// Forgets a connection. Returns the channels it was on.
    pub(crate) fn disconnect(&mut self, conn: u64) -> Vec<Uri> {
        self.conns.remove(&conn);
        let left: Vec<Uri> = self.heard.remove(&conn).into_iter().flatten().collect();
        for uri in &left {
            self.leave(uri, conn);
        }
        left
    }

    /// Whether some connection of this client listens to a channel.
    pub(crate) fn listens(&self, client: &str, channel: &str) -> bool {
        let channel = self.channel(channel);
        channel.is_some_and(|channel| {
            channel
                .subscribers
                .iter()
                .any(|subscriber| &*subscriber.peer.client == client)
        })
    }

    /// Whether a connection hears what is published on a channel.
    pub(crate) fn hears(&self, conn: u64, dialect: Dialect, channel: &str) -> bool {
        let shown = dialect == Dialect::Modern || self.shown_in_seed(channel).is_some();
        shown && self.heard.get(&conn).is_some_and(|heard| heard.contains(channel))
    }

    /// Whether anybody listens to a session, one of its chats or what belongs to it.
    pub(crate) fn has_audience(&self, session: &str) -> bool {
        let listens = |uri: &str| self.channel(uri).is_some_and(|channel| !channel.subscribers.is_empty());
        let services = self
            .services
            .iter()
            .filter(|(_, entry)| entry.session.as_deref() == Some(session));
        listens(session)
            || self.chats_of(session).iter().any(|chat| listens(chat))
            || services.map(|(uri, _)| uri).any(|uri| listens(uri))
    }

    /// Takes up the subscriptions of a client that comes back. `starts` says where its windows began when it left;
    /// a chat whose window is not known, or was cut meanwhile, needs a snapshot.
    pub(crate) fn resume(
        &mut self,
        conn: &Arc<Conn>,
        peer: &Peer,
        seen: u64,
        uris: &[String],
        starts: &dyn Fn(&str) -> Option<usize>,
    ) -> Resumed {
        let targets: Vec<(&String, Option<Target>)> = uris
            .iter()
            .take(self.bounds.subscriptions)
            .map(|uri| (uri, self.target(uri, peer.dialect)))
            .collect();
        let mut channels: Vec<(Uri, usize)> = Vec::new();
        let mut replayable = seen <= self.numbers.last();
        for target in targets.iter().filter_map(|(_, target)| target.as_ref()) {
            for channel in self.channels_behind(target, peer.dialect) {
                let start = match self.chats.get(&channel) {
                    Some(_) => starts(&channel),
                    None => Some(0),
                };
                if self.is_stateless(&channel) {
                    channels.push((channel, 0));
                    continue;
                }
                let Some(ring) = self.channel(&channel).map(|channel| &channel.ring) else {
                    continue;
                };
                let cut = start != Some(0) && ring.after_seen(seen).any(|sent| sent.is_truncation());
                replayable &= ring.covers(seen) && start.is_some() && !cut;
                channels.push((channel, start.unwrap_or(0)));
            }
        }
        if !replayable {
            let found: Vec<&String> = targets
                .iter()
                .filter(|(_, target)| target.is_some())
                .map(|(uri, _)| *uri)
                .collect();
            let snapshots = found
                .iter()
                .filter_map(|uri| self.subscribe(conn, peer, uri, None).ok().flatten())
                .collect();
            return Resumed::Snapshots(snapshots);
        }
        let missing = targets
            .iter()
            .filter(|(_, target)| target.is_none())
            .map(|(uri, _)| (*uri).clone())
            .collect();
        let mut missed: Vec<Arc<Sent>> = Vec::new();
        let mut once = HashSet::new();
        for (channel, _) in channels.iter().filter(|(channel, _)| once.insert(channel.clone())) {
            let ring = self.channel(channel).map(|channel| &channel.ring).into_iter();
            let mine = ring
                .flat_map(|ring| ring.after_seen(seen))
                .filter(|sent| sent.to.as_ref().is_none_or(|to| *to == peer.client));
            missed.extend(mine.cloned());
        }
        missed.sort_unstable_by_key(|sent| sent.seq);
        let actions = missed
            .iter()
            .flat_map(|sent| sent.frames(peer.dialect))
            .filter_map(|frame| RawValue::from_string(envelope_of(frame).to_owned()).ok())
            .collect();
        for (channel, start) in channels {
            self.join(&channel, conn, peer, start);
        }
        Resumed::Replay { actions, missing }
    }

    /// Sends the page of turns before `cursor` to one connection, as an action of its own. `None`: no such cursor.
    pub(crate) fn load_turns(&mut self, conn: u64, chat: &str, cursor: Option<&str>) -> Option<()> {
        let entry = self.chats.get(chat)?;
        let store = entry.store();
        let subscriber = entry.channel().listener(conn);
        let shown = subscriber.map_or(store.turns().len(), |subscriber| subscriber.start);
        let end = match cursor {
            Some(cursor) => store.position(cursor)?,
            None => shown,
        };
        let start = end.min(shown).saturating_sub(PAGE_TURNS);
        self.send_turns(conn, chat, start, end);
        Some(())
    }

    /// Makes sure that everybody on a chat has the turn that comes next to be spoken of.
    pub(crate) fn load_turns_for_all(&mut self, chat: &str, turn: &str) {
        let Some(at) = self.chats.get(chat).and_then(|chat| chat.store().position(turn)) else {
            return;
        };
        let Some(channel) = self.channel(chat) else { return };
        let short: Vec<(u64, usize)> = channel
            .subscribers
            .iter()
            .filter(|subscriber| subscriber.start > at)
            .map(|subscriber| (subscriber.conn.id, subscriber.start))
            .collect();
        for (conn, end) in short {
            match self
                .conns
                .get(&conn)
                .and_then(|conn| Some((conn, conn.peer()?.dialect)))
            {
                // There is no way to load turns into its state: it comes back and gets a snapshot.
                Some((conn, Dialect::Seed)) => conn.close(Closing::TooSlow),
                _ => self.send_turns(conn, chat, at, end),
            }
        }
    }

    fn send_turns(&mut self, conn: u64, chat: &str, start: usize, end: usize) {
        let Some(store) = self.chats.get(chat).map(ChatEntry::store) else {
            return;
        };
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct TurnsLoaded {
            r#type: &'static str,
            turns: Vec<Arc<RawValue>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            turns_next_cursor: Option<String>,
        }
        let turns = store.json_of(start..end);
        let action = TurnsLoaded {
            r#type: "chat/turnsLoaded",
            turns,
            turns_next_cursor: store.cursor(start),
        };
        let envelope = Envelope {
            channel: Some(chat),
            action: &action,
            origin: None,
            rejection_reason: None,
        };
        let spelt = Spelt::new(envelope.spell(), None);
        let Some(channel) = self.channel_mut(chat) else { return };
        let Some(subscriber) = channel.listener_mut(conn) else {
            return;
        };
        // A window only ever grows: whoever has these turns already ignores them.
        subscriber.start = subscriber.start.min(start);
        let (conn, peer) = (subscriber.conn.clone(), &subscriber.peer);
        let (spelt, dialect) = (spelt.only_to(peer.client.clone()), peer.dialect);
        self.send_to(chat, spelt, &conn, dialect);
    }

    /// Where the windows of a connection begin, to be remembered when it goes.
    pub(crate) fn starts(&self, conn: u64) -> Vec<(Uri, usize)> {
        let heard = self.heard.get(&conn).into_iter().flatten();
        let mine = heard.filter_map(|uri| {
            let subscriber = self.chats.get(uri)?.channel().listener(conn)?;
            Some((uri.clone(), subscriber.start))
        });
        mine.collect()
    }
}
