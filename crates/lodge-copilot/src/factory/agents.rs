//! Sub-agents of factory runs. What one answered is kept in the run's journal, so that it is not asked again when the run is
//! resumed.

use std::sync::Arc;

use lodge_events::LodgeFactoryAgent;
use lodge_host::{AgentEnd, FactoryAgent, NewTask, Session, TaskStatus};
use lodge_models::ResponseFormat;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{Factories, MOST_AGENTS_IN_ALL, refused, shorten};
use crate::{board::Board, rpc::RpcError};

/// The kind of sub-agent if the factory names none.
const GENERAL: &str = "general-purpose";
/// The longest label, in bytes.
const LONGEST_LABEL: usize = 1024;

/// What a factory wants of a sub-agent. The tier of its context is not used: Lodge knows none.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AgentOptions {
    label: Option<String>,
    schema: Option<Value>,
    model: Option<String>,
    reasoning_effort: Option<String>,
    agent: Option<String>,
}

impl AgentOptions {
    /// What its answer is called in the journal: the same for the same request.
    fn key(&self, prompt: &str) -> String {
        let request = json!([prompt, self]).to_string();
        format!("agent:{}", Uuid::new_v5(&Uuid::NAMESPACE_OID, request.as_bytes()))
    }

    fn kind(&self) -> &str {
        self.agent.as_deref().unwrap_or(GENERAL)
    }

    fn label(&self) -> &str {
        self.label.as_deref().unwrap_or(self.kind())
    }

    fn task(&self, prompt: String) -> NewTask {
        let format = self.schema.clone().map(|schema| ResponseFormat {
            name: "answer".to_owned(),
            description: None,
            schema,
            strict: None,
        });
        NewTask {
            agent_type: self.kind().to_owned(),
            name: self.label().to_owned(),
            prompt,
            description: None,
            model: self.model.clone(),
            effort: self.reasoning_effort.clone(),
            response_format: format.map(Arc::new),
        }
    }

    /// The answer as the factory gets it: JSON where it wants that, or else the text.
    fn result(&self, answer: &str) -> Result<Value, RpcError> {
        if self.schema.is_none() {
            return Ok(answer.into());
        }
        let json = answer.trim();
        let json = json
            .strip_prefix("```json")
            .or_else(|| json.strip_prefix("```"))
            .unwrap_or(json);
        let json = json.strip_suffix("```").unwrap_or(json);
        serde_json::from_str(json.trim()).map_err(|error| {
            let message = format!("The agent {} did not answer with JSON: {error}", self.label());
            refused("factory_agent_not_json", message)
        })
    }
}

fn stopped(run_id: &str) -> RpcError {
    let message = format!("The factory run {run_id} is stopped");
    refused("factory_execution_stale", message)
}

/// What a sub-agent has of the attempt that it works for.
struct Place {
    run_id: String,
    token: String,
    cancel: CancellationToken,
    agents: Arc<Semaphore>,
}

impl Factories {
    /// Runs a sub-agent for a factory run, and waits for its answer. Its end is recorded also if nobody waits any more.
    pub(crate) async fn agent(
        board: &Arc<Board>,
        session: &Session,
        run_id: &str,
        token: &str,
        prompt: String,
        mut options: AgentOptions,
    ) -> Result<Value, RpcError> {
        let this = board.factories();
        this.check(run_id, token)?;
        if let Some(label) = &mut options.label {
            shorten(label, LONGEST_LABEL);
        }
        let key = options.key(&prompt);
        let known = this
            .look(session, run_id, |shown| shown.run.journal.get(&key).cloned())
            .await?;
        if let Some(result) = known {
            return Ok(result);
        }
        let task = {
            let state = this.state.lock();
            let live = state.live.get(run_id).filter(|live| live.token == token);
            let live = live.ok_or_else(|| stopped(run_id))?;
            let place = Place {
                run_id: run_id.to_owned(),
                token: token.to_owned(),
                cancel: live.cancel.clone(),
                agents: live.agents.clone(),
            };
            let (board, session) = (Arc::clone(board), session.clone());
            let works = async move {
                let factories = board.factories();
                factories.work(&session, place, key, prompt, &options).await
            };
            live.working.spawn(works)
        };
        task.await.map_err(RpcError::failed)?
    }

