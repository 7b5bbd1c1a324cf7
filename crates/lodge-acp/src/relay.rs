//! Sessions that another host of the fleet is using: relays the editor's messages to that host, and the host's messages to the
//! editor. The editor sees one connection; the other host sees an ordinary editor.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use lodge_host::{Link, Wire};
use lodge_rpc::{Error, INTERNAL_ERROR, LONGEST, Line, Lines, Message, Peer};
use serde_json::Value;
use tokio::io::AsyncRead;

use crate::connection::{Connection, failed};

const DELETE: &str = "session/delete";
/// Requests for a session that the editor does not have open.
const OPENING: [&str; 3] = ["session/load", "session/resume", DELETE];
/// Requests that close a session.
const CLOSING: [&str; 2] = ["session/close", DELETE];

/// The relay to the host that has a session in use.
pub(crate) struct Relay {
    owner: Peer,
    /// Whether the editor has it open there.
    is_open: AtomicBool,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.owner.close();
    }
}

impl Relay {
    /// Forwards a notification to the other host.
    pub(crate) fn notify(&self, method: &str, params: &Value) {
        self.owner.notify(method, params);
    }

    async fn call(&self, method: &str, params: &Value) -> Result<Value, Error> {
        let mut request = self.owner.request(method, params);
        let gone = || Err(Error::new(INTERNAL_ERROR, "The host that has the session is gone."));
        request.answer().await.unwrap_or_else(gone)
    }
}

/// The session that a message names.
pub(crate) fn session_of(params: &Value) -> Option<&str> {
    params.get("sessionId")?.as_str()
}

/// Lets another host serve a request, if that host has the session in use; otherwise `None`.
pub(crate) async fn serve(connection: &Arc<Connection>, method: &str, params: &Value) -> Result<Option<Value>, Error> {
    let Some(session) = session_of(params) else {
        return Ok(None);
    };
    let relay = match connection.relay(session) {
        Some(relay) => relay,
        None if OPENING.contains(&method) && connection.session(session).is_err() => {
            let link = match connection.host().way_to(session, Wire::Acp).await {
                // Deleting needs neither the session's directory nor its host.
                Err(_) if method == DELETE => return Ok(None),
                link => link.map_err(failed)?,
            };
            let Some(link) = link else { return Ok(None) };
            connect(connection, session, link).await?
        }
        None => return Ok(None),
    };
    let answer = relay.call(method, params).await;
    let (closes, opens) = (CLOSING.contains(&method), OPENING.contains(&method));
    let is_over = match answer {
        Ok(_) if opens && !closes => {
            relay.is_open.store(true, Ordering::Relaxed);
            // Another request that failed meanwhile may have removed it.
            connection.keep_relay(session, relay);
            false
        }
        Ok(_) => closes,
        // A session that is open stays open.
        Err(_) => opens && !relay.is_open.load(Ordering::Relaxed),
    };
    if is_over {
        connection.forget_relay(session);
    }
    answer.map(Some)
}

/// Initializes the connection to the other host for this editor.
async fn connect(connection: &Arc<Connection>, session: &str, link: Box<dyn Link>) -> Result<Arc<Relay>, Error> {
    let owner = Peer::default();
    let (input, output) = tokio::io::split(link);
    tokio::spawn(owner.clone().write_to(output));
    let relay = Arc::new(Relay {
        owner,
        is_open: AtomicBool::new(false),
    });
    let kept = connection.keep_relay(session, relay.clone());
    if !Arc::ptr_eq(&kept, &relay) {
        return Ok(kept);
    }
    tokio::spawn(listen(
        connection.clone(),
        session.to_owned(),
        Arc::downgrade(&relay),
        input,
    ));
    let greeted = relay.call("initialize", &connection.greeting()).await;
    if let Err(error) = greeted {
        connection.forget_relay(session);
        return Err(error);
    }
    Ok(relay)
}

/// Forwards the other host's messages until the link ends. Then the editor has to reconnect: it cannot know what it
/// missed.
async fn listen(connection: Arc<Connection>, session: String, relay: Weak<Relay>, input: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(input, LONGEST);
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            () = connection.ended.cancelled() => return,
        };
        let (Ok(Some(Line::Whole(line))), Some(relay)) = (line, relay.upgrade()) else {
            break;
        };
        let Ok(message) = Message::read(&line) else { break };
        connection.peer.pass_on(message, &relay.owner);
    }
    if connection.forget_relay(&session) {
        connection.peer.close();
    }
}
