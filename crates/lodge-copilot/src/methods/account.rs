//! GitHub accounts that a client signs in with. They belong to that client and are in memory only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Capability, Nothing, method};
use crate::{
    accounts::{self, Account},
    connection::Ctx,
    github,
    rpc::RpcError,
};

pub(crate) static ACCOUNT: Capability = Capability {
    title: "Accounts",
    methods: &[
        method!(
            "account.getCurrentAuth",
            1,
            "whose GitHub token the app's sessions work with",
            current
        ),
        method!(
            "account.getAllUsers",
            1,
            "the accounts that the app signed in with",
            all
        ),
        method!(
            "account.login",
            1,
            "signs this connection in with a GitHub token",
            login
        ),
        method!("account.logout", 1, "signs an account out", logout),
        method!(
            "account.getQuota",
            1,
            "what GitHub says is left of an account's quotas",
            quota
        ),
    ],
};

/// An account, in the clients' form.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthInfo {
    #[serde(rename = "type")]
    kind: &'static str,
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copilot_user: Option<Value>,
}

impl From<Account> for AuthInfo {
    fn from(account: Account) -> Self {
        Self {
            kind: "user",
            host: account.host,
            login: Some(account.login),
            token: None,
            copilot_user: account.user,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CurrentAuth {
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_info: Option<AuthInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_errors: Option<Vec<String>>,
}

async fn current(ctx: Ctx, _: Nothing) -> Result<CurrentAuth, RpcError> {
    if let Some(account) = ctx.accounts.current() {
        return Ok(CurrentAuth {
            auth_info: Some(account.into()),
            auth_errors: None,
        });
    }
    let options = &ctx.shared.options;
    let Some(token) = &options.github_token else {
        return Ok(CurrentAuth {
            auth_info: None,
            auth_errors: None,
        });
    };
    let (user, error) = match &options.github_api {
        Some(api) => match github::user(api, token).await {
            Ok(user) => (Some(user), None),
            Err(error) => (None, Some(error)),
        },
        None => (None, None),
    };
    Ok(CurrentAuth {
        auth_info: Some(AuthInfo {
            kind: "token",
            host: options.github_host.clone(),
            login: None,
            token: Some(token.clone()),
            copilot_user: user,
        }),
        auth_errors: error.map(|error| vec![error]),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct User {
    auth_info: AuthInfo,
    selection_id: String,
    token: String,
}

async fn all(ctx: Ctx, _: Nothing) -> Result<Vec<User>, RpcError> {
    let accounts = ctx.accounts.all().into_iter();
    let user = |account: Account| User {
        selection_id: account.selection_id(),
        token: account.token.clone(),
        auth_info: account.into(),
    };
    Ok(accounts.map(user).collect())
}

#[derive(Deserialize)]
struct LoginParams {
    host: String,
    #[serde(default)]
    login: Option<String>,
    token: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoggedIn {
    stored_in_vault: bool,
}

/// The token is checked if GitHub can be asked. A token for another GitHub host is refused: it would be sent to this
/// one.
async fn login(ctx: Ctx, params: LoginParams) -> Result<LoggedIn, RpcError> {
    let expected = &ctx.shared.options.github_host;
    if !accounts::is_same_host(&params.host, expected) {
        let message = format!("host: this host works with {expected}, not with {}", params.host);
        return Err(RpcError::params(message));
    }
    let user = match &ctx.shared.options.github_api {
        Some(api) => Some(github::user(api, &params.token).await.map_err(RpcError::failed)?),
        None => None,
    };
    let told = user.as_ref().and_then(|user| user["login"].as_str()).map(str::to_owned);
    let login = match (params.login, told) {
        (Some(login), Some(told)) if login != told => {
            return Err(RpcError::failed(format!("the token belongs to {told}, not to {login}")));
        }
        (login, told) => login.or(told),
    };
    let login = login.filter(|login| !login.is_empty());
    let login =
        login.ok_or_else(|| RpcError::params("login is required: this host cannot look up whose token this is"))?;
    ctx.accounts.add(Account {
        host: expected.clone(),
        login,
        token: params.token,
        user,
    });
    // There is no vault: the end of the connection forgets it.
    Ok(LoggedIn { stored_in_vault: false })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogoutParams {
    auth_info: AccountParams,
}

#[derive(Deserialize)]
struct AccountParams {
    host: String,
    #[serde(default)]
    login: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LoggedOut {
    has_more_users: bool,
}

async fn logout(ctx: Ctx, LogoutParams { auth_info }: LogoutParams) -> Result<LoggedOut, RpcError> {
    let login = auth_info.login.unwrap_or_default();
    match ctx.accounts.remove(&auth_info.host, &login) {
        true => Ok(LoggedOut {
            has_more_users: !ctx.accounts.all().is_empty(),
        }),
        false => Err(RpcError::failed(format!(
            "{login} of {} is not signed in here; a token that the host was started with stays",
            auth_info.host
        ))),
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QuotaParams {
    selection_id: Option<String>,
    git_hub_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Quotas {
    quota_snapshots: BTreeMap<String, github::Quota>,
}

async fn quota(ctx: Ctx, params: QuotaParams) -> Result<Quotas, RpcError> {
    let token = match (params.git_hub_token, params.selection_id) {
        (Some(token), _) => Some(token),
        (None, Some(id)) => Some(
            ctx.accounts
                .all()
                .into_iter()
                .find(|account| account.selection_id() == id)
                .ok_or_else(|| RpcError::params(format!("selectionId: no account {id} is signed in")))?
                .token,
        ),
        (None, None) => ctx.github_token(),
    };
    let token = token.ok_or_else(|| RpcError::failed("Not authenticated: no GitHub token"))?;
    let api = ctx.shared.options.github_api.as_ref();
    let api = api.ok_or_else(|| RpcError::failed("Quotas are unknown: this host does not contact GitHub"))?;
    let user = github::user(api, &token).await.map_err(RpcError::failed)?;
    Ok(Quotas {
        quota_snapshots: github::quotas(&user),
    })
}
