//! Strings that an app keeps with a session. Lodge never reads them: they reach no model, event or export.

use std::collections::BTreeMap;

use lodge_host::RegisterError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, method, sessions};
use crate::{connection::Ctx, rpc::RpcError, session::SessionId};

pub(crate) static CLIENT_DATA: Capability = Capability {
    title: "Metadata of the app",
    methods: &[
        method!(
            "session.metadata.getClientMetadata",
            0,
            "the strings that apps keep with the session",
            get
        ),
        method!(
            "session.metadata.updateClientMetadata",
            0,
            "changes them, all at once or not at all",
            update
        ),
        method!(
            "sessions.getClientMetadata",
            0,
            "those of several sessions, without opening them",
            get_several
        ),
    ],
};

/// The SDKs' limits: entries, bytes of a key, of a value and of all, and sessions per call.
const MOST_ENTRIES: usize = 128;
const LONGEST_KEY: usize = 256;
const LONGEST_VALUE: usize = 16 << 10;
const LARGEST: usize = 64 << 10;
const MOST_SESSIONS: usize = 1000;

impl From<RegisterError> for RpcError {
    fn from(error: RegisterError) -> Self {
        Self::failed(error)
    }
}

/// An error unless the client has the session open.
fn is_open(ctx: &Ctx, id: &str) -> Result<(), RpcError> {
    let found = ctx.session(id).map(drop);
    found.ok_or_else(|| RpcError::failed(format!("Session not found for sessionId: {id}")))
}

async fn get(ctx: Ctx, SessionId { session_id }: SessionId) -> Result<BTreeMap<String, String>, RpcError> {
    is_open(&ctx, &session_id)?;
    Ok(ctx.host.marks().client_data(&session_id))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams {
    session_id: String,
    #[serde(default)]
    clear: bool,
    #[serde(default)]
    remove: Vec<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
}

async fn update(ctx: Ctx, params: UpdateParams) -> Result<BTreeMap<String, String>, RpcError> {
    is_open(&ctx, &params.session_id)?;
    params
        .remove
        .iter()
        .chain(params.set.keys())
        .try_for_each(|key| check_key(key))?;
    ctx.host.marks().change_client_data(&params.session_id, |data| {
        if params.clear {
            data.clear();
        }
        for key in &params.remove {
            data.remove(key);
        }
        data.extend(params.set);
        check_size(data)
    })
}

fn check_key(key: &str) -> Result<(), RpcError> {
    let reserved = ["copilot/", "github/"].iter().any(|owner| key.starts_with(owner));
    match key.is_empty() || key.len() > LONGEST_KEY || reserved {
        true => Err(RpcError::params(format!(
            "{key:?} is not a key: keys have 1 to {LONGEST_KEY} bytes and do not begin with copilot/ or github/"
        ))),
        false => Ok(()),
    }
}

fn check_size(data: &BTreeMap<String, String>) -> Result<(), RpcError> {
    if let Some((key, _)) = data.iter().find(|(_, value)| value.len() > LONGEST_VALUE) {
        return Err(RpcError::params(format!(
            "the value of {key:?} has more than {LONGEST_VALUE} bytes"
        )));
    }
    let bytes: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
    if data.len() > MOST_ENTRIES || bytes > LARGEST {
        return Err(RpcError::params(format!(
            "a session keeps at most {MOST_ENTRIES} entries and {LARGEST} bytes for apps"
        )));
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeveralParams {
    session_ids: Vec<String>,
    #[serde(default)]
    keys: Option<Vec<String>>,
}

async fn get_several(ctx: Ctx, params: SeveralParams) -> Result<Value, RpcError> {
    if params.session_ids.len() > MOST_SESSIONS {
        return Err(RpcError::params(format!(
            "sessionIds names more than {MOST_SESSIONS} sessions"
        )));
    }
    params.keys.iter().flatten().try_for_each(|key| check_key(key))?;
    let mut found = Vec::with_capacity(params.session_ids.len());
    for id in params.session_ids {
        if sessions::one(&ctx, id.clone()).await?.is_none() {
            found.push(json!({"status": "notFound", "sessionId": id}));
            continue;
        }
        let mut data = ctx.host.marks().client_data(&id);
        if let Some(keys) = &params.keys {
            data.retain(|key, _| keys.contains(key));
        }
        found.push(json!({"status": "ok", "sessionId": id, "metadata": data}));
    }
    Ok(Value::Array(found))
}
