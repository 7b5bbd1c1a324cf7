//! Runs git without the programs that a repository's configuration names.
//!
//! `.git/config` can start programs: whoever unpacks an archive and runs `git status` in it starts whatever
//! `core.fsmonitor` names. When Lodge runs git itself, or lets agents run it without approval, all of that is switched
//! off. The person's own configuration (system, global, environment) still applies.

use std::{
    io::Read as _,
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use crate::git_files::GitFiles;

/// The first git that takes configuration from `GIT_CONFIG_COUNT`. An older one would ignore what is switched off here.
const OLDEST: (u32, u32) = (2, 31);
/// A configuration with more than this is not read, and git is not run.
const MOST_BYTES: u64 = 1 << 20;
/// A program that is always there and does nothing but fail.
const NOTHING: &str = "false";

/// Settings that start programs and whose names are known beforehand.
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", NOTHING),
    ("sequence.editor", NOTHING),
    ("core.sshCommand", NOTHING),
    ("core.askPass", NOTHING),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", NOTHING),
    // An empty one forgets all before it.
    ("credential.helper", ""),
    ("interactive.diffFilter", ""),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("uploadpack.packObjectsHook", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    // Git would run itself in submodules, where other filters have other names.
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.ignoreSubmodules", "all"),
    // A directory of a worktree that only looks like a repository is none.
    ("safe.bareRepository", "explicit"),
];

/// Settings that are switched off where nobody looks at what the repository says about them; else the person's count.
const UNSEEN: &[(&str, &str)] = &[
    ("gpg.program", NOTHING),
    ("gpg.openpgp.program", NOTHING),
    ("gpg.x509.program", NOTHING),
    ("gpg.ssh.program", NOTHING),
    ("gpg.ssh.defaultKeyCommand", NOTHING),
];

/// Variables that say the same, or that no configuration outweighs.
const VARIABLES: &[(&str, &str)] = &[
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", NOTHING),
    ("GIT_SEQUENCE_EDITOR", NOTHING),
    ("GIT_SSH_COMMAND", NOTHING),
    ("GIT_ASKPASS", NOTHING),
    // No way of fetching is allowed: a clone that lacks objects would fetch them from where its configuration says.
    ("GIT_ALLOW_PROTOCOL", ""),
    ("GIT_NO_LAZY_FETCH", "1"),
];

/// Variables that would make git work elsewhere, or start something: a host may have been started by a hook of git.
pub const FOREIGN: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXTERNAL_DIFF",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
];

/// Variables for a git that shall start no program that a repository's configuration names, as far as the settings have
/// known names. What has names of the repository's own (`filter.<name>.clean`) is switched off by [`repository_overrides`];
/// [`FOREIGN`] must be absent.
pub fn overrides() -> Vec<(String, String)> {
    variables(UNSEEN.iter().map(owned))
}

/// Variables by which git starts no program of a repository's, or why there are none.
pub type Overrides = Result<Vec<(String, String)>, String>;

/// As [`overrides`], also for the settings of this repository that have names of its own. Reads its configuration, by a git
/// that does nothing else.
pub fn repository_overrides(directory: &Path) -> Overrides {
    let configured = configuration(directory)?;
    check_work_tree(directory, &configured)?;
    Ok(variables(named(&configured).into_iter()))
}

/// Arguments by which a subcommand starts no program that attributes name; no setting switches these off without an error.
/// They stand directly behind the subcommand.
pub fn no_programs_args(subcommand: &str) -> &'static [&'static str] {
    match subcommand {
        "diff" | "show" | "log" | "whatchanged" | "format-patch" | "diff-tree" | "diff-index" | "diff-files" => {
            &["--no-ext-diff", "--no-textconv", "--ignore-submodules=all"]
        }
        "status" => &["--ignore-submodules=all"],
        "blame" | "annotate" | "grep" => &["--no-textconv"],
        _ => &[],
    }
}

/// Git in a directory, with no program of its repository's.
pub fn command(directory: &Path) -> Result<Command, String> {
    let overrides = repository_overrides(directory)?;
    Ok(with_overrides(directory, overrides))
}

/// Whether there is a git new enough to run without starting other programs.
pub fn check() -> Result<(), String> {
    static CHECKED: OnceLock<Result<(), String>> = OnceLock::new();
    let look = || {
        let output = Command::new("git").arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("cannot run git: {error}"))?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match version_of(&version) {
            Some(found) if found >= OLDEST => Ok(()),
            _ => Err(format!(
                "git {}.{} or newer is required; this is {version:?}",
                OLDEST.0, OLDEST.1
            )),
        }
    };
    CHECKED.get_or_init(look).clone()
}

