//! The shapes that chats and agents have before anything happened, and the addresses in what the projection says.

use ahp_types::{
    StateAction,
    common::JsonObject,
    state::{
        BackgroundWork, ChatInteractivity, ChatOrigin, ChatState, ChatSummary, FileEditSide, SessionStatus,
        ToolResultContent,
    },
};
use lodge_events::Timestamp;
use serde_json::{Value, json};

use crate::{
    projection::{object, timestamp},
    state::Uri,
    uri,
};

/// A sub-agent's chat, before anything happened in it.
pub(crate) fn sub_state(sub: &Uri, title: String, parent: &str, tool_call_id: &str) -> ChatState {
    let origin = ChatOrigin::Tool {
        chat: parent.to_owned(),
        tool_call_id: tool_call_id.to_owned(),
    };
    ChatState {
        interactivity: Some(ChatInteractivity::ReadOnly),
        ..chat_state(sub, title, origin)
    }
}

/// A chat, before anything happened in it.
pub(crate) fn chat_state(uri: &str, title: String, origin: ChatOrigin) -> ChatState {
    ChatState {
        resource: uri.to_owned(),
        title,
        status: SessionStatus::Idle.bits(),
        activity: None,
        modified_at: timestamp(Timestamp::now()),
        changes: None,
        origin: Some(origin),
        movable: None,
        interactivity: None,
        working_directories: None,
        changesets: None,
        background_work: None,
        canvases: None,
        turns: Vec::new(),
        turns_next_cursor: None,
        active_turn: None,
        steering_message: None,
        queued_messages: None,
        draft: None,
        meta: None,
    }
}

/// The chat's line in its session.
pub(crate) fn summary_of(state: &ChatState) -> ChatSummary {
    ChatSummary {
        resource: state.resource.clone(),
        title: state.title.clone(),
        status: state.status,
        activity: None,
        modified_at: state.modified_at.clone(),
        changes: None,
        origin: state.origin.clone(),
        movable: state.movable,
        interactivity: state.interactivity,
        working_directories: state.working_directories.clone(),
    }
}

/// The projection names a sub-agent's chat and a command's terminal by the tool call; clients want their addresses.
pub(crate) fn point_to_chats(session: &str, action: &mut StateAction) {
    let (call, content) = match action {
        StateAction::ChatBackgroundWorkSet(set) => {
            if let BackgroundWork::Subagent(work) = &mut set.work {
                work.chat = uri::sub_chat(session, &work.id);
            }
            return;
        }
        StateAction::ChatToolCallReady(ready) => {
            let edits = ready.edits.iter_mut().flat_map(|edits| &mut edits.items);
            edits.for_each(|edit| point_to_sides(session, &mut edit.before, &mut edit.after));
            return;
        }
        StateAction::ChatToolCallContentChanged(changed) => (&changed.tool_call_id, Some(&mut changed.content)),
        StateAction::ChatToolCallComplete(done) => (&done.tool_call_id, done.result.content.as_mut()),
        _ => return,
    };
    for part in content.into_iter().flatten() {
        if let ToolResultContent::Subagent(sub) = part
            && sub.resource == *call
        {
            sub.resource = uri::sub_chat(session, call);
        }
        if let ToolResultContent::Resource(content) = part
            && uri::session_of_content(&content.uri).is_some_and(|(of, _)| of.is_empty())
        {
            content.uri.insert_str(0, session);
        }
        if let ToolResultContent::FileEdit(edit) = part {
            point_to_sides(session, &mut edit.before, &mut edit.after);
        }
        if let ToolResultContent::Terminal(terminal) = part
            && terminal.resource == *call
        {
            terminal.resource = uri::tool_terminal(session, call);
        }
    }
}

/// Fills in the session in the addresses of what a call made of a file.
fn point_to_sides(session: &str, before: &mut Option<FileEditSide>, after: &mut Option<FileEditSide>) {
    for side in before.iter_mut().chain(after) {
        let address = &mut side.content.uri;
        if uri::session_of_content(address).is_some_and(|(of, _)| of.is_empty()) {
            address.insert_str(0, session);
        }
    }
}

/// Other hosts, for pages that link to them.
pub(crate) fn other_hosts(hosts: &[(String, String)]) -> Option<JsonObject> {
    let links: Vec<Value> = hosts
        .iter()
        .map(|(name, url)| json!({ "name": name, "url": url }))
        .collect();
    (!links.is_empty()).then(|| object(json!({ "otherHosts": links })))
}
