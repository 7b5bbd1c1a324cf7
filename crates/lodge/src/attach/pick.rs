//! The host's sessions: listing, finding, creating and opening one.

use ahp::{
    Client, ClientError,
    ahp_types::{
        ROOT_RESOURCE_URI, Uri,
        commands::{
            CreateSessionParams, ListSessionsParams, ListSessionsResult, SubscribeParams, SubscribeResult,
            SubscribeView,
        },
        common::JsonObject,
        errors::ahp_error_codes,
        state::{ChatState, RootState, SessionStatus, SessionSummary, SnapshotState},
    },
};
use anyhow::{Context, Result, anyhow, bail};
use uuid::Uuid;

use lodge_terminal::{
    client::mirror::{Channel, Mirror},
    plain, shorten, shown_path,
};

use super::{link::reason, place::Place};

/// How many sessions a list shows, and how many are requested at once for a search.
const SHOWN: i64 = 20;
const PAGE: i64 = 200;

pub(super) async fn newest(client: &Client) -> Result<Vec<SessionSummary>> {
    Ok(page(client, SHOWN, None).await?.items)
}

/// As many sessions as a person might look through.
pub(super) async fn many(client: &Client) -> Result<Vec<SessionSummary>> {
    Ok(page(client, PAGE, None).await?.items)
}

/// The last session that works in a directory.
pub(super) async fn last_in(client: &Client, directory: &str) -> Result<Option<Uri>> {
    let here = |session: &SessionSummary| {
        let mut directories = session.working_directories.iter().flatten();
        directories
            .next()
            .is_some_and(|first| shown_path(first) == shown_path(directory))
    };
    Ok(many(client)
        .await?
        .into_iter()
        .find(here)
        .map(|session| session.resource))
}

async fn page(client: &Client, limit: i64, cursor: Option<String>) -> Result<ListSessionsResult> {
    let params = ListSessionsParams {
        channel: ROOT_RESOURCE_URI.to_owned(),
        meta: None,
        limit: Some(limit),
        cursor,
    };
    let listed = client.request("listSessions", params).await;
    listed.map_err(|error| anyhow!("Cannot list the sessions: {}", reason(&error)))
}

/// The list as text.
pub(super) fn table(sessions: &[SessionSummary], current: Option<&str>) -> String {
    let now = jiff::Timestamp::now();
    let mut text = String::new();
    for (number, session) in sessions.iter().enumerate() {
        let mark = if current == Some(session.resource.as_str()) {
            "*"
        } else {
            " "
        };
        let place = session
            .working_directories
            .iter()
            .flatten()
            .next()
            .map(|uri| shown_path(uri));
        let title = Some(session.title.as_str()).filter(|title| !title.is_empty());
        let title = title.unwrap_or("(no messages)");
        text.push_str(&format!(
            "{mark}{:>3}  {:<8}  {:>8}  {}{}{}\n",
            number + 1,
            short(&session.resource),
            age(&session.modified_at, now),
            shorten(&plain(title).replace('\n', " "), 60),
            state(session.status),
            place.map(|place| format!("  ({place})")).unwrap_or_default(),
        ));
    }
    text
}

fn state(status: u32) -> &'static str {
    let is = |state: SessionStatus| status & state.bits() == state.bits();
    if is(SessionStatus::InputNeeded) {
        "  [needs an answer]"
    } else if is(SessionStatus::InProgress) {
        "  [working]"
    } else {
        ""
    }
}

