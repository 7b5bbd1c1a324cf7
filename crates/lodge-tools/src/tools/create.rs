//! `create`: creates a new file.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Need, Tool, ToolCx, ToolError, ToolOutput,
    changes::Touches,
    cx::{arguments, file_error},
    diff, request,
};

/// Makes a new file.
pub(super) struct Create;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    file_text: String,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path of the file to create. It must not exist; missing directories are created." },
            "file_text": { "type": "string", "description": "The contents." }
        },
        "required": ["path", "file_text"]
    }))
});

impl Tool for Create {
    fn name(&self) -> &'static str {
        "create"
    }

    fn description(&self) -> &'static str {
        "Creates a new file. Existing files are not overwritten: change them with edit."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let place = cx.locate(&args.path)?;
        let (diff, _) = diff::unified(&place.path, None, &args.file_text);
        let request = request::write(
            cx,
            &args.path,
            &place,
            format!("Create {}", args.path),
            diff,
            args.file_text,
        );
        Ok(cx.need(vec![place.path], request))
    }

    fn touches(&self, value: &Value, cx: &ToolCx) -> Touches {
        let place = arguments::<Arguments>(self.name(), value).and_then(|args| cx.locate(&args.path));
        Touches::Files(place.into_iter().map(|place| place.path).collect())
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(super::blocking(move || {
            let Arguments { path, file_text } = arguments("create", &value)?;
            let place = cx.permitted(&path)?;
            cx.create_file(&place, &file_text)
                .map_err(|error| file_error(&path, &error))?;
            let (diff, change) = diff::unified(&place.path, None, &file_text);
            Ok(ToolOutput {
                content: format!("Created file {path} with {} characters", file_text.chars().count()),
                detailed: Some(diff),
                changes: vec![change],
                ..ToolOutput::default()
            })
        }))
    }
}
