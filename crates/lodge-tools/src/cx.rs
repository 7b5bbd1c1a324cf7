//! What every tool does first: parse its arguments and resolve their paths.

use std::{io, path::PathBuf};

use lodge_events::PermissionRequest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Need, ToolCx, ToolError, paths::Located, request};

/// Reads arguments, telling the model what is wrong with them.
pub(crate) fn arguments<T: DeserializeOwned>(tool: &str, arguments: &Value) -> Result<T, ToolError> {
    // Some models send an object as a string, and nothing at all for no arguments.
    match arguments {
        Value::String(text) if !text.trim().is_empty() => serde_json::from_str(text),
        Value::Null | Value::String(_) => T::deserialize(Value::Object(serde_json::Map::new())),
        other => T::deserialize(other),
    }
    .map_err(|error| ToolError(format!("Invalid arguments for {tool}: {error}")))
}

impl ToolCx {
    /// The place a path means.
    pub(crate) fn locate(&self, path: &str) -> Result<Located, ToolError> {
        let roots = self
            .roots
            .iter()
            .chain([&self.cwd, &self.session_dir])
            .map(|root| root.as_path());
        let kept = self.state.unshown(&crate::paths::absolute(&self.cwd, path));
        let meant = kept.as_deref().and_then(|kept| kept.to_str()).unwrap_or(path);
        crate::paths::locate(&self.cwd, roots, meant).map_err(|error| file_error(path, &error))
    }

    /// The place a path means, if it is the one that permission was asked for, or inside when nobody asked.
    pub(crate) fn permitted(&self, path: &str) -> Result<Located, ToolError> {
        let located = self.locate(path)?;
        let allowed = match self.state.requested_paths(&self.call_id) {
            Some(asked) => asked.contains(&located.path),
            None => located.root.is_some(),
        };
        if allowed {
            return Ok(located);
        }
        Err(ToolError(format!(
            "Path {path} leads to {}, which was not approved.",
            located.path.display()
        )))
    }

    /// Notes the place and asks for reading it.
    pub(crate) fn need_read(&self, path: &str, intention: String) -> Result<Need, ToolError> {
        let located = self.locate(path)?;
        let request = request::read(self, path, &located, intention);
        Ok(self.need(vec![located.path], request))
    }

    pub(crate) fn need(&self, places: Vec<PathBuf>, request: PermissionRequest) -> Need {
        self.state.note_requested_paths(&self.call_id, places);
        Need::Ask(Box::new(request))
    }
}

/// An error about a file in the words models know.
pub(crate) fn file_error(path: &str, error: &io::Error) -> ToolError {
    ToolError(match error.kind() {
        io::ErrorKind::NotFound => format!("Path {path} does not exist. Please provide a valid path."),
        io::ErrorKind::PermissionDenied => format!("Path {path} cannot be accessed: permission denied."),
        io::ErrorKind::IsADirectory => format!("Path {path} is a directory."),
        io::ErrorKind::NotADirectory => format!("Path {path} does not exist: a part of it is not a directory."),
        io::ErrorKind::AlreadyExists => format!("Path {path} already exists."),
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            format!("Path {path} was replaced by a symbolic link and was not opened.")
        }
        _ => format!("Path {path}: {error}"),
    })
}
