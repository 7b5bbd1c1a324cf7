//! The list of sessions.

use std::sync::Arc;

use ahp_types::state::{ChatOrigin, ProjectInfo, SessionChatSummary, SessionStatus, SessionSummary};
use lodge_host::ListFilter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Request;
use crate::{
    annotations,
    dialect::seed,
    face::{Face, Inner},
    load::{UNTITLED, flags},
    projection::{object, timestamp},
    rpc::{self, RpcError, RpcResult},
    state::Conn,
    uri,
};

/// Sessions whose lines a client is told again that comes back. Those that were at work when it left are among the last.
const RECENT: usize = 100;

/// What a cursor of this host begins with.
const CURSOR: &str = "lodge-1-";

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    limit: Option<rpc::Whole>,
    #[serde(default)]
    cursor: Option<String>,
    /// No criteria are defined yet.
    #[serde(default, rename = "filter")]
    _filter: Option<serde_json::Map<String, Value>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    items: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

pub(super) async fn list(request: &Request<'_>) -> RpcResult {
    let face = request.face.clone();
    let params: List = rpc::params(request.params)?;
    let limit = match params.limit {
        // A page without lines would have no next one.
        Some(rpc::Whole(0)) => return Err(RpcError::params("a limit is at least 1")),
        limit => limit.map(|limit| usize::try_from(limit.0).unwrap_or(usize::MAX)),
    };
    let seed = request.is_seed();
    let cursor = match params.cursor.as_deref().map(|cursor| cursor.strip_prefix(CURSOR)) {
        Some(None) => return Err(RpcError::params("the cursor is not one of this host's")),
        other => other.flatten().map(str::to_owned),
    };
    let listed = tokio::task::spawn_blocking(move || {
        let (mut items, mut after) = (Vec::new(), cursor);
        loop {
            let wanted = limit.map(|limit| limit - items.len());
            let filter = ListFilter {
                limit: wanted,
                after,
                include_empty: true,
                ..ListFilter::default()
            };
            let page = face.host.catalogue().list(&filter).map_err(RpcError::internal)?;
            items.extend(page.sessions.iter().filter_map(|line| face.line(line)));
            after = page.next;
            if after.is_none() || limit.is_none_or(|limit| items.len() >= limit) {
                break;
            }
        }
        Ok::<_, RpcError>((items, after))
    });
    let (items, next_cursor) = listed.await.map_err(RpcError::internal)??;
    let spell = |summary: SessionSummary| match serde_json::to_value(summary) {
        Ok(Value::Object(line)) if seed => seed::summary(&line, None),
        Ok(line) => line,
        Err(_) => Value::Null,
    };
    let next_cursor = next_cursor.map(|next| format!("{CURSOR}{next}"));
    rpc::ok(Listed {
        items: items.into_iter().map(spell).collect(),
        next_cursor,
    })
}

impl Face {
    /// Tells a client that comes back what is true of the sessions that something happened in last. It heard nothing of what
    /// happened while it was away, and a host that was killed told nobody that nothing is under way any more.
    pub(crate) fn tell_recent(&self, conn: &Arc<Conn>) {
        let filter = ListFilter {
            limit: Some(RECENT),
            include_empty: true,
            ..ListFilter::default()
        };
        let recent = match self.host.catalogue().list(&filter) {
            Ok(page) => page.sessions,
            Err(error) => return tracing::warn!(%error, "a client that came back may show sessions as they were"),
        };
        for line in recent {
            // Told as it is at this moment: what others are told of it comes before or after.
            let inner = self.inner.lock();
            let Some(line) = self.line_in(&inner, &line) else {
                continue;
            };
            let changes = json!({
                "status": line.status, "activity": line.activity, "title": line.title, "modifiedAt": line.modified_at,
            });
            inner.core.tell_changes(conn, &line.resource, object(changes));
        }
    }

    /// A session's line in the list: none for drafts and for sessions that are shown as chats of others.
    pub(crate) fn line(&self, line: &lodge_host::SessionSummary) -> Option<SessionSummary> {
        self.line_in(&self.inner.lock(), line)
    }

    fn line_in(&self, inner: &Inner, line: &lodge_host::SessionSummary) -> Option<SessionSummary> {
        let record = self.store.session(&line.id);
        if record.chat_of.is_some() {
            return None;
        }
        let resource = record.uri.clone().unwrap_or_else(|| uri::session(&line.id));
        if let Some(entry) = inner.core.sessions.get(resource.as_str()) {
            entry.announced.as_ref()?;
            return inner.core.summary(&resource);
        }
        let own = record.own.as_ref();
        let chat = own.map_or_else(|| uri::default_chat(&resource), |own| own.uri.clone());
        let mut chats = vec![SessionChatSummary {
            resource: chat.clone(),
            title: (record.default_title.clone())
                .or_else(|| own.map(|own| own.title.clone()))
                .unwrap_or_else(|| UNTITLED.to_owned()),
            origin: Some(own.map_or(ChatOrigin::User, |own| own.origin.clone())),
            interactivity: None,
            status: Some(SessionStatus::Idle.bits()),
            changes: None,
        }];
        chats.extend(record.chats.iter().map(|chat| SessionChatSummary {
            resource: chat.uri.clone(),
            title: chat.title.clone(),
            origin: Some(chat.origin.clone()),
            interactivity: None,
            status: Some(SessionStatus::Idle.bits()),
            changes: None,
        }));
        let busy = self.host.live(&line.id).is_some_and(|session| session.is_busy());
        let activity = if busy {
            SessionStatus::InProgress
        } else {
            SessionStatus::Idle
        };
        let project = line.git_root.as_ref().map(|root| ProjectInfo {
            uri: uri::file(root),
            display_name: root.rsplit('/').next().unwrap_or(root).to_owned(),
        });
        Some(SessionSummary {
            provider: record.provider(),
            title: line
                .title
                .clone()
                .or_else(|| line.summary.clone())
                .unwrap_or_else(|| UNTITLED.to_owned()),
            status: activity.bits() | flags(&record),
            activity: None,
            origin: record.origin(),
            project,
            working_directories: line.cwd.as_ref().map(|cwd| {
                std::iter::once(uri::file(cwd))
                    .chain(record.directories.clone())
                    .collect()
            }),
            annotations: annotations::counted(&resource, record.annotated),
            resource,
            created_at: timestamp(line.created),
            modified_at: timestamp(line.modified),
            changes: record.changes,
            meta: None,
            chats: Some(chats),
            default_chat: Some(chat),
        })
    }
}
