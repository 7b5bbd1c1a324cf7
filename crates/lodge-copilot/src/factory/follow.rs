//! Follows the log of a session for its factory runs, from the first time that somebody asks for them.

use std::sync::Arc;

use lodge_events::{Event, FactoryRunUpdated, Payload};
use lodge_host::{Listening, Publish, Session};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::runs::Runs;
use crate::rpc::RpcError;

/// What the names of the events begin with.
const EVENTS: &str = "lodge.factory_";

/// The runs as the log has them.
#[derive(Default)]
pub(super) struct Followed(OnceCell<(Arc<Follower>, Listening)>);

#[derive(Default)]
struct Follower {
    runs: Mutex<Runs>,
    /// While the log is read: what has happened since.
    later: Mutex<Option<Vec<Event>>>,
}

impl Publish for Follower {
    fn publish(&self, event: &Event) {
        if !event.kind().starts_with(EVENTS) {
            return;
        }
        let mut later = self.later.lock();
        match &mut *later {
            Some(later) => later.push(event.clone()),
            None => self.runs.lock().apply(event),
        }
    }
}

impl Followed {
    /// The runs. The first time, the log is read.
    pub(super) async fn runs(&self, session: &Session) -> Result<&Mutex<Runs>, RpcError> {
        let follow = || async {
            let follower = Arc::new(Follower {
                later: Mutex::new(Some(Vec::new())),
                ..Follower::default()
            });
            let (history, listening) = session.history_and_listen(follower.clone())?;
            let past = Session::read_history(history, |history| {
                let mut runs = Runs::default();
                for event in history.events() {
                    let event = event?;
                    if event.kind().starts_with(EVENTS) {
                        runs.apply(&event);
                    }
                }
                runs.halt();
                Ok(runs)
            });
            *follower.runs.lock() = past.await?;
            let mut later = follower.later.lock();
            for event in later.take().into_iter().flatten() {
                follower.runs.lock().apply(&event);
            }
            drop(later);
            Ok::<_, RpcError>((follower, listening))
        };
        let (follower, _) = self.0.get_or_try_init(follow).await?;
        Ok(&follower.runs)
    }

    /// Records a change of a run, and tells clients.
    pub(super) async fn record(&self, session: &Session, change: impl Into<Payload>) -> Result<(), RpcError> {
        let runs = self.runs(session).await?;
        let event = session.record(change).await?;
        let run_id = match event.payload() {
            Payload::LodgeFactoryStarted(started) => &started.run_id,
            Payload::LodgeFactoryLogged(logged) => &logged.run_id,
            Payload::LodgeFactoryAgent(agent) => &agent.run_id,
            Payload::LodgeFactoryStep(step) => &step.run_id,
            Payload::LodgeFactorySettled(settled) => &settled.run_id,
            _ => return Ok(()),
        };
        let revision = runs.lock().get(run_id).map_or(0, |run| run.revision);
        let updated = FactoryRunUpdated {
            run_id: run_id.clone(),
            revision,
        };
        session.tell(updated).await?;
        Ok(())
    }
}
