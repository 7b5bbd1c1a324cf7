//! Factories that clients of a session offer. SDKs from 1.0.28 on call them workflows.

use std::sync::Arc;

use lodge_events::FactoryLine;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, method};
use crate::{
    factory::{AgentOptions, Factories, Limits, Paging},
    rpc::RpcError,
    session::Attached,
};

pub(crate) static FACTORY: Capability = Capability {
    title: "Factories",
    methods: &[
        method!(session "session.factory.run", 9, "runs a factory that a client of the session offers", run),
        method!(session "session.factory.resume", 3, "runs a factory again that failed or was stopped", resume),
        method!(session "session.factory.getRun", 9, "how a run stands", get_run),
        method!(session "session.factory.listRuns", 0, "the runs of the session", list_runs),
        method!(session "session.factory.getRunDetail", 0, "a run with its phases and progress", get_run_detail),
        method!(session "session.factory.getRunProgress", 0, "the progress of a run, page by page", get_run_progress),
        method!(session "session.factory.cancel", 0, "stops a run", cancel),
        method!(session "session.factory.log", 0, "what a factory tells of its progress", log),
        method!(session "session.factory.agent", 0, "runs a sub-agent for a factory", agent),
        method!(session "session.factory.journal.get", 0, "what came of a step that is done", journal_get),
        method!(session "session.factory.journal.put", 0, "keeps what came of a step", journal_put),
        method!(session "session.workflow.run", 0, "the newer name of `session.factory.run`", run),
        method!(session "session.workflow.resume", 0, "the newer name of `session.factory.resume`", resume),
        method!(session "session.workflow.getRun", 0, "the newer name of `session.factory.getRun`", get_run),
        method!(session "session.workflow.listRuns", 0, "the newer name of `session.factory.listRuns`", list_runs),
        method!(session "session.workflow.getRunDetail", 0, "the newer name of `session.factory.getRunDetail`", get_run_detail),
        method!(session "session.workflow.getRunProgress", 0, "the newer name of `session.factory.getRunProgress`", get_run_progress),
        method!(session "session.workflow.cancel", 0, "the newer name of `session.factory.cancel`", cancel),
        method!(session "session.workflow.log", 0, "the newer name of `session.factory.log`", log),
        method!(session "session.workflow.agent", 0, "the newer name of `session.factory.agent`", agent),
        method!(session "session.workflow.journal.get", 0, "the newer name of `session.factory.journal.get`", journal_get),
        method!(session "session.workflow.journal.put", 0, "the newer name of `session.factory.journal.put`", journal_put),
    ],
};

#[derive(Debug, Deserialize)]
struct RunParams {
    name: String,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    options: Option<RunOptions>,
}

#[derive(Debug, Default, Deserialize)]
struct RunOptions {
    #[serde(default)]
    limits: Option<Limits>,
}

async fn run(session: Arc<Attached>, params: RunParams) -> Result<Value, RpcError> {
    let limits = params.options.and_then(|options| options.limits).unwrap_or_default();
    Factories::run(session.board(), session.session(), &params.name, params.args, limits).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResumeParams {
    run_id: String,
    #[serde(default)]
    limits: Option<Limits>,
}

async fn resume(session: Arc<Attached>, params: ResumeParams) -> Result<Value, RpcError> {
    let limits = params.limits.unwrap_or_default();
    Factories::resume(session.board(), session.session(), &params.run_id, limits).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunId {
    run_id: String,
}

async fn get_run(session: Arc<Attached>, RunId { run_id }: RunId) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories.envelope(session.session(), &run_id).await
}

async fn get_run_detail(session: Arc<Attached>, RunId { run_id }: RunId) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories.detail(session.session(), &run_id).await
}

async fn cancel(session: Arc<Attached>, RunId { run_id }: RunId) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories.cancel(session.session(), &run_id).await
}

async fn list_runs(session: Arc<Attached>, paging: Paging) -> Result<Value, RpcError> {
    session.board().factories().list(session.session(), &paging).await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams {
    run_id: String,
    #[serde(flatten)]
    paging: Paging,
}

async fn get_run_progress(session: Arc<Attached>, params: ProgressParams) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories
        .progress(session.session(), &params.run_id, &params.paging)
        .await
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogParams {
    run_id: String,
    execution_token: String,
    lines: Vec<FactoryLine>,
}

async fn log(session: Arc<Attached>, params: LogParams) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories
        .log(session.session(), &params.run_id, &params.execution_token, params.lines)
        .await?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StepParams {
    run_id: String,
    execution_token: String,
    key: String,
}

async fn journal_get(session: Arc<Attached>, params: StepParams) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    let done = factories
        .step(session.session(), &params.run_id, &params.execution_token, &params.key)
        .await?;
    Ok(match done {
        Some(result) => json!({"hit": true, "resultJson": result}),
        None => json!({"hit": false}),
    })
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DoneParams {
    run_id: String,
    execution_token: String,
    key: String,
    #[serde(default)]
    result_json: Value,
}

async fn journal_put(session: Arc<Attached>, params: DoneParams) -> Result<Value, RpcError> {
    let factories = session.board().factories();
    factories
        .keep_step(
            session.session(),
            &params.run_id,
            &params.execution_token,
            &params.key,
            params.result_json,
        )
        .await?;
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentParams {
    #[serde(alias = "workflowRunId")]
    factory_run_id: String,
    execution_token: String,
    prompt: String,
    #[serde(default)]
    opts: AgentOptions,
}

async fn agent(session: Arc<Attached>, params: AgentParams) -> Result<Value, RpcError> {
    let result = Factories::agent(
        session.board(),
        session.session(),
        &params.factory_run_id,
        &params.execution_token,
        params.prompt,
        params.opts,
    )
    .await?;
    Ok(json!({"result": result}))
}
