//! Factories: work that clients of a session offer by name. A run calls the client that offers the factory, and the log has what
//! came of it, so that a run which failed, or lost its client or its host, can be resumed.

mod agents;
mod attempt;
mod follow;
mod limits;
mod registered;
mod runs;
mod shown;

use std::{collections::HashMap, sync::Arc, time::Duration};

use lodge_events::{FactoryLine, LodgeFactoryLogged, LodgeFactoryStarted, LodgeFactoryStep};
use lodge_host::Session;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub(crate) use self::{
    agents::AgentOptions,
    limits::Limits,
    registered::{FactoryConfig, Registered},
    shown::Paging,
};
use self::{
    attempt::Attempt,
    follow::Followed,
    registered::Provider,
    runs::{MOST_OF_A_SESSION, Run, Status},
    shown::Shown,
};
use crate::{
    board::Board,
    rpc::{INVALID_PARAMS, RpcError},
};

/// How many runs of a session can be under way.
const MOST_LIVE: usize = 32;
/// How many sub-agents of a run work at a time, and are started at all. Limits of a run only lower them.
const MOST_AGENTS: usize = 16;
const MOST_AGENTS_IN_ALL: usize = 1_000;
/// How long a factory may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);
/// Limits of what a factory stores: lines at once and the lengths of their texts and kinds, steps of a run and the length of one.
const MOST_LINES: usize = 1_000;
const LONGEST_LINE: usize = 16 * 1024;
const LONGEST_KIND: usize = 64;
/// The longest arguments of a run, and the most that its steps and arguments have together, in bytes.
const LONGEST_ARGS: usize = 4 << 20;
const MOST_OF_A_RUN: usize = 16 << 20;
const MOST_STEPS: usize = 2_000;
const LONGEST_STEP: usize = 1 << 20;

/// A run under way.
struct Live {
    /// What the factory shows when it reports about this attempt.
    token: String,
    cancel: CancellationToken,
    ended: CancellationToken,
    limits: Limits,
    /// The limit that it reached, and its value.
    reached: Option<(&'static str, f64)>,
    /// Places for sub-agents.
    agents: Arc<Semaphore>,
    /// Sub-agents that work, until the log has their ends.
    working: TaskTracker,
    /// Sub-agents that were admitted and that the log does not have yet.
    admitted: usize,
}

#[derive(Default)]
struct State {
    last: u64,
    providers: Vec<Provider>,
    live: HashMap<String, Live>,
}

/// The factories of one session.
#[derive(Default)]
pub(crate) struct Factories {
    state: Mutex<State>,
    followed: Followed,
    /// Has one step at a time checked and recorded.
    keeping: tokio::sync::Mutex<()>,
}

/// An error that programs recognise.
fn refused(code: &str, message: impl Into<String>) -> RpcError {
    RpcError {
        data: Some(json!({"code": code})),
        ..RpcError::new(INVALID_PARAMS, message)
    }
}

/// What a step is called in the journal, in which answers of sub-agents are, too.
fn step_key(key: &str) -> String {
    format!("step:{key}")
}

/// Cuts a text that is longer than this.
fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
}

fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

impl Factories {
    /// Runs a factory, and waits for its end. It ends also if nobody waits any more.
    pub(crate) async fn run(
        board: &Arc<Board>,
        session: &Session,
        name: &str,
        args: Value,
        limits: Limits,
    ) -> Result<Value, RpcError> {
        let this = board.factories();
        let (peer, factory) = this.find(name)?;
        let limits = limits.or(factory.limits.unwrap_or_default()).check()?;
        let bytes = args.to_string().len();
        if bytes > LONGEST_ARGS {
            let message = format!("The arguments of the run have {bytes} bytes: the limit is {LONGEST_ARGS}");
            return Err(RpcError::params(message));
        }
        let started = LodgeFactoryStarted {
            run_id: Uuid::new_v4().to_string(),
            name: factory.name.clone(),
            description: Some(factory.description.clone()),
            phases: Some(factory.phases.clone()),
            declared_limits: factory.limits.map(Limits::json),
            limits: Some(limits.json()),
            args: Some(args.clone()),
            attempt: 1,
        };
        let attempt = Attempt {
            started,
            args,
            limits,
            used_ms: 0,
        };
        attempt.make(board, session, peer).await
    }

    /// Runs a factory again that did not come to its end, with what it was called with and the steps that are done.
    pub(crate) async fn resume(
        board: &Arc<Board>,
        session: &Session,
        run_id: &str,
        limits: Limits,
    ) -> Result<Value, RpcError> {
        let this = board.factories();
        let limits = limits.check()?;
        let (attempt, name) = this
            .look(session, run_id, |shown| {
                let run = shown.run;
                match shown.status {
                    Status::Running => {
                        let message = format!("The factory run {run_id} is under way");
                        return Err(refused("already_active", message));
                    }
                    Status::Completed => {
                        let message = format!("The factory run {run_id} is completed: there is nothing to resume");
                        return Err(refused("non_resumable", message));
                    }
                    Status::Error | Status::Halted | Status::Cancelled => {}
                }
                let limits = limits.or(run.limits);
                let started = LodgeFactoryStarted {
                    run_id: run_id.to_owned(),
                    name: run.name.clone(),
                    limits: Some(limits.json()),
                    attempt: run.attempt + 1,
                    ..LodgeFactoryStarted::default()
                };
                let attempt = Attempt {
                    started,
                    args: run.args.clone(),
                    limits,
                    used_ms: run.active_ms,
                };
                Ok((attempt, run.name.clone()))
            })
            .await??;
        let (peer, _) = this.find(&name)?;
        let run = attempt.make(board, session, peer).await?;
        Ok(json!({"factoryName": name, "workflowName": name, "run": run}))
    }

