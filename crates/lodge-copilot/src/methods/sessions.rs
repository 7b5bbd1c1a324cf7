//! All sessions of the host: listing, finding, forking, deleting, pruning.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use lodge_host::{AgentError, HostError, ListFilter, SessionSummary, check_title, title_of_copy};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Capability, Nothing, method};
use crate::{
    config::SessionConfig,
    connection::{Ctx, MethodResult, Outcome},
    opening,
    rpc::{Params, Reply, RpcError},
    session::SessionId,
};

pub(crate) static SESSIONS: Capability = Capability {
    title: "All sessions",
    methods: &[
        method!(
            "session.list",
            3,
            "sessions with at least one message, newest first",
            list
        ),
        method!("session.getMetadata", 2, "one session", get_metadata),
        method!("session.getLastId", 4, "the session used last", get_last_id),
        method!(
            "session.delete",
            4,
            "deletes a session and everything kept with it; its final events come first",
            delete
        ),
        method!("sessions.list", 2, "like `session.list`", list),
        method!("sessions.getMetadata", 0, "like `session.getMetadata`", get_metadata),
        method!(
            "sessions.findByPrefix",
            1,
            "the session whose id begins like this, if only one does",
            find_by_prefix
        ),
        method!(
            "sessions.getLastForContext",
            1,
            "the session used last in a directory or repository",
            last_for_context
        ),
        method!("sessions.getSizes", 1, "size of every session on disk", get_sizes),
        method!(
            "sessions.getEventFilePath",
            0,
            "where a session's log is",
            event_file_path
        ),
        method!(
            "sessions.listNonEmptySessionIds",
            0,
            "ids of sessions with at least one message",
            list_ids
        ),
        method!(
            "sessions.checkInUse",
            2,
            "which of these sessions are in memory, or working in another process",
            check_in_use
        ),
        method!(
            "sessions.releaseLock",
            1,
            "does nothing: a session is locked only while a turn runs",
            release_lock
        ),
        method!(raw "sessions.open", 1, "creates, resumes or joins a session", open),
        method!("sessions.fork", 4, "copies a session up to an event", fork),
        method!(
            "sessions.save",
            4,
            "waits until lists include everything recorded",
            save
        ),
        method!(
            "sessions.close",
            3,
            "unloads a session from memory for everybody",
            close
        ),
        method!("sessions.bulkDelete", 2, "deletes several sessions", bulk_delete),
        method!("sessions.delete", 0, "deletes a session", delete_quietly),
        method!(
            "sessions.pruneOld",
            1,
            "deletes sessions that nobody has used for long",
            prune_old
        ),
        method!(
            "sessions.enrichMetadata",
            1,
            "adds what Lodge knows to the client's list of sessions",
            enrich
        ),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContextFilter {
    cwd: Option<String>,
    git_root: Option<String>,
    repository: Option<String>,
    branch: Option<String>,
}

impl From<ContextFilter> for ListFilter {
    fn from(filter: ContextFilter) -> Self {
        Self {
            cwd: filter.cwd,
            git_root: filter.git_root,
            repository: filter.repository,
            branch: filter.branch,
            ..Self::default()
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    filter: Option<ContextFilter>,
}

/// Queries the catalogue on a blocking thread, since it may wait for the disk.
async fn ask<T: Send + 'static>(
    ctx: &Ctx,
    question: impl FnOnce(&lodge_host::Catalogue) -> Result<T, lodge_host::LogError> + Send + 'static,
) -> Result<T, RpcError> {
    let host = ctx.host.clone();
    Ok(tokio::task::spawn_blocking(move || question(host.catalogue()))
        .await
        .map_err(RpcError::failed)??)
}

async fn find(ctx: &Ctx, filter: ListFilter) -> Result<Vec<SessionSummary>, RpcError> {
    ask(ctx, move |catalogue| Ok(catalogue.list(&filter)?.sessions)).await
}

pub(super) async fn one(ctx: &Ctx, id: String) -> Result<Option<SessionSummary>, RpcError> {
    ask(ctx, move |catalogue| catalogue.get(&id)).await
}

async fn list(ctx: Ctx, params: ListParams) -> Result<Value, RpcError> {
    let filter = ListFilter {
        include_empty: true,
        ..params.filter.unwrap_or_default().into()
    };
    let found = find(&ctx, filter).await?;
    Ok(json!({"sessions": found.iter().filter(|summary| is_worth_listing(summary)).map(metadata).collect::<Vec<_>>()}))
}

/// Whether it has a message or a name.
fn is_worth_listing(summary: &SessionSummary) -> bool {
    summary.message_count > 0 || summary.title.is_some()
}

async fn get_metadata(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    let found = one(&ctx, session_id).await?.filter(is_worth_listing);
    Ok(match found {
        Some(summary) => json!({"session": metadata(&summary)}),
        None => json!({}),
    })
}

async fn get_last_id(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    last(&ctx, ListFilter::default()).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LastParams {
    context: Option<ContextFilter>,
}

async fn last_for_context(ctx: Ctx, params: LastParams) -> Result<Value, RpcError> {
    last(&ctx, params.context.unwrap_or_default().into()).await
}

async fn last(ctx: &Ctx, filter: ListFilter) -> Result<Value, RpcError> {
    Ok(id_json(
        ask(ctx, move |catalogue| catalogue.last(filter))
            .await?
            .map(|summary| summary.id),
    ))
}

#[derive(Debug, Deserialize)]
struct PrefixParams {
    prefix: String,
}

async fn find_by_prefix(ctx: Ctx, PrefixParams { prefix }: PrefixParams) -> Result<Value, RpcError> {
    let filter = ListFilter {
        id_prefix: Some(prefix),
        include_empty: true,
        limit: Some(2),
        ..ListFilter::default()
    };
    let mut found = find(&ctx, filter).await?;
    let only = if found.len() == 1 { found.pop() } else { None };
    Ok(id_json(only.map(|summary| summary.id)))
}

fn id_json(id: Option<String>) -> Value {
    id.map_or_else(|| json!({}), |id| json!({"sessionId": id}))
}

async fn delete(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    Ok(match remove(&ctx, &session_id).await {
        Ok(()) => json!({"success": true}),
        Err(HostError::NotFound(id)) => {
            json!({"success": false, "error": format!("Error: Session file not found for {id}")})
        }
        Err(error) => json!({"success": false, "error": error.to_string()}),
    })
}

async fn delete_quietly(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    remove(&ctx, &session_id).await?;
    Ok(Value::Null)
}

/// Deletes a session. A client that has it open gets its final events before the notice that it is gone. May wait for a
/// turn.
async fn remove(ctx: &Ctx, id: &str) -> Result<(), HostError> {
    if ctx.files(id).is_some() {
        // The client stores the files, but the final changes are not sent to it any more.
        ctx.detach(id);
    }
    let removed = ctx.host.delete(id).await;
    ctx.detach(id);
    removed
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionIds {
    session_ids: Vec<String>,
}

async fn bulk_delete(ctx: Ctx, SessionIds { session_ids }: SessionIds) -> Result<Value, RpcError> {
    let mut freed = Map::new();
    for id in session_ids {
        let size = size_of(&ctx, &id).await?;
        match remove(&ctx, &id).await {
            Ok(()) => drop(freed.insert(id, size.into())),
            Err(HostError::NotFound(_)) => drop(freed.insert(id, 0.into())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(json!({"freedBytes": freed}))
}

async fn get_sizes(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    let all = find(
        &ctx,
        ListFilter {
            include_empty: true,
            ..ListFilter::default()
        },
    )
    .await?;
    let sizes = tokio::task::spawn_blocking(move || {
        all.into_iter()
            .map(|summary| (summary.id, directory_size(&summary.dir)))
            .collect::<BTreeMap<_, _>>()
    })
    .await
    .map_err(RpcError::failed)?;
    Ok(json!({"sizes": sizes}))
}

async fn size_of(ctx: &Ctx, id: &str) -> Result<u64, RpcError> {
    let Some(summary) = one(ctx, id.to_owned()).await? else {
        return Ok(0);
    };
    tokio::task::spawn_blocking(move || directory_size(&summary.dir))
        .await
        .map_err(RpcError::failed)
}

fn directory_size(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => directory_size(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

async fn event_file_path(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    let summary = one(&ctx, session_id.clone()).await?;
    let summary = summary.ok_or_else(|| RpcError::failed(format!("Session not found: {session_id}")))?;
    Ok(json!({"filePath": summary.dir.join("events.jsonl")}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LimitParams {
    limit: Option<usize>,
}

async fn list_ids(ctx: Ctx, params: LimitParams) -> Result<Value, RpcError> {
    let found = find(
        &ctx,
        ListFilter {
            limit: params.limit,
            ..ListFilter::default()
        },
    )
    .await?;
    Ok(json!({"sessionIds": found.into_iter().map(|summary| summary.id).collect::<Vec<_>>()}))
}

async fn check_in_use(ctx: Ctx, SessionIds { session_ids }: SessionIds) -> Result<Value, RpcError> {
    let in_use: Vec<_> = session_ids.into_iter().filter(|id| ctx.host.in_use(id)).collect();
    Ok(json!({"inUse": in_use}))
}

/// A session is locked only while a turn runs in it, and a running turn keeps the lock.
async fn release_lock(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    tracing::debug!(
        session = session_id,
        in_use = ctx.host.in_use(&session_id),
        "lock released"
    );
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ForkParams {
    session_id: String,
    #[serde(default)]
    to_event_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
}

/// Copies the events before this one, or all of them. The copy has no name unless its client gave it one, but people
/// see where it came from.
async fn fork(ctx: Ctx, params: ForkParams) -> Result<Value, RpcError> {
    let ForkParams {
        session_id,
        to_event_id,
        name,
    } = params;
    let missing = |event: &str| RpcError::failed(format!("Event {event} not found in session {session_id}"));
    let before = match &to_event_id {
        Some(event) => Some(event.parse::<Uuid>().map_err(|_| missing(event))?),
        None => None,
    };
    let last = match before {
        Some(event) => Some(
            event_before(&ctx, &session_id, event)
                .await?
                .ok_or_else(|| missing(&event.to_string()))?,
        ),
        None => None,
    };
    let source = one(&ctx, session_id.clone()).await?;
    let name = name.unwrap_or_else(|| {
        let label = source.and_then(|summary| summary.title.or(summary.summary));
        let label = label.unwrap_or_else(|| format!("Session {}", session_id.chars().take(8).collect::<String>()));
        title_of_copy(&label)
    });
    check_title(&name).map_err(AgentError::from)?;
    let copy = ctx.host.fork(&session_id, last, None).await?;
    copy.rename(Some(name.clone())).await?;
    Ok(json!({"sessionId": copy.id(), "name": name}))
}

/// The event recorded before this one.
async fn event_before(ctx: &Ctx, session: &str, event: Uuid) -> Result<Option<Uuid>, RpcError> {
    let events = ctx.host.read(session)?.events();
    tokio::task::spawn_blocking(move || {
        let mut last = None;
        for read in events {
            let read = read.map_err(RpcError::failed)?;
            if read.id() == event {
                return Ok(last);
            }
            if !read.is_beside() {
                last = Some(read.id());
            }
        }
        Ok(None)
    })
    .await
    .map_err(RpcError::failed)?
}

async fn save(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    match one(&ctx, session_id.clone()).await? {
        Some(_) => Ok(json!({})),
        None => Err(RpcError::failed(format!("Session not found: {session_id}"))),
    }
}

async fn close(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<Value, RpcError> {
    ctx.host.close(&session_id).await;
    ctx.detach(&session_id);
    Ok(json!({}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PruneParams {
    older_than_days: u32,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    include_named: bool,
    #[serde(default)]
    exclude_session_ids: Vec<String>,
}

async fn prune_old(ctx: Ctx, params: PruneParams) -> Result<Value, RpcError> {
    let oldest = jiff::Timestamp::now().as_millisecond() - i64::from(params.older_than_days) * 24 * 60 * 60 * 1000;
    let all = ctx.host.prunable().await?;
    let (mut candidates, mut skipped, mut deleted, mut freed) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for summary in all
        .into_iter()
        .filter(|summary| summary.modified.as_millisecond() <= oldest)
    {
        let named = summary.title.is_some() && !params.include_named;
        if named || params.exclude_session_ids.contains(&summary.id) || ctx.host.live(&summary.id).is_some() {
            skipped.push(summary.id);
            continue;
        }
        let size = size_of(&ctx, &summary.id).await?;
        if !params.dry_run {
            if !ctx.host.prune(&summary).await? {
                skipped.push(summary.id);
                continue;
            }
            deleted.push(summary.id.clone());
        }
        freed += size;
        candidates.push(summary.id);
    }
    Ok(json!({
        "deleted": deleted, "candidates": candidates, "skipped": skipped, "freedBytes": freed, "dryRun": params.dry_run,
    }))
}

#[derive(Debug, Deserialize)]
struct EnrichParams {
    sessions: Vec<Map<String, Value>>,
}

async fn enrich(ctx: Ctx, params: EnrichParams) -> Result<Value, RpcError> {
    let mut sessions = params.sessions;
    for session in &mut sessions {
        let Some(id) = session.get("sessionId").and_then(Value::as_str).map(str::to_owned) else {
            continue;
        };
        let Some(Value::Object(known)) = one(&ctx, id).await?.map(|summary| metadata(&summary)) else {
            continue;
        };
        for (key, value) in known {
            session.entry(key).or_insert(value);
        }
    }
    Ok(json!({"sessions": sessions}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenParams {
    /// Absent for clients that ask for nothing in particular: then nothing is found.
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    context: Option<ContextFilter>,
    #[serde(default)]
    options: SessionConfig,
}

/// Combines `session.create` and `session.resume`, for clients that also want the session used last.
async fn open(ctx: Ctx, params: Params) -> MethodResult {
    let OpenParams {
        kind,
        session_id,
        context,
        mut options,
    } = params.parse()?;
    let Some(kind) = kind else {
        return Ok(Outcome::of(Reply::of(&json!({"status": "not_found"}))?));
    };
    let attached = match kind.as_str() {
        "create" => opening::create(&ctx, &options).await?,
        "resume" | "resumeLast" | "attach" => {
            options.session_id = match session_id {
                Some(id) => Some(id),
                None => ask(&ctx, move |catalogue| {
                    catalogue.last(context.unwrap_or_default().into())
                })
                .await?
                .map(|last| last.id),
            };
            options.disable_resume = Some(kind == "attach");
            match options.session_id {
                Some(_) => opening::resume(&ctx, &options).await?,
                None => return Ok(Outcome::of(Reply::of(&json!({"status": "not_found"}))?)),
            }
        }
        other => {
            return Err(RpcError::failed(format!(
                "Sessions of the kind '{other}' are not available"
            )));
        }
    };
    let status = if kind == "create" { "created" } else { "resumed" };
    let attached = Arc::new(attached);
    ctx.attach(attached.clone());
    let reply = Reply::of(&json!({"status": status, "sessionId": attached.id(), "startupPrompts": []}))?;
    Ok(Outcome {
        start: Some(attached),
        ..Outcome::of(reply)
    })
}

/// A session, as in lists.
fn metadata(summary: &SessionSummary) -> Value {
    let mut json = json!({
        "sessionId": summary.id,
        "startTime": lodge_events::timestamp_text(summary.created),
        "modifiedTime": lodge_events::timestamp_text(summary.modified),
        "isRemote": false,
        "isDetached": false,
    });
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            json[key] = value;
        }
    };
    let label = summary.title.as_ref().or(summary.summary.as_ref());
    set("summary", label.map(|text| json!(text)));
    set("name", label.map(|text| json!(text)));
    set("clientName", summary.client_name.as_ref().map(|name| json!(name)));
    set("context", summary.cwd.as_ref().map(|cwd| context(cwd, summary)));
    json
}

fn context(cwd: &str, summary: &SessionSummary) -> Value {
    let mut context = json!({"cwd": cwd});
    for (key, value) in [
        ("gitRoot", &summary.git_root),
        ("repository", &summary.repository),
        ("branch", &summary.branch),
    ] {
        if let Some(value) = value {
            context[key] = json!(value);
        }
    }
    context
}
