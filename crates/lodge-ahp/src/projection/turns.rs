//! Turns: opened by messages, ended by rest, abort or error.

use ahp_types::{
    StateAction,
    actions::{
        ChatErrorAction, ChatTruncatedAction, ChatTurnCancelledAction, ChatTurnCompleteAction, ChatTurnStartedAction,
    },
    state::{ErrorInfo, ErrorResponsePart, Message, MessageKind, MessageOrigin},
};
use lodge_events::{AgentMode, COMMAND_SOURCE, Event, Timestamp, UserMessage};
use lodge_host::{StreamedText, is_from_person};

use super::{Mark, Projector, Scope, Turn, message::completed, message_of, timestamp};

/// How a turn ends.
pub(super) enum End {
    Complete,
    Cancelled,
    /// And whether it can be resumed.
    Error(ErrorInfo, bool),
}

impl Projector {
    pub(super) fn user_message(&mut self, event: &Event, user: &UserMessage, scope: Option<Scope>) {
        let Some(scope) = scope else { return };
        // What a sub-agent was told opened its turn already; what it is told meanwhile belongs to that.
        if matches!(scope, Scope::Sub(_)) && self.chat(&scope).turn.is_some() {
            return;
        }
        let id = user.message_id.clone().unwrap_or_else(|| event.id().to_string());
        let from_person = is_from_person(user);
        let command = user.agent_mode == Some(AgentMode::Shell) && user.source.as_deref() == Some(COMMAND_SOURCE);
        let now = self.now;
        let was_queued = scope == Scope::Main && self.message_said(user);
        let began = Some(&scope).filter(|scope| **scope == Scope::Main);
        let began = began.and_then(|_| self.queue.began(&id)).unwrap_or(now);
        let written = self.said.remove(&id);
        if scope == Scope::Main && from_person {
            self.marks.push(Mark {
                turn: id.clone(),
                first: event.id(),
                last: event.id(),
            });
        }
        let chat = self.chat(&scope);
        chat.muted = false;
        if let Some(turn) = &mut chat.turn {
            if turn.id == id {
                // From here on its time is counted, as the log tells it.
                (turn.taken_up, turn.command, turn.started) = (true, command, now);
                return;
            }
            if !from_person && turn.taken_up {
                return;
            }
            if turn.taken_up {
                self.end_turn(&scope, End::Complete);
            } else {
                self.step_back(&scope);
            }
        }
        let kind = if from_person {
            MessageKind::User
        } else {
            MessageKind::SystemNotification
        };
        let logged = message_of(user, kind);
        let message = match written {
            Some(written) => completed(written, logged),
            None => logged,
        };
        self.open_turn(&scope, id, message, began, was_queued);
        if let Some(turn) = &mut self.chat(&scope).turn {
            (turn.command, turn.started) = (command, now);
        }
        self.prepare_steering();
    }

    /// Somebody else's message came first: the turn that waits becomes a queued message again.
    fn step_back(&mut self, scope: &Scope) {
        if let Some(turn) = self.close_unsaid(scope) {
            self.waits_again(&turn);
        }
    }

    /// A turn whose message is not said is none. Its id.
    pub(super) fn close_unsaid(&mut self, scope: &Scope) -> Option<String> {
        let chat = self.chat(scope);
        let turn = chat.turn.take()?;
        let last = chat.last_turn.clone();
        self.act(scope, StateAction::ChatTruncated(ChatTruncatedAction { turn_id: last }));
        Some(turn.id)
    }

    /// The turn of a message begins that is not said yet.
    pub(super) fn begin_turn(&mut self, id: &str, message: Message, queued: bool) {
        self.open_turn(&Scope::Main, id.to_owned(), message, self.now, queued);
        self.main.muted = false;
        if let Some(turn) = &mut self.main.turn {
            turn.taken_up = false;
        }
    }

