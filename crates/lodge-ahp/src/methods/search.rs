//! Finding messages in all sessions: a method of Lodge's own, because the protocol has none.

use serde::{Deserialize, Serialize};

use super::Request;
use crate::rpc::{self, RpcError, RpcResult};

/// Hits in an answer when nobody says how many.
const USUAL: usize = 30;
/// Hits in an answer at most.
const MOST: usize = 100;
/// Bytes of what is searched for: more than anybody types.
const LONGEST: usize = 1000;

#[derive(Deserialize)]
struct Search {
    text: String,
    #[serde(default)]
    limit: Option<rpc::Whole>,
}

/// A message in which all words occur.
#[derive(Serialize)]
struct Hit {
    session: String,
    /// The chat that it is in, where that is not the session's default one.
    #[serde(skip_serializing_if = "Option::is_none")]
    chat: Option<String>,
    /// `user` or `assistant`.
    role: String,
    /// The part of the text around the first match.
    snippet: String,
    /// Where in the snippet the words are: begin and end, in UTF-16 units as scripts count.
    matches: Vec<[usize; 2]>,
}

pub(super) async fn search(request: &Request<'_>) -> RpcResult {
    let params: Search = rpc::params(request.params)?;
    if params.text.len() > LONGEST {
        return Err(RpcError::params(format!("the text is longer than {LONGEST} bytes")));
    }
    let limit = params
        .limit
        .map_or(USUAL, |limit| usize::try_from(limit.0).unwrap_or(MOST));
    let face = request.face.clone();
    let found = tokio::task::spawn_blocking(move || {
        let found = face.host.catalogue().search(&params.text, limit.clamp(1, MOST));
        let hits = found.map_err(RpcError::internal)?.into_iter();
        Ok::<_, RpcError>(hits.map(|hit| spell(&face, hit)).collect::<Vec<_>>())
    });
    let hits = found.await.map_err(RpcError::internal)??;
    rpc::ok(serde_json::json!({ "hits": hits }))
}

fn spell(face: &crate::face::Face, hit: lodge_host::SearchHit) -> Hit {
    let id = &hit.session.id;
    let (session, chat) = match face.store.session(id).chat_of {
        None => (face.uri_of(id), None),
        Some(main) => {
            let chats = face.store.session(&main).chats;
            let chat = chats.into_iter().find(|chat| chat.id == *id).map(|chat| chat.uri);
            (face.uri_of(&main), chat)
        }
    };
    let units = |bytes: usize| hit.snippet[..bytes].encode_utf16().count();
    Hit {
        session,
        chat,
        role: hit.role,
        matches: (hit.matches.iter())
            .map(|range| [units(range.start), units(range.end)])
            .collect(),
        snippet: hit.snippet,
    }
}
