//! Canvases: panels that a client of a session provides, and that another one may show. Which of them are open is in the
//! log. What a provider says of an open one for now, such as its address, is known as long as the provider is there.

use std::{collections::HashMap, sync::Arc};

use lodge_events::{
    CanvasActionInfo, CanvasInfo, SessionCanvasClosed, SessionCanvasOpened, SessionCanvasRecorded,
    SessionCanvasRegistryChanged, SessionCanvasRemoved, SessionCanvasUnavailable,
};
use lodge_host::Session;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    board::Board,
    config::SessionConfig,
    peer::{CallError, Peer},
    rpc::RpcError,
};

/// A canvas as a client declares it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CanvasConfig {
    id: String,
    display_name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    icon: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
    #[serde(default)]
    actions: Option<Vec<CanvasActionInfo>>,
}

/// Who a client says that it is as a provider of canvases, so that it is the same after it was away.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CanvasProviderConfig {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

/// The same, of a client that is an extension.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ExtensionInfo {
    source: String,
    name: String,
}

/// Which canvas is to be opened.
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

/// What a provider says of a canvas that it opened.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    url: Option<String>,
    title: Option<String>,
    status: Option<String>,
}

#[derive(Clone)]
struct Provider {
    /// Names this attachment of the client.
    number: u64,
    peer: Peer,
    /// Whether the client shows canvases itself.
    shows: bool,
    canvases: Arc<[CanvasInfo]>,
}

impl Provider {
    async fn call(&self, method: &str, session: &Session, mut params: Value) -> Result<Value, RpcError> {
        params["sessionId"] = json!(session.id());
        params["host"] = json!({"capabilities": {"canvases": self.shows}});
        params["session"] = json!({"workingDirectory": session.settings().cwd.to_string_lossy()});
        match self.peer.call(method, &params).await {
            Ok(answer) => Ok(answer),
            Err(CallError::Refused(error)) => Err(error),
            Err(CallError::Gone) => Err(RpcError::failed("The provider of the canvas is gone")),
        }
    }
}

#[derive(Default)]
struct State {
    last: u64,
    providers: Vec<Provider>,
    /// Open canvases as their providers said, by instance, with the attachment that said it.
    shown: HashMap<String, (u64, SessionCanvasOpened)>,
}

/// The canvases of one session.
#[derive(Default)]
pub(crate) struct Canvases {
    state: Mutex<State>,
    /// What is changed and what is told of it stay in the same order.
    telling: tokio::sync::Mutex<()>,
}

impl Canvases {
    /// All canvases that are provided.
    pub(crate) fn list(&self) -> Vec<CanvasInfo> {
        let state = self.state.lock();
        state
            .providers
            .iter()
            .flat_map(|provider| provider.canvases.iter().cloned())
            .collect()
    }

    /// All open canvases.
    pub(crate) fn list_open(&self, session: &Session) -> Vec<SessionCanvasOpened> {
        let state = self.state.lock();
        let shown = |open: SessionCanvasRecorded| match state.shown.get(&open.instance_id) {
            Some((_, shown)) => shown.clone(),
            None => SessionCanvasOpened {
                instance_id: open.instance_id,
                extension_id: open.extension_id,
                canvas_id: open.canvas_id,
                title: open.title,
                input: open.input,
                ..SessionCanvasOpened::default()
            },
        };
        session.state().canvases.into_values().map(shown).collect()
    }

    /// The provider of a canvas. Where several have one of this name, it has to be said whose it is.
    fn find(&self, canvas: &str, extension: Option<&str>) -> Result<(Provider, CanvasInfo), RpcError> {
        let state = self.state.lock();
        let is = |info: &CanvasInfo| {
            info.canvas_id == canvas && extension.is_none_or(|extension| info.extension_id == extension)
        };
        // The newest attachment of a provider is the one that answers.
        let mut found: Vec<(Provider, CanvasInfo)> = Vec::new();
        for provider in state.providers.iter().rev() {
            for info in provider.canvases.iter().filter(|info| is(info)) {
                if !found.iter().any(|(_, known)| known.extension_id == info.extension_id) {
                    found.push((provider.clone(), info.clone()));
                }
            }
        }
        if found.len() > 1 {
            let whose: Vec<&str> = found.iter().map(|(_, info)| info.extension_id.as_str()).collect();
            return Err(RpcError::failed(format!(
                "Several providers have a canvas '{canvas}': say with extensionId which of {} is meant",
                whose.join(", ")
            )));
        }
        found
            .pop()
            .ok_or_else(|| RpcError::failed(format!("Canvas not found: {canvas}")))
    }