    pub(super) fn open_turn(&mut self, scope: &Scope, id: String, message: Message, started: Timestamp, queued: bool) {
        let chat = self.chat(scope);
        chat.turn = Some(Turn {
            id: id.clone(),
            started,
            taken_up: true,
            command: false,
        });
        chat.usage = None;
        chat.failed = None;
        let action = ChatTurnStartedAction {
            turn_id: id.clone(),
            started_at: timestamp(started),
            message,
            queued_message_id: queued.then_some(id),
            meta: None,
        };
        self.act(scope, StateAction::ChatTurnStarted(action));
    }

    /// The id of the turn that an event of the agent belongs to. An agent that works without having been asked gets a
    /// turn that says so.
    pub(super) fn running_turn(&mut self, scope: &Scope) -> Option<String> {
        let now = self.now;
        let is_beginning = self.queue.is_beginning();
        let chat = self.chat(scope);
        match &chat.turn {
            Some(turn) if turn.taken_up => return Some(turn.id.clone()),
            Some(_) => return None,
            // The turn of a message that is not said yet.
            None if *scope == Scope::Main && is_beginning => return None,
            // What still comes of a turn that failed is not shown.
            None if chat.muted || chat.failed.is_some() => return None,
            None => {}
        }
        let message = Message {
            text: self.told.take().filter(|_| *scope == Scope::Main).unwrap_or_default(),
            origin: MessageOrigin {
                kind: MessageKind::SystemNotification,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        };
        let id = match scope {
            Scope::Sub(call) => format!("{call}-{}", now.as_millisecond()),
            Scope::Session | Scope::Main => format!("resumed-{}", now.as_millisecond()),
        };
        self.open_turn(scope, id.clone(), message, now, false);
        self.prepare_steering();
        Some(id)
    }

    pub(super) fn end_turn(&mut self, scope: &Scope, end: End) {
        // Up to the last thing that it did: when that was found out is another matter.
        let worked = self.worked;
        let chat = self.chat(scope);
        // A turn that the agent has not taken up is not ended by the end of what came before it.
        let Some(turn) = chat.turn.take_if(|turn| turn.taken_up) else {
            return;
        };
        let end = match end {
            End::Error(error, resumable) => End::Error(error, resumable && !turn.command),
            end => end,
        };
        chat.last_turn = Some(turn.id.clone());
        chat.completed = matches!(end, End::Complete);
        chat.failed = matches!(end, End::Error(_, true)).then(|| turn.clone());
        // A turn that is resumed goes on with the same answer.
        if chat.failed.is_none() {
            chat.text = StreamedText::default();
        }
        chat.reasoning = StreamedText::default();
        let (turn_id, meta) = (turn.id, None);
        let duration = (worked.as_millisecond() - turn.started.as_millisecond()).max(0);
        let action = match end {
            End::Complete => StateAction::ChatTurnComplete(ChatTurnCompleteAction {
                turn_id,
                duration,
                meta,
            }),
            End::Cancelled => StateAction::ChatTurnCancelled(ChatTurnCancelledAction {
                turn_id,
                duration,
                meta,
            }),
            End::Error(error, resumable) => {
                let resumable = resumable.then_some(true);
                let part = ErrorResponsePart { error, resumable };
                StateAction::ChatError(ChatErrorAction {
                    turn_id,
                    duration,
                    part,
                    meta,
                })
            }
        };
        self.act(scope, action);
    }

    /// The log does not tell that the agent rested, but what begins after its last answer shows it.
    pub(super) fn rested(&mut self) {
        if let Some(answered) = self.main.answered_at.take().filter(|_| self.reading) {
            self.worked = answered;
            self.end_turn(&Scope::Main, End::Complete);
        }
    }

    /// Somebody cut the conversation elsewhere. A turn that lost its beginning is gone.
    pub(super) fn rewound(&mut self, up_to: &str) {
        let Some(at) = self.marks.iter().position(|mark| mark.first.to_string() == up_to) else {
            return;
        };
        let last = at
            .checked_sub(1)
            .and_then(|before| self.marks.get(before))
            .map(|mark| mark.turn.clone());
        self.truncated(last.as_deref());
        self.main.muted = false;
        self.act(
            &Scope::Main,
            StateAction::ChatTruncated(ChatTruncatedAction { turn_id: last }),
        );
    }
}
