//! A client's own state: snapshots and actions through the official reducers, as a real client keeps it.

use std::collections::BTreeMap;

use ahp::reducers::{
    apply_action_to_annotations, apply_action_to_automation, apply_action_to_automation_run, apply_action_to_changeset,
    apply_action_to_chat, apply_action_to_root, apply_action_to_session, apply_action_to_terminal,
};
use ahp_types::{
    ActionEnvelope,
    state::{
        AnnotationsState, AutomationRunState, AutomationState, ChangesetState, ChatState, RootState, SessionState,
        TerminalState,
    },
};
use serde_json::Value;

use ahp_seed::{ahp_types::state as seed, reducers as seed_reducers};

use crate::kit::{ROOT, SEED_ROOT};

/// One state, as the official types hold it. The seed's are of the crate that is nearest to it.
enum State {
    SeedRoot(Box<seed::RootState>),
    SeedSession(Box<seed::SessionState>),
    SeedTerminal(Box<seed::TerminalState>),
    Root(Box<RootState>),
    Session(Box<SessionState>),
    Chat(Box<ChatState>),
    Terminal(Box<TerminalState>),
    Changeset(Box<ChangesetState>),
    Annotations(Box<AnnotationsState>),
    Automations(Box<AutomationState>),
    AutomationRun(Box<AutomationRunState>),
}

/// What one client knows.
#[derive(Default)]
pub(crate) struct Mirror {
    states: BTreeMap<String, State>,
    /// The number that each state is at.
    seqs: BTreeMap<String, u64>,
    pub(crate) last_seq: u64,
}

impl Mirror {
    /// Takes a snapshot as it stands in a result.
    pub(crate) fn snapshot(&mut self, snapshot: &Value) {
        let uri = snapshot["resource"].as_str().unwrap().to_owned();
        let state = snapshot["state"].clone();
        let parsed = if uri == SEED_ROOT {
            State::SeedRoot(serde_json::from_value(state).unwrap())
        } else if state.get("summary").is_some() {
            State::SeedSession(serde_json::from_value(state).unwrap())
        } else if uri == ROOT {
            State::Root(serde_json::from_value(state).unwrap())
        } else if state.get("claim").is_some() && state.get("lifecycle").is_some() {
            State::Terminal(serde_json::from_value(state).unwrap())
        } else if state.get("claim").is_some() {
            State::SeedTerminal(serde_json::from_value(state).unwrap())
        } else if state.get("entries").is_some() {
            State::Automations(serde_json::from_value(state).unwrap())
        } else if state.get("automation").is_some() {
            State::AutomationRun(serde_json::from_value(state).unwrap())
        } else if state.get("lifecycle").is_some() {
            State::Session(serde_json::from_value(state).unwrap())
        } else if state.get("files").is_some() {
            State::Changeset(serde_json::from_value(state).unwrap())
        } else if state.get("annotations").is_some() {
            State::Annotations(serde_json::from_value(state).unwrap())
        } else {
            State::Chat(serde_json::from_value(state).unwrap())
        };
        let seq = snapshot["fromSeq"].as_u64().unwrap();
        self.last_seq = self.last_seq.max(seq);
        self.seqs.insert(uri.clone(), seq);
        self.states.insert(uri, parsed);
    }

    pub(crate) fn forget(&mut self, uri: &str) {
        self.states.remove(uri);
        self.seqs.remove(uri);
    }

    pub(crate) fn channels(&self) -> Vec<String> {
        self.states.keys().cloned().collect()
    }

    /// Takes an envelope as it stands in a notification or a replay.
    pub(crate) fn envelope(&mut self, envelope: &Value) {
        let parsed: ActionEnvelope = serde_json::from_value(envelope.clone()).unwrap();
        if parsed.rejection_reason.is_some() {
            return;
        }
        // An echo to its sender alone says that nothing changed; it has no number of its own.
        let known = self.seqs.get(&parsed.channel).copied();
        let alone = parsed.origin.is_some() && parsed.server_seq <= self.last_seq;
        if !self.states.contains_key(&parsed.channel) {
            return;
        }
        if alone {
            // Clients apply it all the same.
            let before = self.state(&parsed.channel);
            self.apply(&parsed);
            assert_eq!(self.state(&parsed.channel), before, "{envelope} should change nothing");
            return;
        }
        assert!(
            parsed.server_seq > known.unwrap_or(0),
            "{envelope} came twice, or before its snapshot ({known:?})"
        );
        assert!(
            parsed.server_seq > self.last_seq,
            "{envelope} came after {}",
            self.last_seq
        );
        self.last_seq = parsed.server_seq;
        self.seqs.insert(parsed.channel.clone(), parsed.server_seq);
        self.apply(&parsed);
    }

