//! One attempt of a factory run: calls the client that offers the factory, and records what came of it.

use std::{sync::Arc, time::Duration};

use lodge_events::{FactoryRunSettled, FactoryRunStarted, LodgeFactorySettled, LodgeFactoryStarted};
use lodge_host::Session;
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use super::{LONGEST_LINE, Limits, Live, MOST_AGENTS, MOST_LIVE, PATIENCE, refused, shorten};
use crate::{
    board::Board,
    peer::{CallError, Peer},
    rpc::RpcError,
};

/// The longest result, in bytes.
const LONGEST_RESULT: usize = 4 << 20;
/// What JSON-RPC libraries put before the message of an error.
const LIBRARY: &str = "Request factory.execute failed with message: ";

/// What an attempt needs.
pub(super) struct Attempt {
    pub(super) started: LodgeFactoryStarted,
    pub(super) args: Value,
    pub(super) limits: Limits,
    /// Milliseconds that earlier attempts took.
    pub(super) used_ms: u64,
}

/// The place of a run among those under way.
struct Place {
    board: Arc<Board>,
    run_id: String,
    token: String,
    cancel: CancellationToken,
    ended: CancellationToken,
    working: TaskTracker,
}

impl Place {
    fn take(board: &Arc<Board>, run_id: &str, limits: Limits) -> Result<Self, RpcError> {
        let mut state = board.factories().state.lock();
        if state.live.contains_key(run_id) {
            return Err(refused(
                "already_active",
                format!("The factory run {run_id} is under way"),
            ));
        }
        if state.live.len() >= MOST_LIVE {
            let message = format!("{MOST_LIVE} factory runs are under way, which is the limit");
            return Err(refused("factory_already_running", message));
        }
        let live = Live {
            token: Uuid::new_v4().to_string(),
            cancel: CancellationToken::new(),
            ended: CancellationToken::new(),
            limits,
            reached: None,
            agents: Arc::new(Semaphore::new(
                limits
                    .max_concurrent_subagents
                    .map_or(MOST_AGENTS, |most| (most as usize).min(MOST_AGENTS)),
            )),
            working: TaskTracker::new(),
            admitted: 0,
        };
        let place = Self {
            board: Arc::clone(board),
            run_id: run_id.to_owned(),
            token: live.token.clone(),
            cancel: live.cancel.clone(),
            ended: live.ended.clone(),
            working: live.working.clone(),
        };
        state.live.insert(run_id.to_owned(), live);
        Ok(place)
    }
}

impl Place {
    fn why_stopped(&self) -> End {
        let state = self.board.factories().state.lock();
        let reached = state.live.get(&self.run_id).and_then(|live| live.reached);
        reached.map_or(End::Cancelled, |(kind, value)| End::Reached(kind, value))
    }

    /// Stops the sub-agents of the run, and waits until the log has what they cost.
    async fn stop_agents(&self) {
        self.cancel.cancel();
        self.working.close();
        if tokio::time::timeout(PATIENCE, self.working.wait()).await.is_err() {
            tracing::warn!(run = self.run_id, "sub-agents of a factory run take too long to stop");
        }
    }
}

impl Drop for Place {
    /// However a run ends, nothing of it goes on.
    fn drop(&mut self) {
        self.cancel.cancel();
        self.board.factories().state.lock().live.remove(&self.run_id);
        self.ended.cancel();
    }
}

/// How the call of a factory ended.
enum End {
    Answered(Result<Value, CallError>),
    Cancelled,
    /// It reached a limit, with this name and value.
    Reached(&'static str, f64),
}

impl Attempt {
    /// Makes the attempt in a task of its own, and waits for it.
    pub(super) async fn make(self, board: &Arc<Board>, session: &Session, peer: Peer) -> Result<Value, RpcError> {
        let place = Place::take(board, &self.started.run_id, self.limits)?;
        let session = session.clone();
        let task = tokio::spawn(async move {
            self.go(&place, &session, peer).await?;
            let factories = place.board.factories();
            factories.envelope(&session, &place.run_id).await
        });
        task.await.map_err(RpcError::failed)?
    }

