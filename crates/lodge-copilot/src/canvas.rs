//! Canvases: panels that one client of a session provides and another may show. The log records which are open. Other
//! properties of an open canvas, such as its address, are known only while its provider is connected.

mod provided;

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use lodge_events::{
    CanvasInfo, SessionCanvasClosed, SessionCanvasOpened, SessionCanvasRecorded, SessionCanvasRegistryChanged,
    SessionCanvasRemoved, SessionCanvasUnavailable,
};
use lodge_host::{Session, SessionState};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) use self::provided::{CanvasConfig, CanvasProviderConfig, ExtensionInfo, Provided};
use crate::{
    board::Board,
    peer::{CallError, Peer},
    rpc::RpcError,
};

/// How many canvases of a session can be open. All of them are in memory with it.
const MOST_OPEN: usize = 100;
/// Limit for the input of a canvas, in bytes.
const MOST_INPUT: usize = 64 * 1024;
/// How long to wait for a provider to close a canvas.
const PATIENCE: Duration = Duration::from_secs(5);

/// The canvas to open.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Opening {
    #[serde(default)]
    pub(crate) extension_id: Option<String>,
    pub(crate) canvas_id: String,
    pub(crate) instance_id: String,
    #[serde(default)]
    pub(crate) input: Option<Value>,
}

#[derive(Clone)]
struct Provider {
    /// Identifies this attachment of the client.
    number: u64,
    peer: Peer,
    /// Whether the client shows canvases itself.
    shows: bool,
    canvases: Arc<[CanvasInfo]>,
    /// Whether the response that admitted the client was sent, so that it expects calls.
    begun: bool,
}

impl Provider {
    async fn call(&self, method: &str, session: &Session, mut params: Value) -> Result<Value, RpcError> {
        params["sessionId"] = json!(session.id());
        params["host"] = json!({"capabilities": {"canvases": self.shows}});
        params["session"] = json!({"workingDirectory": session.settings().cwd.to_string_lossy()});
        match self.peer.call(method, &params).await {
            Ok(answer) => Ok(answer),
            Err(CallError::Refused(error)) => Err(error),
            Err(CallError::Gone) => Err(RpcError::failed("The provider of the canvas has disconnected")),
        }
    }

    /// Lets the provider open a canvas. Returns the provider's description of it.
    async fn open(
        &self,
        session: &Session,
        canvas: &CanvasInfo,
        instance: &str,
        input: Option<&Value>,
    ) -> Result<Value, RpcError> {
        let mut params = json!({
            "extensionId": canvas.extension_id,
            "canvasId": canvas.canvas_id,
            "instanceId": instance,
        });
        if let Some(input) = input {
            params["input"] = input.clone();
        }
        self.call("canvas.open", session, params).await
    }

    /// Notifies the provider that a canvas is closed.
    async fn close(&self, session: &Session, canvas: Value) {
        let instance = canvas["instanceId"].clone();
        match tokio::time::timeout(PATIENCE, self.call("canvas.close", session, canvas)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(canvas = %instance, %error, "the provider of a canvas failed to close it"),
            Err(_) => tracing::warn!(canvas = %instance, "the provider of a canvas takes too long to close it"),
        }
    }
}

#[derive(Default)]
struct State {
    last: u64,
    providers: Vec<Provider>,
    /// Open canvases as their providers described them, by instance, with the provider's attachment.
    shown: HashMap<String, (u64, SessionCanvasOpened)>,
    /// Canvases that are being opened: the instance, and the provider's attachment.
    opening: Vec<(String, u64)>,
}

impl State {
    /// The provider of a canvas. If several provide one of this name, the extension must be given.
    fn find(&self, canvas: &str, extension: Option<&str>) -> Result<(Provider, CanvasInfo), RpcError> {
        let is = |info: &CanvasInfo| {
            info.canvas_id == canvas && extension.is_none_or(|extension| info.extension_id == extension)
        };
        // The newest attachment of a provider answers.
        let mut found: Vec<(Provider, CanvasInfo)> = Vec::new();
        for provider in self.providers.iter().rev() {
            for info in provider.canvases.iter().filter(|info| is(info)) {
                if !found.iter().any(|(_, known)| known.extension_id == info.extension_id) {
                    found.push((provider.clone(), info.clone()));
                }
            }
        }
        if found.len() > 1 {
            let whose: Vec<&str> = found.iter().map(|(_, info)| info.extension_id.as_str()).collect();
            return Err(RpcError::failed(format!(
                "Several providers have a canvas '{canvas}': choose one with extensionId: {}",
                whose.join(", ")
            )));
        }
        found
            .pop()
            .ok_or_else(|| RpcError::failed(format!("Canvas not found: {canvas}")))
    }

