//! Session data of earlier builds' AHP face. Part of it belongs in the sessions' logs.

use std::{collections::BTreeMap, sync::Arc};

use lodge_agent::Facts;
use lodge_events::{
    ApprovalMode, ChatBeginning, ChatSource, Event, LodgeApproval, LodgeChat, LodgeChats, LodgeDirectories, LodgeNamed,
    LodgeSwitched, LodgeWorktree, Payload,
};
use lodge_log::{Home, LogError, Store};
use serde::Deserialize;
use serde_json::Value;

use super::{MigrateError, automations, set, words};
use crate::{
    ChangeCounts, MadeBy, Marks, MessageTemplate,
    marks::{CARRIED, CarriedMessage},
    registers::Registers,
};

#[derive(Default, Deserialize)]
#[serde(default)]
struct OldSession {
    uri: Option<String>,
    provider: Option<String>,
    origin: Option<OldMaker>,
    read: bool,
    archived: bool,
    auto_approve: bool,
    worktree: Option<LodgeWorktree>,
    directories: Vec<String>,
    own_directories: Option<Vec<String>>,
    chats: Vec<OldChat>,
    order: Vec<String>,
    default_title: Option<String>,
    own: Option<OldChat>,
    draft: Option<words::OldMessage>,
    queue: Vec<OldQueued>,
    decisions: BTreeMap<String, bool>,
    changes: Option<OldChanges>,
    reviewed: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct OldMaker {
    automation: String,
    run: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OldChanges {
    additions: i64,
    deletions: i64,
    files: i64,
}

#[derive(Deserialize)]
struct OldQueued {
    id: String,
    message: words::OldMessage,
}

#[derive(Deserialize)]
struct OldChat {
    uri: String,
    id: String,
    title: String,
    origin: OldOrigin,
    #[serde(default)]
    hidden_turns: u64,
    #[serde(default)]
    born: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldOrigin {
    kind: String,
    #[serde(default)]
    chat: Option<String>,
    #[serde(default)]
    turn_id: Option<String>,
    #[serde(default)]
    selection: Option<OldSelection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldSelection {
    text: String,
    #[serde(default)]
    response_part_id: Option<String>,
}

/// Brings in what was kept about one session: all of it that can be, and the first error of what cannot.
pub(super) fn bring_in(
    id: &str,
    record: Value,
    home: &Home,
    registers: &Arc<dyn Registers>,
) -> Result<(), MigrateError> {
    let old: OldSession = serde_json::from_value(record)?;
    let mut outcome = Ok(());
    for (id, events) in events(id, &old) {
        outcome = outcome.and(append(home, &id, events));
    }
    outcome.and(keep(id, old, registers))
}

fn keep(id: &str, old: OldSession, registers: &Arc<dyn Registers>) -> Result<(), MigrateError> {
    let marks = Marks {
        address: old.uri,
        agent: old.provider,
        made_by: old.origin.map(|maker| MadeBy {
            automation: automations::id(&maker.automation),
            run: automations::run_id(&maker.run),
        }),
        read: old.read,
        archived: old.archived,
        changes: old.changes.map(|counted| ChangeCounts {
            added: counted.additions,
            removed: counted.deletions,
            files: counted.files,
        }),
    };
    let mut outcome = Ok(());
    if marks != Marks::default() {
        outcome = outcome.and(set(registers, &format!("marks/{id}"), &marks));
    }
    if let Some(draft) = old.draft {
        let draft = MessageTemplate::from(draft);
        outcome = outcome.and(set(registers, &format!("draft/{id}"), &draft));
    }
    if !old.reviewed.is_empty() {
        outcome = outcome.and(set(registers, &format!("reviewed/{id}"), &old.reviewed));
    }
    let queue = old.queue.into_iter().map(|queued| CarriedMessage {
        id: queued.id,
        message: queued.message.into(),
    });
    let queue: Vec<CarriedMessage> = queue.collect();
    if !queue.is_empty() {
        outcome = outcome.and(set(registers, &format!("{CARRIED}/{id}"), &queue));
    }
    outcome
}

/// What the logs of a session and of its chats have to say.
fn events(id: &str, old: &OldSession) -> Vec<(String, Vec<Payload>)> {
    let mut own: Vec<Payload> = Vec::new();
    if old.auto_approve {
        let mode = ApprovalMode::ApproveAll;
        own.push(LodgeApproval { mode }.into());
    }
    own.extend(old.worktree.clone().map(Into::into));
    let paths = |all: &[String]| {
        all.iter()
            .filter_map(|address| words::path(address))
            .collect::<Vec<_>>()
    };
    if !old.directories.is_empty() || old.own_directories.is_some() {
        let chosen = old.own_directories.as_deref().map(paths);
        let further = match &chosen {
            Some(chosen) if old.directories.is_empty() => chosen.iter().skip(1).cloned().collect(),
            _ => paths(&old.directories),
        };
        own.push(LodgeDirectories { further, chosen }.into());
    }
    if !old.decisions.is_empty() {
        let switches = old.decisions.iter().map(|(id, on)| (words::key(id), *on));
        let switches = switches.collect();
        own.push(LodgeSwitched { switches }.into());
    }
    let mut order = old.order.clone();
    order.extend(
        old.chats
            .iter()
            .map(|chat| chat.uri.clone())
            .filter(|uri| !old.order.contains(uri)),
    );
    if !order.is_empty() || old.default_title.is_some() {
        let default_title = old.default_title.clone();
        own.push(LodgeChats { order, default_title }.into());
    }
    own.extend(old.own.iter().flat_map(|chat| chat_events(chat, None)));
    let chats = old
        .chats
        .iter()
        .map(|chat| (chat.id.clone(), chat_events(chat, Some(id))));
    std::iter::once((id.to_owned(), own)).chain(chats).collect()
}

fn chat_events(old: &OldChat, session: Option<&str>) -> Vec<Payload> {
    let OldOrigin {
        kind,
        chat,
        turn_id,
        selection,
    } = &old.origin;
    let chat = LodgeChat {
        session: session.map(str::to_owned),
        address: old.uri.clone(),
        origin: ChatSource {
            kind: match kind.as_str() {
                "fork" => ChatBeginning::Fork,
                "sideChat" => ChatBeginning::SideChat,
                _ => ChatBeginning::User,
            },
            chat: chat.clone(),
            turn_id: turn_id.clone(),
            selection: selection.as_ref().map(|selection| selection.text.clone()),
            part_id: selection
                .as_ref()
                .and_then(|selection| selection.response_part_id.clone()),
        },
        hidden_turns: Some(old.hidden_turns).filter(|turns| *turns > 0),
        born: old.born.clone(),
    };
    let name = Some(old.title.clone()).filter(|title| !title.is_empty());
    let named = name.map(|name| {
        let name = Some(name);
        LodgeNamed { name, automatic: None }.into()
    });
    std::iter::once(chat.into()).chain(named).collect()
}

/// Puts events beside the chain of a log, unless it says the same already. A session that is gone needs none.
fn append(home: &Home, id: &str, events: Vec<Payload>) -> Result<(), MigrateError> {
    if events.is_empty() {
        return Ok(());
    }
    let mut opened = match home.sessions().open(id) {
        Err(LogError::NotFound { .. }) => return Ok(()),
        other => other?,
    };
    let before = Facts::read(&opened)?;
    let mut facts = before.clone();
    for payload in events {
        // What somebody chose in the log is newer than what was kept beside it.
        if matches!(payload, Payload::LodgeApproval(_)) && facts.approval.is_some() {
            continue;
        }
        let parent = opened.log.last_id();
        let event = Event::new(parent, None, payload);
        let known = facts.clone();
        facts.fold(&event);
        if facts != known {
            opened.log.append(&event)?;
        }
    }
    opened.log.sync()?;
    Ok(())
}
