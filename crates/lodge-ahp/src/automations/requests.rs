//! Actions on automations and their runs. A request changes no state by itself: its result is published to all clients.

use std::sync::Arc;

use ahp_types::{
    StateAction,
    actions::{AutomationCreateRequestedAction, AutomationRemovedAction, AutomationUpdateRequestedAction},
};
use lodge_host::AutomationError;
use serde_json::{Value, value::RawValue};

use super::{CHANNEL, RUN, definition, definition::DefinitionError, id_at, reason};
use crate::{
    actions::fill_lists,
    face::Face,
    state::{Conn, Peer},
    wire::Origin,
};

/// Why an action on automations is not accepted.
#[derive(Debug, thiserror::Error)]
enum AutomationRefusal {
    #[error("the action cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("the action {0} is unknown or malformed")]
    Unknown(String),
    #[error("clients cannot dispatch this for automations")]
    NotForClients,
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    #[error("{}", reason(.0))]
    Host(#[from] AutomationError),
}

impl Face {
    /// Takes an action on one of the channels of automations.
    pub(crate) async fn automation_said(
        self: &Arc<Self>,
        conn: &Arc<Conn>,
        peer: &Peer,
        channel: &str,
        action: Value,
        raw: &RawValue,
        origin: &Origin,
    ) {
        let done = match read(action) {
            Ok(StateAction::AutomationRemoved(removed)) if channel == CHANNEL => {
                match self.remove_automation(&removed, origin).await {
                    // Everybody heard it, its sender too if it listens.
                    Ok(true) if self.inner.lock().core.hears(conn.id, peer.dialect, CHANNEL) => return,
                    other => other.map(drop),
                }
            }
            Ok(StateAction::AutomationCreateRequested(create)) if channel == CHANNEL => {
                self.create_automation(*create).await
            }
            Ok(StateAction::AutomationUpdateRequested(update)) if channel == CHANNEL => {
                self.update_automation(*update).await
            }
            Ok(StateAction::AutomationRunCancelRequested(_)) if channel != CHANNEL => {
                let run = channel.strip_prefix(RUN).unwrap_or_default();
                self.host
                    .automations()
                    .cancel(run)
                    .await
                    .map_err(AutomationRefusal::from)
            }
            Ok(_) => Err(AutomationRefusal::NotForClients),
            Err(refusal) => Err(refusal),
        };
        let inner = self.inner.lock();
        match done {
            Ok(()) => inner.core.echo(conn, channel, &raw, origin),
            Err(reason) => inner.core.reject(conn, channel, &raw, origin, &reason),
        }
    }

    /// Creates an automation. Repeating the same definition at the same address creates no second one.
    async fn create_automation(&self, create: AutomationCreateRequestedAction) -> Result<(), AutomationRefusal> {
        definition::check_address(&create.resource)?;
        definition::check(&create.definition)?;
        let definition = definition::kept(create.definition)?;
        let id = id_at(&create.resource).to_owned();
        Ok(self.host.automations().create(id, definition).await?)
    }

    async fn update_automation(&self, update: AutomationUpdateRequestedAction) -> Result<(), AutomationRefusal> {
        let AutomationUpdateRequestedAction { resource, changes, .. } = update;
        let automations = self.host.automations();
        let invalid = |error: DefinitionError| AutomationError::Invalid(error.to_string());
        let updated = automations.update(id_at(&resource), |known| {
            let mut definition = definition::shown(&known);
            definition::patch(&mut definition, changes);
            definition::check(&definition).map_err(invalid)?;
            definition::kept(definition).map_err(invalid)
        });
        Ok(updated.await?)
    }

    /// Removes an automation and its runs, but not their sessions. False when it does not exist.
    async fn remove_automation(
        &self,
        removed: &AutomationRemovedAction,
        origin: &Origin,
    ) -> Result<bool, AutomationRefusal> {
        let id = id_at(&removed.resource);
        self.automations.removing.lock().insert(id.to_owned(), origin.clone());
        let gone = self.host.automations().remove(id).await;
        self.automations.removing.lock().remove(id);
        Ok(gone?)
    }
}

/// Reads an action. The official type reads a known action with a wrong payload as an unknown one, so the payload is checked
/// first.
fn read(mut action: Value) -> Result<StateAction, AutomationRefusal> {
    fill_lists(&mut action);
    let kind = action["type"].as_str().unwrap_or_default().to_owned();
    let wrong = match kind.as_str() {
        "automation/createRequested" => serde_json::from_value::<AutomationCreateRequestedAction>(action.clone()).err(),
        "automation/updateRequested" => serde_json::from_value::<AutomationUpdateRequestedAction>(action.clone()).err(),
        _ => None,
    };
    if let Some(error) = wrong {
        return Err(error.into());
    }
    match serde_json::from_value(action) {
        Ok(StateAction::Unknown(_)) | Err(_) => Err(AutomationRefusal::Unknown(kind)),
        Ok(action) => Ok(action),
    }
}