    /// The provider of an attachment.
    fn by(&self, number: u64) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.number == number)
    }

    /// Whether the limit of open canvases is reached, including those about to open.
    fn is_full(&self, facts: &SessionState) -> bool {
        let new = |(instance, _): &&(String, u64)| !facts.canvases.contains_key(instance);
        facts.canvases.len() + self.opening.iter().filter(new).count() >= MOST_OPEN
    }
}

/// The canvases of one session.
#[derive(Default)]
pub(crate) struct Canvases {
    state: Mutex<State>,
    /// Keeps changes and their notifications in the same order.
    telling: tokio::sync::Mutex<()>,
}

impl Canvases {
    /// All provided canvases. The newest attachment of a provider counts.
    pub(crate) fn list(&self) -> Vec<CanvasInfo> {
        let state = self.state.lock();
        let mut list: Vec<CanvasInfo> = Vec::new();
        for info in state.providers.iter().flat_map(|provider| provider.canvases.iter()) {
            let mut known = list.iter_mut();
            match known.find(|known| (&known.extension_id, &known.canvas_id) == (&info.extension_id, &info.canvas_id)) {
                Some(known) => known.clone_from(info),
                None => list.push(info.clone()),
            }
        }
        list
    }

    /// All open canvases.
    pub(crate) fn list_open(&self, session: &Session) -> Vec<SessionCanvasOpened> {
        let state = self.state.lock();
        let shown = |open: &SessionCanvasRecorded| match state.shown.get(&open.instance_id) {
            Some((_, shown)) => shown.clone(),
            None => SessionCanvasOpened {
                instance_id: open.instance_id.clone(),
                extension_id: open.extension_id.clone(),
                canvas_id: open.canvas_id.clone(),
                title: open.title.clone(),
                input: open.input.clone(),
                ..SessionCanvasOpened::default()
            },
        };
        session.look(|facts| facts.canvases.values().map(shown).collect())
    }

    /// Opens a canvas, or shows an open one again.
    pub(crate) async fn open(
        board: &Arc<Board>,
        session: &Session,
        opening: Opening,
    ) -> Result<SessionCanvasOpened, RpcError> {
        Self::begin_to_open(board, session, opening)?
            .await
            .map_err(RpcError::failed)?
    }

    /// Opens a canvas in a task, so that a caller who stops waiting leaves nothing half open.
    fn begin_to_open(
        board: &Arc<Board>,
        session: &Session,
        opening: Opening,
    ) -> Result<JoinHandle<Result<SessionCanvasOpened, RpcError>>, RpcError> {
        check(&opening.instance_id, opening.input.as_ref())?;
        let mut state = board.canvases().state.lock();
        let (provider, info) = state.find(&opening.canvas_id, opening.extension_id.as_deref())?;
        let (before, full) = session.look(|facts| {
            let before = facts.canvases.get(&opening.instance_id).cloned();
            (before, state.is_full(facts))
        });
        match &before {
            Some(open) if (&open.canvas_id, &open.extension_id) != (&info.canvas_id, &info.extension_id) => {
                return Err(RpcError::failed(format!(
                    "'{}' is open already, as the canvas '{}' of '{}'",
                    opening.instance_id, open.canvas_id, open.extension_id
                )));
            }
            None if full => {
                return Err(RpcError::failed(format!(
                    "{MOST_OPEN} canvases are open, which is the limit: close one first"
                )));
            }
            _ => {}
        }
        let was_open = before.is_some();
        let input = opening.input.or_else(|| before?.input);
        let key = (opening.instance_id.clone(), provider.number);
        state.opening.push(key.clone());
        drop(state);
        let (board, session) = (Arc::clone(board), session.clone());
        Ok(tokio::spawn(async move {
            let canvases = board.canvases();
            let said = provider
                .open(&session, &info, &opening.instance_id, input.as_ref())
                .await;
            let opened = match said {
                Ok(said) => {
                    let text = |name: &str| Some(said.get(name)?.as_str()?.to_owned());
                    let opened = SessionCanvasOpened {
                        instance_id: opening.instance_id,
                        extension_id: info.extension_id,
                        extension_name: info.extension_name,
                        canvas_id: info.canvas_id,
                        icon: info.icon,
                        title: text("title").filter(|title| title.len() <= MOST_INPUT),
                        status: text("status"),
                        url: text("url"),
                        input,
                    };
                    canvases.opened(&session, &provider, opened, was_open).await
                }
                Err(error) => Err(error),
            };
            let mut state = canvases.state.lock();
            if let Some(at) = state.opening.iter().position(|other| *other == key) {
                state.opening.swap_remove(at);
            }
            opened
        }))
    }

