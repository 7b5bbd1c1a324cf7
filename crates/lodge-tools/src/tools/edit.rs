//! `edit`: replaces text in a file.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Need, Tool, ToolCx, ToolError, ToolOutput,
    changes::Touches,
    cx::{arguments, file_error},
    diff,
    paths::Located,
    request,
};

/// Replaces a piece of a file.
pub(super) struct Edit;

const MAX_FILE: u64 = 16 << 20;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    #[serde(default)]
    old_str: String,
    #[serde(default)]
    new_str: String,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path of the file to change." },
            "old_str": { "type": "string", "description": "The text to replace, exactly as it appears in the file. It must occur exactly once: include enough of the surrounding text." },
            "new_str": { "type": "string", "description": "The replacement text." }
        },
        "required": ["path", "old_str", "new_str"]
    }))
});

impl Arguments {
    /// What is in the file now.
    fn read(&self, place: &Located, cx: &ToolCx) -> Result<Vec<u8>, ToolError> {
        if self.old_str.is_empty() {
            return Err(ToolError("old_str must not be empty.".to_owned()));
        }
        if self.old_str == self.new_str {
            return Err(ToolError(
                "old_str and new_str are the same: nothing to change.".to_owned(),
            ));
        }
        cx.read_file(place, MAX_FILE)
            .map_err(|error| file_error(&self.path, &error))
    }

    /// The file before and after. What is wrong says something of what is in it.
    fn apply(&self, bytes: Vec<u8>) -> Result<(String, String), ToolError> {
        let path = &self.path;
        let old = String::from_utf8(bytes)
            .map_err(|_| ToolError(format!("{path} is not UTF-8 text and cannot be edited.")))?;
        // Models write line feeds; a file with carriage returns is matched and kept as it is.
        let crlf = old.contains("\r\n") && !self.old_str.contains("\r\n");
        let in_file = |text: &str| {
            if crlf {
                text.replace("\r\n", "\n").replace('\n', "\r\n")
            } else {
                text.to_owned()
            }
        };
        let (from, to) = (in_file(&self.old_str), in_file(&self.new_str));
        // Overlapping finds count too: which of them is meant is just as unclear.
        let first = old.find(&from);
        let last = old.rfind(&from);
        match (first, last) {
            (Some(first), Some(last)) if first == last => {
                let new = [&old[..first], &to, &old[first + from.len()..]].concat();
                Ok((old, new))
            }
            (Some(_), _) => {
                let count = old.matches(&from).count().max(2);
                Err(ToolError(format!(
                    "old_str occurs {count} times in {path}. It must occur exactly once: include more of the surrounding text."
                )))
            }
            _ => Err(ToolError(format!(
                "old_str was not found in {path}. It must match the file exactly, including whitespace."
            ))),
        }
    }
}

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces a piece of an existing text file. old_str must occur exactly once in it."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let place = cx.locate(&args.path)?;
        let (old, new) = match args.apply(args.read(&place, cx)?) {
            Ok(change) => change,
            Err(error) => {
                let request = request::read(cx, &args.path, &place, format!("Read {}", args.path));
                let request = Box::new(request);
                return Ok(Need::Explain { request, error });
            }
        };
        let (diff, _) = diff::unified(&place.path, Some(&old), &new);
        let request = request::write(cx, &args.path, &place, format!("Edit {}", args.path), diff, new);
        Ok(cx.need(vec![place.path], request))
    }

    fn touches(&self, value: &Value, cx: &ToolCx) -> Touches {
        let place = arguments::<Arguments>(self.name(), value).and_then(|args| cx.locate(&args.path));
        Touches::Files(place.into_iter().map(|place| place.path).collect())
    }

    fn text_file(&self, value: &Value, cx: &ToolCx) -> Option<Located> {
        let args: Arguments = arguments(self.name(), value).ok()?;
        cx.locate(&args.path).ok()
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(super::blocking(move || {
            let args: Arguments = arguments("edit", &value)?;
            let place = cx.permitted(&args.path)?;
            let (old, new) = args.apply(args.read(&place, &cx)?)?;
            cx.replace_file(&place, &new)
                .map_err(|error| file_error(&args.path, &error))?;
            let (diff, change) = diff::unified(&place.path, Some(&old), &new);
            Ok(ToolOutput {
                content: format!("File {} updated with changes.", args.path),
                detailed: Some(diff),
                changes: vec![change],
                ..ToolOutput::default()
            })
        }))
    }
}
