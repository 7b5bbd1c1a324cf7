//! What can be set about a session.

use ahp_types::commands::{SessionConfigCompletionsResult, SessionConfigValueItem};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Request;
use crate::{
    face::{is_agent, is_program},
    rpc::{self, RpcError, RpcResult, code},
    session_config::{Branching, EFFORT, branching, values, without_model},
    uri,
};

/// So many branches; who wants another types a part of its name.
const BRANCHES: usize = 25;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resolve {
    #[serde(default)]
    provider: Option<String>,
    #[serde(default)]
    working_directory: Option<String>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    /// What is to be completed.
    #[serde(default)]
    property: Option<String>,
    #[serde(default)]
    query: Option<String>,
}

/// What a session would be like.
struct Resolved {
    schema: std::sync::Arc<Value>,
    git: Option<Branching>,
    branches: Vec<String>,
    given: Map<String, Value>,
}

async fn resolved(request: &Request<'_>, params: &Resolve) -> Result<Resolved, RpcError> {
    if let Some(provider) = params
        .provider
        .as_deref()
        .filter(|provider| !is_agent(&request.face.host, provider))
    {
        return Err(RpcError::new(
            code::PROVIDER_NOT_FOUND,
            format!("there is no provider {provider:?}"),
        ));
    }
    let mut given = params.config.clone().unwrap_or_default();
    if let Some(program) = params
        .provider
        .as_ref()
        .filter(|name| is_program(&request.face.host, name))
    {
        given.insert("model".to_owned(), program.as_str().into());
    }
    // A value that is gone by now is left out, for clients ask with what they remember. What is no text was never one.
    for setting in ["model", EFFORT, "mode", "autoApprove", "isolation", "branch"] {
        super::sessions::text(Some(&given), setting)?;
    }
    let directory = params.working_directory.as_deref().and_then(uri::path);
    let directory = directory.or_else(|| request.face.config.default_directory.clone());
    let (git, branches) = match directory {
        Some(directory) => branching(directory, &given).await,
        None => (None, Vec::new()),
    };
    Ok(Resolved {
        schema: request.face.config_schema(git.as_ref(), &branches, false),
        git,
        branches,
        given,
    })
}

/// The official type keeps properties in a hash map, and people see them in order.
#[derive(Serialize)]
struct Configuration {
    schema: Value,
    values: Map<String, Value>,
}

/// The whole schema, and a value for everything in it.
pub(super) async fn resolve(request: &Request<'_>) -> RpcResult {
    let params: Resolve = rpc::params(request.params)?;
    let resolved = resolved(request, &params).await?;
    let mut schema = Value::clone(&resolved.schema);
    if request.peer()?.is_editor() {
        without_model(&mut schema);
    }
    let values = values(&schema, resolved.git.as_ref(), &resolved.given);
    rpc::ok(Configuration { schema, values })
}

/// Values of a property that fit what was typed: branches are looked up, all else is in the schema.
pub(super) async fn config_completions(request: &Request<'_>) -> RpcResult {
    let params: Resolve = rpc::params(request.params)?;
    let Some(name) = params.property.clone() else {
        return Err(RpcError::params("no property is named"));
    };
    let resolved = resolved(request, &params).await?;
    let property = &resolved.schema["properties"][&name];
    let query = params.query.unwrap_or_default().to_lowercase();
    let text = |list: &Value, at: usize| list.get(at).and_then(Value::as_str).map(str::to_owned);
    let fits = |text: &str| text.to_lowercase().contains(&query);
    if property["enumDynamic"] == true {
        let found = resolved.branches.iter().filter(|branch| fits(branch)).take(BRANCHES);
        let items = found.map(|branch| SessionConfigValueItem {
            value: branch.clone(),
            label: branch.clone(),
            description: None,
        });
        return rpc::ok(SessionConfigCompletionsResult { items: items.collect() });
    }
    let values = property["enum"].as_array().into_iter().flatten().enumerate();
    let items = values.filter_map(|(at, value)| {
        let item = SessionConfigValueItem {
            value: value.as_str()?.to_owned(),
            label: text(&property["enumLabels"], at)?,
            description: text(&property["enumDescriptions"], at),
        };
        (fits(&item.label) || fits(&item.value)).then_some(item)
    });
    rpc::ok(SessionConfigCompletionsResult { items: items.collect() })
}