    /// Records that a provider has opened a canvas.
    async fn opened(
        &self,
        session: &Session,
        provider: &Provider,
        opened: SessionCanvasOpened,
        was_open: bool,
    ) -> Result<SessionCanvasOpened, RpcError> {
        let recorded = recorded(&opened);
        let telling = self.telling.lock().await;
        let now = session.look(|facts| facts.canvases.get(&recorded.instance_id).cloned());
        if was_open && now.is_none() {
            drop(telling);
            provider.close(session, named(&recorded)).await;
            let closed = format!("'{}' was closed while it was being reopened", opened.instance_id);
            return Err(RpcError::failed(closed));
        }
        if now.as_ref() != Some(&recorded) {
            session.record(recorded).await?;
        }
        {
            let mut state = self.state.lock();
            if state.by(provider.number).is_none() {
                return Err(RpcError::failed("The provider of the canvas has disconnected"));
            }
            let shown = (provider.number, opened.clone());
            state.shown.insert(opened.instance_id.clone(), shown);
        }
        session.tell(opened.clone()).await?;
        Ok(opened)
    }

    /// Runs an action in an open canvas. Returns the provider's answer.
    pub(crate) async fn invoke(
        &self,
        session: &Session,
        instance: &str,
        action: &str,
        input: Option<Value>,
    ) -> Result<Value, RpcError> {
        let (open, provider) = self.find_open(session, instance)?;
        let (provider, info) = provider?;
        let declared = info.actions.iter().flatten().any(|known| known.name == action);
        if !declared {
            return Err(RpcError::failed(format!(
                "The canvas '{}' has no action '{action}'",
                info.canvas_id
            )));
        }
        let mut params = named(&open);
        params["actionName"] = json!(action);
        if let Some(input) = input {
            params["input"] = input;
        }
        provider.call("canvas.action.invoke", session, params).await
    }

    /// Closes a canvas and notifies its provider, without depending on it: it may be gone, hang or fail. A caller who
    /// stops waiting leaves nothing half closed.
    pub(crate) async fn close(board: &Arc<Board>, session: &Session, instance: &str) -> Result<(), RpcError> {
        let (open, provider) = board.canvases().find_open(session, instance)?;
        let (board, session) = (Arc::clone(board), session.clone());
        let closing = tokio::spawn(async move {
            let canvases = board.canvases();
            if let Ok((provider, _)) = provider {
                provider.close(&session, named(&open)).await;
            }
            let _telling = canvases.telling.lock().await;
            if session.look(|facts| !facts.canvases.contains_key(&open.instance_id)) {
                return Ok(());
            }
            session
                .record(SessionCanvasRemoved {
                    instance_id: open.instance_id.clone(),
                    extension_id: open.extension_id.clone(),
                    canvas_id: open.canvas_id.clone(),
                })
                .await?;
            canvases.state.lock().shown.remove(&open.instance_id);
            session.tell(closed(&open)).await?;
            Ok(())
        });
        closing.await.map_err(RpcError::failed)?
    }

