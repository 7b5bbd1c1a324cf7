//! The list of sessions.

use std::{collections::HashMap, sync::Arc};

use ahp_types::state::{ChatOrigin, ProjectInfo, SessionChatSummary, SessionStatus, SessionSummary};
use lodge_host::{Host, HostError, ListFilter, Progress};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json, value::RawValue};

use super::Request;
use crate::{
    annotations,
    chats::{self, Chat},
    dialect::seed,
    face::{Face, Inner},
    load::UNTITLED,
    projection::{object, timestamp},
    rpc::{self, RpcError, RpcResult},
    state::{Conn, aggregate},
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
    items: Lines,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Lines of the list, one after another as the text that goes to the client: ten thousand of them as trees, or each in a box of its own,
/// would take many times the memory.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Lines {
    /// Adds a line. One that cannot be spelt is left out.
    fn push(&mut self, line: &impl Serialize) {
        let start = self.text.len();
        match serde_json::to_writer(&mut self.text, line) {
            Ok(()) => self.ends.push(self.text.len()),
            Err(_) => self.text.truncate(start),
        }
    }
}

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        serializer.collect_seq(starts.zip(&self.ends).map(|(start, end)| {
            let line = self.text.get(start..*end).unwrap_or_default();
            serde_json::from_slice::<&RawValue>(line).ok()
        }))
    }
}

/// The further chats of sessions, by the sessions' ids.
#[derive(Default)]
pub(crate) struct Chats(HashMap<String, Vec<lodge_host::SessionSummary>>);

impl Chats {
    /// Of all sessions.
    async fn of_all(host: &Host) -> Result<Self, HostError> {
        Ok(Self::from(host.chats().await?))
    }

    /// Of one session.
    pub(crate) async fn of(host: &Host, id: &str) -> Result<Self, HostError> {
        Ok(Self::from(host.chats_of(id).await?))
    }

    fn from(lines: Vec<lodge_host::SessionSummary>) -> Self {
        let mut chats = Self::default();
        for line in lines {
            if let Some(of) = line.about.chat_of() {
                chats.0.entry(of.to_owned()).or_default().push(line);
            }
        }
        chats
    }
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
    let chats = Chats::of_all(&face.host).await.map_err(RpcError::internal)?;
    // A session for which nobody chose a model has the default.
    let by_default = face.host.models().default_model().as_str().to_owned();
    let add = |items: &mut Lines, line: &lodge_host::SessionSummary| {
        let Some(summary) = face.line(line, &chats) else { return };
        if !seed {
            return items.push(&summary);
        }
        let Ok(Value::Object(summary)) = serde_json::to_value(summary) else {
            return;
        };
        let id = line.model.as_ref().unwrap_or(&by_default);
        items.push(&seed::summary(&summary, Some(json!({ "id": id }))));
    };
    let (mut items, mut after) = (Lines::default(), cursor);
    let next_cursor = loop {
        let filter = ListFilter {
            limit: limit.map(|limit| limit - items.ends.len()),
            after,
            include_empty: true,
            ..ListFilter::default()
        };
        let page = face.host.list(filter).await.map_err(RpcError::internal)?;
        for line in page.sessions {
            add(&mut items, &line);
        }
        after = page.next;
        if after.is_none() || limit.is_some_and(|limit| items.ends.len() >= limit) {
            break after;
        }
    };
    let next_cursor = next_cursor.map(|next| format!("{CURSOR}{next}"));
    rpc::ok(Listed { items, next_cursor })
}

impl Face {
    /// Tells a client that comes back what is true of the sessions that something happened in last. It heard nothing of what
    /// happened while it was away, and a host that was killed told nobody that nothing is under way any more.
    pub(crate) async fn tell_recent(&self, conn: &Arc<Conn>) {
        let filter = ListFilter {
            limit: Some(RECENT),
            include_empty: true,
            ..ListFilter::default()
        };
        let found = async { Ok((self.host.list(filter).await?, Chats::of_all(&self.host).await?)) };
        let (recent, chats) = match found.await {
            Ok((page, chats)) => (page.sessions, chats),
            Err::<_, HostError>(error) => {
                return tracing::warn!(%error, "a client that reconnected may show outdated sessions");
            }
        };
        for line in recent {
            // Told as it is at this moment: what others are told of it comes before or after.
            let inner = self.inner.lock();
            let Some(line) = self.line_in(&inner, &line, &chats) else {
                continue;
            };
            let changes = json!({
                "status": line.status, "activity": line.activity, "title": line.title, "modifiedAt": line.modified_at,
            });
            inner.core.tell_changes(conn, &line.resource, object(changes));
        }
    }

