//! Everything that changes together, and what the projection does to it.

use std::collections::HashMap;

use ahp_types::{
    StateAction,
    actions::{SessionChatAddedAction, SessionConfigChangedAction, SessionTitleChangedAction},
    state::SessionState,
};

use super::{point_to_chats, sub_state, summary_of};
use crate::{
    actions::{further, renamed},
    changesets::Followers,
    conversation::{Cause, Conversation, Dispatched, Effect, Route},
    projection::{Scope, Step},
    state::{ChatEntry, ChatStore, Core, Uri},
    terminals::Terminals,
    uri,
};
/// Everything that changes together, under one lock.
pub(crate) struct Inner {
    pub(crate) core: Core,
    /// By the URI of the chat.
    pub(crate) conversations: HashMap<Uri, Conversation>,
    /// From a sub-agent's chat to the chat of its conversation.
    pub(crate) subs: HashMap<Uri, Uri>,
    pub(crate) terminals: Terminals,
    /// Who follows what sessions change.
    pub(crate) followers: Followers,
}

impl Inner {
    /// Puts back what was borrowed from conversations.
    pub(super) fn put_back(&mut self) {
        for name in self.core.borrowed.take() {
            if let Some(chat) = self.core.chats.get_mut(&name) {
                chat.put_back();
            }
            if let Some(talk) = self.conversations.get_mut(&name) {
                talk.put_back();
            }
        }
    }

    /// The conversation that a chat belongs to.
    pub(crate) fn conversation(&self, chat: &str) -> Option<(&Uri, &Conversation)> {
        let main = self.subs.get(chat).map_or(chat, |main| main);
        self.conversations.get_key_value(main)
    }

    /// The conversation that a chat belongs to, to change it.
    pub(crate) fn conversation_mut(&mut self, chat: &str) -> Option<&mut Conversation> {
        let main = self.subs.get(chat).cloned();
        self.conversations.get_mut(main.as_deref().unwrap_or(chat))
    }

    pub(super) fn is_needed(&self, session: &str) -> bool {
        let running = |chat: &Uri| self.core.chats.get(chat).is_some_and(ChatEntry::is_running);
        let begins = |talk: &Conversation| *talk.session == *session && talk.is_beginning();
        self.core.has_audience(session)
            || self.core.chats_of(session).iter().any(running)
            || self.conversations.values().any(begins)
    }

    /// Closes a session here. Whoever was subscribed hears no more of it.
    pub(crate) fn remove_session(&mut self, session: &str) {
        self.followers.end(session);
        self.conversations.retain(|_, talk| &*talk.session != session);
        for chat in self.core.chats_of(session) {
            self.subs.remove(&chat);
        }
        self.core.remove_session(session);
        self.terminals_changed();
    }

    /// Where an action of a conversation goes.
    pub(crate) fn channel(&self, chat: &Uri, scope: &Scope) -> Option<Uri> {
        let talk = self.conversations.get(chat)?;
        Some(match scope {
            Scope::Main => chat.clone(),
            Scope::Session => talk.session.clone(),
            Scope::Sub(call) => uri::sub_chat(&talk.born, call).into(),
        })
    }

