//! `glob`: finds files by name.

use std::sync::{Arc, LazyLock};

use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::Search;
use crate::{Need, Tool, ToolCx, ToolError, ToolOutput, cx::arguments, spill};

/// Finds files by name.
pub(super) struct Glob;

const MAX_FILES: usize = 20_000;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "Glob pattern for file paths, such as **/*.ts or src/**/*.{rs,toml}. Without a slash it matches at any depth." },
            "path": { "type": "string", "description": "Directory to look in. Default: the working directory." }
        },
        "required": ["pattern"]
    }))
});

impl Tool for Glob {
    fn name(&self) -> &'static str {
        "glob"
    }

    fn description(&self) -> &'static str {
        "Finds files whose path matches a pattern. Skips files that .gitignore excludes, and hidden files unless the pattern names them."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn parallel(&self) -> bool {
        true
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        cx.need_read(
            args.path.as_deref().unwrap_or("."),
            format!("Find files that match {}", args.pattern),
        )
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let stop = cx.cancel.child_token();
            let _stop_on_drop = stop.clone().drop_guard();
            super::blocking(move || {
                let args: Arguments = arguments("glob", &value)?;
                let search = Search::new(&cx, args.path.as_deref())?.matching(Some(&args.pattern))?;
                let names: Vec<String> = search
                    .files(|| stop.is_cancelled())
                    .map(|(_, name)| name)
                    .take(MAX_FILES)
                    .collect();
                let content = if names.is_empty() {
                    "No files matched the pattern.".to_owned()
                } else {
                    names.join("\n")
                };
                let content = spill::bound(content, cx.state.temp(), cx.max_output_bytes);
                Ok(ToolOutput {
                    content,
                    ..ToolOutput::default()
                })
            })
            .await
        })
    }
}