    fn apply(&mut self, envelope: &ActionEnvelope) {
        let Some(state) = self.states.get_mut(&envelope.channel) else {
            return;
        };
        let action = &envelope.action;
        match state {
            State::Root(state) => drop(apply_action_to_root(state, action)),
            State::Session(state) => drop(apply_action_to_session(state, action)),
            State::Chat(state) => drop(apply_action_to_chat(state, action)),
            State::Terminal(state) => drop(apply_action_to_terminal(state, action)),
            State::Changeset(state) => drop(apply_action_to_changeset(state, action)),
            State::Annotations(state) => drop(apply_action_to_annotations(state, action)),
            State::Automations(state) => drop(apply_action_to_automation(state, action)),
            State::AutomationRun(state) => drop(apply_action_to_automation_run(state, action)),
            State::SeedRoot(_) | State::SeedSession(_) | State::SeedTerminal(_) => {
                panic!("{action:?} is not in the seed's spelling")
            }
        }
    }

    /// Takes an envelope in the seed's spelling.
    pub(crate) fn seed_envelope(&mut self, envelope: &Value) {
        let parsed: ahp_seed::ahp_types::actions::ActionEnvelope = serde_json::from_value(envelope.clone()).unwrap();
        if parsed.rejection_reason.is_some() {
            return;
        }
        let alone = parsed.origin.is_some() && parsed.server_seq <= self.last_seq;
        assert!(
            alone || parsed.server_seq > self.last_seq,
            "{envelope} came after {}",
            self.last_seq
        );
        self.last_seq = self.last_seq.max(parsed.server_seq);
        let action = &envelope["action"];
        let uri = action["session"]
            .as_str()
            .or(action["terminal"].as_str())
            .unwrap_or(SEED_ROOT);
        let before = (alone && self.states.contains_key(uri)).then(|| self.state(uri));
        match self.states.get_mut(uri) {
            Some(State::SeedRoot(state)) => drop(seed_reducers::apply_action_to_root(state, &parsed.action)),
            Some(State::SeedSession(state)) => drop(seed_reducers::apply_action_to_session(state, &parsed.action)),
            Some(State::SeedTerminal(state)) => drop(seed_reducers::apply_action_to_terminal(state, &parsed.action)),
            Some(_) => panic!("{envelope} is in the seed's spelling"),
            None => {}
        }
        if let Some(before) = before {
            assert_eq!(self.state(uri), before, "{envelope} should change nothing");
        }
    }

    /// What it knows, as JSON without what is private to a window.
    pub(crate) fn state(&self, uri: &str) -> Value {
        match &self.states[uri] {
            State::Root(state) => serde_json::to_value(state).unwrap(),
            State::Session(state) => serde_json::to_value(state).unwrap(),
            State::Chat(state) => serde_json::to_value(state).unwrap(),
            State::Terminal(state) => serde_json::to_value(state).unwrap(),
            State::Changeset(state) => serde_json::to_value(state).unwrap(),
            State::Annotations(state) => serde_json::to_value(state).unwrap(),
            State::Automations(state) => serde_json::to_value(state).unwrap(),
            State::AutomationRun(state) => serde_json::to_value(state).unwrap(),
            State::SeedTerminal(state) => serde_json::to_value(state).unwrap(),
            State::SeedRoot(state) => serde_json::to_value(state).unwrap(),
            State::SeedSession(state) => {
                let mut value = serde_json::to_value(state).unwrap();
                // The seed's reducers take the time from their own clock.
                value["summary"]["modifiedAt"] = Value::Null;
                value
            }
        }
    }
}

/// A state as the official types keep it, to compare: keys in order, nothing that they do not know.
pub(crate) fn normal(uri: &str, state: &Value) -> Value {
    let mut mirror = Mirror::default();
    mirror.snapshot(&serde_json::json!({ "resource": uri, "state": state, "fromSeq": 0 }));
    mirror.state(uri)
}