    /// Does what the projection says, and lets what is derived follow. True when a turn began. If the event says what a client
    /// wanted, the client is told with the first action on the conversation; if it says what a client set, with the last one on
    /// the session.
    pub(crate) fn apply_steps(&mut self, chat: &Uri, steps: Vec<Step>, mut cause: Option<Cause>) -> bool {
        let of = self
            .conversations
            .get(chat)
            .map(|talk| (talk.session.clone(), talk.born.clone()));
        let Some((session, born)) = of else { return false };
        let default = self
            .core
            .sessions
            .get(&session)
            .is_some_and(|session| session.default_chat == *chat);
        let (mut rested, mut queued, mut started) = (false, false, false);
        let of_session = |step: &Step| matches!(step, Step::Act(Scope::Session, _));
        let mut settings = steps.iter().filter(|step| of_session(step)).count();
        for step in steps {
            match step {
                // A session is set up by its default chat. What another one is called stands in the session's list of chats.
                Step::Act(Scope::Session, action) if !default => {
                    if let (StateAction::SessionTitleChanged(changed), Some(place)) = (&*action, further(self, chat)) {
                        renamed(self, chat, &place, &changed.title);
                    }
                }
                Step::Act(Scope::Session, action) => {
                    settings -= 1;
                    match cause.take_if(|cause| cause.setting.is_some() && settings == 0) {
                        Some(cause) => self.publish_setting(&session, Some(&action), cause),
                        None => self.publish_news(&session, &action),
                    }
                }
                Step::Act(scope, mut action) => {
                    point_to_chats(&born, &mut action);
                    if let Some(channel) = self.channel(chat, &scope) {
                        self.route(chat, &scope, &channel);
                        if scope != Scope::Main {
                            self.core.publish(&channel, &action, None);
                            continue;
                        }
                        started |= matches!(*action, StateAction::ChatTurnStarted(_));
                        let talk = self.conversations.get_mut(chat);
                        let wanted = cause.take_if(|cause| cause.setting.is_none());
                        let cause = wanted.or_else(|| talk?.cause_of(&action));
                        self.publish_for(&channel, &action, cause);
                    }
                }
                Step::OpenSub {
                    tool_call_id,
                    parent,
                    title,
                } => self.open_sub(chat, &session, &tool_call_id, &parent, title),
                Step::Terminal { tool_call_id, news } => self.agent_terminal(chat, &session, &tool_call_id, news),
                Step::Orphaned { scope, tool_call_id } => {
                    if let Some(channel) = self.channel(chat, &scope) {
                        crate::actions::fail_call(self, &channel, &tool_call_id);
                    }
                }
                Step::Prepare { id, message, delivery } => {
                    let send = self.core.for_agent(id, *message, delivery);
                    if let Some(talk) = self.conversations.get(chat) {
                        talk.tell(send);
                    }
                }
                Step::Rested => rested = true,
                Step::Queued => queued = true,
            }
        }
        if let Some(cause) = cause {
            cause.echo(&self.core);
        }
        if rested || queued {
            self.start_queued(chat);
        }
        if rested {
            self.followers.wake(&session);
        }
        self.core.settle(&session);
        started
    }

    /// Lets the deltas that follow find their way.
    fn route(&mut self, chat: &Uri, scope: &Scope, channel: &Uri) {
        let (Some(talk), Some(entry)) = (self.conversations.get_mut(chat), self.core.chats.get(channel)) else {
            return;
        };
        let feed = talk.feed_mut();
        if !feed.knows(scope) {
            let route = Route {
                channel: channel.clone(),
                shown: self.core.shown_in_seed(channel),
                chat: entry.handle(),
            };
            feed.add(scope.clone(), route);
        }
    }

    fn open_sub(&mut self, chat: &Uri, session: &Uri, tool_call_id: &str, parent: &Scope, title: String) {
        let sub = Scope::Sub(tool_call_id.to_owned());
        let (Some(parent), Some(sub)) = (self.channel(chat, parent), self.channel(chat, &sub)) else {
            return;
        };
        if self.core.chats.contains_key(&sub) {
            return;
        }
        let state = sub_state(&sub, title, &parent, tool_call_id);
        let action = SessionChatAddedAction {
            summary: summary_of(&state),
        };
        let store = ChatStore::new(state, self.core.bounds.keep.clone());
        self.core.insert_chat(sub.clone(), session.clone(), store);
        self.subs.insert(sub, chat.clone());
        self.core.publish(session, &StateAction::SessionChatAdded(action), None);
    }

    /// Begins with the next queued message, if the conversation is at rest. Clients see its turn when the log says so.
    fn start_queued(&mut self, chat: &Uri) {
        let (Some(entry), Some(talk)) = (self.core.chats.get(chat), self.conversations.get_mut(chat)) else {
            return;
        };
        let next = talk.projector().next_to_prepare();
        let Some(next) = next.filter(|_| !entry.is_running()).map(str::to_owned) else {
            return;
        };
        if talk.beginning.as_ref() == Some(&next) {
            return;
        }
        match talk.agent().map(|agent| agent.prepare_message(&next)) {
            Some(Ok(true)) => talk.beginning = Some(next),
            // If it was taken back, that is told in a moment.
            Some(Ok(false)) | None => {}
            Some(Err(error)) => tracing::warn!(chat = &**chat, %error, "a queued message cannot begin"),
        }
    }