    /// Opens a canvas, or shows one anew that is open under this name.
    pub(crate) async fn open(&self, session: &Session, opening: Opening) -> Result<SessionCanvasOpened, RpcError> {
        let (provider, info) = self.find(&opening.canvas_id, opening.extension_id.as_deref())?;
        let before = session.state().canvases.remove(&opening.instance_id);
        if let Some(other) = before
            .as_ref()
            .filter(|open| (&open.canvas_id, &open.extension_id) != (&info.canvas_id, &info.extension_id))
        {
            return Err(RpcError::failed(format!(
                "'{}' is open already, as the canvas '{}' of '{}'",
                opening.instance_id, other.canvas_id, other.extension_id
            )));
        }
        let input = opening.input.or_else(|| before.as_ref()?.input.clone());
        let mut params = json!({
            "extensionId": info.extension_id,
            "canvasId": info.canvas_id,
            "instanceId": opening.instance_id,
        });
        if let Some(input) = &input {
            params["input"] = input.clone();
        }
        let said = provider.call("canvas.open", session, params).await?;
        let said: Said = serde_json::from_value(said).unwrap_or_default();
        let opened = SessionCanvasOpened {
            instance_id: opening.instance_id,
            extension_id: info.extension_id,
            extension_name: info.extension_name,
            canvas_id: info.canvas_id,
            icon: info.icon,
            title: said.title,
            status: said.status,
            url: said.url,
            input,
        };
        let recorded = SessionCanvasRecorded {
            instance_id: opened.instance_id.clone(),
            extension_id: opened.extension_id.clone(),
            canvas_id: opened.canvas_id.clone(),
            title: opened.title.clone(),
            input: opened.input.clone(),
        };
        let _telling = self.telling.lock().await;
        if before.as_ref() != Some(&recorded) {
            session.record(recorded).await?;
        }
        let shown = (provider.number, opened.clone());
        self.state.lock().shown.insert(opened.instance_id.clone(), shown);
        session.tell(opened.clone()).await?;
        Ok(opened)
    }

    /// Does something in an open canvas. Answers with what its provider answers.
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

    /// Closes a canvas. Its provider is told; one that is gone, or fails at it, holds nothing up.
    pub(crate) async fn close(&self, session: &Session, instance: &str) -> Result<(), RpcError> {
        let (open, provider) = self.find_open(session, instance)?;
        if let Ok((provider, _)) = provider
            && let Err(error) = provider.call("canvas.close", session, named(&open)).await
        {
            tracing::warn!(canvas = instance, %error, "the provider of a canvas failed to close it");
        }
        let _telling = self.telling.lock().await;
        session
            .record(SessionCanvasRemoved {
                instance_id: open.instance_id.clone(),
                extension_id: open.extension_id.clone(),
                canvas_id: open.canvas_id.clone(),
            })
            .await?;
        self.state.lock().shown.remove(instance);
        session
            .tell(SessionCanvasClosed {
                instance_id: open.instance_id,
                extension_id: open.extension_id,
                canvas_id: open.canvas_id,
            })
            .await?;
        Ok(())
    }

    /// An open canvas, and its provider where that is there.
    #[allow(clippy::type_complexity, reason = "it is taken apart at once")]
    fn find_open(
        &self,
        session: &Session,
        instance: &str,
    ) -> Result<(SessionCanvasRecorded, Result<(Provider, CanvasInfo), RpcError>), RpcError> {
        let open = session.state().canvases.remove(instance);
        let open = open.ok_or_else(|| RpcError::failed(format!("Canvas instance not found: {instance}")))?;
        let provider = self
            .find(&open.canvas_id, Some(&open.extension_id))
            .map_err(|_| RpcError::failed(format!("The provider of the canvas '{instance}' is not there")));
        Ok((open, provider))
    }

