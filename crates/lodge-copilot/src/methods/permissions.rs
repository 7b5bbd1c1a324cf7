//! Permissions: answering requests, and setting what needs approval.

use std::{path::PathBuf, sync::Arc, time::Duration};

use lodge_host::{AgentError, Answer, Approval, Change, PermissionDecision, QuestionKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{decisions::DecisionParams, rpc::RpcError, session::Attached};

pub(crate) static PERMISSIONS: Capability = Capability {
    title: "Permissions",
    methods: &[
        method!(
            session "session.permissions.handlePendingPermissionRequest",
            80,
            "answers a permission request; the first answer counts",
            handle
        ),
        method!(session "session.permissions.pendingRequests", 2, "permission requests that wait for an answer", pending),
        method!(session "session.permissions.setApproveAll", 2, "approves everything, or asks again", set_approve_all),
        method!(session "session.permissions.getMode", 1, "`manual` or `allow-all`", get_mode),
        method!(session "session.permissions.setMode", 1, "`manual` or `allow-all`", set_mode),
        method!(session "session.permissions.paths.list", 1, "directories that need no approval", list_paths),
        method!(session "session.permissions.paths.add", 1, "adds a directory", add_path),
        method!(session "session.permissions.paths.updatePrimary", 1, "changes the working directory", update_primary),
        method!(
            session "session.permissions.paths.isPathWithinAllowedDirectories",
            1,
            "whether a path is in one of these directories",
            within_allowed
        ),
        method!(
            session "session.permissions.paths.isPathWithinWorkspace",
            1,
            "whether a path is in the working directory",
            within_workspace
        ),
        method!(
            session "session.contentExclusion.checkPaths",
            0,
            "whether rules hide files from every tool (`exclude`)",
            check_exclusion
        ),
    ],
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct HandleParams {
    request_id: String,
    result: DecisionParams,
}

/// A client that takes up what was open may have an answer for it, and yet say by a handler that nobody is there when it is
/// asked again. So long the answer still counts.
const GRACE: Duration = Duration::from_millis(500);

async fn handle(session: Arc<Attached>, params: HandleParams) -> Result<Value, RpcError> {
    let Some(decision) = params.result.decision()? else {
        return Ok(json!({"success": false}));
    };
    let nobody = decision == PermissionDecision::UserNotAvailable;
    let id = params.request_id;
    let answer = Answer::Permission(decision);
    if nobody
        && session.took_up()
        && session
            .session()
            .pending()
            .iter()
            .any(|question| question.request_id == id)
    {
        tokio::spawn(async move {
            tokio::time::sleep(GRACE).await;
            let _ = session.answer(&id, answer).await;
        });
        return Ok(json!({"success": true}));
    }
    Ok(json!({"success": session.answer(&id, answer).await?}))
}

async fn pending(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let mut items = Vec::new();
    for question in session.session().pending() {
        if question.kind == QuestionKind::Permission {
            // From the event's own bytes: what was asked is what is shown.
            let data: Value = serde_json::from_str(question.event.data_json()).map_err(RpcError::failed)?;
            items.push(json!({"requestId": question.request_id, "request": data["permissionRequest"]}));
        }
    }
    Ok(json!({"items": items}))
}

#[derive(Debug, Deserialize)]
struct EnabledParams {
    enabled: bool,
}

async fn set_approve_all(session: Arc<Attached>, params: EnabledParams) -> Result<Value, RpcError> {
    Ok(json!({"success": approve(&session, params.enabled).await?}))
}

/// False when policy forbids it.
async fn approve(session: &Attached, all: bool) -> Result<bool, RpcError> {
    let approval = if all { Approval::ApproveAll } else { Approval::Ask };
    match session.session().configure(Change::Approval(approval)).await {
        Err(AgentError::Refused(_)) => Ok(false),
        other => Ok(other.map(|()| true)?),
    }
}

fn mode(session: &Attached) -> &'static str {
    if session.session().settings().approval == Approval::ApproveAll {
        "allow-all"
    } else {
        "manual"
    }
}

async fn get_mode(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"mode": mode(&session)}))
}

#[derive(Debug, Deserialize)]
struct ModeParams {
    mode: String,
}

async fn set_mode(session: Arc<Attached>, params: ModeParams) -> Result<Value, RpcError> {
    let success = match params.mode.as_str() {
        "allow-all" => approve(&session, true).await?,
        "manual" => approve(&session, false).await?,
        other => {
            return Err(RpcError::failed(format!(
                "The permission mode '{other}' is not available"
            )));
        }
    };
    Ok(json!({"success": success, "mode": mode(&session)}))
}

#[derive(Debug, Deserialize)]
struct PathParams {
    path: PathBuf,
}

fn directories(session: &Attached) -> Vec<PathBuf> {
    let settings = session.session().settings();
    std::iter::once(settings.cwd)
        .chain(settings.additional_directories)
        .collect()
}

async fn list_paths(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let directories = directories(&session);
    Ok(json!({"primary": directories[0], "directories": directories}))
}

async fn add_path(session: Arc<Attached>, PathParams { path }: PathParams) -> Result<Value, RpcError> {
    let mut further = session.session().settings().additional_directories;
    if !further.contains(&path) {
        further.push(path);
        session
            .session()
            .configure(Change::AdditionalDirectories(further))
            .await?;
    }
    Ok(json!({"success": true}))
}

async fn update_primary(session: Arc<Attached>, PathParams { path }: PathParams) -> Result<Value, RpcError> {
    session.session().configure(Change::Cwd(path)).await?;
    Ok(json!({"success": true}))
}

async fn within_allowed(session: Arc<Attached>, PathParams { path }: PathParams) -> Result<Value, RpcError> {
    Ok(json!({"allowed": is_within(&session, path, &directories(&session))}))
}

async fn within_workspace(session: Arc<Attached>, PathParams { path }: PathParams) -> Result<Value, RpcError> {
    Ok(json!({"allowed": is_within(&session, path, &directories(&session)[..1])}))
}

/// Lexical, after making both absolute: what does not exist yet can be asked about too. It informs, it does not guard.
fn is_within(session: &Attached, path: PathBuf, directories: &[PathBuf]) -> bool {
    let path = normal(&session.session().settings().cwd.join(path));
    directories.iter().any(|directory| path.starts_with(normal(directory)))
}

fn normal(path: &std::path::Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[derive(Debug, Deserialize)]
struct PathsParams {
    paths: Vec<String>,
}

async fn check_exclusion(session: Arc<Attached>, PathsParams { paths }: PathsParams) -> Result<Value, RpcError> {
    let check = move || {
        let excluded = session.session().excludes(&paths);
        let checks = paths.iter().zip(excluded);
        checks
            .map(|(path, excluded)| json!({"path": path, "excluded": excluded}))
            .collect::<Vec<_>>()
    };
    let checks = tokio::task::spawn_blocking(check).await.map_err(RpcError::failed)?;
    Ok(json!({"available": true, "checks": checks}))
}
