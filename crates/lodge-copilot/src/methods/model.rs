//! Models and providers of a session.

use std::sync::Arc;

use lodge_events::AutoTier;
use lodge_host::Change;
use lodge_models::{ModelInfo, ProviderConfig};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{
    Capability, Nothing,
    core::{auth_json, host_login},
    method,
};
use crate::{
    config::{ModelCapabilities, ModelConfig},
    connection::{Ctx, MethodResult, Outcome},
    providers,
    rpc::{Params, Reply, RpcError},
    session::Attached,
};

pub(crate) static MODEL: Capability = Capability {
    title: "Models and providers",
    methods: &[
        method!("models.list", 1, "models that sessions may use", models_list),
        method!(session "session.model.list", 2, "models that this session may use", model_list),
        method!(session "session.model.getCurrent", 4, "the model and its reasoning effort", get_current),
        method!(session "session.model.switchTo", 6, "switches to another model, from the next call on", switch_to),
        method!(session "session.model.switchAutoTier", 5, "sets how the provider chooses the model, from the next message on", switch_auto_tier),
        method!(session "session.model.setReasoningEffort", 1, "changes the reasoning effort", set_reasoning_effort),
        method!(session "session.model.setAllowedModels", 0, "limits the session to these models, or lifts the limit", set_allowed),
        method!(session "session.provider.add", 1, "adds providers and models for this session", provider_add),
        method!(session "session.provider.getEndpoint", 2, "address, key and headers of the session's provider", get_endpoint),
        method!(raw "session.gitHubAuth.getStatus", 4, "whether the session has a GitHub token", auth_status),
        method!(raw "session.gitHubAuth.setCredentials", 1, "changes the login of this session", set_credentials),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModelsParams {
    git_hub_token: Option<String>,
}

async fn models_list(ctx: Ctx, params: ModelsParams) -> Result<Value, RpcError> {
    let models = providers::available(&ctx.catalogue(params.git_hub_token.as_deref(), None)).await;
    Ok(json!({"models": models.iter().map(model_json).collect::<Vec<_>>()}))
}

async fn model_list(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let allowed = session.session().settings().allowed_models;
    let mut models = session.models().await;
    models.retain(|model| allowed.as_ref().is_none_or(|allowed| allowed.contains(&model.id)));
    let list: Vec<_> = models.iter().map(model_json).collect();
    Ok(json!({"list": list, "modelPriceCategories": [], "quotaSnapshots": {}}))
}

/// A model, in the clients' form.
pub(crate) fn model_json(info: &ModelInfo) -> Value {
    let mut json = json!({
        "id": info.id,
        "name": info.name,
        "capabilities": {
            "supports": {"vision": info.vision, "reasoningEffort": !info.reasoning_efforts.is_empty()},
            "limits": {
                "max_context_window_tokens": info.context_window,
                "max_prompt_tokens": info.prompt_limit(),
                "max_output_tokens": info.max_output_tokens,
            },
        },
    });
    if !info.reasoning_efforts.is_empty() {
        json["supportedReasoningEfforts"] = json!(info.reasoning_efforts);
    }
    json
}

async fn get_current(session: Arc<Attached>, _: Nothing) -> Result<Value, RpcError> {
    let settings = session.session().settings();
    let mut current = json!({"modelId": settings.model.id});
    if let Some(effort) = settings.reasoning_effort {
        current["reasoningEffort"] = json!(effort);
    }
    if let Some(tier) = settings.auto_tier {
        current["autoTier"] = json!(tier);
    }
    if let Some(pending) = settings.pending_auto_tier {
        current["pendingAutoTier"] = json!(pending);
    }
    Ok(current)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TierParams {
    auto_tier: Option<AutoTier>,
}

async fn switch_auto_tier(session: Arc<Attached>, params: TierParams) -> Result<Value, RpcError> {
    let before = session.session().settings();
    let change = Change::AutoTier {
        tier: params.auto_tier,
        at_once: false,
    };
    session.session().configure(change).await?;
    let now = session.session().settings();
    let mut result = json!({"status": if now.pending_auto_tier.is_some() { "pending" } else { "unchanged" }});
    if let Some(tier) = now.auto_tier {
        result["effectiveAutoTier"] = json!(tier);
    }
    for (key, tier) in [
        (
            "supersededAutoTier",
            before
                .pending_auto_tier
                .filter(|tier| now.pending_auto_tier.as_ref() != Some(tier)),
        ),
        ("pendingAutoTier", now.pending_auto_tier.clone()),
    ] {
        if let Some(tier) = tier {
            result[key] = json!(tier);
        }
    }
    Ok(result)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SwitchParams {
    model_id: String,
    #[serde(default)]
    reasoning_effort: Option<String>,
    #[serde(default)]
    model_capabilities: Option<ModelCapabilities>,
    /// Absent leaves it unchanged, null lets the provider decide.
    #[serde(default, deserialize_with = "given")]
    auto_tier: Option<Option<AutoTier>>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<AutoTier>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

async fn switch_to(session: Arc<Attached>, params: SwitchParams) -> Result<Value, RpcError> {
    let capabilities = params.model_capabilities.as_ref();
    session
        .switch_model(&params.model_id, params.reasoning_effort, capabilities)
        .await?;
    if let Some(tier) = params.auto_tier {
        let change = Change::AutoTier { tier, at_once: false };
        session.session().configure(change).await?;
    }
    Ok(json!({"modelId": params.model_id, "deferred": false}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EffortParams {
    reasoning_effort: String,
}

async fn set_reasoning_effort(session: Arc<Attached>, params: EffortParams) -> Result<Value, RpcError> {
    session
        .session()
        .configure(Change::ReasoningEffort(Some(params.reasoning_effort.clone())))
        .await?;
    Ok(json!({"reasoningEffort": params.reasoning_effort}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct AllowedParams {
    allowed_models: Option<Vec<String>>,
}

async fn set_allowed(session: Arc<Attached>, params: AllowedParams) -> Result<Value, RpcError> {
    let current = || session.session().settings().model.id.clone();
    let Some(given) = params.allowed_models else {
        session.session().configure(Change::AllowedModels(None)).await?;
        return Ok(json!({"modelId": current()}));
    };
    let allowed = restrict(&session, &given).await?;
    Ok(json!({"allowedModels": allowed, "effectiveAllowedModels": allowed, "modelId": current()}))
}

pub(crate) const NONE_ALLOWED: &str = "allowedModels must name at least one model that the session can use";

/// The models that a client allows, each once.
pub(crate) fn allowed(given: &[String]) -> Result<Vec<String>, RpcError> {
    let mut allowed: Vec<String> = Vec::new();
    for id in given.iter().map(|id| id.trim()).filter(|id| !id.is_empty()) {
        if allowed.iter().all(|known| known != id) {
            allowed.push(id.to_owned());
        }
    }
    match allowed.is_empty() {
        true => Err(RpcError::params(NONE_ALLOWED)),
        false => Ok(allowed),
    }
}

/// Limits a session to these models. If its model is not among them, it continues with the first available one.
pub(crate) async fn restrict(session: &Attached, given: &[String]) -> Result<Vec<String>, RpcError> {
    let allowed = allowed(given)?;
    let model = session.session().settings().model.id.clone();
    let known = session.models().await;
    let there = |id: &String| *id == model || known.iter().any(|info| info.id == *id);
    let mut first = allowed.iter().find(|id| there(id)).cloned();
    // Providers need not list all their models.
    if first.is_none()
        && let Some(id) = allowed.first()
        && session.could_have_model(id).await
    {
        first = Some(id.clone());
    }
    let Some(first) = first else {
        return Err(RpcError::params(NONE_ALLOWED));
    };
    let before = session.session().settings().allowed_models;
    session
        .session()
        .configure(Change::AllowedModels(Some(allowed.clone())))
        .await?;
    if !allowed.contains(&model)
        && let Err(error) = session.settle_on_model(&first).await
    {
        session.session().configure(Change::AllowedModels(before)).await?;
        return Err(error);
    }
    Ok(allowed)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AddParams {
    providers: Vec<ProviderConfig>,
    models: Vec<ModelConfig>,
}

async fn provider_add(session: Arc<Attached>, params: AddParams) -> Result<Value, RpcError> {
    let added = session.add_providers(params.providers, params.models)?;
    Ok(json!({"models": added.iter().map(model_json).collect::<Vec<_>>()}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndpointParams {
    model_id: Option<String>,
}

async fn get_endpoint(session: Arc<Attached>, params: EndpointParams) -> Result<Value, RpcError> {
    session.endpoint(params.model_id.as_deref()).await
}

/// A session without a login of its own has the host's.
async fn auth_status(ctx: Ctx, params: Params) -> MethodResult {
    let status = match crate::session::of(&ctx, &params)?.own_login() {
        Some(status) => status,
        None => host_login(&ctx).await,
    };
    Ok(Outcome::of(Reply::of(&status)?))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CredentialsParams {
    #[serde(default)]
    credentials: Option<Credentials>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Credentials {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    host: Option<String>,
    #[serde(default)]
    login: Option<String>,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    copilot_user: Option<Value>,
}

/// Without credentials, the session uses those of the host again.
async fn set_credentials(ctx: Ctx, params: Params) -> MethodResult {
    let session = crate::session::of(&ctx, &params)?;
    let id = session.id().to_owned();
    let options = &ctx.shared.options;
    let (status, catalogue) = match params.parse::<CredentialsParams>()?.credentials {
        None => (None, Some(ctx.catalogue(None, Some(&id)))),
        Some(given) => {
            let host = given.host.unwrap_or_else(|| options.github_host.clone());
            let mut status = auth_json(true, &host, given.copilot_user.as_ref());
            status["authType"] = json!(given.kind);
            if let Some(login) = given.login {
                status["statusMessage"] = json!(format!("{host} ({login})"));
                status["login"] = json!(login);
            }
            let catalogue = given.token.map(|token| ctx.catalogue(Some(&token), Some(&id)));
            (Some(status), catalogue)
        }
    };
    session.log_in(status, catalogue).await?;
    Ok(Outcome::of(Reply::of(&json!({"success": true}))?))
}
