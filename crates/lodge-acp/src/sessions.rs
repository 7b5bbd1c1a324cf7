//! Creating, opening, listing, closing and deleting sessions.

use std::{path::PathBuf, sync::Arc};

use lodge_files::is_directory;
use lodge_host::{
    Attachment, Capabilities, Change, ClientSpec, EventReader, Host, HostError, ListFilter, NewSession, Session,
    Subscription,
};
use lodge_rpc::{Error, Peer};
use serde_json::json;
use tokio::sync::oneshot;

use crate::{
    connection::{Client, Connection, Empty, failed},
    driver::{Command, Driver},
    editor::Files,
    mcp,
    methods::Outcome,
    projection::Projector,
    session_options,
    wire::{self, ListSessions, OpenSession, SessionId, SessionNotification, Update},
};

/// Limit for queued events, in bytes.
const QUEUE: usize = 64 << 20;
/// Sessions on a page of the list.
const PAGE: usize = 50;
/// Prefix of this host's cursors.
const CURSOR: &str = "lodge-1-";

pub(crate) async fn create(
    connection: &Arc<Connection>,
    client: Arc<Client>,
    given: wire::NewSession,
) -> Result<Outcome, Error> {
    connection.renew_if_wanted().await;
    let host = connection.host();
    let new = NewSession {
        cwd: Some(directory(given.cwd).await?),
        additional_directories: directories(given.additional_directories).await?,
        mcp_servers: mcp::servers(given.mcp_servers)?,
        client_name: Some(client.name.clone()),
        ..NewSession::default()
    };
    let session = host.create(new).await.map_err(failed)?;
    let id = session.id().to_owned();
    let events = session.subscribe(QUEUE);
    let projector = projector(&client, &session);
    let attached = attach(connection, &client, session).await;
    let Ok(attachment) = attached else {
        // No client knows of it.
        let _ = host.delete(&id).await;
        return Err(attached.err().unwrap_or_else(Error::cancelled));
    };
    let mut outcome = opened(connection, client, attachment, events, projector, true);
    outcome.reply["sessionId"] = id.into();
    Ok(outcome)
}

/// Releases a session that its client no longer wants.
pub(crate) async fn forget(connection: &Connection, made: Outcome) {
    if let Some(attached) = made.start.and_then(|id| connection.detach(&id)) {
        attached.let_go(&connection.host(), Empty::Deleted).await;
    }
}

/// Opens an existing session, with or without its history.
pub(crate) async fn open(
    connection: &Arc<Connection>,
    client: Arc<Client>,
    given: OpenSession,
    replay: bool,
) -> Result<Outcome, Error> {
    let host = connection.host();
    let cwd = directory(given.cwd).await?;
    let additional = directories(given.additional_directories).await?;
    let servers = mcp::servers(given.mcp_servers)?;
    let session = host.open_session(&given.session_id).await.map_err(failed)?;
    let now = session.settings();
    if now.cwd != cwd {
        session.configure(Change::Cwd(cwd)).await.map_err(failed)?;
    }
    if now.additional_directories != additional {
        let change = Change::AdditionalDirectories(additional);
        session.configure(change).await.map_err(failed)?;
    }
    session.add_mcp_servers(servers);
    let attachment = attach(connection, &client, session.clone()).await?;
    let is_busy = session.is_busy();
    let (history, events) = session.history_and_subscribe(QUEUE).map_err(failed)?;
    let mut projector = projector(&client, &session);
    if replay {
        show_history(&connection.peer, &session, history, &mut projector).await?;
    }
    // Set after the history, which contains the beginnings.
    projector.joined_late = is_busy;
    let waits_for_people = !is_busy && session.state().waits_for_people();
    if replay && !is_busy && !waits_for_people {
        for update in projector.interrupt_calls() {
            show(&connection.peer, session.id(), &update);
        }
    }
    if waits_for_people {
        // Questions that were open when the host stopped are asked again.
        session.continue_pending().await.map_err(failed)?;
    }
    Ok(opened(connection, client, attachment, events, projector, false))
}

fn opened(
    connection: &Arc<Connection>,
    client: Arc<Client>,
    attachment: Attachment,
    events: Subscription,
    projector: Projector,
    is_made: bool,
) -> Outcome {
    let session = attachment.session().clone();
    let host = connection.host();
    let reply =
        json!({ "modes": session_options::modes(&session), "configOptions": session_options::all(&host, &session) });
    let (driver, commands) = Driver::new(connection, client, attachment, events, projector);
    let start = Some(session.id().to_owned());
    connection.attach(session, Box::new(driver), commands, is_made);
    Outcome { reply, start }
}

