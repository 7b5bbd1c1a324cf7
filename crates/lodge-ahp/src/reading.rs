//! Reading conversations from their logs.

use std::collections::HashMap;

use ahp::reducers::apply_action_to_session;
use ahp_types::state::{ChatState, SessionState};
use lodge_host::{EventReader, HostError, Session, Subscription};

use crate::{
    face::{point_to_chats, sub_state},
    projection::{Now, Projector, Scope, Step},
    state::{ChatStore, Keep, Uri},
    uri,
};

/// Bytes of events that may wait to be shown.
const QUEUE: usize = 64 << 20;

/// A chat as it was read from its log.
pub(crate) struct Read {
    /// The session that addresses of what the chat has name.
    pub(crate) born: Uri,
    chat: Uri,
    keep: Keep,
    pub(crate) chats: HashMap<Scope, ChatStore>,
    /// Sub-agents in the order they began.
    pub(crate) order: Vec<Scope>,
    pub(crate) state: SessionState,
    pub(crate) projector: Projector,
}

/// Reads a log through the projection, and the events that come after it.
pub(crate) async fn read(session: Session, mut read: Read) -> Result<(Read, Subscription), HostError> {
    // Whether a turn runs must be known for the moment that the log is read up to.
    let (now, history, events) = loop {
        let now = now(&session);
        let (history, events) = session.history_and_subscribe(QUEUE)?;
        if self::now(&session) == now {
            break (now, history, events);
        }
    };
    let pending = session.pending();
    let project = move |history| {
        read.projector.read_history(session.written_earlier());
        read.project(history, now, &pending)
    };
    Ok((Session::read_history(history, project).await?, events))
}

fn now(session: &Session) -> Now {
    let facts = session.state();
    if session.is_busy() {
        Now::Busy
    } else if facts.open_turn.is_some() || !facts.open_agents.is_empty() {
        Now::Interrupted
    } else {
        Now::AtRest
    }
}

impl Read {
    pub(crate) fn hide(&mut self, turns: usize) {
        if let Some(chat) = self.chats.get_mut(&Scope::Main) {
            chat.hide(turns);
        }
        self.projector.hide(turns);
    }

    pub(crate) fn new(born: Uri, chat: Uri, state: SessionState, head: ChatState, keep: Keep) -> Self {
        Self {
            born,
            chat,
            chats: HashMap::from([(Scope::Main, ChatStore::new(head, keep.clone()))]),
            keep,
            order: vec![Scope::Main],
            state,
            projector: Projector::default(),
        }
    }

    fn project(
        mut self,
        history: EventReader,
        now: Now,
        pending: &[lodge_host::PendingQuestion],
    ) -> Result<Self, HostError> {
        for event in history.events() {
            let steps = self.projector.event(&event?);
            self.apply(steps);
        }
        let steps = self.projector.caught_up(now);
        self.apply(steps);
        // Questions are not recorded; those that are open now are asked again here.
        for question in pending {
            let steps = self.projector.event(&question.event);
            self.apply(steps);
        }
        self.projector.history_read();
        Ok(self)
    }

    fn apply(&mut self, steps: Vec<Step>) {
        let (born, chat) = (self.born.clone(), self.chat.clone());
        for step in steps {
            match step {
                Step::Act(Scope::Session, action) => {
                    apply_action_to_session(&mut self.state, &action);
                }
                Step::Act(scope, mut action) => {
                    point_to_chats(&born, &mut action);
                    if let Some(store) = self.chats.get_mut(&scope) {
                        store.apply(&action);
                    }
                }
                Step::OpenSub {
                    tool_call_id,
                    parent,
                    title,
                } => {
                    let parent: Uri = match parent {
                        Scope::Sub(call) => uri::sub_chat(&born, &call).into(),
                        Scope::Main | Scope::Session => chat.clone(),
                    };
                    let sub: Uri = uri::sub_chat(&born, &tool_call_id).into();
                    let state = sub_state(&sub, title, &parent, &tool_call_id);
                    let scope = Scope::Sub(tool_call_id);
                    if self
                        .chats
                        .insert(scope.clone(), ChatStore::new(state, self.keep.clone()))
                        .is_none()
                    {
                        self.order.push(scope);
                    }
                }
                // What was printed long ago is made when somebody asks for it.
                Step::Terminal { .. } | Step::Prepare { .. } | Step::Rested | Step::Queued | Step::Orphaned { .. } => {}
            }
        }
    }
}
