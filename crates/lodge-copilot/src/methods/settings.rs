//! The user's settings for all sessions.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, rpc::RpcError, user_settings::UserSettings};

pub(crate) static SETTINGS: Capability = Capability {
    title: "User settings",
    methods: &[
        method!(
            "secrets.addFilterValues",
            1,
            "values that must not appear in any event of any session",
            add_secrets
        ),
        method!("user.settings.get", 1, "every setting, with its default", get),
        method!("user.settings.set", 1, "changes settings; `null` resets one", set),
        method!(
            "user.settings.reload",
            3,
            "reads `settings.json` again, which happens anyway",
            reload
        ),
    ],
};

#[derive(Debug, Deserialize)]
struct SecretsParams {
    values: Vec<String>,
}

async fn add_secrets(ctx: Ctx, params: SecretsParams) -> Result<Value, RpcError> {
    let added = ctx.host.secrets().add(params.values);
    added.map_err(|rest| RpcError::failed(format!("Too many values to filter: {rest} were not added")))?;
    Ok(json!({"ok": true}))
}

async fn get(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    let settings = UserSettings::read(ctx.host.home().path()).map_err(RpcError::failed)?;
    Ok(json!({"settings": settings.list()}))
}

#[derive(Debug, Deserialize)]
struct SetParams {
    settings: Map<String, Value>,
}

async fn set(ctx: Ctx, params: SetParams) -> Result<Value, RpcError> {
    UserSettings::change(ctx.host.home().path(), params.settings).map_err(RpcError::failed)?;
    Ok(json!({"shadowedKeys": []}))
}

/// Nothing is cached, so this only checks whether the file can be read.
async fn reload(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    UserSettings::read(ctx.host.home().path()).map_err(RpcError::failed)?;
    Ok(Value::Null)
}