fn projector(client: &Client, session: &Session) -> Projector {
    Projector::new(&client.capabilities, session.settings().cwd)
}

async fn attach(connection: &Connection, client: &Client, session: Session) -> Result<Attachment, Error> {
    let forms = client.capabilities.shows_forms();
    let spec = ClientSpec {
        name: client.name.clone(),
        can: Capabilities {
            permissions: true,
            exit_plan_mode: true,
            user_input: forms,
            elicitation: forms,
            ..Capabilities::default()
        },
        tools: Vec::new(),
        commands: Vec::new(),
        calls: Arc::new(Files {
            peer: connection.peer.clone(),
            session_id: session.id().to_owned(),
            can: client.capabilities.fs.clone(),
        }),
    };
    session.attach_client(spec).await.map_err(failed)
}

pub(crate) fn show(peer: &Peer, session_id: &str, update: &Update) {
    peer.notify("session/update", &SessionNotification { session_id, update });
}

/// Sends the history, no faster than the client reads.
async fn show_history(
    peer: &Peer,
    session: &Session,
    history: EventReader,
    projector: &mut Projector,
) -> Result<(), Error> {
    let mut batches = Session::history_in_batches(history);
    while let Some(batch) = batches.recv().await {
        for event in &batch.map_err(failed)? {
            for update in projector.project(event) {
                show(peer, session.id(), &update);
            }
        }
        peer.room().await;
    }
    Ok(())
}

/// An existing directory.
async fn directory(path: PathBuf) -> Result<PathBuf, Error> {
    if !path.is_absolute() {
        return Err(Error::params(format!("{} is not an absolute path.", path.display())));
    }
    if !is_directory(path.clone()).await.is_ok_and(|is| is) {
        return Err(Error::params(format!(
            "{} is not a directory that exists.",
            path.display()
        )));
    }
    Ok(path)
}

async fn directories(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::with_capacity(paths.len());
    for path in paths {
        found.push(directory(path).await?);
    }
    Ok(found)
}

pub(crate) async fn list(host: &Host, given: ListSessions) -> Result<Outcome, Error> {
    let after = match given.cursor {
        None => None,
        Some(cursor) => {
            let own = cursor.strip_prefix(CURSOR).map(str::to_owned);
            Some(own.ok_or_else(|| Error::params("The cursor is not from this host."))?)
        }
    };
    let filter = ListFilter {
        cwd: given.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
        limit: Some(PAGE),
        after,
        ..ListFilter::default()
    };
    let page = host.list(filter).await.map_err(failed)?;
    let lines = page.sessions.into_iter().map(|session| {
        json!({
            "sessionId": session.id,
            "cwd": session.cwd.as_deref().unwrap_or("/"),
            "additionalDirectories": session.about.directories.further,
            "title": session.title.or(session.summary),
            "updatedAt": format!("{:.3}", session.modified),
        })
    });
    let mut reply = json!({ "sessions": lines.collect::<Vec<_>>() });
    if let Some(next) = page.next {
        reply["nextCursor"] = format!("{CURSOR}{next}").into();
    }
    Ok(reply.into())
}

/// Stops the client's prompts and closes the session for it. Other clients keep it.
pub(crate) async fn close(connection: &Arc<Connection>, given: SessionId) -> Result<Outcome, Error> {
    let SessionId { session_id: id } = given;
    let (_, commands) = connection.session(&id)?;
    let (done, closed) = oneshot::channel();
    let _ = commands.send(Command::Close(done));
    // Either way, it has ended.
    let _ = closed.await;
    if let Some(attached) = connection.detach(&id) {
        attached.let_go(&connection.host(), Empty::Deleted).await;
    }
    Ok(json!({}).into())
}

pub(crate) async fn delete(connection: &Arc<Connection>, given: SessionId) -> Result<Outcome, Error> {
    let SessionId { session_id: id } = given;
    match connection.host().delete(&id).await {
        // The protocol requires success for a session that does not exist.
        Ok(()) | Err(HostError::NotFound(_)) => {
            drop(connection.detach(&id));
            Ok(json!({}).into())
        }
        Err(error) => Err(failed(error)),
    }
}
