//! Reading a session's events page by page, instead of receiving them.
//!
//! A cursor is a position in the log (`log|N`: before event number N) or in the recent events (`epoch|N`), which include
//! ephemeral ones. A client that reads from the beginning goes through the log and on to the recent events without a gap.

use std::{sync::Arc, time::Duration};

use lodge_events::Event;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, core::list, method};
use crate::{
    connection::{Ctx, MethodResult, Outcome},
    generation::Generation,
    rpc::{Params, Reply, RpcError},
    session::{self, Attached, SessionId},
};

pub(crate) static EVENT_LOG: Capability = Capability {
    title: "Event log",
    methods: &[
        method!(raw "session.eventLog.read", 3, "events from a cursor on; can wait for new ones", read),
        method!(session "session.eventLog.tail", 2, "the cursor after the last event", tail),
        method!(session "session.eventLog.registerInterest", 7, "subscribes to a type of event", register),
        method!(session "session.eventLog.releaseInterest", 2, "unsubscribes", release),
        method!(raw "sessions.readPersistedEvents", 0, "pages through a session's log without opening it", read_persisted),
    ],
};

/// Page size if the client names none.
const PAGE: usize = 100;
/// The longest wait for events.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadParams {
    cursor: Option<String>,
    max: Option<usize>,
    wait_ms: Option<u64>,
    types: Option<Types>,
    agent_scope: Option<String>,
    agent_ids: Option<Vec<String>>,
    direction: Option<String>,
    include_ephemeral: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Types {
    These(Vec<String>),
    /// `*`
    All(serde::de::IgnoredAny),
}

impl ReadParams {
    fn wants(&self, event: &Event) -> bool {
        let of_type = match &self.types {
            Some(Types::These(types)) => types.iter().any(|kind| kind == event.kind()),
            // Lodge's own types are not in the SDK's schema: only clients that name them get them.
            Some(Types::All(_)) | None => !event.is_beside(),
        };
        let of_agent = match (&self.agent_ids, self.agent_scope.as_deref()) {
            (Some(ids), _) => event.agent_id().is_some_and(|agent| ids.iter().any(|id| id == agent)),
            (None, Some("primary")) => event.agent_id().is_none(),
            (None, _) => true,
        };
        of_type && of_agent && (self.include_ephemeral != Some(false) || !event.is_ephemeral())
    }
}

/// A page of events.
struct Page {
    events: Vec<Event>,
    cursor: String,
    has_more: bool,
    expired: bool,
}

impl Page {
    fn reply(self, wants: impl Fn(&Event) -> bool) -> Result<Reply, RpcError> {
        let rest = json!({
            "cursor": self.cursor,
            "hasMore": self.has_more,
            "cursorStatus": if self.expired { "expired" } else { "ok" },
        });
        let rest = format!(",{}", &rest.to_string()[1..]);
        // SDKs of an older generation do not have these methods.
        let wanted = self.events.into_iter().filter(wants).map(Ok::<_, RpcError>);
        Ok(Reply::raw(list(
            wanted,
            Generation::Current,
            b"{\"events\":",
            rest.as_bytes(),
        )?))
    }
}

async fn read(ctx: Ctx, params: Params) -> MethodResult {
    let session = session::of(&ctx, &params)?;
    let params: ReadParams = params.parse()?;
    if params.direction.as_deref() == Some("backward") {
        let page = backward(&ctx, session.id(), &params).await?;
        return Ok(Outcome::of(page.reply(|event| params.wants(event))?));
    }
    let mut page = forward(&session, &params).await?;
    let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
    if page.events.is_empty() && !page.expired && !wait.is_zero() {
        let recent = session.recent();
        let _ = tokio::time::timeout(wait, recent.arrived(&page.cursor)).await;
        page = forward(
            &session,
            &ReadParams {
                cursor: Some(page.cursor),
                max: params.max,
                ..ReadParams::default()
            },
        )
        .await?;
    }
    Ok(Outcome::of(page.reply(|event| params.wants(event))?))
}

