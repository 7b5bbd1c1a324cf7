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

#[derive(Serialize)]
struct Found {
    hits: Vec<Hit>,
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
    let found = request.face.host.search(params.text, limit.clamp(1, MOST)).await;
    let hits = found.map_err(RpcError::internal)?.into_iter();
    let hits = hits.map(|hit| spell(request.face, hit)).collect();
    rpc::ok(Found { hits })
}

fn spell(face: &crate::face::Face, hit: lodge_host::SearchHit) -> Hit {
    let id = &hit.session.id;
    let about = &hit.session.about;
    let (session, chat) = match about.chat_of() {
        None => (face.uri_of(id), None),
        Some(main) => (face.uri_of(main), about.chat.as_ref().map(|chat| chat.address.clone())),
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