    async fn work(
        &self,
        session: &Session,
        place: Place,
        key: String,
        prompt: String,
        options: &AgentOptions,
    ) -> Result<Value, RpcError> {
        let (run_id, cancel) = (place.run_id.as_str(), place.cancel);
        let _place = tokio::select! {
            permit = place.agents.acquire_owned() => permit.map_err(RpcError::failed)?,
            () = cancel.cancelled() => return Err(stopped(run_id)),
        };
        self.admit(session, run_id, &place.token).await?;
        let started = session.start_factory_agent(options.task(prompt), run_id).await;
        let agent = match started {
            Ok(agent) => agent,
            Err(error) => {
                self.came_in(run_id);
                return Err(error.into());
            }
        };
        let told = told(run_id, options, &agent);
        let recorded = self.followed.record(session, told.clone()).await;
        self.came_in(run_id);
        recorded?;
        let end = tokio::select! {
            end = agent.ended() => Some(end),
            () = cancel.cancelled() => None,
        };
        let Some(end) = end else {
            agent.stop();
            let end = agent.ended().await;
            self.agent_ended(session, run_id, told, &end).await?;
            return Err(stopped(run_id));
        };
        self.agent_ended(session, run_id, told, &end).await?;
        if end.status != TaskStatus::Completed {
            let message = format!("The agent {} failed: {}", options.label(), end.result);
            return Err(refused("factory_agent_failed", message));
        }
        let result = options.result(&end.result)?;
        self.keep(session, run_id, key, result.clone()).await?;
        Ok(result)
    }

    /// Counts one more sub-agent, unless the run has reached a limit. Then the run is stopped.
    async fn admit(&self, session: &Session, run_id: &str, token: &str) -> Result<(), RpcError> {
        let (begun, cost) = self
            .look(session, run_id, |shown| (shown.run.agents.len(), shown.run.cost()))
            .await?;
        let mut state = self.state.lock();
        let live = state.live.get_mut(run_id);
        let live = live.filter(|live| live.token == token && !live.cancel.is_cancelled());
        let live =
            live.ok_or_else(|| refused("factory_execution_stale", format!("The factory run {run_id} is over")))?;
        let all = (begun + live.admitted) as f64;
        let most = MOST_AGENTS_IN_ALL as f64;
        let most = live.limits.max_total_subagents.map_or(most, |limit| limit.min(most));
        let reached = match live.limits.max_ai_credits {
            _ if all >= most => Some(("maxTotalSubagents", most)),
            Some(most) if cost >= most => Some(("maxAiCredits", most)),
            _ => None,
        };
        let Some((kind, value)) = reached else {
            live.admitted += 1;
            return Ok(());
        };
        live.reached = Some((kind, value));
        live.cancel.cancel();
        Err(refused(
            "factory_limit_reached",
            format!("The run reached its limit {kind}: {value}"),
        ))
    }

    /// The log has a sub-agent that was admitted, or it could not be started.
    fn came_in(&self, run_id: &str) {
        if let Some(live) = self.state.lock().live.get_mut(run_id) {
            live.admitted = live.admitted.saturating_sub(1);
        }
    }

    /// Records the end of a sub-agent, and stops a run that has spent what it may.
    async fn agent_ended(
        &self,
        session: &Session,
        run_id: &str,
        told: LodgeFactoryAgent,
        end: &AgentEnd,
    ) -> Result<(), RpcError> {
        let told = LodgeFactoryAgent {
            status: end.status.as_str().to_owned(),
            cost: Some(end.cost),
            active_ms: Some(end.active_ms),
            ..told
        };
        self.followed.record(session, told).await?;
        let cost = self.look(session, run_id, |shown| shown.run.cost()).await?;
        let mut state = self.state.lock();
        if let Some(live) = state.live.get_mut(run_id)
            && let Some(most) = live.limits.max_ai_credits.filter(|most| cost > *most)
        {
            live.reached = Some(("maxAiCredits", most));
            live.cancel.cancel();
        }
        Ok(())
    }
}

fn told(run_id: &str, options: &AgentOptions, agent: &FactoryAgent) -> LodgeFactoryAgent {
    LodgeFactoryAgent {
        run_id: run_id.to_owned(),
        agent_id: agent.id().to_owned(),
        tool_call_id: agent.tool_call_id().to_owned(),
        label: options.label().to_owned(),
        agent_type: options.kind().to_owned(),
        requested_model: options.model.clone(),
        model: Some(agent.model().to_owned()),
        status: TaskStatus::Running.as_str().to_owned(),
        ..LodgeFactoryAgent::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_json_where_that_is_wanted_and_the_same_request_has_the_same_key() {
        let of = |json: Value| -> AgentOptions { serde_json::from_value(json).expect("options") };
        let (text, json) = (of(json!({})), of(json!({"schema": {"type": "object"}})));
        assert_eq!(text.result("{}").expect("a text"), json!("{}"));
        assert_eq!(json.result("```json\n{\"a\": 1}\n```").expect("JSON"), json!({"a": 1}));
        assert!(json.result("no").is_err());
        assert_eq!(text.key("go"), of(json!({"contextTier": "default"})).key("go"));
        assert_ne!(text.key("go"), of(json!({"label": "two"})).key("go"));
        assert_ne!(text.key("go"), text.key("stay"));
    }
}
