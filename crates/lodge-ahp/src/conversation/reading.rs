//! Messages whose attachments are read from the client that sent them. A client takes as long as it likes; meanwhile the
//! conversation goes on, what is said later waits its turn, and a person can stop it.

use ahp_types::state::Message;
use lodge_host::Delivery;
use tokio::task::{JoinError, JoinHandle};

use super::{Driver, Effect, acceptance::command_of};
use crate::attachments::{self, Given};

/// A message on its way to the agent.
pub(super) struct Outgoing {
    pub(super) id: String,
    pub(super) message: Box<Message>,
    pub(super) delivery: Delivery,
    pub(super) chats: Vec<String>,
    /// What only a client has is read from the one that sent the message.
    pub(super) client: Option<String>,
}

pub(super) struct Reading {
    outgoing: Outgoing,
    given: JoinHandle<Given>,
}

impl Reading {
    /// What was read, when it was.
    pub(super) async fn done(reading: &mut Option<Self>) -> Result<Given, JoinError> {
        match reading {
            Some(reading) => (&mut reading.given).await,
            None => std::future::pending().await,
        }
    }
}

impl Driver {
    /// Gives the agent a message, at once or when what it attaches was read from its client.
    pub(super) async fn take_message(&mut self, outgoing: Outgoing) {
        let message = &outgoing.message;
        let given = match command_of(message) {
            // A command is given nothing but its words.
            Some(_) => Some(Given::default()),
            None => attachments::read_here(message).await,
        };
        match given {
            Some(given) => self.hand_over(outgoing, given).await,
            None => {
                let given = self.begin_reading(&outgoing);
                self.reading = Some(Reading { outgoing, given });
            }
        }
    }

    fn begin_reading(&self, outgoing: &Outgoing) -> JoinHandle<Given> {
        let (face, message) = (self.face.clone(), outgoing.message.clone());
        let client = outgoing.client.clone();
        tokio::spawn(async move { attachments::read(&face, client.as_deref(), &message).await })
    }

    /// What a message attaches was read.
    pub(super) async fn message_read(&mut self, given: Result<Given, JoinError>) {
        if let Some(reading) = self.reading.take() {
            // Without it the model is told what could not be read.
            let given = given.unwrap_or_else(|_| attachments::unread(&reading.outgoing.message));
            self.hand_over(reading.outgoing, given).await;
        }
    }

    /// Lets what is said wait while a message is read, and ends reading what nobody wants any more.
    pub(super) fn unless_reading(&mut self, effect: Effect) -> Option<Effect> {
        match &effect {
            Effect::Send { .. } if self.reading.is_some() => {
                self.said_later.push_back(effect);
                return None;
            }
            Effect::Withdrawn(ids) => {
                let wanted = |later: &Effect| !matches!(later, Effect::Send { id, .. } if ids.contains(id));
                self.said_later.retain(wanted);
                ids.iter().for_each(|id| self.stop_preparing(id, true));
            }
            Effect::Said(id) => self.stop_preparing(id, false),
            _ => {}
        }
        Some(effect)
    }

    /// Stops what is done to prepare a message, also what it asked for if it is not wanted any more.
    fn stop_preparing(&mut self, id: &str, unwanted: bool) {
        let session = self.live.as_ref().map(|live| live.session.clone());
        if let Some(reading) = self.reading.take_if(|reading| reading.outgoing.id == id) {
            reading.given.abort();
        } else if let Some(interpreting) = self.interpreting.take_if(|interpreting| interpreting.id == id) {
            let done = interpreting.task.is_finished();
            interpreting.task.abort();
            if !unwanted || done {
                return;
            }
            if let Some(session) = session.clone().filter(|_| interpreting.compacts) {
                tokio::spawn(async move { session.cancel_compaction().await });
            }
        } else {
            return;
        }
        // An agent that has heard nothing of the message does not tell that it is over.
        if !session.is_some_and(|session| session.is_busy()) {
            self.face.rested(&self.chat);
        }
    }
}