    /// A session's line in the list: none for drafts and for sessions that are shown as chats of others.
    pub(crate) fn line(&self, line: &lodge_host::SessionSummary, chats: &Chats) -> Option<SessionSummary> {
        self.line_in(&self.inner.lock(), line, chats)
    }

    /// What goes on in a session that no client of this face has open.
    fn activity(&self, id: &str, progress: Progress) -> u32 {
        let progress = self.host.live(id).map_or(progress, |session| session.progress());
        let busy = self.host.live(id).is_some_and(|session| session.is_busy()) || self.host.is_busy_elsewhere(id);
        let status = match progress {
            Progress::Asking => SessionStatus::InputNeeded,
            _ if busy => SessionStatus::InProgress,
            Progress::Idle => SessionStatus::Idle,
            // A turn that nobody works on was cut short.
            Progress::Working | Progress::Running | Progress::Failed => SessionStatus::Error,
        };
        status.bits()
    }

    fn line_in(&self, inner: &Inner, line: &lodge_host::SessionSummary, chats: &Chats) -> Option<SessionSummary> {
        let about = &line.about;
        if about.chat_of().is_some() {
            return None;
        }
        let marks = self.host.marks().get(&line.id);
        let resource = marks.address.clone().unwrap_or_else(|| uri::session(&line.id));
        if let Some(entry) = inner.core.sessions.get(resource.as_str()) {
            entry.announced.as_ref()?;
            return inner.core.summary(&resource);
        }
        let own = Chat::of_line(line);
        let chat = own.as_ref().map(|own| own.uri.clone());
        let chat = chat.unwrap_or_else(|| uri::default_chat(&resource));
        let shown = |chat: &Chat, line: &lodge_host::SessionSummary| SessionChatSummary {
            resource: chat.uri.clone(),
            title: chat.title.clone(),
            origin: Some(chat.origin.clone()),
            interactivity: None,
            status: Some(self.activity(&line.id, line.progress)),
            changes: None,
        };
        let default_title = about.chats.default_title.clone();
        let own_title = own.as_ref().map(|own| own.title.clone());
        let mut all = vec![SessionChatSummary {
            resource: chat.clone(),
            title: default_title.or(own_title).unwrap_or_else(|| UNTITLED.to_owned()),
            origin: Some(own.map_or(ChatOrigin::User, |own| own.origin)),
            interactivity: None,
            status: Some(self.activity(&line.id, line.progress)),
            changes: None,
        }];
        let further = chats.0.get(&line.id).into_iter().flatten();
        all.extend(further.filter_map(|line| Some(shown(&Chat::of_line(line)?, line))));
        chats::sort(&mut all, &about.chats.order, &chat, |chat| &chat.resource);
        let status = aggregate(chats::flags(&marks), all.iter().filter_map(|chat| chat.status));
        let project = line.git_root.as_ref().map(|root| ProjectInfo {
            uri: uri::file(root),
            display_name: root.rsplit('/').next().unwrap_or(root).to_owned(),
        });
        Some(SessionSummary {
            provider: chats::provider(&marks),
            title: line
                .title
                .clone()
                .or_else(|| lodge_host::title_of(line.summary.as_deref()?))
                .unwrap_or_else(|| UNTITLED.to_owned()),
            status,
            activity: None,
            origin: chats::made_by(&marks),
            project,
            working_directories: line.cwd.as_ref().map(|cwd| {
                let further = chats::addresses(&about.directories.further);
                std::iter::once(uri::file(cwd)).chain(further).collect()
            }),
            annotations: annotations::counted(&resource, &self.host.marks().annotations(&line.id)),
            resource,
            created_at: timestamp(line.created),
            modified_at: timestamp(line.modified),
            changes: marks.changes.map(chats::changes),
            meta: None,
            chats: Some(all),
            default_chat: Some(chat),
        })
    }
}
