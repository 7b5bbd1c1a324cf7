//! Fetches both sides of a changed file from the host.

use ahp::{
    Client,
    ahp_types::{
        ROOT_RESOURCE_URI, Uri,
        commands::{ContentEncoding, ResourceReadParams},
        state::{FileEdit, FileEditSide},
    },
};
use anyhow::{Result, anyhow};
use base64::{Engine, engine::general_purpose::STANDARD};

use super::link::reason;

/// Reads both sides of these files. A missing side is empty.
pub(super) async fn read(client: &Client, edits: Vec<FileEdit>) -> Result<Vec<(Uri, String, String)>> {
    let mut read = Vec::with_capacity(edits.len());
    for edit in edits {
        let named = edit
            .after
            .as_ref()
            .or(edit.before.as_ref())
            .map(|side| side.uri.clone());
        let Some(named) = named else { continue };
        let before = side(client, edit.before).await?;
        let after = side(client, edit.after).await?;
        read.push((named, before, after));
    }
    Ok(read)
}

async fn side(client: &Client, side: Option<FileEditSide>) -> Result<String> {
    let Some(side) = side else { return Ok(String::new()) };
    let params = ResourceReadParams {
        channel: ROOT_RESOURCE_URI.to_owned(),
        meta: None,
        uri: side.content.uri,
        encoding: Some(ContentEncoding::Utf8),
    };
    let read = client.resource_read(params).await;
    let read = read.map_err(|error| anyhow!("{}", reason(&error)))?;
    match read.encoding {
        ContentEncoding::Base64 => Ok(String::from_utf8(STANDARD.decode(read.data)?)?),
        ContentEncoding::Utf8 => Ok(read.data),
    }
}
