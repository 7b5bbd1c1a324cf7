//! OAuth sign-in to remote servers. The host does it itself: the person agrees in a browser, which returns to a local
//! port, and the tokens are stored in a file that only its owner can read.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadataSource, AuthorizationRequest, AuthorizationSession,
    CredentialStore, OAuthClientConfig, StoredCredentials,
};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinHandle};
use uuid::Uuid;

use crate::{
    McpError,
    config::OauthClient,
    credentials::{AuthReason, AuthRequest, Secret, joined},
    loopback::Loopback,
};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long an authorisation server may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Where the browser comes back to when somebody only renews what there is.
const NO_REDIRECT: &str = "http://127.0.0.1/callback";

/// What was signed in to, for all sessions of a host.
pub struct Logins {
    dir: PathBuf,
    /// One at a time changes what is kept of a server.
    gates: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Logins under way: a new one takes the place of the one before.
    open: Mutex<HashMap<String, AbortHandle>>,
    /// Tokens that clients brought, and until when they are good. They are in no file.
    given: Mutex<HashMap<String, (Secret, Option<Instant>)>>,
    /// What servers said when they wanted somebody to sign in, by their addresses.
    wanted: Mutex<HashMap<String, AuthRequest>>,
}

/// How to sign in, where somebody says more than the address.
#[derive(Debug, Clone, Default)]
pub struct LoginOptions {
    /// The OAuth client to be, where the server knows one.
    pub client: OauthClient,
    /// Where the client that asks describes itself; its id for servers that read such descriptions.
    pub client_metadata_url: Option<String>,
    /// Who asks, as shown to the person.
    pub client_name: Option<String>,
    /// What the person reads in the end.
    pub success_message: Option<String>,
}

/// A login that waits for the person.
pub struct Login {
    /// What to open in a browser.
    pub url: String,
    done: JoinHandle<Result<(), McpError>>,
}

impl Login {
    /// Waits for the person. The login continues even if nobody waits.
    pub async fn ended(self) -> Result<(), McpError> {
        match self.done.await {
            Ok(ended) => ended,
            Err(_) => Err(McpError::Failed("A newer login replaced this one.".to_owned())),
        }
    }
}

