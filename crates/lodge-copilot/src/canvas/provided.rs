//! Canvases that one client of a session provides.

use std::sync::Arc;

use lodge_events::{CanvasActionInfo, CanvasInfo, Event, Payload, SessionCanvasOpened, SessionCanvasRegistryChanged};
use lodge_host::{Listening, Publish, Session};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

use super::{Canvases, Provider, check, recorded};
use crate::{board::Board, config::SessionConfig, peer::Peer, rpc::RpcError};

/// A canvas as a client declares it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CanvasConfig {
    id: String,
    display_name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    icon: Option<String>,
    #[serde(default)]
    input_schema: Option<Value>,
    #[serde(default)]
    actions: Option<Vec<CanvasActionInfo>>,
}

/// A client's identity as a provider of canvases, so that it is recognised when it reconnects.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct CanvasProviderConfig {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

/// The identity of a client that is an extension.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ExtensionInfo {
    pub(crate) source: String,
    pub(crate) name: String,
}

/// Prefix of generated provider ids.
const MADE_UP: &str = "connection:";

/// The id and name of a provider. A client without an identity, or with one that the host could have generated, gets a
/// new one each time.
fn identity(config: &SessionConfig) -> (String, Option<String>) {
    let provider = config.canvas_provider.as_ref();
    let provider = provider.map(|provider| (provider.id.clone(), provider.name.clone()));
    let extension = config.extension_info.as_ref().map(|extension| {
        let id = format!("{}:{}", extension.source, extension.name);
        (id, Some(extension.name.clone()))
    });
    let mut said = provider.into_iter().chain(extension);
    said.find(|(id, _)| !id.is_empty() && !id.starts_with(MADE_UP))
        .unwrap_or_else(|| (format!("{MADE_UP}{}", Uuid::new_v4()), None))
}

/// Signals that the open canvases may have changed, by opening, closing or a rewind.
struct Changed(watch::Sender<()>);

impl Publish for Changed {
    fn publish(&self, event: &Event) {
        if matches!(
            event.payload(),
            Payload::SessionSnapshotRewind(_) | Payload::SessionCanvasRecorded(_) | Payload::SessionCanvasRemoved(_)
        ) {
            self.0.send_replace(());
        }
    }
}

/// The canvases that a client provides, while this exists.
pub(crate) struct Provided {
    board: Arc<Board>,
    session: Session,
    number: u64,
    changed: Arc<Changed>,
    _listening: Listening,
}

impl Canvases {
    /// Adds a client's canvases. Canvases that it reports as open, and that the log does not know, are opened again.
    pub(crate) async fn provide(
        board: &Arc<Board>,
        session: &Session,
        peer: Peer,
        config: &SessionConfig,
    ) -> Result<Option<Provided>, RpcError> {
        let this = board.canvases();
        let _telling = this.telling.lock().await;
        for open in config.open_canvases.iter().flatten() {
            this.was_open(session, open).await?;
        }
        let declared = config.canvases.as_deref().unwrap_or_default();
        if declared.is_empty() {
            return Ok(None);
        }
        let (id, name) = identity(config);
        let info = |canvas: &CanvasConfig| CanvasInfo {
            canvas_id: canvas.id.clone(),
            extension_id: id.clone(),
            extension_name: name.clone(),
            display_name: canvas.display_name.clone(),
            description: canvas
                .description
                .clone()
                .unwrap_or_else(|| canvas.display_name.clone()),
            icon: canvas.icon.clone(),
            input_schema: canvas.input_schema.clone(),
            actions: canvas.actions.clone(),
        };
        let changed = Arc::new(Changed(watch::Sender::default()));
        let provided = {
            let mut state = this.state.lock();
            state.last += 1;
            let number = state.last;
            state.providers.push(Provider {
                number,
                peer,
                shows: config.request_canvas_renderer == Some(true),
                canvases: declared.iter().map(info).collect(),
                begun: false,
            });
            Provided {
                board: Arc::clone(board),
                session: session.clone(),
                number,
                _listening: session.listen(changed.clone()),
                changed,
            }
        };
        session
            .tell(SessionCanvasRegistryChanged { canvases: this.list() })
            .await?;
        Ok(Some(provided))
    }

    /// A client reports an open canvas. One that cannot be restored is skipped.
    async fn was_open(&self, session: &Session, open: &SessionCanvasOpened) -> Result<(), RpcError> {
        let (known, full) = {
            let state = self.state.lock();
            session.look(|facts| (facts.canvases.contains_key(&open.instance_id), state.is_full(facts)))
        };
        match check(&open.instance_id, open.input.as_ref()) {
            _ if known => {}
            Ok(()) if !full => drop(session.record(recorded(open)).await?),
            Ok(()) => tracing::warn!(
                canvas = open.instance_id,
                "too many open canvases: one cannot be restored"
            ),
            Err(error) => tracing::warn!(%error, "an open canvas cannot be restored"),
        }
        Ok(())
    }
}

impl Provided {
    /// From now on, the client can be called.
    pub(crate) fn begin(&self) {
        let mut state = self.board.canvases().state.lock();
        let mut providers = state.providers.iter_mut();
        if let Some(provider) = providers.find(|provider| provider.number == self.number) {
            provider.begun = true;
        }
        drop(state);
        let mut changed = self.changed.0.subscribe();
        changed.mark_changed();
        let (board, session) = (Arc::clone(&self.board), self.session.clone());
        tokio::spawn(async move {
            while changed.changed().await.is_ok() {
                Canvases::reconcile(&board, &session).await;
            }
        });
    }
}

impl Drop for Provided {
    fn drop(&mut self) {
        let number = self.number;
        let mut state = self.board.canvases().state.lock();
        // In one step, so that nobody finds a canvas shown by a provider that is gone.
        state.providers.retain(|provider| provider.number != number);
        let lost = state.shown.extract_if(|_, (by, _)| *by == number);
        let lost: Vec<SessionCanvasOpened> = lost.map(|(_, (_, opened))| opened).collect();
        drop(state);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (board, session) = (Arc::clone(&self.board), self.session.clone());
            runtime.spawn(async move { Canvases::withdraw(&board, &session, lost).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_provider_is_who_it_says_unless_it_claims_an_id_that_the_host_makes_up() {
        let of = |config: Value| identity(&serde_json::from_value(config).expect("a configuration"));
        let app = of(json!({"canvasProvider": {"id": "app", "name": "The app"}}));
        assert_eq!(app, ("app".into(), Some("The app".into())));
        let extension = json!({"source": "project", "name": "charts"});
        assert_eq!(of(json!({"extensionInfo": extension})).0, "project:charts");
        let claimed = json!({"canvasProvider": {"id": "connection:1"}, "extensionInfo": extension});
        assert_eq!(of(claimed).0, "project:charts");
        for config in [
            json!({}),
            json!({"canvasProvider": {"id": "connection:1"}}),
            json!({"canvasProvider": {"id": ""}}),
            json!({"extensionInfo": {"source": "connection", "name": "1"}}),
        ] {
            let (first, second) = (of(config.clone()).0, of(config).0);
            assert!(first.starts_with(MADE_UP) && first.len() > 40, "{first}");
            assert_ne!(first, second);
        }
    }
}