/// Git as the person has it, with all that the repository configures: for what a person asked for where it is trusted.
pub(crate) fn unrestricted(directory: &Path) -> Command {
    with_overrides(directory, vec![("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned())])
}

/// Git that fetches a repository which a person named, with the person's own ways to sign in: by protocols that start no
/// program which an address names, and without what the repository would start when it is checked out.
pub fn fetching(directory: &Path) -> Command {
    let variables = [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ALLOW_PROTOCOL", "https:http:ssh:file"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
    ];
    let mut command = with_overrides(directory, variables.iter().map(owned).collect());
    command.args(["-c", "core.hooksPath=/dev/null", "-c", "submodule.recurse=false"]);
    command
}

/// As [`command`], with what [`repository_overrides`] gave before.
pub(crate) fn with_overrides(directory: &Path, overrides: Vec<(String, String)>) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .stdin(Stdio::null())
        .envs(overrides)
        .env("LC_ALL", "C");
    for name in FOREIGN {
        command.env_remove(name);
    }
    command
}

fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("git version ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn owned((key, value): &(&str, &str)) -> (String, String) {
    ((*key).to_owned(), (*value).to_owned())
}

fn variables(more: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    // What the person's environment says comes first, so that it counts where nothing is switched off.
    let mut settings = of_environment();
    settings.extend(SETTINGS.iter().map(owned));
    settings.extend(more);
    let mut variables: Vec<(String, String)> = VARIABLES.iter().map(owned).collect();
    variables.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
    for (number, (key, value)) in settings.into_iter().enumerate() {
        variables.push((format!("GIT_CONFIG_KEY_{number}"), key));
        variables.push((format!("GIT_CONFIG_VALUE_{number}"), value));
    }
    variables
}

/// The directories that the environment calls safe: without them git refuses repositories of others, in containers above all.
/// The rest may hold secrets, and what is run unasked does not need it.
fn of_environment() -> Vec<(String, String)> {
    let count = std::env::var("GIT_CONFIG_COUNT")
        .ok()
        .and_then(|count| count.parse().ok());
    let setting = |number: u32| {
        let key = std::env::var(format!("GIT_CONFIG_KEY_{number}")).ok()?;
        let value = std::env::var(format!("GIT_CONFIG_VALUE_{number}")).ok()?;
        key.eq_ignore_ascii_case("safe.directory").then_some((key, value))
    };
    (0..count.unwrap_or(0).min(1_000)).filter_map(setting).collect()
}

/// A line of the configuration: whether it is the person's, its name, its value.
type Line = (bool, String, String);

fn configuration(directory: &Path) -> Result<Vec<Line>, String> {
    check()?;
    let mut command = with_overrides(directory, overrides());
    command
        .args(["config", "--list", "--includes", "--show-scope", "-z"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run git: {error}"))?;
    let mut text = Vec::new();
    let read = child
        .stdout
        .take()
        .map(|output| output.take(MOST_BYTES + 1).read_to_end(&mut text));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST_BYTES || !matches!(read, Some(Ok(_))) {
        return Err(format!("the git configuration in {} is too large", directory.display()));
    }
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let mut parts = text.split(|byte| *byte == 0);
    let mut lines = Vec::new();
    while let (Some(scope), Some(setting)) = (parts.next().filter(|scope| !scope.is_empty()), parts.next()) {
        let end = setting.iter().position(|byte| *byte == b'\n');
        let (key, value) = setting.split_at(end.unwrap_or(setting.len()));
        // A name that cannot be said exactly cannot be switched off.
        let key = std::str::from_utf8(key).map_err(|_| {
            format!(
                "a git setting in {} has a name that is not valid text",
                directory.display()
            )
        })?;
        let value = value.get(1..).map(String::from_utf8_lossy);
        let own = matches!(scope, b"system" | b"global" | b"command");
        lines.push((own, key.to_owned(), value.unwrap_or("true".into()).into_owned()));
    }
    Ok(lines)
}

/// Refuses a repository that would have git work elsewhere than in its own folder: what is thrown away or restored there would
/// be files of somebody else's choice.
fn check_work_tree(directory: &Path, configured: &[Line]) -> Result<(), String> {
    let moved = configured.iter().rfind(|(own, key, _)| !own && key == "core.worktree");
    let root = GitFiles::root_around(directory);
    let (Some((_, _, named)), Some(root)) = (moved, root) else {
        return Ok(());
    };
    let git_dir = GitFiles::of(root).dir().to_owned();
    // A linked worktree does not obey what was written for the main one.
    if git_dir.join("commondir").exists() {
        return Ok(());
    }
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    match real(&git_dir.join(named)) == real(root) {
        true => Ok(()),
        false => Err(format!(
            "the git configuration of {} sets another worktree: {named}",
            root.display()
        )),
    }
}

/// What a repository configures that starts programs, as the person has it, or as nothing.
fn named(configured: &[Line]) -> Vec<(String, String)> {
    let fixed = |key: &str| SETTINGS.iter().any(|(name, _)| name.eq_ignore_ascii_case(key));
    let mut settings: Vec<(String, String)> = Vec::new();
    for (own, key, _) in configured {
        if *own || fixed(key) || settings.iter().any(|(known, _)| known == key) {
            continue;
        }
        let Some(nothing) = nothing_for(key) else { continue };
        let persons = configured.iter().rfind(|(own, other, _)| *own && other == key);
        let value = persons.map_or(nothing, |(_, _, value)| value);
        settings.push((key.clone(), value.to_owned()));
    }
    settings
}

/// The value by which a setting starts nothing; `None` for one that starts nothing anyway. Git tells names in small letters but
/// for the part in the middle.
fn nothing_for(key: &str) -> Option<&'static str> {
    let (section, rest) = key.split_once('.')?;
    let (middle, name) = rest.rsplit_once('.').unwrap_or(("", rest));
    let nothing = match (section, name) {
        ("filter", "clean" | "smudge" | "process") => "",
        // A filter that must work and is none would be an error.
        ("filter", "required") => "false",
        ("credential", "helper") => "",
        ("diff", "external" | "command" | "textconv")
        | ("merge", "driver")
        | ("core" | "sequence", "editor" | "pager" | "sshcommand" | "askpass" | "alternaterefscommand")
        | ("gpg", "program" | "defaultkeycommand")
        | ("trailer" | "difftool" | "mergetool" | "guitool" | "browser" | "man", "command" | "cmd" | "path")
        | ("tar" | "hook", "command")
        | ("imap", "tunnel")
        | ("instaweb", "httpd" | "browser")
        | ("web" | "help", "browser") => NOTHING,
        ("pager", _) => "false",
        ("remote", "uploadpack") => "git-upload-pack",
        ("remote", "receivepack") => "git-receive-pack",
        ("remote", "vcs") => NOTHING,
        ("submodule", "update") => "none",
        ("protocol", "allow") => "never",
        ("alias", _) => "version",
        ("sendemail", _) => "",
        // Git LFS, which many people have for all their repositories, reads whom to run from the repository's configuration.
        ("lfs", "standalonetransferagent" | "path" | "args" | "clean" | "smudge") => "",
        ("lfs", _) if middle.starts_with("customtransfer") || middle.starts_with("extension") => "",
        _ => return None,
    };
    Some(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_what_is_none_is_not_trusted() {
        for (text, expected) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.50.1 (Apple Git-155)", Some((2, 50))),
            ("git version 2.31.rc1", Some((2, 31))),
            ("git version", None),
            ("", None),
        ] {
            assert_eq!(version_of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_repository_works_nowhere_but_in_its_own_folder() {
        let dir = tempfile::tempdir().unwrap();
        let sh = |command: &str| {
            let done = Command::new("bash")
                .args(["-c", command])
                .current_dir(dir.path())
                .output();
            assert!(done.unwrap().status.success(), "{command}");
        };
        sh("git init -q own && git init -q moved && mkdir -p own/sub elsewhere modules");
        sh("git -C moved config core.worktree ../../elsewhere");
        // As submodules have it.
        sh("git init -q inner && mv inner/.git modules/inner && echo gitdir: ../modules/inner > inner/.git");
        sh("git --git-dir modules/inner config core.worktree ../../inner");
        for (name, expected) in [("own", true), ("own/sub", true), ("inner", true), ("moved", false)] {
            let checked = repository_overrides(&dir.path().join(name));
            assert_eq!(checked.is_ok(), expected, "{name}: {checked:?}");
        }
    }

    #[test]
    fn what_the_person_configured_counts_where_a_repository_says_otherwise() {
        let line = |own: bool, key: &str, value: &str| (own, key.to_owned(), value.to_owned());
        let configured = [
            line(true, "filter.lfs.clean", "git-lfs clean -- %f"),
            line(true, "filter.own.smudge", "mine"),
            line(false, "filter.lfs.clean", "evil"),
            line(false, "filter.Evil.x.process", "evil"),
            line(false, "filter.evil.required", "true"),
            line(false, "lfs.customtransfer.x.path", "evil"),
            line(false, "core.hookspath", "evil"),
            line(false, "user.name", "anybody"),
        ];
        let expected = [
            ("filter.lfs.clean", "git-lfs clean -- %f"),
            ("filter.Evil.x.process", ""),
            ("filter.evil.required", "false"),
            ("lfs.customtransfer.x.path", ""),
        ];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(named(&configured), expected);
    }
}
