//! Messages and commands that wait for the running turn to end.

use std::sync::Arc;

use lodge_host::{Delivery, Prompt, QueueChange};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Capability, Nothing, core::SendParams, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static QUEUE: Capability = Capability {
    title: "Queue",
    methods: &[
        method!(session "session.queue.pendingItems", 2, "the queued messages", pending),
        method!(session "session.queue.removeMostRecent", 2, "removes the newest message", remove_most_recent),
        method!(session "session.queue.removeAt", 0, "removes a message", remove_at),
        method!(session "session.queue.moveItem", 0, "moves a message", move_item),
        method!(session "session.queue.insertAt", 0, "inserts a message", insert_at),
        method!(session "session.queue.duplicateAt", 0, "duplicates a message", duplicate_at),
        method!(session "session.queue.updateText", 0, "changes the text of a message", update_text),
        method!(session "session.queue.sendNow", 0, "sends a message into the running turn", send_now),
        method!(session "session.queue.clear", 2, "removes all messages", clear),
        method!(session "session.queue.hasPending", 0, "whether messages are queued", has_pending),
    ],
};

fn item(prompt: &Prompt) -> Value {
    let id = prompt.message_id.as_deref().unwrap_or_default();
    json!({
        "id": id,
        "messageId": id,
        "kind": "message",
        "displayText": prompt.display_text.as_ref().unwrap_or(&prompt.text),
        "agentMode": prompt.agent_mode.as_deref().unwrap_or("interactive"),
    })
}

async fn pending(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let (queue, steering) = session.session().queue();
    let steering: Vec<_> = steering
        .iter()
        .map(|prompt| prompt.display_text.as_ref().unwrap_or(&prompt.text))
        .collect();
    let commands = session.board().waiting_commands().into_iter();
    let commands = commands
        .map(|(id, text)| json!({"id": id, "kind": "command", "displayText": text, "agentMode": "interactive"}));
    let items: Vec<Value> = queue.iter().map(item).chain(commands).collect();
    Ok(json!({"items": items, "steeringMessages": steering}))
}

async fn has_pending(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let (queue, steering) = session.session().queue();
    let commands = session.board().waiting_commands();
    Ok(json!({"hasPending": !queue.is_empty() || !steering.is_empty() || !commands.is_empty()}))
}

async fn remove_most_recent(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let last = session.board().waiting_commands().len().wrapping_sub(1);
    let mut removed = session.board().keep_commands(|at, _| at != last);
    if removed == 0 {
        removed = session.session().change_queue(QueueChange::RemoveLast).await?;
    }
    Ok(json!({"removed": removed > 0}))
}

#[derive(Debug, Deserialize)]
struct ItemParams {
    id: String,
}

async fn remove_at(session: Arc<Attached>, params: ItemParams) -> Result<Value, RpcError> {
    let mut removed = session.board().keep_commands(|_, id| id != params.id);
    if removed == 0 {
        removed = session.session().change_queue(QueueChange::Remove(params.id)).await?;
    }
    Ok(json!({"removed": removed > 0}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MoveParams {
    id: String,
    to_position: usize,
}

async fn move_item(session: Arc<Attached>, params: MoveParams) -> Result<Value, RpcError> {
    let mut order: Vec<String> = session
        .session()
        .queue()
        .0
        .into_iter()
        .filter_map(|prompt| prompt.message_id)
        .collect();
    let Some(at) = order.iter().position(|id| *id == params.id) else {
        return Ok(json!({"changed": false}));
    };
    let id = order.remove(at);
    let to = params.to_position.min(order.len());
    order.insert(to, id);
    session.session().change_queue(QueueChange::Reorder(order)).await?;
    Ok(json!({"changed": to != at}))
}

#[derive(Debug, Deserialize)]
struct InsertParams {
    position: i64,
    message: SendParams,
}

async fn insert_at(session: Arc<Attached>, params: InsertParams) -> Result<Value, RpcError> {
    let mut prompt = Prompt::try_from(params.message)?;
    if prompt.source.as_deref() == Some("system") {
        return Err(RpcError::params(
            "message.source: a message of the system cannot be queued",
        ));
    }
    prompt.delivery = Delivery::Enqueue;
    insert(&session, usize::try_from(params.position).unwrap_or(0), prompt).await
}

async fn insert(session: &Attached, at: usize, mut prompt: Prompt) -> Result<Value, RpcError> {
    let id = Uuid::new_v4().to_string();
    prompt.message_id = Some(id.clone());
    for earlier in &mut prompt.before {
        earlier.message_id = Some(Uuid::new_v4().to_string());
    }
    let change = QueueChange::Insert(at, Box::new(prompt));
    session.session().change_queue(change).await?;
    Ok(json!({"id": id}))
}

async fn duplicate_at(session: Arc<Attached>, ItemParams { id }: ItemParams) -> Result<Value, RpcError> {
    let (queue, _) = session.session().queue();
    let has_id = |prompt: &Prompt| prompt.message_id.as_ref() == Some(&id);
    match queue.iter().position(has_id) {
        Some(at) => insert(&session, at + 1, queue[at].clone()).await,
        None => Err(RpcError::failed(format!("Queued item not found: {id}"))),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextParams {
    id: String,
    prompt: String,
    #[serde(default)]
    display_prompt: Option<String>,
}

async fn update_text(session: Arc<Attached>, params: TextParams) -> Result<Value, RpcError> {
    let change = QueueChange::Reword(params.id, params.prompt, params.display_prompt);
    Ok(json!({"updated": session.session().change_queue(change).await? > 0}))
}

async fn send_now(session: Arc<Attached>, ItemParams { id }: ItemParams) -> Result<Value, RpcError> {
    let steered = session.session().change_queue(QueueChange::Steer(id)).await?;
    Ok(json!({"steered": steered > 0}))
}

async fn clear(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    session.board().keep_commands(|_, _| false);
    session.session().change_queue(QueueChange::Clear).await?;
    Ok(Value::Null)
}
