//! Protocol 0.1.0: a session is one conversation, and its URI stands inside the actions. A session and its default chat
//! are shown as one; further chats, which that protocol does not know, are not shown.

mod incoming;
mod outgoing;
mod state;

use ahp_types::{StateAction, state::SessionState};
use serde_json::{Map, Value, json};

pub(crate) use self::{
    incoming::{IncomingError, incoming},
    state::{changes, root, session, summary, terminal, turn},
};
use crate::{
    customizations::things,
    session_config::{DEFAULT_EFFORT, EFFORT},
    state::{Core, SessionEntry},
    wire::{self, Envelope, Frame, Origin, Unnumbered, envelope_of},
};

/// The root channel's address.
pub(crate) const ROOT: &str = "agenthost:/root";

/// The seed's spelling of an action that was sent in today's, where it follows from the action alone, and its number.
pub(crate) fn translate(modern: &Frame, session: &str) -> Option<(Unnumbered, u64)> {
    let envelope: Value = serde_json::from_str(envelope_of(modern)).ok()?;
    let action = outgoing::action(envelope.get("action")?, session)?;
    let server_seq = envelope.get("serverSeq")?.as_u64()?;
    let origin = envelope.get("origin").and_then(|origin| {
        let client_id = origin.get("clientId")?.as_str()?.into();
        Some(Origin {
            client_id,
            client_seq: origin.get("clientSeq")?.as_i64()?,
        })
    });
    let envelope = Envelope {
        channel: None,
        action: &action,
        origin: origin.as_ref(),
        rejection_reason: None,
    };
    Some((envelope.spell(), server_seq))
}

/// The seed's spelling of an action where it depends on the state, which has the action applied already. `None`: it
/// follows from the action alone.
pub(crate) fn expand(core: &Core, session: &str, channel: &str, action: &StateAction) -> Option<Vec<Value>> {
    match action {
        StateAction::SessionActiveClientSet(set) => {
            let state = &core.sessions.get(session)?.state;
            // One active client is all this protocol knows: the one who came first.
            let first = state.active_clients.first()?;
            let shown = first.client_id == set.active_client.client_id;
            Some(if shown {
                vec![active_client(session, state)]
            } else {
                Vec::new()
            })
        }
        StateAction::SessionActiveClientRemoved(_) => {
            Some(vec![active_client(session, &core.sessions.get(session)?.state)])
        }
        StateAction::SessionConfigChanged(changed) => {
            let mut config = changed.config.clone();
            let replaces = changed.replace == Some(true);
            let parts = ["model", EFFORT].map(|part| config.remove(part).is_some());
            let model = parts.contains(&true) || replaces;
            let mut actions = Vec::new();
            if !config.is_empty() || replaces {
                let mut action = json!({ "type": "session/configChanged", "session": session, "config": config });
                if let Some(replace) = changed.replace {
                    action["replace"] = replace.into();
                }
                actions.push(action);
            }
            if let Some(model) = core.sessions.get(session).filter(|_| model).and_then(model_of) {
                actions.push(json!({ "type": "session/modelChanged", "session": session, "model": model }));
            }
            Some(actions)
        }
        StateAction::SessionCustomizationToggled(toggled) => {
            let all = core.sessions.get(session)?.state.customizations.as_deref()?;
            let thing = things(all).into_iter().find(|thing| thing.id == toggled.id)?;
            Some(vec![json!({
                "type": "session/customizationToggled", "session": session, "uri": thing.seed_uri, "enabled": thing.on,
            })])
        }
        StateAction::SessionCustomizationsChanged(_)
        | StateAction::SessionCustomizationUpdated(_)
        | StateAction::SessionCustomizationRemoved(_)
        | StateAction::SessionMcpServerStateChanged(_)
        | StateAction::SessionMcpServerStartRequested(_)
        | StateAction::SessionMcpServerStopRequested(_) => {
            let all = state::customizations(&core.sessions.get(session)?.state);
            Some(vec![
                json!({ "type": "session/customizationsChanged", "session": session, "customizations": all }),
            ])
        }
        StateAction::ChatTurnResume(_) => {
            let store = core.chats.get(channel)?.store();
            let active = store.head().active_turn.as_ref()?;
            let before = store.turns().last().map(|turn| turn.id.to_string());
            let mut truncated = json!({ "type": "session/truncated", "session": session });
            if let Some(before) = before {
                truncated["turnId"] = before.into();
            }
            let mut actions = vec![truncated];
            let message = serde_json::to_value(&active.message).ok()?;
            actions.push(json!({
                "type": "session/turnStarted", "session": session, "turnId": active.id,
                "userMessage": outgoing::message(&message),
            }));
            for part in &active.response_parts {
                let part = serde_json::to_value(part).ok()?;
                if let Some(part) = outgoing::part(&part) {
                    let turn = &active.id;
                    actions.push(
                        json!({ "type": "session/responsePart", "session": session, "turnId": turn, "part": part }),
                    );
                }
            }
            Some(actions)
        }
        _ => None,
    }
}

/// What a session changed.
pub(crate) fn diffs_changed(session: &str, entry: &SessionEntry) -> Value {
    json!({ "type": "session/diffsChanged", "session": session, "diffs": entry.diffs })
}

fn active_client(session: &str, state: &SessionState) -> Value {
    let client = state
        .active_clients
        .first()
        .and_then(|client| serde_json::to_value(client).ok());
    let client = client.map(|client| outgoing::active_client(&client));
    json!({ "type": "session/activeClientChanged", "session": session, "activeClient": client })
}

/// The session's model; today's protocol has one per message instead.
pub(crate) fn model_of(entry: &SessionEntry) -> Option<Value> {
    let values = &entry.state.config.as_ref()?.values;
    let by_default = || entry.schema.as_ref()?.pointer("/properties/model/default");
    let mut model = json!({ "id": values.get("model").or_else(by_default)? });
    if let Some(effort) = values.get(EFFORT).filter(|effort| *effort != DEFAULT_EFFORT) {
        model["config"] = json!({ EFFORT: effort });
    }
    Some(model)
}

/// A notification about the list of sessions.
pub(crate) fn notification(notification: Value) -> Frame {
    wire::notification("notification", &json!({ "notification": notification }))
}

/// Moves a value to another key.
fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}