async fn forward(session: &Arc<Attached>, params: &ReadParams) -> Result<Page, RpcError> {
    let max = params.max.unwrap_or(PAGE).max(1);
    let from = match params.cursor.as_deref() {
        None => 0,
        Some(cursor) => match cursor.strip_prefix("log|").map(str::parse) {
            Some(Ok(from)) => from,
            _ => {
                let recent = session.recent();
                return Ok(match recent.read(cursor, max) {
                    Some((events, cursor, has_more)) => Page {
                        events,
                        cursor,
                        has_more,
                        expired: false,
                    },
                    None => Page {
                        events: Vec::new(),
                        cursor: recent.tail(),
                        has_more: false,
                        expired: true,
                    },
                });
            }
        },
    };
    let recent = session.recent();
    // Between two events: the log so far and the events after the cursor are everything, exactly once.
    let (reader, count, tail) = session.session().history_from(from, || recent.tail())?;
    let events: Vec<Event> = tokio::task::spawn_blocking(move || reader.events().take(max).collect::<Result<_, _>>())
        .await
        .map_err(RpcError::failed)??;
    let next = from + events.len() as u64;
    let has_more = next < count;
    let cursor = if has_more { format!("log|{next}") } else { tail };
    Ok(Page {
        events,
        cursor,
        has_more,
        expired: false,
    })
}

/// The page before a cursor, or the last one, oldest first.
async fn backward(ctx: &Ctx, session: &str, params: &ReadParams) -> Result<Page, RpcError> {
    let max = params.max.unwrap_or(PAGE).max(1);
    let before: Option<usize> = params
        .cursor
        .as_deref()
        .and_then(|cursor| cursor.strip_prefix("log|")?.parse().ok());
    let reader = ctx.host.read(session)?;
    let (events, from) = tokio::task::spawn_blocking(move || {
        let mut page = std::collections::VecDeque::new();
        let mut seen = 0;
        for event in reader.events().take(before.unwrap_or(usize::MAX)) {
            page.push_back(event?);
            seen += 1;
            if page.len() > max {
                page.pop_front();
            }
        }
        Ok::<_, lodge_host::LogError>((Vec::from(page), seen))
    })
    .await
    .map_err(RpcError::failed)??;
    let from = from - events.len();
    Ok(Page {
        events,
        cursor: format!("log|{from}"),
        has_more: from > 0,
        expired: false,
    })
}

async fn read_persisted(ctx: Ctx, params: Params) -> MethodResult {
    let SessionId { session_id } = params.parse()?;
    let params: ReadParams = params.parse()?;
    if params.direction.as_deref() == Some("backward") {
        return Ok(Outcome::of(
            backward(&ctx, &session_id, &params)
                .await?
                .reply(|event| !event.is_beside())?,
        ));
    }
    let max = params.max.unwrap_or(PAGE).max(1);
    let from: usize = params
        .cursor
        .as_deref()
        .and_then(|cursor| cursor.strip_prefix("log|")?.parse().ok())
        .unwrap_or(0);
    let reader = ctx.host.read(&session_id)?;
    let mut events: Vec<Event> =
        tokio::task::spawn_blocking(move || reader.events().skip(from).take(max + 1).collect::<Result<_, _>>())
            .await
            .map_err(RpcError::failed)??;
    let has_more = events.len() > max;
    events.truncate(max);
    let cursor = format!("log|{}", from + events.len());
    Ok(Outcome::of(
        Page {
            events,
            cursor,
            has_more,
            expired: false,
        }
        .reply(|event| !event.is_beside())?,
    ))
}

async fn tail(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    Ok(json!({"cursor": session.recent().tail()}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterestParams {
    event_type: String,
}

/// Every client gets every event of the SDK's types. From here on, it also gets this type of Lodge's own.
async fn register(session: Arc<Attached>, params: InterestParams) -> Result<Value, RpcError> {
    Ok(json!({"handle": session.add_interest(params.event_type)}))
}

#[derive(Debug, Deserialize)]
struct HandleParams {
    handle: String,
}

async fn release(session: Arc<Attached>, params: HandleParams) -> Result<Value, RpcError> {
    session.remove_interest(&params.handle);
    Ok(json!({"success": true}))
}