    /// An open canvas, and its provider if it is connected.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn find_open(
        &self,
        session: &Session,
        instance: &str,
    ) -> Result<(SessionCanvasRecorded, Result<(Provider, CanvasInfo), RpcError>), RpcError> {
        let open = session.look(|facts| facts.canvases.get(instance).cloned());
        let open = open.ok_or_else(|| RpcError::failed(format!("Canvas instance not found: {instance}")))?;
        let found = self
            .state
            .lock()
            .find(&open.canvas_id, Some(&open.extension_id))
            .map_err(|_| RpcError::failed(format!("The provider of the canvas '{instance}' is not connected")));
        Ok((open, found))
    }

    /// Makes the shown canvases match those that are open according to the log. They differ after a provider connects,
    /// a rewind or an undo. This does not wait for providers.
    async fn reconcile(board: &Arc<Board>, session: &Session) {
        let canvases = board.canvases();
        let _telling = canvases.telling.lock().await;
        let (surplus, missing) = {
            let mut state = canvases.state.lock();
            session.look(|facts| {
                let being_opened: Vec<String> = state.opening.iter().map(|(instance, _)| instance.clone()).collect();
                let is_surplus =
                    |instance: &String| !facts.canvases.contains_key(instance) && !being_opened.contains(instance);
                let surplus = state.shown.extract_if(|instance, _| is_surplus(instance));
                let surplus: Vec<(u64, SessionCanvasOpened)> = surplus.map(|(_, shown)| shown).collect();
                let whose = |number: u64| state.by(number).cloned();
                let surplus = surplus
                    .into_iter()
                    .map(|(number, open)| (whose(number), recorded(&open)));
                let is_missing = |open: &&SessionCanvasRecorded| {
                    let provider = state.find(&open.canvas_id, Some(&open.extension_id));
                    !state.shown.contains_key(&open.instance_id)
                        && provider.is_ok_and(|(provider, _)| {
                            let key = (open.instance_id.clone(), provider.number);
                            provider.begun && !state.opening.contains(&key)
                        })
                };
                let missing = facts.canvases.values().filter(is_missing).cloned();
                (surplus.collect::<Vec<_>>(), missing.collect::<Vec<_>>())
            })
        };
        let mut opening = Vec::new();
        for open in missing {
            let instance = open.instance_id.clone();
            let again = Opening {
                extension_id: Some(open.extension_id),
                canvas_id: open.canvas_id,
                instance_id: open.instance_id,
                input: None,
            };
            let begun = Self::begin_to_open(board, session, again);
            opening.push(async move {
                let opened = match begun {
                    Ok(task) => task.await.map_err(RpcError::failed).flatten(),
                    Err(error) => Err(error),
                };
                if let Err(error) = opened {
                    tracing::warn!(canvas = instance, %error, "a canvas cannot be opened again");
                }
            });
        }
        tokio::spawn(join_all(opening));
        for (provider, open) in surplus {
            // When the session has ended, there is nobody to notify.
            let _ = session.tell(closed(&open)).await;
            if let Some(provider) = provider {
                let session = session.clone();
                tokio::spawn(async move { provider.close(&session, named(&open)).await });
            }
        }
    }

    /// A provider has disconnected, and its canvases are no longer shown. They stay open until it returns, or another
    /// of its attachments reopens them.
    async fn withdraw(board: &Arc<Board>, session: &Session, lost: Vec<SessionCanvasOpened>) {
        let canvases = board.canvases();
        let telling = canvases.telling.lock().await;
        // When the session has ended, there is nobody to notify.
        let _ = session
            .tell(SessionCanvasRegistryChanged {
                canvases: canvases.list(),
            })
            .await;
        for open in lost {
            let provider = canvases.state.lock().find(&open.canvas_id, Some(&open.extension_id));
            let _ = if session.look(|facts| !facts.canvases.contains_key(&open.instance_id)) {
                session.tell(closed(&recorded(&open))).await
            } else if provider.is_err() {
                session
                    .tell(SessionCanvasUnavailable {
                        instance_id: open.instance_id,
                        extension_id: open.extension_id,
                        canvas_id: open.canvas_id,
                    })
                    .await
            } else {
                continue;
            };
        }
        drop(telling);
        Self::reconcile(board, session).await;
    }
}

/// Checks the instance and input of a canvas.
fn check(instance: &str, input: Option<&Value>) -> Result<(), RpcError> {
    if instance.is_empty() {
        return Err(RpcError::params("`instanceId` is empty"));
    }
    let bytes = instance.len() + input.map_or(0, |input| input.to_string().len());
    if bytes > MOST_INPUT {
        return Err(RpcError::params(format!(
            "The input of the canvas '{instance:.40}' has {bytes} bytes: the limit is {MOST_INPUT}"
        )));
    }
    Ok(())
}

fn recorded(open: &SessionCanvasOpened) -> SessionCanvasRecorded {
    SessionCanvasRecorded {
        instance_id: open.instance_id.clone(),
        extension_id: open.extension_id.clone(),
        canvas_id: open.canvas_id.clone(),
        title: open.title.clone(),
        input: open.input.clone(),
    }
}

fn closed(open: &SessionCanvasRecorded) -> SessionCanvasClosed {
    SessionCanvasClosed {
        instance_id: open.instance_id.clone(),
        extension_id: open.extension_id.clone(),
        canvas_id: open.canvas_id.clone(),
    }
}

fn named(open: &SessionCanvasRecorded) -> Value {
    json!({
        "extensionId": open.extension_id,
        "canvasId": open.canvas_id,
        "instanceId": open.instance_id,
    })
}
