//! What clients say about automations and their runs. A request changes no state by itself: what comes of it is told to all.

use std::sync::Arc;

use ahp_types::{
    StateAction,
    actions::{AutomationCreateRequestedAction, AutomationRemovedAction, AutomationUpdateRequestedAction},
};
use serde_json::{Value, value::RawValue};

use super::{CHANNEL, definition, record::Record};
use crate::{
    actions::{Refusal, fill_lists},
    face::Face,
    state::{Conn, Peer},
    wire::Origin,
};

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
            Ok(StateAction::AutomationRunCancelRequested(_)) if channel != CHANNEL => self.cancel_run(channel).await,
            Ok(_) => Err("only the host says this about automations".to_owned()),
            Err(refusal) => Err(refusal),
        };
        let inner = self.inner.lock();
        match done {
            Ok(()) => inner.core.echo(conn, channel, &raw, origin),
            Err(reason) => inner.core.reject(conn, channel, &raw, origin, &reason),
        }
    }

    /// The same definition at the same address is no second automation, and its client hears of the first.
    async fn create_automation(&self, create: AutomationCreateRequestedAction) -> Result<(), Refusal> {
        definition::address(&create.resource)?;
        definition::check(&create.definition)?;
        let mut book = self.automations.book.lock().await;
        if let Some(known) = book.get(&create.resource) {
            if known.definition != create.definition {
                return Err(format!("Automation already exists: {}", create.resource));
            }
            let mut inner = self.inner.lock();
            let allowed = inner.automations_allowed();
            inner.core.show_automation(known, allowed);
            return Ok(());
        }
        let record = Record::new(create.resource, create.definition, self.automations.clock.now());
        book.check_room(&record)?;
        let kept = self.keep_record(&mut book, record, &[], "").await;
        kept.map_err(|error| format!("the automation cannot be kept: {error}"))
    }

    async fn update_automation(&self, update: AutomationUpdateRequestedAction) -> Result<(), Refusal> {
        let mut book = self.automations.book.lock().await;
        let missing = || format!("Automation not found: {}", update.resource);
        let known = book.get(&update.resource).ok_or_else(missing)?;
        let mut definition = known.definition.clone();
        definition::patch(&mut definition, update.changes);
        definition::check(&definition)?;
        let record = known.redefined(definition, self.automations.clock.now());
        book.check_room(&record)?;
        let kept = self.keep_record(&mut book, record, &[], "").await;
        kept.map_err(|error| format!("the automation cannot be kept: {error}"))
    }

    /// Removes an automation and what is known of its runs; their sessions stay. False: there was none.
    async fn remove_automation(&self, removed: &AutomationRemovedAction, origin: &Origin) -> Result<bool, Refusal> {
        let mut book = self.automations.book.lock().await;
        let Some(known) = book.get(&removed.resource) else {
            return Ok(false);
        };
        if known.is_active() {
            return Err(format!(
                "Automation has an active run and cannot be removed: {}",
                removed.resource
            ));
        }
        let file = book.file(&removed.resource);
        let gone = tokio::task::spawn_blocking(move || file.remove()).await;
        let gone = gone.map_err(std::io::Error::other).and_then(|gone| gone);
        gone.map_err(|error| format!("the automation cannot be removed: {error}"))?;
        let before = book.remove(&removed.resource);
        let mut inner = self.inner.lock();
        let action = StateAction::AutomationRemoved(removed.clone());
        inner.core.publish(CHANNEL, &action, Some(origin));
        for run in before.iter().flat_map(|before| &before.runs) {
            inner.core.remove_service(&run.resource);
        }
        drop(inner);
        self.automations.look();
        Ok(true)
    }
}

/// Reads an action. The official type takes a known one with a wrong payload for an unknown one; here is said what is wrong.
fn read(mut action: Value) -> Result<StateAction, Refusal> {
    fill_lists(&mut action);
    let kind = action["type"].as_str().unwrap_or_default().to_owned();
    let wrong = match kind.as_str() {
        "automation/createRequested" => serde_json::from_value::<AutomationCreateRequestedAction>(action.clone()).err(),
        "automation/updateRequested" => serde_json::from_value::<AutomationUpdateRequestedAction>(action.clone()).err(),
        _ => None,
    };
    if let Some(error) = wrong {
        return Err(format!("the action cannot be read: {error}"));
    }
    match serde_json::from_value(action) {
        Ok(StateAction::Unknown(_)) | Err(_) => Err(format!("{kind} is not an action that can be understood")),
        Ok(action) => Ok(action),
    }
}
