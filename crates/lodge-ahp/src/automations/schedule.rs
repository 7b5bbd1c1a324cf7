//! Keeping the time: waits for the next moment at which a schedule is due, and for nothing where there is none.

use std::sync::Arc;

use ahp_types::{StateAction, actions::AutomationRunSessionRemovedAction};
use jiff::{SignedDuration, Timestamp};

use super::{
    book::Book,
    record::{Record, is_pending},
};
use crate::face::Face;

/// After so long it is tried again to keep what could not be kept.
const RETRY: SignedDuration = SignedDuration::from_secs(60);

pub(super) async fn keep_time(face: Arc<Face>) {
    face.start_pending(&*face.automations.book.lock().await);
    loop {
        let next = face.do_what_is_due().await;
        let moment = async {
            match next {
                Some(next) => face.automations.clock.reach(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = moment => {}
            () = face.automations.changed.notified() => {}
            () = face.stop.cancelled() => return,
        }
    }
}

impl Face {
    /// Starts what was asked for, or due, and has not begun: a host before this one did not come to it.
    fn start_pending(self: &Arc<Self>, book: &Book) {
        let runs = book
            .records()
            .iter()
            .filter(|_| book.allowed)
            .flat_map(|record| &record.runs);
        for run in runs.filter(|run| is_pending(&run.lifecycle)) {
            self.start_run(run.resource.clone());
        }
    }

    /// Does what the time has come for. When there is something to do next.
    async fn do_what_is_due(self: &Arc<Self>) -> Option<Timestamp> {
        let mut book = self.automations.book.lock().await;
        self.forget_sessions(&mut book).await;
        self.allow(&mut book);
        if !book.allowed {
            return None;
        }
        let now = self.automations.clock.now();
        let due = |record: &&Record| record.wake().is_some_and(|wake| wake <= now);
        let due: Vec<Record> = book.records().iter().filter(due).cloned().collect();
        for mut record in due {
            let begun = record.tick(now);
            let automation = record.resource.clone();
            if let Err(error) = self.keep_record(&mut book, record, &[], "").await {
                // Nothing runs that is not written down.
                tracing::error!(%error, automation, "a schedule is due and its run cannot be kept");
                return now.checked_add(RETRY).ok();
            }
            if let Some(run) = begun {
                tracing::info!(automation, run, "a schedule is due");
                self.start_run(run);
            }
        }
        book.records().iter().filter_map(Record::wake).min()
    }

    /// Tells clients whether automations may run, where that is otherwise than they know.
    fn allow(self: &Arc<Self>, book: &mut Book) {
        let mut inner = self.inner.lock();
        let allowed = inner.automations_allowed();
        if book.allowed != allowed {
            book.allowed = allowed;
            for record in book.records() {
                inner.core.show_automation(record, allowed);
            }
            drop(inner);
            self.start_pending(book);
        }
    }

    /// Takes sessions that were removed out of their runs.
    async fn forget_sessions(&self, book: &mut Book) {
        let gone = std::mem::take(&mut *self.automations.gone.lock());
        for (run, session) in gone {
            let Some(mut record) = book.of_run(&run).cloned() else {
                continue;
            };
            if let Some(run) = record.run_mut(&run) {
                run.sessions.retain(|known| *known != session);
                run.primary_session = run.primary_session.take().filter(|known| *known != session);
            }
            let action = AutomationRunSessionRemovedAction { session };
            let told = [StateAction::AutomationRunSessionRemoved(action)];
            self.keep_at_any_rate(book, record, &told, &run).await;
        }
    }
}
