//! `view`: shows a file, a directory or an image.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use base64::Engine;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Need, Tool, ToolCx, ToolError, ToolOutput,
    cx::{arguments, file_error},
    paths::Located,
    spill::kilobytes,
};

/// Shows a file, a directory or an image.
pub(super) struct View;

/// Larger files are not read into memory.
const MAX_FILE: u64 = 64 << 20;
const MAX_IMAGE: u64 = 8 << 20;
const MAX_ENTRIES: usize = 2000;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    #[serde(default, alias = "viewRange")]
    view_range: Option<Vec<i64>>,
    #[serde(default, rename = "forceReadLargeFiles")]
    force: bool,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path of a file or directory." },
            "view_range": { "type": "array", "items": { "type": "integer" }, "description": "First and last line, counted from 1, such as [11, 20]. -1 as the last line means the end of the file." },
            "forceReadLargeFiles": { "type": "boolean", "description": "Read a large file as a whole. Prefer view_range or grep." }
        },
        "required": ["path"]
    }))
});

impl Tool for View {
    fn name(&self) -> &'static str {
        "view"
    }

    fn description(&self) -> &'static str {
        "Shows a file, the entries of a directory, or an image (png, jpg, gif, webp)."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn parallel(&self) -> bool {
        true
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        cx.need_read(&args.path, format!("View {}", args.path))
    }

    fn text_file(&self, value: &Value, cx: &ToolCx) -> Option<Located> {
        let args: Arguments = arguments(self.name(), value).ok()?;
        let place = cx.locate(&args.path).ok()?;
        (!place.path.is_dir() && image_type(&args.path).is_none()).then_some(place)
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(super::blocking(move || {
            let args: Arguments = arguments("view", &value)?;
            let place = cx.permitted(&args.path)?;
            if place.path.is_dir() {
                return directory(&args.path, &place);
            }
            if let Some(mime) = image_type(&args.path) {
                return image(&args.path, &place, mime);
            }
            let bytes = cx
                .read_file(&place, MAX_FILE)
                .map_err(|error| file_error(&args.path, &error))?;
            if bytes.contains(&0) {
                return Err(ToolError(format!(
                    "{} is a binary file ({}).",
                    args.path,
                    kilobytes(bytes.len() as u64)
                )));
            }
            let text = String::from_utf8_lossy(&bytes);
            let content = lines(&text, args.view_range.as_deref(), cx.number_lines)?;
            if content.len() > cx.max_output_bytes && !args.force {
                let lines = text.lines().count();
                return Err(ToolError(format!(
                    "File too large to read at once ({}, {lines} lines). Use view_range to read a part of it, or grep to search it.",
                    kilobytes(content.len() as u64)
                )));
            }
            Ok(ToolOutput {
                content,
                ..ToolOutput::default()
            })
        }))
    }
}

/// The lines of the range, with their numbers if they are wanted.
fn lines(text: &str, range: Option<&[i64]>, numbered: bool) -> Result<String, ToolError> {
    let count = text.lines().count();
    let (first, last) = match range {
        None | Some([]) => (1, count),
        Some([first, last]) if *first >= 1 && (*last >= *first || *last == -1) => {
            let first = usize::try_from(*first).unwrap_or(usize::MAX);
            (first, usize::try_from(*last).map_or(count, |last| last.min(count)))
        }
        Some(range) => {
            return Err(ToolError(format!(
                "Invalid view_range {range:?}: it must be [first, last] with first at least 1 and last not before it, or -1 for the end."
            )));
        }
    };
    if first > count.max(1) {
        let lines = if count == 1 { "line" } else { "lines" };
        return Err(ToolError(format!("Invalid view_range: the file has {count} {lines}.")));
    }
    let mut out = String::new();
    for (index, line) in text.lines().enumerate().take(last).skip(first - 1) {
        let _ = match numbered {
            true => writeln!(out, "{}. {line}", index + 1),
            false => writeln!(out, "{line}"),
        };
    }
    // A whole file that ends with a line break shows the empty line after it, as the Copilot CLI did.
    if numbered && range.is_none_or(<[i64]>::is_empty) && text.ends_with('\n') {
        let _ = writeln!(out, "{}. ", count + 1);
    }
    out.pop();
    Ok(out)
}

fn directory(shown: &str, place: &Located) -> Result<ToolOutput, ToolError> {
    let error = |error: std::io::Error| file_error(shown, &error);
    let handle = place.open().map_err(error)?;
    let entries = rustix::fs::Dir::read_from(&handle).map_err(|errno| error(errno.into()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(MAX_ENTRIES);
    names.truncate(MAX_ENTRIES);
    if more > 0 {
        names.push(format!("({more} more)"));
    }
    Ok(ToolOutput {
        content: names.join("\n"),
        ..ToolOutput::default()
    })
}

fn image_type(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

fn image(shown: &str, place: &Located, mime: &str) -> Result<ToolOutput, ToolError> {
    let bytes = place.read(MAX_IMAGE).map_err(|error| file_error(shown, &error))?;
    let data = base64::engine::general_purpose::STANDARD.encode(bytes);
    Ok(ToolOutput {
        content: "Viewed image file successfully.".to_owned(),
        images: vec![(mime.to_owned(), data)],
        ..ToolOutput::default()
    })
}
