//! Images attached to a message.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ahp::ahp_types::state::{MessageAttachment, MessageEmbeddedResourceAttachment};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};

/// The largest image that can be attached.
const LARGEST: u64 = 20 << 20;
/// Programs that write the image on the clipboard to their standard output.
const PROGRAMS: [&[&str]; 3] = [
    &["wl-paste", "--type", "image/png"],
    &["xclip", "-selection", "clipboard", "-target", "image/png", "-out"],
    &["pngpaste", "-"],
];

/// The image at a path, and its label.
pub(super) fn at(path: &str) -> Result<(String, MessageAttachment)> {
    let path = match (path.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(path),
    };
    let length = std::fs::metadata(&path).context("It cannot be read")?.len();
    ensure!(length <= LARGEST, "An image may have at most {} MB", LARGEST >> 20);
    let bytes = std::fs::read(&path).context("It cannot be read")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .map(str::to_ascii_lowercase);
    let content_type = match ending.as_deref() {
        Some("jpg") => "image/jpeg".to_owned(),
        Some(ending) => format!("image/{ending}"),
        None => "application/octet-stream".to_owned(),
    };
    Ok((name.clone(), attachment(name, content_type, &bytes)))
}

/// The image on the clipboard, if there is one and a program to read it.
pub(super) fn copied() -> Option<(String, MessageAttachment)> {
    let image = PROGRAMS.iter().find_map(|program| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).stdin(Stdio::null()).stderr(Stdio::null());
        let done = command.output().ok()?;
        let is_image = done.status.success() && done.stdout.starts_with(b"\x89PNG");
        (is_image && done.stdout.len() as u64 <= LARGEST).then_some(done.stdout)
    })?;
    let name = "clipboard.png".to_owned();
    Some((name.clone(), attachment(name, "image/png".to_owned(), &image)))
}

fn attachment(label: String, content_type: String, bytes: &[u8]) -> MessageAttachment {
    MessageAttachment::EmbeddedResource(MessageEmbeddedResourceAttachment {
        label,
        range: None,
        display_kind: Some("image".to_owned()),
        meta: None,
        data: STANDARD.encode(bytes),
        content_type,
        selection: None,
    })
}
