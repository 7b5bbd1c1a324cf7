//! Permission rules: of the session, of its location, and the folders that the user trusts.

use std::{path::PathBuf, sync::Arc};

use lodge_events::{PermissionRequest, PermissionRule};
use lodge_host::{
    Approval, Change, GitFiles, RulesChange, Trust,
    rules::{self, Policy, Rule, RuleSet, RuleSubject, Scope},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, method};
use crate::{
    connection::{Ctx, MethodResult, Outcome},
    rpc::{Params, Reply, RpcError},
    rules::{Approved, what},
    session::{self, Attached},
};

pub(crate) static RULES: Capability = Capability {
    title: "Permission rules",
    methods: &[
        method!(session "session.permissions.configure", 1, "changes rules, directories and addresses together", configure),
        method!(session "session.permissions.modifyRules", 1, "adds and removes rules", modify),
        method!(session "session.permissions.resetSessionApprovals", 1, "forgets the approvals given for this session", reset),
        method!(session "session.permissions.setRequired", 1, "sets whether this client answers permission requests", set_required),
        method!(
            session "session.permissions.notifyPromptShown",
            1,
            "tells hooks that a question is on screen",
            prompt_shown
        ),
        method!(
            session "session.permissions.urls.setUnrestrictedMode",
            1,
            "allows every address, or asks again",
            unrestricted_urls
        ),
        method!(session "session.permissions.locations.resolve", 1, "the location for which approvals are stored", resolve),
        method!(raw "session.permissions.locations.addToolApproval", 1, "approves a tool in a location for good", approve),
        method!(raw "session.permissions.locations.apply", 1, "applies the approvals of a location", apply),
        method!(raw "session.permissions.folderTrust.isTrusted", 1, "whether the user trusts a folder", is_trusted),
        method!(raw "session.permissions.folderTrust.addTrusted", 1, "trusts a folder", trust),
    ],
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConfigureParams {
    approve_all_tool_permission_requests: Option<bool>,
    approve_all_read_permission_requests: Option<bool>,
    rules: Option<RulesParams>,
    paths: Option<PathsParams>,
    urls: Option<UrlsParams>,
    additional_content_exclusion_policies: Option<Vec<Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RulesParams {
    approved: Vec<PermissionRule>,
    denied: Vec<PermissionRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PathsParams {
    unrestricted: bool,
    additional_directories: Vec<PathBuf>,
    include_temp_directory: Option<bool>,
    workspace_path: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UrlsParams {
    unrestricted: bool,
    initial_allowed: Vec<String>,
}

async fn configure(session: Arc<Attached>, params: ConfigureParams) -> Result<Value, RpcError> {
    if params
        .additional_content_exclusion_policies
        .is_some_and(|policies| !policies.is_empty())
    {
        return Err(RpcError::failed(
            "additionalContentExclusionPolicies cannot be set by a client; exclude files in permissions.toml",
        ));
    }
    let mut changes = Vec::new();
    changes.extend(
        params
            .approve_all_tool_permission_requests
            .map(|all| Change::Approval(if all { Approval::ApproveAll } else { Approval::Ask })),
    );
    if let Some(RulesParams { approved, denied }) = params.rules {
        let approved = approved.iter().map(|rule| Rule::allow(what(rule)));
        let denied = denied.iter().map(|rule| Rule::deny(what(rule)));
        changes.push(Change::Rules(RulesChange::Replace(approved.chain(denied).collect())));
    }
    let reads = || vec![tool("read"), tool("url")];
    changes.extend(
        params
            .approve_all_read_permission_requests
            .map(|all| switch(all, reads())),
    );
    if let Some(paths) = params.paths {
        let everywhere = Rule::allow(RuleSubject::Path {
            glob: "/**".to_owned(),
            access: None,
        });
        changes.push(switch(paths.unrestricted, vec![everywhere]));
        let mut directories = paths.additional_directories;
        directories.extend(paths.workspace_path);
        if paths.include_temp_directory.unwrap_or(true) {
            directories.push(std::env::temp_dir());
        }
        let cwd = session.session().settings().cwd;
        directories.retain(|directory| *directory != cwd);
        changes.push(Change::AdditionalDirectories(directories));
    }
    if let Some(urls) = params.urls {
        changes.push(switch(urls.unrestricted, vec![tool("url")]));
        if !urls.unrestricted {
            let allowed = urls
                .initial_allowed
                .into_iter()
                .map(|url| Rule::allow(RuleSubject::Url(url)));
            changes.push(Change::Rules(RulesChange::Add(allowed.collect())));
        }
    }
    for change in changes {
        session.session().configure(change).await?;
    }
    Ok(json!({"success": true}))
}

fn tool(name: &str) -> Rule {
    Rule::allow(RuleSubject::Tool(name.to_owned()))
}

/// Adds or removes rules of the session.
fn switch(on: bool, rules: Vec<Rule>) -> Change {
    Change::Rules(if on {
        RulesChange::Add(rules)
    } else {
        RulesChange::Remove(rules)
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ModifyParams {
    scope: String,
    add: Vec<PermissionRule>,
    remove: Vec<PermissionRule>,
    remove_all: bool,
}

async fn modify(session: Arc<Attached>, params: ModifyParams) -> Result<Value, RpcError> {
    let allow = |rules: &[PermissionRule]| rules.iter().map(|rule| Rule::allow(what(rule))).collect::<Vec<_>>();
    let (add, remove) = (allow(&params.add), allow(&params.remove));
    let changes = match (params.scope.as_str(), params.remove_all) {
        ("session", false) => [RulesChange::Add(add), RulesChange::Remove(remove)],
        ("session", true) => [RulesChange::Add(add), RulesChange::Replace(Vec::new())],
        ("location", false) => [
            RulesChange::AddForLocation(add),
            RulesChange::RemoveForLocation(Some(remove)),
        ],
        ("location", true) => [RulesChange::AddForLocation(add), RulesChange::RemoveForLocation(None)],
        (other, _) => return Err(RpcError::params(format!("Unknown scope: {other}"))),
    };
    for change in changes {
        session.session().configure(Change::Rules(change)).await?;
    }
    Ok(json!({"success": true}))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ResetParams {
    include_location: bool,
}

async fn reset(session: Arc<Attached>, params: ResetParams) -> Result<Value, RpcError> {
    session.session().configure(Change::ForgetApprovals).await?;
    if params.include_location {
        let all = RulesChange::RemoveForLocation(None);
        session.session().configure(Change::Rules(all)).await?;
    }
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
struct RequiredParams {
    required: bool,
}

async fn set_required(session: Arc<Attached>, params: RequiredParams) -> Result<Value, RpcError> {
    session.answer_permissions(params.required);
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
struct PromptShownParams {
    message: String,
}

async fn prompt_shown(session: Arc<Attached>, params: PromptShownParams) -> Result<Value, RpcError> {
    session.session().permission_prompt_shown(&params.message).await?;
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
struct EnabledParams {
    enabled: bool,
}

async fn unrestricted_urls(session: Arc<Attached>, params: EnabledParams) -> Result<Value, RpcError> {
    session
        .session()
        .configure(switch(params.enabled, vec![tool("url")]))
        .await?;
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlaceParams {
    working_directory: PathBuf,
}

fn place(params: &PlaceParams) -> (PathBuf, &'static str) {
    let location = rules::location(&params.working_directory);
    let kind = if GitFiles::are_at(&location) { "repo" } else { "dir" };
    (location, kind)
}

async fn resolve(_: Arc<Attached>, params: PlaceParams) -> Result<Value, RpcError> {
    let (location, kind) = place(&params);
    Ok(json!({"locationKey": location, "locationType": kind}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ApproveParams {
    location_key: PathBuf,
    approval: Approved,
}

fn answer(result: &Value) -> MethodResult {
    Ok(Outcome::of(Reply::of(result)?))
}

async fn approve(ctx: Ctx, params: Params) -> MethodResult {
    let session = session::of(&ctx, &params)?;
    let ApproveParams { location_key, approval } = params.parse()?;
    let approved = match approval.what() {
        Ok(what) => vec![Rule::allow(what)],
        Err(programs) => of_open_request(&session, &location_key, programs).await?,
    };
    let mut of_place = load(&ctx, &location_key)?;
    of_place
        .remember(Scope::Location, &approved)
        .map_err(RpcError::failed)?;
    session
        .session()
        .configure(Change::Rules(RulesChange::Add(approved)))
        .await?;
    answer(&json!({"success": true}))
}

/// What is kept of the open permission request for a command of these programs. The names of programs do not say what they were
/// asked to do, so no rule is made of them.
async fn of_open_request(
    session: &Arc<Attached>,
    location: &std::path::Path,
    programs: Vec<String>,
) -> Result<Vec<Rule>, RpcError> {
    if rules::location(location) != rules::location(&session.session().settings().cwd) {
        let message = "commands can only be approved in the session's own location; add a rule with session.permissions.modifyRules";
        return Err(RpcError::failed(message));
    }
    let asking = session.clone();
    let find = move || {
        let asked = asking.session().pending().into_iter().filter_map(|question| {
            let data: Value = serde_json::from_str(question.event.data_json()).ok()?;
            serde_json::from_value::<PermissionRequest>(data["permissionRequest"].clone()).ok()
        });
        let is_for = |request: &PermissionRequest| match request {
            PermissionRequest::Shell(shell) => shell.commands.iter().map(|command| &command.identifier).eq(&programs),
            _ => false,
        };
        let rules = asked
            .filter(is_for)
            .map(|request| asking.session().lasting_rules(&request));
        rules.collect()
    };
    let found = tokio::task::spawn_blocking(find).await.map_err(RpcError::failed)?;
    of_one(found).map_err(RpcError::failed)
}

/// What is kept of the open requests that fit: nobody can tell which one was meant if they differ.
fn of_one(mut found: Vec<Vec<Rule>>) -> Result<Vec<Rule>, &'static str> {
    found.dedup();
    match found.as_slice() {
        [] => {}
        [rules] if rules.is_empty() => {}
        [_] => return Ok(found.remove(0)),
        _ => {
            return Err(
                "several open permission requests are for these commands; answer the one that you mean with \
                        approve-for-location",
            );
        }
    }
    Err(
        "no open permission request is for these commands and can be kept; answer a request with \
         approve-for-location, or add a rule with session.permissions.modifyRules",
    )
}

fn load(ctx: &Ctx, place: &std::path::Path) -> Result<RuleSet, RpcError> {
    RuleSet::load(ctx.host.home().path(), place, Policy::default()).map_err(RpcError::failed)
}

async fn apply(ctx: Ctx, params: Params) -> MethodResult {
    let session = session::of(&ctx, &params)?;
    let (location, kind) = place(&params.parse()?);
    let found = load(&ctx, &location)?.of_location();
    let named: Vec<PermissionRule> = found.iter().map(Rule::named).collect();
    session
        .session()
        .configure(Change::Rules(RulesChange::Add(found)))
        .await?;
    let changed = session.location.lock().replace(location.clone()) != Some(location.clone());
    answer(&json!({
        "locationKey": location, "locationType": kind, "changed": changed, "appliedRuleCount": named.len(),
        "appliedDirectoryCount": 0, "appliedRules": named,
    }))
}

#[derive(Debug, Deserialize)]
struct PathParams {
    path: PathBuf,
}

async fn is_trusted(ctx: Ctx, params: Params) -> MethodResult {
    session::of(&ctx, &params)?;
    let PathParams { path } = params.parse()?;
    answer(&json!({"trusted": Trust::of(ctx.host.home()).covers(&path)}))
}

async fn trust(ctx: Ctx, params: Params) -> MethodResult {
    session::of(&ctx, &params)?;
    let PathParams { path } = params.parse()?;
    Trust::of(ctx.host.home()).set(&path, true).map_err(RpcError::failed)?;
    answer(&json!({"success": true}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_keep_the_rules_of_one_open_request_only() {
        let rule = |text: &str| Rule::allow(RuleSubject::Command(text.to_owned()));
        let (one, other) = (vec![rule("rm a [=]")], vec![rule("rm -rf src [=]")]);
        for (found, expected) in [
            (vec![one.clone()], Ok(one.clone())),
            (vec![one.clone(), one.clone()], Ok(one.clone())),
            (vec![one.clone(), other], Err("several open")),
            (vec![one, vec![]], Err("several open")),
            (vec![vec![]], Err("no open")),
            (vec![], Err("no open")),
        ] {
            match (of_one(found), expected) {
                (Ok(kept), Ok(expected)) => assert_eq!(kept, expected),
                (Err(message), Err(expected)) => assert!(message.starts_with(expected), "{message}"),
                (kept, _) => panic!("{kept:?}"),
            }
        }
    }
}
