//! Prompts that MCP servers send to the model (sampling), for apps that handle them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Capability, method};
use crate::{rpc::RpcError, session::Attached};

pub(crate) static SAMPLING: Capability = Capability {
    title: "MCP sampling",
    methods: &[
        method!(session "session.mcp.executeSampling", 1, "sends a server's prompt to the session's model", execute),
        method!(session "session.mcp.cancelSamplingExecution", 1, "cancels `session.mcp.executeSampling`", cancel),
    ],
};

/// Running sampling requests of a client, by the client's ids.
#[derive(Default)]
pub(crate) struct Samplings(Mutex<HashMap<String, CancellationToken>>);

/// One running request.
struct UnderWay<'a> {
    all: &'a Samplings,
    id: String,
    cancelled: CancellationToken,
}

impl Samplings {
    fn begin(&self, id: String) -> Result<UnderWay<'_>, RpcError> {
        let cancelled = CancellationToken::new();
        let mut all = self.0.lock();
        if all.contains_key(&id) {
            return Err(RpcError::params(format!(
                "The sampling request {id} is already running."
            )));
        }
        all.insert(id.clone(), cancelled.clone());
        drop(all);
        Ok(UnderWay {
            all: self,
            id,
            cancelled,
        })
    }

    fn cancel(&self, id: &str) -> bool {
        let found = self.0.lock().remove(id);
        found.inspect(CancellationToken::cancel).is_some()
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.cancelled.is_cancelled() {
            self.all.0.lock().remove(&self.id);
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecuteParams {
    request_id: String,
    request: Value,
}

async fn execute(session: Arc<Attached>, params: ExecuteParams) -> Result<Value, RpcError> {
    let under_way = session.samplings().begin(params.request_id)?;
    let asked = async {
        session.catch_up_with_model().await?;
        Ok::<_, RpcError>(session.session().sample(&params.request).await)
    };
    tokio::select! {
        () = under_way.cancelled.cancelled() => Ok(json!({"action": "cancelled"})),
        answer = asked => Ok(match answer? {
            Ok(result) => json!({"action": "success", "result": result}),
            Err(error) => json!({"action": "failure", "error": error}),
        }),
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams {
    request_id: String,
}

async fn cancel(session: Arc<Attached>, CancelParams { request_id }: CancelParams) -> Result<Value, RpcError> {
    Ok(json!({"cancelled": session.samplings().cancel(&request_id)}))
}
