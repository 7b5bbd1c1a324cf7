//! Starts MCP servers without a session, to check whether they work.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::{BoxFuture, ready};
use lodge_mcp::{
    AuthReason, AuthRequest, Configured, Elicitation, ElicitationAnswer, List, Logins, Owner, ServerInfo, Servers,
    Surroundings,
};

use crate::logins;

/// Servers as a session in this folder would have them. They start when they are needed, and need to be shut down.
pub fn servers_on_trial(home: &Path, cwd: PathBuf, servers: Vec<Configured>) -> Servers {
    let owner = Observer {
        cwd: cwd.clone(),
        logins: Arc::new(logins(home)),
        known: servers.clone(),
    };
    let all = Servers::new(Arc::new(owner));
    all.surround(Surroundings {
        cwd,
        ..Surroundings::default()
    });
    all.configure(servers);
    all
}

/// No forms are filled in, and tokens are those that are kept.
struct Observer {
    cwd: PathBuf,
    logins: Arc<Logins>,
    known: Vec<Configured>,
}

impl Owner for Observer {
    fn changed(&self, _: &ServerInfo) {}

    fn loaded(&self, _: &[ServerInfo]) {}

    fn removed(&self, _: &str) {}

    fn list_changed(&self, _: &str, _: List) {}

    fn elicit(&self, _: &str, _: Elicitation) -> BoxFuture<'static, ElicitationAnswer> {
        Box::pin(ready(ElicitationAnswer {
            action: "cancel".into(),
            content: None,
        }))
    }

    fn roots(&self) -> Vec<PathBuf> {
        vec![self.cwd.clone()]
    }

    fn token(&self, server: &str) -> Option<String> {
        let server = self.known.iter().find(|known| known.name == server)?;
        self.logins.token(&server.config.as_ref().ok()?.remote()?.url)
    }

    fn authorize(&self, _: &str, request: AuthRequest) -> BoxFuture<'static, Option<String>> {
        let logins = self.logins.clone();
        Box::pin(async move {
            if request.reason != AuthReason::Refresh {
                return None;
            }
            logins
                .renew(&request.url, &request.client, request.rejected.as_ref())
                .await
        })
    }
}