    /// Takes in what a client provides. Canvases that it says were open, and of which the log knows nothing, are open again.
    pub(crate) async fn provide(
        board: &Arc<Board>,
        session: &Session,
        peer: Peer,
        config: &SessionConfig,
    ) -> Result<Option<Provided>, RpcError> {
        let this = board.canvases();
        for open in config.open_canvases.iter().flatten() {
            if !session.state().canvases.contains_key(&open.instance_id) {
                session
                    .record(SessionCanvasRecorded {
                        instance_id: open.instance_id.clone(),
                        extension_id: open.extension_id.clone(),
                        canvas_id: open.canvas_id.clone(),
                        title: open.title.clone(),
                        input: open.input.clone(),
                    })
                    .await?;
            }
        }
        let declared = config.canvases.as_deref().unwrap_or_default();
        if declared.is_empty() {
            return Ok(None);
        }
        let _telling = this.telling.lock().await;
        let number = {
            let mut state = this.state.lock();
            state.last += 1;
            let number = state.last;
            let (id, name) = match (&config.canvas_provider, &config.extension_info) {
                (Some(provider), _) => (provider.id.clone(), provider.name.clone()),
                (None, Some(extension)) => (
                    format!("{}:{}", extension.source, extension.name),
                    Some(extension.name.clone()),
                ),
                (None, None) => (format!("connection:{number}"), None),
            };
            let info = |canvas: &CanvasConfig| CanvasInfo {
                canvas_id: canvas.id.clone(),
                extension_id: id.clone(),
                extension_name: name.clone(),
                display_name: canvas.display_name.clone(),
                description: canvas.description.clone(),
                icon: canvas.icon.clone(),
                input_schema: canvas.input_schema.clone(),
                actions: canvas.actions.clone(),
            };
            state.providers.push(Provider {
                number,
                peer,
                shows: config.request_canvas_renderer == Some(true),
                canvases: declared.iter().map(info).collect(),
            });
            number
        };
        session
            .tell(SessionCanvasRegistryChanged { canvases: this.list() })
            .await?;
        Ok(Some(Provided {
            board: Arc::clone(board),
            session: session.clone(),
            number,
        }))
    }

    /// Has a provider that is back open again what is open of it.
    async fn reopen(&self, session: &Session, number: u64) {
        let is_open = {
            let state = self.state.lock();
            let provider = state.providers.iter().find(|provider| provider.number == number);
            let canvases = provider
                .map(|provider| Arc::clone(&provider.canvases))
                .unwrap_or_default();
            session
                .state()
                .canvases
                .into_values()
                .filter(|open| !state.shown.contains_key(&open.instance_id))
                .filter(|open| {
                    let mut provided = canvases.iter().map(|info| (&info.canvas_id, &info.extension_id));
                    provided.any(|known| known == (&open.canvas_id, &open.extension_id))
                })
                .collect::<Vec<_>>()
        };
        for open in is_open {
            let instance = open.instance_id.clone();
            let opening = Opening {
                extension_id: Some(open.extension_id),
                canvas_id: open.canvas_id,
                instance_id: open.instance_id,
                input: open.input,
            };
            if let Err(error) = self.open(session, opening).await {
                tracing::warn!(canvas = instance, %error, "a canvas cannot be opened again");
            }
        }
    }

    /// A provider is gone. What is open of it stays open for it to come back.
    async fn withdraw(&self, session: &Session, number: u64) {
        let _telling = self.telling.lock().await;
        let gone: Vec<SessionCanvasOpened> = {
            let mut state = self.state.lock();
            let of_it = state.shown.extract_if(|_, (by, _)| *by == number);
            of_it.map(|(_, (_, opened))| opened).collect()
        };
        // Nobody is left to be told when the session has ended.
        let _ = session
            .tell(SessionCanvasRegistryChanged { canvases: self.list() })
            .await;
        for open in gone {
            let _ = session
                .tell(SessionCanvasUnavailable {
                    instance_id: open.instance_id,
                    extension_id: open.extension_id,
                    canvas_id: open.canvas_id,
                })
                .await;
        }
    }
}

fn named(open: &SessionCanvasRecorded) -> Value {
    json!({
        "extensionId": open.extension_id,
        "canvasId": open.canvas_id,
        "instanceId": open.instance_id,
    })
}

/// What a client provides, for as long as this is kept.
pub(crate) struct Provided {
    board: Arc<Board>,
    session: Session,
    number: u64,
}

impl Provided {
    /// The client can be called from now on.
    pub(crate) fn begin(&self) {
        let (board, session, number) = (Arc::clone(&self.board), self.session.clone(), self.number);
        tokio::spawn(async move { board.canvases().reopen(&session, number).await });
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        let number = self.number;
        let mut state = self.board.canvases().state.lock();
        state.providers.retain(|provider| provider.number != number);
        drop(state);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (board, session) = (Arc::clone(&self.board), self.session.clone());
            runtime.spawn(async move { board.canvases().withdraw(&session, number).await });
        }
    }
}
