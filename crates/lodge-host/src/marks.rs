//! Marks on sessions that are not part of a conversation: read, archived, drafts of messages, names on a wire. They are in the
//! host's registers, so they never change a session's position in a list.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    Annotation, AnnotationError, MessageTemplate, RegisterError, annotations,
    registers::{Register, Registers},
};

/// The text that somebody is typing is written at most so often.
const DRAFT_PAUSE: Duration = Duration::from_secs(1);
/// How many clients are remembered. Clients choose their names, so beyond that the one that was here first is forgotten.
const CLIENTS: usize = 10_000;
/// The longest name of a client that is remembered, in bytes.
const CLIENT_NAME: usize = 256;

/// What is kept of one session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Marks {
    /// What its maker calls it, where that does not follow from its id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// What its maker calls the agent, where that is not its name here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The run of an automation that it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<MadeBy>,
    /// Whether people have read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read: bool,
    /// Whether people have put it away.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
    /// What its turns changed, in numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangeCounts>,
}

/// The automation that made a session, and the run of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeBy {
    /// The automation.
    pub automation: String,
    /// Its run.
    pub run: String,
}

/// What turns changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeCounts {
    /// Lines that are new.
    pub added: i64,
    /// Lines that are gone.
    pub removed: i64,
    /// Files.
    pub files: i64,
}

/// A client that was here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownClient {
    /// The version of its protocol that it spoke.
    pub version: String,
    /// What its program calls itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The device that it is on; none for a client of the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The language that it would like to be spoken to in (BCP 47).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locale: Option<String>,
}

/// The register with messages that waited in the files of an earlier build.
pub(crate) const CARRIED: &str = "carried_messages";

/// A message that waited in the files of an earlier build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CarriedMessage {
    /// Its id.
    pub id: String,
    /// What it says.
    pub message: MessageTemplate,
}

/// The marks of all sessions.
pub struct SessionMarks {
    marks: Register<Marks>,
    reviewed: Register<BTreeMap<String, String>>,
    annotations: Register<Vec<Annotation>>,
    drafts: Register<MessageTemplate>,
    client_data: Register<BTreeMap<String, String>>,
    clients: Register<KnownClient>,
    /// Their names, the one that was here last at the end.
    recent_clients: Mutex<VecDeque<String>>,
    carried: Register<Vec<CarriedMessage>>,
    /// From the names that makers chose to the ids of sessions. Held while marks are changed.
    by_address: Mutex<HashMap<String, String>>,
    /// Drafts that were written a moment ago: when, and what has come since.
    typing: Mutex<HashMap<String, (Instant, Option<Unwritten>)>>,
    me: Weak<Self>,
}

/// A draft, or none, that is still to be written.
type Unwritten = Option<MessageTemplate>;