impl Logins {
    /// What is kept in a directory, which need not be there yet.
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            gates: Mutex::default(),
            open: Mutex::default(),
            given: Mutex::default(),
            wanted: Mutex::default(),
        }
    }

    fn kept(&self, url: &str) -> Kept {
        let name = Uuid::new_v5(&Uuid::NAMESPACE_URL, url.as_bytes());
        Kept {
            path: self.dir.join(format!("{name}.json")),
            url: url.to_owned(),
        }
    }

    fn gate(&self, url: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.gates.lock().entry(url.to_owned()).or_default().clone()
    }

    /// Takes a token that a client brought for a server, and gives it up when there is none.
    pub fn give(&self, url: &str, token: Option<Secret>, good_for: Option<Duration>) {
        let until = good_for.and_then(|good_for| Instant::now().checked_add(good_for));
        let mut given = self.given.lock();
        match token {
            Some(token) => drop(given.insert(url.to_owned(), (token, until))),
            None => drop(given.remove(url)),
        }
    }

    /// Remembers what a server said that wants somebody to sign in, and returns it: who gets a token that reaches further
    /// must not lose the scopes that were wanted before.
    pub fn want(&self, mut request: AuthRequest) -> AuthRequest {
        let mut wanted = self.wanted.lock();
        let before = wanted.get(&request.url).and_then(|before| before.challenge.as_ref());
        let before = before.and_then(|challenge| challenge.scope.as_deref());
        if request.reason == AuthReason::Upscope
            && let Some(challenge) = &mut request.challenge
            && let (Some(before), Some(now)) = (before, &challenge.scope)
        {
            challenge.scope = Some(joined(before, now));
        }
        wanted.insert(request.url.clone(), request.clone());
        request
    }

    /// What the server at this address said the last time it wanted that.
    pub fn wanted_at(&self, url: &str) -> Option<AuthRequest> {
        self.wanted.lock().get(url).cloned()
    }

    /// What each server said the last time it wanted that.
    pub fn wanted(&self) -> Vec<AuthRequest> {
        self.wanted.lock().values().cloned().collect()
    }

    /// The token for a server, if a client brought one or somebody has signed in. It may no longer be good. Reads a small
    /// file.
    pub fn token(&self, url: &str) -> Option<String> {
        if let Some((token, until)) = self.given.lock().get(url)
            && until.is_none_or(|until| Instant::now() < until)
        {
            return Some(token.0.clone());
        }
        let kept = self.kept(url).read()?;
        let token = &kept["credentials"]["token_response"]["access_token"];
        token.as_str().map(str::to_owned)
    }

    /// Forgets a login. False when there is none.
    pub fn forget(&self, url: &str) -> bool {
        std::fs::remove_file(self.kept(url).path).is_ok()
    }

    /// A token other than the one that was rejected; nothing when somebody has to sign in.
    pub async fn renew(&self, url: &str, client: &OauthClient, rejected: Option<&Secret>) -> Option<String> {
        let gate = self.gate(url);
        let _one = gate.lock().await;
        // A client's token cannot be renewed here: the client brings another.
        self.given
            .lock()
            .retain(|of, (token, _)| of != url || Some(&*token) != rejected);
        let token = self.token(url)?;
        if rejected.is_none_or(|rejected| rejected.0 != token) {
            // Somebody else has got a new one meanwhile.
            return Some(token);
        }
        let renewed = tokio::time::timeout(ANSWER_LIMIT, self.refresh(url, client)).await;
        match renewed {
            Ok(Ok(())) => self.token(url),
            Ok(Err(error)) => {
                tracing::info!(%error, "cannot renew an MCP server's token");
                None
            }
            Err(_) => None,
        }
    }

    async fn refresh(&self, url: &str, client: &OauthClient) -> Result<(), AuthError> {
        let mut manager = self.manager(url).await?;
        if !manager.initialize_from_store().await? {
            return Err(AuthError::AuthorizationRequired);
        }
        if let (Some(id), Some(secret)) = (&client.id, &client.secret) {
            manager.configure_client(OAuthClientConfig::new(id, NO_REDIRECT).with_client_secret(secret))?;
        }
        manager.refresh_token().await?;
        Ok(())
    }

    async fn manager(&self, url: &str) -> Result<AuthorizationManager, AuthError> {
        crate::http::secure();
        // The address is one that a person wrote down; what it leads to may be in the same private network.
        let mut manager = AuthorizationManager::new_allowing_private_addresses(url).await?;
        manager.set_credential_store(self.kept(url));
        Ok(manager)
    }

    /// Starts a login. The person has to open the URL; the rest happens in the background.
    pub async fn begin(&self, url: &str, options: LoginOptions) -> Result<Login, McpError> {
        if options.client.grant_type.as_deref() == Some("client_credentials") {
            let text = "The server uses client credentials; no sign-in is needed.";
            return Err(McpError::Failed(text.to_owned()));
        }
        let listener = Loopback::bind().await.map_err(|error| {
            McpError::Failed(format!(
                "Cannot open a local port for the browser to return to: {error}"
            ))
        })?;
        let session = tokio::time::timeout(ANSWER_LIMIT, self.session(url, &options, &listener.redirect()))
            .await
            .map_err(|_| McpError::Failed("The authorisation server did not answer.".to_owned()))?
            .map_err(McpError::Failed)?;
        let address = session.get_authorization_url().to_owned();
        let gate = self.gate(url);
        let message = options.success_message;
        let done = tokio::spawn(async move {
            let waited = tokio::time::timeout(PATIENCE, listener.wait(session.get_authorization_url())).await;
            let (callback, page) = waited.map_err(|_| McpError::Failed("Nobody signed in.".to_owned()))??;
            let _one = gate.lock().await;
            let signed_in = tokio::time::timeout(ANSWER_LIMIT, session.handle_callback_url(&callback)).await;
            let signed_in = match signed_in {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(error_text(&error)),
                Err(_) => Err("The authorisation server did not answer.".to_owned()),
            };
            page.show(signed_in.as_ref().err().map(String::as_str), message.as_deref())
                .await;
            signed_in.map_err(McpError::Failed)
        });
        if let Some(before) = self.open.lock().insert(url.to_owned(), done.abort_handle()) {
            before.abort();
        }
        Ok(Login { url: address, done })
    }

    fn session<'a>(
        &'a self,
        url: &'a str,
        options: &'a LoginOptions,
        redirect: &'a str,
    ) -> BoxFuture<'a, Result<AuthorizationSession, String>> {
        Box::pin(async move {
            let text = |error: AuthError| error_text(&error);
            let mut manager = self.manager(url).await.map_err(text)?;
            let found = manager.resolve_metadata().await.map_err(text)?;
            if found.source == AuthorizationMetadataSource::LegacyEndpointFallback {
                return Err("The server does not offer a way to sign in.".to_owned());
            }
            manager.set_metadata(found.metadata);
            let name = options.client_name.as_deref().unwrap_or("Lodge");
            let mut request = AuthorizationRequest::new(redirect)
                .with_client_name(name)
                .with_initial_scope_selection();
            if let Some(url) = &options.client_metadata_url {
                request = request.with_client_metadata_url(url);
            }
            if let Some(id) = &options.client.id {
                request = request.with_preregistered_client(id);
                if let Some(secret) = &options.client.secret {
                    request = request.with_client_secret(secret);
                }
            }
            let session = AuthorizationSession::new(manager, request).await;
            session.map_err(|(_, error)| error_text(&error))
        })
    }
}

/// What went wrong, as far as it is short.
fn error_text(error: &AuthError) -> String {
    error.to_string().chars().take(500).collect()
}

/// Where the login to one server is kept.
struct Kept {
    path: PathBuf,
    url: String,
}

impl Kept {
    fn read(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()
    }

    fn write(&self, credentials: &StoredCredentials) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(&json!({"url": self.url, "credentials": credentials}))?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir)?;
        lodge_files::replace(&self.path, &text)
    }
}

#[async_trait]
impl CredentialStore for Kept {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let kept = self.read();
        Ok(kept.and_then(|kept| serde_json::from_value(kept["credentials"].clone()).ok()))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.write(&credentials)
            .map_err(|error| AuthError::CredentialStoreError(format!("cannot write {}: {error}", self.path.display())))
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}
