//! Asking people whether a client may reach files outside the directories of its sessions.

use std::time::Duration;

use futures_util::future::BoxFuture;
use lodge_agent::{Answer, ElicitationAnswer};
use lodge_events::{ElicitationRequested, ElicitationSchema};
use lodge_files::Grant;
use serde_json::json;

use crate::Session;

/// A person who does not answer for so long does not answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// For how long somebody may have what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Until the host stops.
    ForNow,
    /// Always.
    Lasting,
}

impl Session {
    /// Asks the people at a session whether a client may have what it asks for. Nothing when they deny it or do not answer.
    pub fn ask_access<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Option<Access>> {
        Box::pin(async move {
            let what = match (grant.read, grant.write) {
                (true, true) => "read and write",
                (false, true) => "write",
                _ => "read",
            };
            let schema = json!({
                "type": "object",
                "properties": { "answer": {
                    "type": "string",
                    "title": "Access to files",
                    "description": "May it?",
                    "oneOf": [
                        { "const": "now", "title": "Allow until the host stops" },
                        { "const": "always", "title": "Always allow" },
                        { "const": "no", "title": "Deny" },
                    ],
                } },
                "required": ["answer"],
            });
            let request_id = uuid::Uuid::new_v4().to_string();
            let question = ElicitationRequested {
                request_id: request_id.clone(),
                message: format!("{} wants to {what} {}", grant.client, grant.uri),
                requested_schema: serde_json::from_value::<ElicitationSchema>(schema).ok(),
                ..ElicitationRequested::default()
            };
            let asked = self.clone();
            let mut asking = tokio::spawn(async move { asked.elicit(question).await });
            let answer = match tokio::time::timeout(PATIENCE, &mut asking).await {
                Ok(answer) => answer,
                Err(_) => {
                    let action = "cancel".into();
                    let cancel = ElicitationAnswer { action, content: None };
                    let _ = self
                        .answer(&request_id, Answer::Elicitation(cancel), Default::default())
                        .await;
                    asking.await
                }
            };
            let answer = answer.ok()?.ok().filter(|answer| answer.action == "accept")?;
            let chosen = serde_json::to_value(answer.content).ok()?;
            match chosen.get("answer")?.as_str()? {
                "always" => Some(Access::Lasting),
                "now" => Some(Access::ForNow),
                _ => None,
            }
        })
    }
}
