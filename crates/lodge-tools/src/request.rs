//! Permission requests of the built-in tools.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use lodge_events::{
    ContentBlock, PermissionRequest, PossibleUrl, ReadPermission, ShellCommand, ShellPermission, TerminalBlock,
    UrlPermission, WritePermission,
};

use crate::{
    ToolCx,
    paths::{self, Located, absolute},
    shell,
};

/// Reading a file or directory.
pub(crate) fn read(cx: &ToolCx, path: &str, place: &Located, intention: String) -> PermissionRequest {
    let path = absolute(&cx.cwd, path);
    ReadPermission {
        tool_call_id: Some(cx.call_id.to_string()),
        intention,
        resolved_path: resolved(&path, place),
        path: path.display().to_string(),
        ..ReadPermission::default()
    }
    .into()
}

/// Writing a file.
pub(crate) fn write(
    cx: &ToolCx,
    path: &str,
    place: &Located,
    intention: String,
    diff: String,
    new: String,
) -> PermissionRequest {
    let path = absolute(&cx.cwd, path);
    WritePermission {
        tool_call_id: Some(cx.call_id.to_string()),
        intention,
        resolved_path: resolved(&path, place),
        file_name: path.display().to_string(),
        diff,
        new_file_contents: Some(new),
        can_offer_session_approval: true,
        ..WritePermission::default()
    }
    .into()
}

/// Where a path leads, when that is not what it says.
fn resolved(path: &Path, place: &Located) -> Option<String> {
    (path != place.path).then(|| place.path.display().to_string())
}

/// Fetching an address.
pub(crate) fn url(cx: &ToolCx, url: &str) -> PermissionRequest {
    UrlPermission {
        tool_call_id: Some(cx.call_id.to_string()),
        intention: format!("Fetch {url}"),
        url: url.to_owned(),
        ..UrlPermission::default()
    }
    .into()
}

/// Running a command, and the places it may write to.
pub(crate) fn shell(cx: &ToolCx, command: &str, description: &str) -> (PermissionRequest, Vec<PathBuf>) {
    let found = shell::analyse(command);
    let real = |path: &String| paths::real(&paths::in_directory(&cx.cwd, path)).ok();
    let writes = found
        .writes
        .iter()
        .filter(|path| !path.contains('$'))
        .filter_map(real)
        .collect();
    let resolved: BTreeMap<String, String> = found
        .paths
        .iter()
        .filter_map(|path| Some((path, real(path)?)))
        .filter(|(path, place)| absolute(&cx.cwd, path) != *place)
        .map(|(path, place)| (path.clone(), place.display().to_string()))
        .collect();
    let request = ShellPermission {
        tool_call_id: Some(cx.call_id.to_string()),
        intention: if description.is_empty() {
            "Run a command".to_owned()
        } else {
            description.to_owned()
        },
        resolved_paths: (!resolved.is_empty()).then_some(resolved),
        ..shell_of(command, found)
    };
    (request.into(), writes)
}

/// The part of a shell request that follows from the command alone.
pub(crate) fn shell_of(command: &str, found: shell::Analysis) -> ShellPermission {
    ShellPermission {
        full_command_text: command.to_owned(),
        can_offer_session_approval: found.can_be_remembered(),
        commands: found.commands,
        command_segments: Some(found.segments),
        possible_paths: found.paths,
        possible_urls: found.urls.into_iter().map(|url| PossibleUrl { url }).collect(),
        has_write_file_redirection: found.writes_by_redirection,
        warning: found.warning,
        ..ShellPermission::default()
    }
}

/// Writing to the input of a command that runs. What it reads there may be code, so no rule about commands is enough for it.
pub(crate) fn shell_input(call: &str, command: &str, input: &str) -> PermissionRequest {
    let commands = shell::analyse(command).commands.into_iter();
    ShellPermission {
        tool_call_id: Some(call.to_owned()),
        full_command_text: input.to_owned(),
        intention: format!("Write to the input of: {command}"),
        can_offer_session_approval: false,
        commands: commands
            .map(|command| ShellCommand {
                read_only: false,
                ..command
            })
            .collect(),
        ..ShellPermission::default()
    }
    .into()
}

/// What a command printed, as a block.
pub(crate) fn terminal_block(text: String, code: i32, cwd: &Path) -> ContentBlock {
    TerminalBlock {
        text,
        exit_code: Some(code.into()),
        cwd: Some(cwd.display().to_string()),
    }
    .into()
}
