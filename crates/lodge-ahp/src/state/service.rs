//! Channels beside sessions and chats: terminals, changesets, annotations, watches, automations. Their state is held and
//! advanced like all other state, by the official reducers; what stands behind them (a pty, a tree of files) is not known here.

use ahp::reducers::{
    ReduceOutcome, apply_action_to_annotations, apply_action_to_automation, apply_action_to_automation_run,
    apply_action_to_changeset, apply_action_to_resource_watch, apply_action_to_terminal,
};
use ahp_types::{
    StateAction,
    actions::ChangesetClearedAction,
    state::{AnnotationsState, AutomationRunState, AutomationState, ChangesetState, ResourceWatchState, TerminalState},
};
use serde_json::Value;

use super::{Core, Uri};
use crate::{telemetry::Signal, version::Dialect};

/// The state of one service channel.
#[derive(Debug)]
pub(crate) enum Service {
    Terminal(Box<TerminalState>),
    Changeset(Box<ChangesetState>),
    Annotations(AnnotationsState),
    Watch(ResourceWatchState),
    Automations(AutomationState),
    AutomationRun(Box<AutomationRunState>),
    /// It has no state: what comes is told, and forgotten.
    Telemetry(Signal),
}

impl Service {
    fn apply(&mut self, action: &StateAction) -> ReduceOutcome {
        match self {
            Self::Terminal(state) => apply_action_to_terminal(state, action),
            Self::Changeset(state) => apply_action_to_changeset(state, action),
            Self::Annotations(state) => apply_action_to_annotations(state, action),
            // A watch keeps no history, but its news are for everybody who listens.
            Self::Watch(state) => match apply_action_to_resource_watch(state, action) {
                ReduceOutcome::NoOp => ReduceOutcome::Applied,
                other => other,
            },
            Self::Automations(state) => apply_action_to_automation(state, action),
            Self::AutomationRun(state) => apply_action_to_automation_run(state, action),
            Self::Telemetry(_) => ReduceOutcome::OutOfScope,
        }
    }

    /// The state on the wire.
    pub(super) fn view(&self) -> Value {
        let value = match self {
            Self::Terminal(state) => serde_json::to_value(state),
            Self::Changeset(state) => serde_json::to_value(state),
            Self::Annotations(state) => serde_json::to_value(state),
            Self::Watch(state) => serde_json::to_value(state),
            Self::Automations(state) => serde_json::to_value(state),
            Self::AutomationRun(state) => serde_json::to_value(state),
            Self::Telemetry(_) => Ok(Value::Null),
        };
        value.unwrap_or_default()
    }

    /// Whether clients of this dialect can subscribe to it.
    pub(super) fn is_known_in(&self, dialect: Dialect) -> bool {
        dialect == Dialect::Modern || matches!(self, Self::Terminal(_))
    }
}

/// A service channel and the session it goes with, if it belongs to one.
#[derive(Debug)]
pub(crate) struct ServiceEntry {
    pub(crate) session: Option<Uri>,
    pub(crate) service: Service,
}

impl Core {
    /// Opens a service's channel. One that belongs to a session goes when the session goes.
    pub(crate) fn insert_service(&mut self, uri: Uri, session: Option<Uri>, service: Service) {
        let channel = self.new_channel(&uri);
        self.channels.insert(uri.clone(), channel);
        self.services.insert(uri, ServiceEntry { session, service });
    }

    /// Closes a service's channel. Whoever was subscribed hears no more of it.
    pub(crate) fn remove_service(&mut self, uri: &str) -> Option<Service> {
        self.close_channel(uri);
        self.services.remove(uri).map(|entry| entry.service)
    }

    /// The service behind a channel.
    pub(crate) fn service(&self, uri: &str) -> Option<&Service> {
        self.services.get(uri).map(|entry| &entry.service)
    }

    /// A terminal's state, to forget its past.
    pub(crate) fn terminal_mut(&mut self, uri: &str) -> Option<&mut TerminalState> {
        match &mut self.services.get_mut(uri)?.service {
            Service::Terminal(state) => Some(state),
            _ => None,
        }
    }

    /// A terminal's state.
    pub(crate) fn terminal(&self, uri: &str) -> Option<&TerminalState> {
        match self.service(uri)? {
            Service::Terminal(state) => Some(state),
            _ => None,
        }
    }

    /// How many bytes the listener that keeps up best has yet to take. None: nobody listens.
    pub(crate) fn least_unsent(&self, channel: &str) -> Option<usize> {
        let listeners = &self.channel(channel)?.subscribers;
        listeners.iter().map(|listener| listener.conn.unsent()).min()
    }

    /// Whether a client is here.
    pub(crate) fn is_connected(&self, client: &str) -> bool {
        let known = |conn: &std::sync::Arc<super::Conn>| conn.peer().is_some_and(|peer| &*peer.client == client);
        self.conns.values().any(known)
    }

    /// Whether anybody listens to exactly this channel.
    pub(crate) fn is_heard(&self, channel: &str) -> bool {
        self.channel(channel)
            .is_some_and(|channel| !channel.subscribers.is_empty())
    }

    pub(super) fn apply_to_service(&mut self, channel: &str, action: &StateAction) -> Option<ReduceOutcome> {
        Some(self.services.get_mut(channel)?.service.apply(action))
    }

    pub(super) fn remove_services_of(&mut self, session: &str) {
        let gone: Vec<Uri> = self
            .services
            .iter()
            .filter(|(_, entry)| entry.session.as_deref() == Some(session))
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in gone {
            // Its files are gone with the session, and whoever shows them should know.
            if matches!(self.service(&uri), Some(Service::Changeset(_))) {
                self.publish(&uri, &StateAction::ChangesetCleared(ChangesetClearedAction {}), None);
            }
            self.remove_service(&uri);
        }
    }
}
