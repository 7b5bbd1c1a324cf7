//! Automations: what a person wants done again and again, or at the push of a button. Each run is a session like any other,
//! made by the host when a client asks for it or a schedule is due, also when nobody is connected.
//!
//! `cron` and `record` decide, from what is known and the time that it is; `book` keeps. What anybody sees is on disk before:
//! one lock is held from the decision over the writing to the telling, so that all of it has one order.

mod book;
mod clock;
mod cron;
mod definition;
mod record;
mod runs;
mod said;
mod schedule;

use std::{io, sync::Arc};

use ahp_types::{
    StateAction,
    actions::AutomationSetAction,
    commands::{
        AutomationCapabilities, AutomationCreateCapability, AutomationRunCancellationCapability,
        AutomationScheduleCapabilities,
    },
    common::JsonObject,
    state::{AutomationSessionOrigin, AutomationState},
};
use lodge_host::{Host, HostError};
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::clock::Clock;
use self::{book::Book, record::Record};
use crate::{
    face::{Face, Inner},
    state::{Core, Service},
    uri,
};

/// The channel of all automations.
pub(crate) const CHANNEL: &str = "ahp-automations://";
/// What the channels of runs begin with.
pub(crate) const RUN: &str = "ahp-automation-run:/";
/// The one of the host's settings that it reads: editors of the VS Code family set it where their person wants no automations.
const SETTING: &str = "automationsEnabled";

/// What clients are told of when they come.
pub(crate) fn capabilities() -> AutomationCapabilities {
    AutomationCapabilities {
        create: Some(AutomationCreateCapability {}),
        schedules: Some(AutomationScheduleCapabilities::default()),
        run_cancellation: Some(AutomationRunCancellationCapability {}),
        run_history_limit: Some(record::HISTORY as i64),
        customizations: None,
    }
}

/// The channel that is meant: editors spell the one of all automations in several ways.
pub(crate) fn meant(channel: &str) -> &str {
    if channel.starts_with("ahp-automations:") {
        CHANNEL
    } else {
        channel
    }
}

/// Whether a channel is about automations.
pub(crate) fn is_channel(channel: &str) -> bool {
    channel == CHANNEL || channel.starts_with(RUN)
}

/// The automations of a host.
pub(crate) struct Automations {
    book: tokio::sync::Mutex<Book>,
    /// Whoever keeps the time has something new to look at.
    changed: Notify,
    clock: Clock,
    /// Sessions of runs that were removed, by the runs.
    gone: Mutex<Vec<(String, String)>>,
}

impl Automations {
    pub(crate) fn open(host: &Host, clock: Clock, settings: &JsonObject) -> io::Result<(Self, AutomationState)> {
        let dir = host.home().path().join("ahp/automations");
        let is_kept = |session: &str| uri::id_in(session).is_some_and(|id| host.read(id).is_ok());
        let book = Book::open(dir, are_allowed(settings), clock.now(), is_kept)?;
        let state = book.state();
        let automations = Self {
            book: tokio::sync::Mutex::new(book),
            changed: Notify::new(),
            clock,
            gone: Mutex::default(),
        };
        Ok((automations, state))
    }

    /// Something that schedules depend on may be otherwise now.
    pub(crate) fn look(&self) {
        self.changed.notify_one();
    }

    /// A session that belonged to a run was removed.
    pub(crate) fn session_gone(&self, origin: &AutomationSessionOrigin, session: String) {
        self.gone.lock().push((origin.run.clone(), session));
        self.look();
    }
}

fn are_allowed(settings: &JsonObject) -> bool {
    settings.get(SETTING).and_then(serde_json::Value::as_bool) != Some(false)
}

impl Inner {
    /// Whether automations may run at all.
    fn automations_allowed(&self) -> bool {
        let config = self.core.root.config.as_ref();
        config.is_none_or(|config| are_allowed(&config.values))
    }
}

impl Core {
    /// Tells all that an automation is so now.
    fn show_automation(&mut self, record: &Record, allowed: bool) {
        let automation = record.entry(allowed);
        let action = StateAction::AutomationSet(Box::new(AutomationSetAction { automation }));
        self.publish(CHANNEL, &action, None);
    }
}

/// Writes a record down. Nobody knows of it yet.
async fn write(book: &Book, record: Record) -> io::Result<Record> {
    let file = book.file(&record.resource);
    let written = tokio::task::spawn_blocking(move || file.keep(&record).map(|()| record)).await;
    written.map_err(io::Error::other)?
}

impl Face {
    /// Keeps a record, and then tells what became of it: first of a run, then of the automation.
    async fn keep_record(&self, book: &mut Book, record: Record, of_run: &[StateAction], run: &str) -> io::Result<()> {
        let record = write(book, record).await?;
        self.show_record(book, record, of_run, run);
        Ok(())
    }

    /// The same where it is so, whether or not it can be kept.
    async fn keep_at_any_rate(&self, book: &mut Book, record: Record, of_run: &[StateAction], run: &str) {
        let kept = self.keep_record(book, record.clone(), of_run, run).await;
        if let Err(error) = kept {
            tracing::error!(%error, automation = record.resource, "what became of a run cannot be kept");
            self.show_record(book, record, of_run, run);
        }
    }

    fn show_record(&self, book: &mut Book, record: Record, of_run: &[StateAction], run: &str) {
        let mut inner = self.inner.lock();
        let allowed = inner.automations_allowed();
        for action in of_run {
            inner.core.publish(run, action, None);
        }
        inner.core.show_automation(&record, allowed);
        let resource = record.resource.clone();
        let before = book.put(record);
        let record = book.get(&resource);
        let is_forgotten = |run: &str| record.is_none_or(|record| record.run(run).is_none());
        for run in before.iter().flat_map(|before| &before.runs) {
            if is_forgotten(&run.resource) {
                inner.core.remove_service(&run.resource);
            }
        }
        self.automations.look();
    }

    /// Opens the channel of a run that is remembered.
    pub(crate) async fn open_run(&self, uri: &str) -> Result<(), HostError> {
        let book = self.automations.book.lock().await;
        let run = book.of_run(uri).and_then(|record| record.run(uri));
        let run = run.ok_or_else(|| HostError::NotFound(uri.to_owned()))?;
        let mut inner = self.inner.lock();
        if inner.core.service(uri).is_none() {
            let service = Service::AutomationRun(Box::new(run.clone()));
            inner.core.insert_service(uri.into(), None, service);
        }
        Ok(())
    }

    /// Begins to keep the time.
    pub(crate) fn begin_automations(self: &Arc<Self>) {
        self.tasks.spawn(schedule::keep_time(self.clone()));
    }
}
