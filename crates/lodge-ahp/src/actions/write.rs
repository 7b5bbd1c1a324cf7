//! What accepted actions change on the disk beside the logs. It is written before anybody hears of them, and without the lock
//! of the state: a slow disk keeps nobody waiting but the session that the action is about.

use std::{collections::BTreeMap, path::PathBuf};

use ahp_types::common::JsonObject;
use lodge_host::{Annotation, DecidedFor, Host, MessageTemplate, Session, Storing};

use super::Refusal;
use crate::{annotations::AnnotationRefusal, face::Inner};

/// A change of the registers, by the host's id of the session that it is about.
pub(crate) enum Write {
    Read(String, bool),
    Archived(String, bool),
    Draft(String, Option<MessageTemplate>),
    Reviewed(String, Reviewed),
    Annotations(String, Vec<Annotation>),
    /// The settings of the host.
    Settings(JsonObject),
    Decision(NewDecision),
}

/// Which files of a changeset are reviewed from now on.
pub(crate) struct Reviewed {
    /// How the names of all its files begin.
    pub(crate) prefix: String,
    pub(crate) files: Vec<(String, String)>,
}

/// What somebody at a session decided about a thing: for it alone in its log, for more with the host.
pub(crate) struct NewDecision {
    pub(super) key: String,
    pub(super) said: Vec<(DecidedFor, bool)>,
    pub(super) place: Option<PathBuf>,
    /// All that was decided for the session alone.
    pub(super) switches: BTreeMap<String, bool>,
    pub(super) agent: Option<Session>,
}

impl Write {
    /// Writes it. Answers with what a log is still to store.
    pub(super) fn run(self, host: &Host) -> Result<Option<Storing>, Refusal> {
        let marks = host.marks();
        match self {
            Self::Read(id, read) => marks.update(&id, |marks| marks.read = read)?,
            Self::Archived(id, archived) => marks.update(&id, |marks| marks.archived = archived)?,
            Self::Draft(id, draft) => marks.set_draft(&id, draft)?,
            Self::Reviewed(id, Reviewed { prefix, files }) => marks.review(&id, |marks| {
                marks.retain(|key, _| !key.starts_with(&prefix));
                marks.extend(files);
            })?,
            Self::Annotations(id, annotations) => {
                let kept = marks.set_annotations(&id, &annotations);
                kept.map_err(AnnotationRefusal::from)?;
            }
            Self::Settings(values) => host.set_host_settings(&values).map_err(Refusal::SettingsUnsaved)?,
            Self::Decision(decision) => return decision.write(host),
        }
        Ok(None)
    }
}

impl NewDecision {
    fn write(self, host: &Host) -> Result<Option<Storing>, Refusal> {
        let Self {
            key,
            said,
            place,
            switches,
            agent,
        } = self;
        let set = || {
            let storing = agent.map(|agent| agent.set_switches(switches));
            storing.transpose().map_err(Refusal::Unrecorded)
        };
        let decisions = host.decisions();
        decisions.decide_and(&key, |decision| decision.replace(&said, place.as_deref()), set)
    }
}

impl Inner {
    /// The host's id of a conversation whose marks are kept. Those of a draft are kept with its first message.
    pub(super) fn kept_id(&self, channel: &str) -> Option<String> {
        let entry = self.core.entry_of(channel).filter(|entry| entry.announced.is_some())?;
        let chat = self.core.chats.get_key_value(channel);
        let chat = chat.map_or(&entry.default_chat, |(chat, _)| chat);
        Some(self.conversations.get(chat)?.host_id.clone())
    }

    /// A decision of somebody at a session.
    pub(super) fn decision(&self, session: &str, key: &str, said: Vec<(DecidedFor, bool)>) -> Option<NewDecision> {
        let entry = self.core.sessions.get(session)?;
        let own = said.iter().find(|(whom, _)| *whom == DecidedFor::Session);
        let mut switches = entry.decisions.clone();
        match own {
            Some((_, on)) => switches.insert(key.to_owned(), *on),
            None => switches.remove(key),
        };
        let place = entry.state.working_directories.as_ref().and_then(|all| all.first());
        let talk = self.conversations.get(&entry.default_chat);
        Some(NewDecision {
            key: key.to_owned(),
            said,
            place: place.and_then(|place| crate::uri::path(place)),
            switches,
            agent: talk.and_then(|talk| talk.agent()).cloned(),
        })
    }
}