    /// Looks at a run.
    async fn look<T>(&self, session: &Session, run_id: &str, look: impl FnOnce(Shown<'_>) -> T) -> Result<T, RpcError> {
        let runs = self.followed.runs(session).await?;
        let is_live = self.state.lock().live.contains_key(run_id);
        let runs = runs.lock();
        let run = runs.get(run_id);
        let run = run.ok_or_else(|| refused("not_found", format!("There is no factory run {run_id}")))?;
        Ok(look(Shown::of(run, is_live)))
    }

    /// How a run stands.
    pub(crate) async fn envelope(&self, session: &Session, run_id: &str) -> Result<Value, RpcError> {
        self.look(session, run_id, |shown| shown.envelope()).await
    }

    /// A run with its phases and its last progress.
    pub(crate) async fn detail(&self, session: &Session, run_id: &str) -> Result<Value, RpcError> {
        self.look(session, run_id, |shown| shown.detail(now_ms())).await
    }

    /// A page of a run's progress.
    pub(crate) async fn progress(&self, session: &Session, run_id: &str, paging: &Paging) -> Result<Value, RpcError> {
        self.look(session, run_id, |shown| shown.progress(paging)).await
    }

    /// A page of the session's runs.
    pub(crate) async fn list(&self, session: &Session, paging: &Paging) -> Result<Value, RpcError> {
        let runs = self.followed.runs(session).await?;
        let live: Vec<String> = self.state.lock().live.keys().cloned().collect();
        let is_live = |run: &Run| live.contains(&run.id);
        Ok(shown::list(&runs.lock(), is_live, paging, now_ms()))
    }

    /// Stops a run, and waits until it has. One that has ended stays as it is.
    pub(crate) async fn cancel(&self, session: &Session, run_id: &str) -> Result<Value, RpcError> {
        let live = {
            let state = self.state.lock();
            state
                .live
                .get(run_id)
                .map(|live| (live.cancel.clone(), live.ended.clone()))
        };
        if let Some((cancel, ended)) = live {
            cancel.cancel();
            ended.cancelled().await;
        }
        self.envelope(session, run_id).await
    }

    /// Checks that a report is about the attempt under way.
    fn check(&self, run_id: &str, token: &str) -> Result<(), RpcError> {
        match self.state.lock().live.get(run_id) {
            Some(live) if live.token == token => Ok(()),
            _ => Err(refused(
                "factory_execution_stale",
                format!("This attempt of the factory run {run_id} is over"),
            )),
        }
    }

    /// Takes down what a factory tells of its progress.
    pub(crate) async fn log(
        &self,
        session: &Session,
        run_id: &str,
        token: &str,
        mut lines: Vec<FactoryLine>,
    ) -> Result<(), RpcError> {
        self.check(run_id, token)?;
        if lines.len() > MOST_LINES {
            let message = format!("{} lines are too many at once: the limit is {MOST_LINES}", lines.len());
            return Err(RpcError::params(message));
        }
        for line in &mut lines {
            shorten(&mut line.text, LONGEST_LINE);
            shorten(&mut line.kind, LONGEST_KIND);
        }
        let run_id = run_id.to_owned();
        self.followed
            .record(session, LodgeFactoryLogged { run_id, lines })
            .await
    }

    /// What came of a step, if it is done.
    pub(crate) async fn step(
        &self,
        session: &Session,
        run_id: &str,
        token: &str,
        key: &str,
    ) -> Result<Option<Value>, RpcError> {
        self.check(run_id, token)?;
        let key = step_key(key);
        self.look(session, run_id, |shown| shown.run.journal.get(&key).cloned())
            .await
    }

    /// Keeps what came of a step.
    pub(crate) async fn keep_step(
        &self,
        session: &Session,
        run_id: &str,
        token: &str,
        key: &str,
        result: Value,
    ) -> Result<(), RpcError> {
        self.check(run_id, token)?;
        self.keep(session, run_id, step_key(key), result).await
    }

    async fn keep(&self, session: &Session, run_id: &str, key: String, result: Value) -> Result<(), RpcError> {
        let bytes = key.len() + result.to_string().len();
        if bytes > LONGEST_STEP {
            let message = format!("The result of the step has {bytes} bytes: the limit is {LONGEST_STEP}");
            return Err(RpcError::params(message));
        }
        let _one = self.keeping.lock().await;
        let (steps, kept) = self
            .look(session, run_id, |shown| (shown.run.journal.len(), shown.run.kept()))
            .await?;
        if steps >= MOST_STEPS {
            let message = format!("The run has {MOST_STEPS} steps, which is the limit");
            return Err(RpcError::params(message));
        }
        if kept + bytes > MOST_OF_A_RUN {
            let message = format!("The steps of the run have more than {MOST_OF_A_RUN} bytes, which is the limit");
            return Err(RpcError::params(message));
        }
        let of_session = self.followed.runs(session).await?.lock().under_way();
        if of_session + bytes > MOST_OF_A_SESSION {
            let message = format!(
                "The runs of the session that are under way have more than {MOST_OF_A_SESSION} bytes, which is the limit"
            );
            return Err(RpcError::params(message));
        }
        let run_id = run_id.to_owned();
        self.followed
            .record(session, LodgeFactoryStep { run_id, key, result })
            .await
    }
}
