//! Making, opening, listing, closing and deleting sessions.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use lodge_events::Event;
use lodge_host::{
    Attachment, Capabilities, Change, ClientSpec, EventReader, Host, ListFilter, LogError, NewSession, NoCalls, Session,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::{
    connection::{Client, Connection, nothing},
    driver::{Command, Driver, Parts},
    mcp,
    methods::Outcome,
    options,
    peer::Peer,
    projection::Projector,
    rpc::Error,
    wire::{self, ListSessions, OpenSession, SessionId, SessionNotification, Update},
};

/// Bytes of events that may wait to be shown.
const QUEUE: usize = 64 << 20;
/// Sessions on a page of the list.
const PAGE: usize = 50;
/// What a cursor of this host begins with.
const CURSOR: &str = "lodge-1-";
/// Events that are read from a log at once.
const BATCH: usize = 256;

pub(crate) async fn create(
    connection: &Arc<Connection>,
    client: Arc<Client>,
    given: wire::NewSession,
) -> Result<Outcome, Error> {
    connection.renew_if_wanted().await;
    let host = connection.host();
    let new = NewSession {
        cwd: Some(directory(&given.cwd)?),
        additional_directories: directories(&given.additional_directories)?,
        mcp_servers: mcp::servers(given.mcp_servers)?,
        client_name: Some(client.name.clone()),
        ..NewSession::default()
    };
    let session = host.create(new).await?;
    let id = session.id().to_owned();
    let events = session.subscribe(QUEUE);
    let projector = projector(&client, &session);
    let attachment = attach(&client, session).await?;
    let mut reply = settings(&host, attachment.session());
    reply["sessionId"] = id.into();
    let parts = Parts {
        connection: Arc::downgrade(connection),
        events,
        projector,
        peer: connection.peer.clone(),
        client,
        attachment,
    };
    Ok(opened(connection, parts, reply, true))
}

/// Opens a session that there is, with its history or without.
pub(crate) async fn open(
    connection: &Arc<Connection>,
    client: Arc<Client>,
    given: OpenSession,
    replay: bool,
) -> Result<Outcome, Error> {
    let host = connection.host();
    let cwd = directory(&given.cwd)?;
    let additional = directories(&given.additional_directories)?;
    let servers = mcp::servers(given.mcp_servers)?;
    let session = host.open_session(&given.session_id).await?;
    let now = session.settings();
    if now.cwd != cwd {
        session.configure(Change::Cwd(cwd)).await?;
    }
    if now.additional_directories != additional {
        session.configure(Change::AdditionalDirectories(additional)).await?;
    }
    session.add_mcp_servers(servers);
    let attachment = attach(&client, session.clone()).await?;
    let is_busy = session.is_busy();
    let (history, events) = session.history_and_subscribe(QUEUE)?;
    let mut projector = projector(&client, &session);
    if replay {
        show_history(&connection.peer, &session, history, &mut projector).await?;
    }
    // After the history, which has beginnings of its own.
    projector.joined_late = is_busy;
    let waits_for_people = !is_busy && session.facts().waits_for_people();
    if replay && !is_busy && !waits_for_people {
        for update in projector.interrupt_calls() {
            show(&connection.peer, session.id(), &update);
        }
    }
    if waits_for_people {
        // What was not answered when the host went down is asked again.
        session.continue_pending().await?;
    }
    let reply = settings(&host, &session);
    let parts = Parts {
        connection: Arc::downgrade(connection),
        events,
        projector,
        peer: connection.peer.clone(),
        client,
        attachment,
    };
    Ok(opened(connection, parts, reply, false))
}

fn opened(connection: &Connection, parts: Parts, reply: Value, is_made: bool) -> Outcome {
    let session = parts.attachment.session().clone();
    let (driver, commands) = Driver::new(parts);
    connection.attach(session, commands, is_made);
    Outcome {
        reply,
        start: Some(Box::new(driver)),
    }
}

fn settings(host: &Host, session: &Session) -> Value {
    json!({ "modes": options::modes(session), "configOptions": options::all(host, session) })
}

fn projector(client: &Client, session: &Session) -> Projector {
    Projector::new(&client.capabilities.session, session.settings().cwd)
}

async fn attach(client: &Client, session: Session) -> Result<Attachment, Error> {
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
        calls: Arc::new(NoCalls),
    };
    Ok(session.attach_client(spec).await?)
}

fn show(peer: &Peer, session_id: &str, update: &Update) {
    peer.notify("session/update", &SessionNotification { session_id, update });
}

/// Tells the client what was said so far, no faster than it reads.
async fn show_history(
    peer: &Peer,
    session: &Session,
    history: EventReader,
    projector: &mut Projector,
) -> Result<(), Error> {
    let (sender, mut batches) = mpsc::channel::<Vec<Event>>(2);
    let reading = tokio::task::spawn_blocking(move || {
        let mut batch = Vec::with_capacity(BATCH);
        for event in history.events() {
            batch.push(event?);
            // Nobody is there to be told.
            if batch.len() == BATCH && sender.blocking_send(std::mem::take(&mut batch)).is_err() {
                break;
            }
        }
        let _ = sender.blocking_send(batch);
        Ok::<_, LogError>(())
    });
    while let Some(batch) = batches.recv().await {
        for event in &batch {
            for update in projector.project(event) {
                show(peer, session.id(), &update);
            }
        }
        peer.room().await;
    }
    Ok(reading.await.map_err(Error::internal)??)
}

/// A directory that exists.
fn directory(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_absolute() {
        return Err(Error::params(format!("{} is not an absolute path.", path.display())));
    }
    if !path.is_dir() {
        return Err(Error::params(format!(
            "{} is not a directory that exists.",
            path.display()
        )));
    }
    Ok(path.to_owned())
}

fn directories(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    paths.iter().map(|path| directory(path)).collect()
}

pub(crate) async fn list(host: &Host, given: ListSessions) -> Result<Outcome, Error> {
    let after = match given.cursor {
        None => None,
        Some(cursor) => {
            let own = cursor.strip_prefix(CURSOR).map(str::to_owned);
            Some(own.ok_or_else(|| Error::params("The cursor is not one of this host's."))?)
        }
    };
    let filter = ListFilter {
        cwd: given.cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
        limit: Some(PAGE),
        after,
        ..ListFilter::default()
    };
    let host = host.clone();
    let page = tokio::task::spawn_blocking(move || host.catalogue().list(&filter)).await;
    let page = page.map_err(Error::internal)??;
    let lines = page.sessions.into_iter().map(|session| {
        json!({
            "sessionId": session.id,
            "cwd": session.cwd.as_deref().unwrap_or("/"),
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

/// Stops what the client wanted of a session and lets go of it. Others who have it open keep it.
pub(crate) async fn close(connection: &Arc<Connection>, given: SessionId) -> Result<Outcome, Error> {
    let id = given.into_inner();
    let (_, commands) = connection.session(&id)?;
    let (done, closed) = oneshot::channel();
    let _ = commands.send(Command::Close(done));
    // It is gone either way.
    let _ = closed.await;
    if let Some(attached) = connection.detach(&id) {
        attached.let_go(&connection.host()).await;
    }
    Ok(nothing().into())
}

pub(crate) async fn delete(connection: &Arc<Connection>, given: SessionId) -> Result<Outcome, Error> {
    let id = given.into_inner();
    drop(connection.detach(&id));
    connection.host().delete(&id).await?;
    Ok(nothing().into())
}
