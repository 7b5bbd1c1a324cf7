//! What AHP calls things, in the files of earlier builds.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{MessageTemplate, NamedModel, decisions::skill_key};

#[derive(Deserialize)]
pub(crate) struct OldMessage {
    pub(super) text: String,
    #[serde(default)]
    attachments: Option<Vec<Value>>,
    #[serde(default)]
    model: Option<OldModel>,
    #[serde(default)]
    agent: Option<OldAgent>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
    #[serde(default)]
    origin: Option<OldSender>,
}

#[derive(Deserialize)]
struct OldSender {
    kind: String,
}

impl OldMessage {
    /// Whether no person sent it.
    pub(crate) fn is_of_automation(&self) -> bool {
        self.origin.as_ref().is_some_and(|origin| origin.kind == "automation")
    }
}

#[derive(Deserialize)]
pub(super) struct OldModel {
    id: String,
    #[serde(default)]
    config: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
pub(super) struct OldAgent {
    pub(super) uri: String,
}

impl From<OldMessage> for MessageTemplate {
    fn from(old: OldMessage) -> Self {
        Self {
            text: old.text,
            attachments: old.attachments,
            model: old.model.map(Into::into),
            agent: old.agent.map(|agent| agent.uri),
            notes: old.meta,
        }
    }
}

impl From<OldModel> for NamedModel {
    fn from(old: OldModel) -> Self {
        Self {
            id: old.id,
            options: old.config,
        }
    }
}

/// The file at an address.
pub(super) fn path(address: &str) -> Option<String> {
    let text = address.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8(bytes).ok().filter(|path| path.starts_with('/'))
}

/// What decisions call a thing now. A skill goes by its name, which is that of its folder.
pub(super) fn key(id: &str) -> String {
    if id.starts_with("mcp:") {
        return id.to_owned();
    }
    if let Some((folder, "SKILL.md")) = id.rsplit_once('/') {
        let name = path(folder).unwrap_or_else(|| folder.to_owned());
        return skill_key(name.rsplit('/').next().unwrap_or(&name));
    }
    if let Some(path) = path(id) {
        return format!("file:{path}");
    }
    match id.split_once(':').and_then(|(kind, place)| Some((kind, path(place)?))) {
        Some((kind, path)) => format!("folder:{kind}:{path}"),
        None => format!("part:{id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decisions_are_about_is_called_otherwise_now() {
        for (id, expected) in [
            ("mcp:loom", "mcp:loom"),
            ("file:///w/.github/skills/spin%20it/SKILL.md", "skill:spin it"),
            ("plug/skills/weave/SKILL.md", "skill:weave"),
            (
                "file:///w/.github/agents/knitter.md",
                "file:/w/.github/agents/knitter.md",
            ),
            ("1:file:///w/.github/skills", "folder:1:/w/.github/skills"),
            ("plug", "part:plug"),
            ("plug/rules/a.md", "part:plug/rules/a.md"),
        ] {
            assert_eq!(key(id), expected, "{id}");
        }
    }
}
