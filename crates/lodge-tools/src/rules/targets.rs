//! The files that a request is about.

use std::path::{Path, PathBuf};

use globset::GlobBuilder;

use crate::paths;

/// How many names are examined, and matched, for the patterns of one command before they count as unknown.
const MAX_NAMES: usize = 5000;
const MAX_FOUND: usize = 1000;
/// Longer and deeper paths count as unknown: comparing them with rules takes the square of that.
const MAX_LENGTH: usize = 4096;
const MAX_DEPTH: usize = 128;

/// What was spent on the patterns of one command.
#[derive(Default)]
pub(super) struct Looked {
    names: usize,
    found: usize,
}

/// The places a path of a shell command means, or `None` when that is not known before it runs.
///
/// `..` is followed as the system does it, after links; patterns are matched with what is there now, because what a
/// pattern matches may be a link to somewhere else.
pub(super) fn of_command(cwd: &Path, text: &str, looked: &mut Looked) -> Option<Vec<PathBuf>> {
    // `~name` and `~-` are directories that only the shell knows.
    let other_home = text
        .strip_prefix('~')
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let absurd = text.len() > MAX_LENGTH || text.split('/').count() > MAX_DEPTH;
    if text.contains(['$', '`', '\0']) || text.is_empty() || other_home || absurd {
        return None;
    }
    let path = paths::in_directory(cwd, text);
    if !text.contains(['*', '?', '[']) {
        return Some(vec![paths::real(&path).ok()?]);
    }
    let mut found = vec![PathBuf::from("/")];
    for part in path.components().skip(1) {
        let name = part.as_os_str().to_string_lossy();
        if !name.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let glob = GlobBuilder::new(&at_least(&name)).build().ok()?.compile_matcher();
        let mut next = Vec::new();
        for dir in &found {
            // What cannot be listed matches nothing.
            for entry in std::fs::read_dir(paths::real(dir).ok()?)
                .into_iter()
                .flatten()
                .flatten()
            {
                looked.names += 1;
                if looked.names > MAX_NAMES || looked.found > MAX_FOUND {
                    return None;
                }
                let file = entry.file_name();
                let hidden = file.to_string_lossy().starts_with('.') && !name.starts_with('.');
                if !hidden && glob.is_match(&file) {
                    looked.found += 1;
                    next.push(dir.join(file));
                }
            }
        }
        if next.is_empty() {
            // The shell then passes the pattern on as it is written.
            next = found.iter().map(|dir| dir.join(part)).collect();
        }
        found = next;
    }
    found.iter().map(|path| paths::real(path).ok()).collect()
}

