//! Model traffic through the client.

use std::collections::BTreeMap;

use lodge_models::TransportError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Capability, Nothing, method};
use crate::{connection::Ctx, inference::decode, rpc::RpcError};

pub(crate) static INFERENCE: Capability = Capability {
    title: "Model requests through the client",
    methods: &[
        method!(
            "llmInference.setProvider",
            10,
            "routes requests to models through the client from now on",
            set_provider
        ),
        method!(
            "llmInference.httpResponseStart",
            15,
            "status and headers of a response",
            response_start
        ),
        method!(
            "llmInference.httpResponseChunk",
            15,
            "a part of its body, or its failure",
            response_chunk
        ),
    ],
};

async fn set_provider(ctx: Ctx, _: Nothing) -> Result<Value, RpcError> {
    ctx.carry_model_traffic();
    Ok(json!({"success": true}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartParams {
    request_id: String,
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, Vec<String>>,
}

async fn response_start(ctx: Ctx, params: StartParams) -> Result<Value, RpcError> {
    Ok(json!({"accepted": ctx.exchanges.started(&params.request_id, params.status, params.headers)}))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChunkParams {
    request_id: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    binary: bool,
    #[serde(default)]
    end: bool,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Debug, Deserialize)]
struct Failure {
    message: String,
}

async fn response_chunk(ctx: Ctx, params: ChunkParams) -> Result<Value, RpcError> {
    let piece = match params.error {
        Some(error) => Err(TransportError::Failed(error.message)),
        None => Ok(decode(&params.data, params.binary).map_err(RpcError::params)?),
    };
    Ok(json!({"accepted": ctx.exchanges.piece(&params.request_id, piece, params.end)}))
}