impl SessionMarks {
    pub(crate) fn new(registers: &Arc<dyn Registers>) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let marks = Register::<Marks>::new(registers, "marks");
            let known = marks.list().into_iter();
            let by_address = known.filter_map(|(id, marks)| Some((marks.address?, id))).collect();
            let clients = Register::<KnownClient>::new(registers, "client");
            let mut recent_clients = VecDeque::from(clients.ids_by_age());
            let too_many = recent_clients.len().saturating_sub(CLIENTS);
            for id in recent_clients.drain(..too_many) {
                // One that stays is known, and that is all.
                let _ = clients.remove(&id);
            }
            Self {
                marks,
                reviewed: Register::new(registers, "reviewed"),
                annotations: Register::new(registers, "annotations"),
                drafts: Register::new(registers, "draft"),
                client_data: Register::new(registers, "client_data"),
                clients,
                recent_clients: Mutex::new(recent_clients),
                carried: Register::new(registers, CARRIED),
                by_address: Mutex::new(by_address),
                typing: Mutex::default(),
                me: me.clone(),
            }
        })
    }

    /// What is kept of a session.
    pub fn get(&self, id: &str) -> Marks {
        self.marks.get(id).unwrap_or_default()
    }

    /// The session that its maker calls so.
    pub fn id_at(&self, address: &str) -> Option<String> {
        self.by_address.lock().get(address).cloned()
    }

    /// Changes what is kept of a session. Once this returns it is kept; nobody else changes it meanwhile.
    pub fn update(&self, id: &str, change: impl FnOnce(&mut Marks)) -> Result<(), RegisterError> {
        let mut by_address = self.by_address.lock();
        let before = self.get(id);
        let mut marks = before.clone();
        change(&mut marks);
        if marks == before {
            return Ok(());
        }
        self.marks.set(id, &marks)?;
        if let Some(address) = before.address {
            by_address.remove(&address);
        }
        by_address.extend(marks.address.map(|address| (address, id.to_owned())));
        Ok(())
    }

    /// Forgets a session.
    pub fn forget(&self, id: &str) {
        self.by_address.lock().retain(|_, of| of != id);
        self.typing.lock().remove(id);
        let gone = [
            self.marks.remove(id),
            self.reviewed.remove(id),
            self.annotations.remove(id),
            self.drafts.remove(id),
            self.client_data.remove(id),
        ];
        for error in gone.into_iter().filter_map(Result::err) {
            tracing::warn!(session = id, %error, "cannot remove the marks of a deleted session");
        }
    }

    /// Changed files that people have seen, by their names: what they were then.
    pub fn reviewed(&self, id: &str) -> BTreeMap<String, String> {
        self.reviewed.get(id).unwrap_or_default()
    }

    /// Changes which changed files people have seen. Nobody else changes it meanwhile.
    pub fn review(&self, id: &str, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<(), RegisterError> {
        let _one = self.by_address.lock();
        let mut files = self.reviewed(id);
        change(&mut files);
        match files.is_empty() {
            true => self.reviewed.remove(id),
            false => self.reviewed.set(id, &files),
        }
    }

    /// The remarks that people made on files.
    pub fn annotations(&self, id: &str) -> Vec<Annotation> {
        self.annotations.get(id).unwrap_or_default()
    }

    /// Keeps the remarks that people made on files.
    pub fn set_annotations(&self, id: &str, annotations: &Vec<Annotation>) -> Result<(), AnnotationError> {
        annotations::check(annotations)?;
        match annotations.is_empty() {
            true => Ok(self.annotations.remove(id)?),
            false => Ok(self.annotations.set(id, annotations)?),
        }
    }

    /// What apps keep with a session.
    pub fn client_data(&self, id: &str) -> BTreeMap<String, String> {
        self.client_data.get(id).unwrap_or_default()
    }

    /// Changes what apps keep with a session, unless the change refuses that. Nobody else changes it meanwhile.
    pub fn change_client_data<E: From<RegisterError>>(
        &self,
        id: &str,
        change: impl FnOnce(&mut BTreeMap<String, String>) -> Result<(), E>,
    ) -> Result<BTreeMap<String, String>, E> {
        let _alone = self.by_address.lock();
        let mut data = self.client_data(id);
        change(&mut data)?;
        match data.is_empty() {
            true => self.client_data.remove(id)?,
            false => self.client_data.set(id, &data)?,
        }
        Ok(data)
    }

    /// What somebody was about to say.
    pub fn draft(&self, id: &str) -> Option<MessageTemplate> {
        if let Some((_, Some(unwritten))) = self.typing.lock().get(id) {
            return unwritten.clone();
        }
        self.drafts.get(id)
    }

    /// Keeps what somebody is about to say: now, or with what follows within a second.
    pub fn set_draft(&self, id: &str, draft: Option<MessageTemplate>) -> Result<(), RegisterError> {
        if self.draft(id) == draft {
            return Ok(());
        }
        let mut typing = self.typing.lock();
        typing.retain(|_, (written, unwritten)| unwritten.is_some() || written.elapsed() < DRAFT_PAUSE);
        if let Some((_, unwritten)) = typing.get_mut(id) {
            if unwritten.replace(draft).is_none() {
                self.write_later(id);
            }
            return Ok(());
        }
        self.write_draft(id, draft.as_ref())?;
        typing.insert(id.to_owned(), (Instant::now(), None));
        Ok(())
    }

    fn write_later(&self, id: &str) {
        let (me, id) = (self.me.clone(), id.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(DRAFT_PAUSE).await;
            if let Some(me) = me.upgrade() {
                me.write_typed(&mut me.typing.lock(), &id);
            }
        });
    }

    fn write_typed(&self, typing: &mut HashMap<String, (Instant, Option<Unwritten>)>, id: &str) {
        let Some((written, unwritten)) = typing.get_mut(id) else {
            return;
        };
        *written = Instant::now();
        if let Some(draft) = unwritten.take()
            && let Err(error) = self.write_draft(id, draft.as_ref())
        {
            tracing::warn!(session = id, %error, "cannot save the draft message");
        }
    }

    fn write_draft(&self, id: &str, draft: Option<&MessageTemplate>) -> Result<(), RegisterError> {
        match draft {
            Some(draft) => self.drafts.set(id, draft),
            None => self.drafts.remove(id),
        }
    }

    /// Before the host ends: drafts are written as they are now.
    pub(crate) fn settle(&self) {
        let mut typing = self.typing.lock();
        let ids: Vec<String> = typing.keys().cloned().collect();
        for id in ids {
            self.write_typed(&mut typing, &id);
        }
    }

    /// Messages that waited in the files of an earlier build, by their sessions. They belong into the logs.
    pub fn carried_messages(&self) -> Vec<(String, Vec<CarriedMessage>)> {
        self.carried.list()
    }

    /// The log of a session has the messages that waited in the files of an earlier build.
    pub fn forget_carried(&self, id: &str) -> Result<(), RegisterError> {
        self.carried.remove(id)
    }

    /// What is known about a client that was here.
    pub fn client(&self, client: &str) -> Option<KnownClient> {
        self.clients.get(client)
    }

    /// Remembers a client, if its name is not too long.
    pub fn remember_client(&self, client: &str, known: &KnownClient) {
        if client.len() > CLIENT_NAME {
            return;
        }
        let mut recent = self.recent_clients.lock();
        recent.retain(|other| other != client);
        recent.push_back(client.to_owned());
        if recent.len() > CLIENTS
            && let Some(oldest) = recent.pop_front()
            && let Err(error) = self.clients.remove(&oldest)
        {
            tracing::warn!(client = oldest, %error, "a client cannot be forgotten");
        }
        if let Err(error) = self.clients.set(client, known) {
            tracing::warn!(client, %error, "a client cannot be remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::FileRegisters;

    fn open(dir: &std::path::Path) -> Arc<SessionMarks> {
        let registers: Arc<dyn Registers> = Arc::new(FileRegisters::open(dir.join("r"), false).unwrap());
        SessionMarks::new(&registers)
    }

    #[test]
    fn so_many_clients_are_remembered_and_the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let marks = open(dir.path());
        let known = KnownClient::default();
        marks.remember_client(&"x".repeat(CLIENT_NAME + 1), &known);
        for number in 0..CLIENTS + 2 {
            marks.remember_client(&number.to_string(), &known);
            marks.remember_client("always", &known);
        }
        assert_eq!(marks.clients.list().len(), CLIENTS);
        for marks in [&marks, &open(dir.path())] {
            let is_known = |name: &str| marks.client(name).is_some();
            assert!(is_known("always") && is_known(&(CLIENTS + 1).to_string()));
            assert!(!is_known("0") && !is_known("1") && !is_known("2"));
            assert!(is_known("3"));
        }
    }

    #[tokio::test]
    async fn marks_and_addresses_survive_a_killed_host_and_go_with_their_session() {
        let dir = tempfile::tempdir().unwrap();
        let marks = open(dir.path());
        marks
            .update("a", |marks| marks.address = Some("mine:/1".into()))
            .unwrap();
        marks.update("a", |marks| marks.read = true).unwrap();
        marks
            .update("b", |marks| marks.address = Some("mine:/2".into()))
            .unwrap();
        let marks = open(dir.path());
        assert_eq!(marks.id_at("mine:/1").as_deref(), Some("a"));
        assert!(marks.get("a").read);
        marks
            .update("a", |marks| marks.address = Some("mine:/3".into()))
            .unwrap();
        marks.forget("b");
        let known = ["mine:/1", "mine:/2", "mine:/3"].map(|address| marks.id_at(address));
        assert_eq!(known, [None, None, Some("a".to_owned())]);
        assert_eq!(open(dir.path()).get("b"), Marks::default());
    }

    #[tokio::test]
    async fn what_is_typed_is_written_at_most_once_a_second_and_the_last_of_it_counts() {
        let dir = tempfile::tempdir().unwrap();
        let marks = open(dir.path());
        let draft = |text: String| {
            let text = MessageTemplate {
                text,
                ..MessageTemplate::default()
            };
            Some(text)
        };
        for n in 0..100 {
            marks.set_draft("a", draft(format!("{n}"))).unwrap();
            assert_eq!(marks.draft("a"), draft(format!("{n}")));
        }
        let lines = || std::fs::read_to_string(dir.path().join("r")).unwrap().lines().count();
        assert!(lines() < 20, "{}", lines());
        while open(dir.path()).draft("a") != draft("99".into()) {
            tokio::time::sleep(DRAFT_PAUSE / 10).await;
        }
        marks.set_draft("a", draft("more".into())).unwrap();
        marks.set_draft("a", None).unwrap();
        marks.settle();
        assert_eq!(open(dir.path()).draft("a"), None);
    }
}