    /// Publishes what an event says of a session, unless its state says the same.
    fn publish_news(&mut self, session: &Uri, action: &StateAction) {
        let entry = self.core.sessions.get(session);
        if entry.is_some_and(|entry| is_news(&entry.state, action)) {
            self.core.publish(session, action, None);
        }
    }

    /// Publishes a setting in the words of the client that set it, with the values that it has now. `said` is what the event says
    /// of it, if there is one.
    pub(crate) fn publish_setting(&mut self, session: &Uri, said: Option<&StateAction>, cause: Cause) {
        let entry = self.core.sessions.get(session);
        let action = entry.and_then(|entry| Some(as_it_is(cause.setting.as_deref()?, said, &entry.state)));
        match action {
            Some(action) => self.publish_for(session, &action, Some(cause)),
            None => cause.echo(&self.core),
        }
    }

    /// Publishes an action that says what a client wanted, and makes sure that the client hears of it.
    fn publish_for(&mut self, channel: &Uri, action: &StateAction, cause: Option<Cause>) {
        let Some(cause) = cause else {
            self.core.publish(channel, action, None);
            return;
        };
        let Some(Dispatched {
            conn,
            channel: asked,
            origin,
            ..
        }) = &cause.dispatched
        else {
            self.core.publish(channel, action, None);
            return cause.done();
        };
        // On another channel than it was sent to it is the host's action, and its sender is answered where it sent it.
        let here = asked == channel;
        let dialect = conn.peer().map(|peer| peer.dialect);
        let published = self.core.publish(channel, action, here.then_some(origin));
        let hears = dialect.is_some_and(|dialect| self.core.hears(conn.id, dialect, channel));
        let heard = published && here && hears;
        match heard {
            true => cause.done(),
            false => cause.echo(&self.core),
        }
    }

    /// Who runs which tools may have changed: the agents are told.
    pub(crate) fn clients_changed(&mut self, session: &str) {
        let Some(entry) = self.core.sessions.get(session) else {
            return;
        };
        let clients = entry.state.active_clients.clone();
        let mut tools = HashMap::new();
        for client in &clients {
            tools.extend(
                client
                    .tools
                    .iter()
                    .map(|tool| (tool.name.clone(), client.client_id.clone())),
            );
        }
        for talk in self.conversations.values_mut().filter(|talk| &*talk.session == session) {
            talk.projector_mut().set_client_tools(tools.clone());
            talk.tell(Effect::Clients(clients.clone()));
        }
    }

    /// What a client was running for the agents of a session has failed.
    pub(super) fn fail_client_calls(&mut self, session: &str, client: &str) {
        for chat in self.core.chats_of(session) {
            crate::actions::fail_calls_of(self, &chat, client);
        }
    }
}

/// What a client set, with the values that count now: those that an event says, or else those of the state.
fn as_it_is(set: &StateAction, said: Option<&StateAction>, state: &SessionState) -> StateAction {
    match (set, said) {
        (StateAction::SessionConfigChanged(set), said) => {
            let mut config = set.config.clone();
            let known = state.config.as_ref().map(|config| &config.values);
            for (key, value) in &mut config {
                if let Some(known) = known.and_then(|known| known.get(key)) {
                    value.clone_from(known);
                }
            }
            let replace = set.replace;
            if let Some(StateAction::SessionConfigChanged(said)) = said {
                let named = said.config.iter();
                let named = named.filter(|(key, _)| replace != Some(true) || set.config.contains_key(*key));
                config.extend(named.map(|(key, value)| (key.clone(), value.clone())));
            }
            StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace })
        }
        (_, Some(said)) => said.clone(),
        (StateAction::SessionTitleChanged(_), None) => {
            let title = state.title.clone();
            StateAction::SessionTitleChanged(SessionTitleChangedAction { title })
        }
        (set, None) => set.clone(),
    }
}

/// Whether an action about a session says something that its state does not.
fn is_news(state: &SessionState, action: &StateAction) -> bool {
    match action {
        StateAction::SessionTitleChanged(changed) => changed.title != state.title,
        StateAction::SessionActivityChanged(changed) => changed.activity != state.activity,
        StateAction::SessionConfigChanged(changed) => {
            let known = |key: &String| state.config.as_ref().and_then(|config| config.values.get(key));
            changed.config.iter().any(|(key, value)| known(key) != Some(value))
        }
        _ => true,
    }
}