    async fn go(self, place: &Place, session: &Session, peer: Peer) -> Result<(), RpcError> {
        let factories = place.board.factories();
        let (name, attempt) = (self.started.name.clone(), self.started.attempt);
        factories.followed.record(session, self.started).await?;
        let run_id = place.run_id.clone();
        session
            .tell(FactoryRunStarted {
                run_id: run_id.clone(),
                factory_name: name.clone(),
                attempt,
            })
            .await?;
        let begun = Instant::now();
        let params = json!({
            "sessionId": session.id(), "name": name, "runId": run_id, "executionToken": place.token, "args": self.args,
        });
        let until = self.limits.timeout_seconds.map(|seconds| {
            let used = Duration::from_millis(self.used_ms);
            begun + Duration::from_secs_f64(seconds).saturating_sub(used)
        });
        let timeout = self.limits.timeout_seconds.unwrap_or_default();
        let end = call(place, session.id(), &peer, &params, until.map(|until| (until, timeout))).await;
        place.stop_agents().await;
        let elapsed_ms = begun.elapsed().as_millis() as u64;
        let settled = LodgeFactorySettled {
            run_id: run_id.clone(),
            elapsed_ms,
            ..settled(end, &run_id)
        };
        let spent = factories.look(session, &place.run_id, |shown| {
            (shown.run.agents.len() as u64, shown.run.nano_aiu())
        });
        let (consumed_subagents, consumed_nano_aiu) = spent.await?;
        let told = FactoryRunSettled {
            run_id,
            status: settled.status.clone(),
            consumed_subagents,
            consumed_nano_aiu,
            elapsed_ms: self.used_ms + elapsed_ms,
            failure_type: settled
                .failure
                .as_ref()
                .and_then(|failure| failure["type"].as_str().map(str::to_owned)),
        };
        factories.followed.record(session, settled).await?;
        session.tell(told).await?;
        Ok(())
    }
}

/// Calls the factory. One that is stopped is asked to stop, and has a moment for it.
async fn call(place: &Place, session: &str, peer: &Peer, params: &Value, until: Option<(Instant, f64)>) -> End {
    let call = peer.call("factory.execute", params);
    tokio::pin!(call);
    let timeout = async {
        match until {
            Some((until, seconds)) => {
                tokio::time::sleep_until(until).await;
                seconds
            }
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        answer = &mut call => return End::Answered(answer),
        () = place.cancel.cancelled() => place.why_stopped(),
        seconds = timeout => End::Reached("timeoutSeconds", seconds),
    };
    // Its sub-agents spend nothing more while it stops.
    place.cancel.cancel();
    let abort = json!({"sessionId": session, "runId": place.run_id, "executionToken": place.token});
    let stopping = async {
        let _ = peer.call("factory.abort", &abort).await;
        let _ = call.await;
    };
    if tokio::time::timeout(PATIENCE, stopping).await.is_err() {
        tracing::warn!(
            run = place.run_id,
            "a factory does not stop; nobody waits for it any more"
        );
    }
    end
}

/// What is recorded of an end.
fn settled(end: End, run_id: &str) -> LodgeFactorySettled {
    let ended = |status: &str| LodgeFactorySettled {
        status: status.to_owned(),
        ..LodgeFactorySettled::default()
    };
    let failed = |mut error: String| {
        shorten(&mut error, LONGEST_LINE);
        LodgeFactorySettled {
            error: Some(error),
            ..ended("error")
        }
    };
    match end {
        End::Answered(Ok(mut answer)) => {
            let result = answer.get_mut("result").map(Value::take);
            let bytes = result.as_ref().map_or(0, |result| result.to_string().len());
            if bytes > LONGEST_RESULT {
                return failed(format!("The result has {bytes} bytes: the limit is {LONGEST_RESULT}"));
            }
            LodgeFactorySettled {
                result,
                ..ended("completed")
            }
        }
        End::Answered(Err(CallError::Refused(error))) => {
            let message = error.message;
            failed(message.strip_prefix(LIBRARY).unwrap_or(&message).to_owned())
        }
        End::Answered(Err(CallError::Gone)) => LodgeFactorySettled {
            reason: Some("The client that ran it has disconnected".to_owned()),
            ..ended("halted")
        },
        End::Cancelled => LodgeFactorySettled {
            reason: Some("It was cancelled".to_owned()),
            ..ended("cancelled")
        },
        End::Reached(kind, value) => LodgeFactorySettled {
            failure: Some(json!({"type": "factory_limit_reached", "kind": kind, "value": value, "runId": run_id})),
            ..failed(format!("The run reached its limit {kind}: {value}"))
        },
    }
}
