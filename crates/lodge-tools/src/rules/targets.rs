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
/// pattern matches may be a link to somewhere else. In literal text, `$` is a letter like others.
pub(super) fn of_command(cwd: &Path, text: &str, is_literal: bool, looked: &mut Looked) -> Option<Vec<PathBuf>> {
    // `~name` and `~-` are directories that only the shell knows.
    let other_home = text
        .strip_prefix('~')
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
    let absurd = text.len() > MAX_LENGTH || text.split('/').count() > MAX_DEPTH;
    let has_variable = !is_literal && text.contains(['$', '`']);
    if has_variable || text.contains('\0') || text.is_empty() || other_home || absurd {
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

/// Names that begin with a dot and are as harmless as they seem, wherever they are. Programs obey files of all other such names,
/// and what is in directories of such names: they run hooks, filters, tasks, wrappers and servers, load plugins, and set variables.
const HARMLESS: &[&str] = &[
    ".gitignore",
    ".gitattributes",
    ".gitkeep",
    ".keep",
    ".mailmap",
    ".editorconfig",
    ".dockerignore",
    ".npmignore",
    ".eslintignore",
    ".prettierignore",
    ".nojekyll",
    ".well-known",
    ".env.example",
    ".env.sample",
    ".env.template",
];

/// The same in `.github`. Workflows run elsewhere, after somebody has committed and pushed them; the others are read.
const HARMLESS_IN_GITHUB: &[&str] = &[
    "workflows",
    "actions",
    "instructions",
    "copilot-instructions.md",
    "issue_template",
    "issue_template.md",
    "pull_request_template",
    "pull_request_template.md",
    "discussion_template",
    "codeowners",
    "contributing.md",
    "code_of_conduct.md",
    "security.md",
    "support.md",
    "funding.yml",
    "dependabot.yml",
    "release.yml",
    "labeler.yml",
];

/// What is guarded below directories that a session may work in although their names begin with a dot.
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

/// Files without a dot that are more than they seem, wherever they are.
const GUARDED_FILES: &[&str] = &[
    // MCP servers.
    "mcp.json",
    // What shells run when they start.
    "config.fish",
    // What a commit runs.
    "lefthook.yml",
    "lefthook.yaml",
    // Which compilers and tools everything else calls.
    "rust-toolchain",
    "rust-toolchain.toml",
    "mise.toml",
    "mise.local.toml",
];

/// The ends of such names.
const GUARDED_ENDS: &[&str] = &[".code-workspace"];

/// Whether writing a place inside a root is more than it seems: a program would be started for it by something that looks
/// harmless, or Lodge would obey it. Instructions are no programs, and neither are the files of a build: whoever runs these is
/// asked.
pub(super) fn guarded(path: &Path, roots: &[PathBuf]) -> bool {
    let mut inside = roots.iter().filter(|root| path.starts_with(root));
    inside.any(|root| by_name(path, root))
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
    let names: Vec<String> = path.components().map(|part| lower(part.as_os_str())).collect();
    let above = root.components().count();
    let is_dotted = (above..names.len()).any(|at| {
        let name = names[at].as_str();
        let next = names.get(at + 1).map(String::as_str);
        let is_harmless = match (name, next) {
            (".github", next) => next.is_some_and(|next| HARMLESS_IN_GITHUB.contains(&next)),
            _ => HARMLESS.contains(&name),
        };
        name.starts_with('.') && !is_harmless
    });
    // A session may work in the outer directory itself.
    let in_part = names.windows(2).any(|pair| {
        let guarded = GUARDED_BELOW.iter().find(|(outer, _)| *outer == pair[0]);
        guarded.is_some_and(|(_, parts)| parts.contains(&pair[1].as_str()))
    });
    let file = names.last().is_some_and(|name| {
        GUARDED_FILES.contains(&name.as_str()) || GUARDED_ENDS.iter().any(|end| name.ends_with(end))
    });
    is_dotted || in_part || file
}

fn lower(name: &std::ffi::OsStr) -> String {
    name.to_string_lossy().to_lowercase()
}

/// Where links of guarded names lead that lie in the roots, or in directories of them in which some names are guarded.
pub(super) fn linked(roots: &[PathBuf]) -> Vec<PathBuf> {
    let outer = GUARDED_BELOW.iter().map(|(outer, _)| *outer);
    let outer: Vec<&str> = [""].into_iter().chain(outer).collect();
    let dirs = roots
        .iter()
        .flat_map(|root| outer.iter().map(move |outer| (root, root.join(outer))));
    let mut found = Vec::new();
    for (root, dir) in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && by_name(&entry.path(), root) {
                found.extend(paths::real(&entry.path()));
            }
        }
    }
    found
}