/// A pattern that matches at least what the shell's does: which characters `[…]` means depends on the language.
fn at_least(pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('[') {
        out.push_str(before);
        // The bracket may hold brackets itself (`[[:alpha:]]`, `[]a]`), so everything up to the last one may be in it.
        match after.rsplit_once(']') {
            Some((_, after)) => {
                out.push('*');
                rest = after;
            }
            None => {
                out.push_str("[[]");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out.replace('{', "[{]").replace('}', "[}]")
}

/// Whether a place is in one of the roots.
pub(super) fn inside(path: &Path, roots: &[PathBuf]) -> bool {
    roots.iter().any(|root| path.starts_with(root))
}

/// Directories in which a file is more than it seems, wherever they are: programs start what is in them when somebody commits,
/// opens the folder in an editor, or starts an agent there.
const GUARDED_DIRS: &[&str] = &[
    // Git: hooks, filters, whatever its configuration names.
    ".git",
    ".githooks",
    ".husky",
    ".lefthook",
    // Agents: servers, hooks, skills, permissions.
    ".lodge",
    ".claude",
    ".claude-plugin",
    ".copilot",
    ".codex",
    ".cursor",
    ".gemini",
    ".agents",
    ".plugin",
    // Editors: tasks, launchers, settings that name programs.
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    // Build tools that everything else calls: wrappers, runners, linkers.
    ".cargo",
    ".mvn",
    ".yarn",
    // The person's keys.
    ".ssh",
    ".gnupg",
];

/// The same below a directory that holds harmless things too. Workflows are not among them: they run elsewhere, after somebody has
/// committed and pushed them.
const GUARDED_BELOW: &[(&str, &[&str])] = &[
    (
        ".github",
        &[
            "hooks",
            "extensions",
            "agents",
            "skills",
            "prompts",
            "chatmodes",
            "commands",
            "copilot",
            "mcp.json",
            "plugin",
            "plugin.json",
        ],
    ),
    // For those who work in their home directory.
    (
        ".config",
        &["git", "fish", "nvim", "systemd", "autostart", "environment.d", "lodge"],
    ),
    (".local", &["bin"]),
];

/// Files that are more than they seem, wherever they are.
const GUARDED_FILES: &[&str] = &[
    // MCP servers.
    ".mcp.json",
    "mcp.json",
    // What shells and terminals run when they start, or when they come into the folder.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    "config.fish",
    ".inputrc",
    ".envrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".tmux.conf",
    ".screenrc",
    // What programs run when they start in the folder.
    ".gitconfig",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".emacs",
    ".dir-locals.el",
    ".gdbinit",
    ".lldbinit",
    ".rprofile",
    ".irbrc",
    ".pryrc",
    ".psqlrc",
    ".sqliterc",
    ".devcontainer.json",
    // What a commit runs.
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    "lefthook.yml",
    "lefthook.yaml",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lintstagedrc",
    // Package managers: which programs they are, and what they run.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
];

/// The ends of such names.
const GUARDED_ENDS: &[&str] = &[".code-workspace"];

/// Whether writing a place inside a root is more than it seems: a program would be started for it by something that looks
/// harmless, or Lodge would obey it. Instructions are no programs, and neither are the files of a build: whoever runs these is
/// asked.
pub(super) fn guarded(path: &Path, roots: &[PathBuf]) -> bool {
    let inside = roots.iter().filter(|root| path.starts_with(root));
    inside
        .into_iter()
        .any(|root| by_name(path, root) || by_link(path, root))
}

/// Whether writing a place changes what is in a directory that a client named, or moves such a directory: Lodge starts what the
/// files there describe.
pub(super) fn guards_named(path: &Path, named: &[PathBuf], roots: &[PathBuf]) -> bool {
    let is_above_root = || roots.iter().any(|root| root.starts_with(path));
    named
        .iter()
        .any(|dir| path.starts_with(dir) || (dir.starts_with(path) && !is_above_root()))
}

fn by_name(path: &Path, root: &Path) -> bool {
    let part = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().to_lowercase();
    let names: Vec<String> = path.components().map(part).collect();
    let above = root.components().count();
    let below = |at: usize| at >= above;
    let dirs = names.iter().enumerate();
    let in_dir = dirs
        .clone()
        .any(|(at, name)| below(at) && GUARDED_DIRS.contains(&name.as_str()));
    // A session may work in the outer directory itself.
    let in_part = dirs.clone().any(|(at, name)| {
        let guarded = GUARDED_BELOW.iter().find(|(outer, _)| outer == name);
        guarded.is_some_and(|(_, parts)| match names.get(at + 1) {
            Some(part) => parts.contains(&part.as_str()),
            // All of it: something is moved there, or removed.
            None => below(at),
        })
    });
    let file = names.last().is_some_and(|name| {
        GUARDED_FILES.contains(&name.as_str()) || GUARDED_ENDS.iter().any(|end| name.ends_with(end))
    });
    in_dir || in_part || file
}

/// Whether a guarded place of the root is a link, and leads to this one.
fn by_link(path: &Path, root: &Path) -> bool {
    let parts = GUARDED_BELOW
        .iter()
        .flat_map(|(outer, parts)| parts.iter().map(move |part| root.join(outer).join(part)));
    let whole = GUARDED_BELOW.iter().map(|(outer, _)| root.join(outer));
    let names = GUARDED_DIRS.iter().chain(GUARDED_FILES).map(|name| root.join(name));
    let linked = |place: PathBuf| {
        let is_link = place.symlink_metadata().is_ok_and(|file| file.is_symlink());
        is_link && paths::real(&place).is_ok_and(|real| path.starts_with(real))
    };
    let is_within = |place: PathBuf| {
        let real = paths::real(&place).ok();
        real.is_some_and(|real| real != place && path.starts_with(real))
    };
    whole.chain(names).any(linked) || parts.into_iter().any(is_within)
}