fn age(time: &str, now: jiff::Timestamp) -> String {
    let Ok(then) = time.parse::<jiff::Timestamp>() else {
        return String::new();
    };
    match now.as_second() - then.as_second() {
        ..60 => "now".to_owned(),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// The name of a session: the last part of its URI.
pub(super) fn name(uri: &str) -> &str {
    uri.rsplit(['/', ':']).find(|part| !part.is_empty()).unwrap_or(uri)
}

/// The beginning of a session's name, long enough to find it.
pub(super) fn short(uri: &str) -> String {
    plain(name(uri)).chars().take(8).collect()
}

/// Finds a session by its number in the list, `last`, its id or a beginning of it, or its URI.
pub(super) async fn find(client: &Client, wanted: &str, listed: &[SessionSummary]) -> Result<Uri> {
    if let Some(session) = wanted
        .parse::<usize>()
        .ok()
        .and_then(|number| listed.get(number.checked_sub(1)?))
    {
        return Ok(session.resource.clone());
    }
    if wanted == "last" {
        return listed
            .first()
            .map(|session| session.resource.clone())
            .context("There is no session yet");
    }
    let mut found = Vec::new();
    let mut cursor = None;
    loop {
        let page = page(client, PAGE, cursor).await?;
        for session in page.items {
            if session.resource == wanted || name(&session.resource) == wanted {
                return Ok(session.resource);
            }
            if name(&session.resource).starts_with(wanted) {
                found.push(session.resource);
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    match found.as_slice() {
        [only] => Ok(only.clone()),
        // A session without messages exists, but is not listed.
        [] if wanted.contains(":/") => Ok(wanted.to_owned()),
        [] => bail!("There is no session {wanted:?}."),
        many => bail!("{} sessions begin with {wanted:?}; give more of the id.", many.len()),
    }
}

/// Whether a line typed at the list names a session rather than being a message.
pub(super) fn is_choice(line: &str, listed: &[SessionSummary]) -> bool {
    let numbered = line.parse::<usize>().is_ok();
    let begins = |session: &SessionSummary| name(&session.resource).starts_with(line) || session.resource == line;
    numbered || (line.len() >= 4 && listed.iter().any(begins))
}

/// Where new sessions work.
#[derive(Clone, Default)]
pub(super) struct Workplace {
    /// The directory; if absent, the host chooses.
    pub(super) directory: Option<Uri>,
    /// Whether the host is on this machine, so that programs find the same files.
    pub(super) is_here: bool,
    /// The model that a variable of this program names; without one, the host's default.
    pub(super) model: Option<String>,
}

impl Workplace {
    /// This program's directory, if the host has it, too.
    pub(super) fn of(place: &Place) -> Self {
        Self {
            directory: place.current_directory(),
            is_here: place.is_here(),
            model: None,
        }
    }

    /// This program's environment, for programs in the session. It contains no secrets.
    fn environment(&self) -> Option<JsonObject> {
        if !self.is_here {
            return None;
        }
        let variables = lodge_tools::Environment::default().visible().into_iter();
        let texts = variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let texts: JsonObject = texts.map(|(name, value)| (name, value.into())).collect();
        Some([("lodge.environment".to_owned(), texts.into())].into_iter().collect())
    }
}

/// Creates a session. The host keeps it from its first message on.
pub(super) async fn create(client: &Client, root: &RootState, workplace: &Workplace) -> Result<Uri> {
    let provider = root.agents.first().map(|agent| agent.provider.clone());
    let uri = format!("{}:/{}", provider.as_deref().unwrap_or("ahp-session"), Uuid::new_v4());
    create_as(client, &uri, workplace).await?;
    Ok(uri)
}

/// Creates a session of this name, unless it exists.
pub(super) async fn create_as(client: &Client, uri: &str, workplace: &Workplace) -> Result<()> {
    let params = CreateSessionParams {
        channel: uri.to_owned(),
        meta: workplace.environment(),
        provider: None,
        working_directories: workplace.directory.clone().map(|directory| vec![directory]),
        config: workplace
            .model
            .clone()
            .map(|model| [("model".to_owned(), model.into())].into_iter().collect()),
        active_client: None,
        progress_token: None,
    };
    let made = client.request::<_, serde_json::Value>("createSession", params).await;
    match made {
        Ok(_) => Ok(()),
        Err(ClientError::Rpc(error)) if error.code == ahp_error_codes::SESSION_ALREADY_EXISTS => Ok(()),
        Err(error) => bail!("Cannot create the session: {}", reason(&error)),
    }
}

/// Subscribes to a session and the last turns of its default chat.
pub(super) async fn open(
    client: &Client,
    root: RootState,
    uri: &str,
    workplace: &Workplace,
    turns: usize,
) -> Result<Mirror> {
    let subscribed = subscribe(client, uri, workplace).await;
    let subscribed = subscribed.map_err(|error| anyhow!("Cannot open the session: {}", reason(&error)))?;
    let session = match subscribed.snapshot {
        Some(snapshot) => match snapshot.state {
            SnapshotState::Session(state) => Channel::new(uri.to_owned(), *state, snapshot.from_seq),
            _ => bail!("{uri} is not a session."),
        },
        None => bail!("The host did not return {uri}."),
    };
    let first = session.state.chats.first().map(|chat| chat.resource.clone());
    let chat = session
        .state
        .default_chat
        .clone()
        .or(first)
        .context("The session has no chat")?;
    let chat = open_chat(client, &chat, turns).await?;
    Ok(Mirror::new(root, session, chat))
}

/// Brings this program's environment to a session again: the host may have been restarted.
pub(super) async fn bring_environment(client: &Client, uri: &str, workplace: &Workplace) {
    if workplace.is_here
        && let Err(error) = subscribe(client, uri, workplace).await
    {
        tracing::debug!(%error, "the session did not get this program's environment");
    }
}

/// Subscribes to a session. Its programs get this program's environment, unless somebody brought theirs since the host began.
pub(super) async fn subscribe(
    client: &Client,
    uri: &str,
    workplace: &Workplace,
) -> Result<SubscribeResult, ClientError> {
    let params = SubscribeParams {
        channel: uri.to_owned(),
        meta: workplace.environment(),
        delivery: None,
        view: None,
    };
    client.attach_subscription(uri).await;
    client.request("subscribe", params).await
}

/// Subscribes to the last turns of a chat.
pub(super) async fn open_chat(client: &Client, chat: &str, turns: usize) -> Result<Channel<ChatState>> {
    let view = SubscribeView {
        turns: i64::try_from(turns.max(1)).ok(),
    };
    let subscribed = client.subscribe_with_options(chat.to_owned(), None, Some(view)).await;
    let (subscribed, _) = subscribed.map_err(|error| anyhow!("Cannot open the chat: {}", reason(&error)))?;
    match subscribed.snapshot {
        Some(snapshot) => match snapshot.state {
            SnapshotState::Chat(state) => Ok(Channel::new(chat.to_owned(), *state, snapshot.from_seq)),
            _ => bail!("{chat} is not a chat."),
        },
        None => bail!("The host did not return {chat}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_names_are_short() {
        let now: jiff::Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        for (time, expected) in [
            ("2026-11-15T11:59:30Z", "now"),
            ("2026-11-15T11:20:00.000Z", "40 min"),
            ("2026-11-15T02:00:00Z", "10 h"),
            ("2026-11-01T12:00:00Z", "14 d"),
            ("yesterday", ""),
        ] {
            assert_eq!(age(time, now), expected, "{time}");
        }
        for (uri, expected) in [("lodge:/abc", "abc"), ("ahp-session:/x/y", "y"), ("abc", "abc")] {
            assert_eq!(name(uri), expected);
        }
    }
}
