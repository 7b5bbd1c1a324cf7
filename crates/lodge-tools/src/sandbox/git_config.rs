//! The git configuration inside the jail. The person's own files may contain tokens (`http.extraHeader`, URLs with a
//! password), and git does not start if it cannot read them.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

/// Larger files are not read.
const MOST_BYTES: u64 = 256 << 10;

/// Settings that say how git shows things; everything else stays behind.
const KEPT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "attributesfile",
            "autocrlf",
            "eol",
            "excludesfile",
            "ignorecase",
            "quotepath",
            "untrackedcache",
        ],
    ),
    ("safe", &["directory"]),
    ("user", &["name", "email"]),
    ("log", &["date", "abbrevcommit", "decorate", "follow", "mailmap"]),
    (
        "diff",
        &[
            "algorithm",
            "context",
            "mnemonicprefix",
            "noprefix",
            "renames",
            "renamelimit",
            "indentheuristic",
            "relative",
        ],
    ),
    (
        "status",
        &[
            "branch",
            "short",
            "showstash",
            "relativepaths",
            "showuntrackedfiles",
            "aheadbehind",
        ],
    ),
    ("blame", &["date", "coloring"]),
    ("grep", &["linenumber", "patterntype", "extendedregexp"]),
    ("branch", &["sort"]),
    ("tag", &["sort"]),
    ("i18n", &["logoutputencoding", "commitencoding"]),
];

/// The person's settings, as far as git needs them to show things, and the files that they name.
#[derive(Default)]
pub(crate) struct GitConfig {
    pub(super) text: String,
    pub(super) files: Vec<PathBuf>,
}

/// Reads them where git would: the system's file, the two of the person.
pub(super) fn read(home: Option<&Path>) -> GitConfig {
    let xdg = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute());
    let xdg = xdg.or_else(|| Some(home?.join(".config"))).map(|dir| dir.join("git"));
    let mut found = GitConfig::default();
    // Said first, so that the files outweigh it.
    for (name, key) in [("ignore", "excludesfile"), ("attributes", "attributesfile")] {
        if let Some(file) = xdg.as_ref().map(|dir| dir.join(name)).filter(|file| file.is_file()) {
            let _ = writeln!(found.text, "[core]\n\t{key} = \"{}\"", escaped(&file.to_string_lossy()));
            found.files.push(file);
        }
    }
    let files = [
        Some(PathBuf::from("/etc/gitconfig")),
        xdg.map(|dir| dir.join("config")),
        home.map(|home| home.join(".gitconfig")),
    ];
    for file in files.into_iter().flatten() {
        let small = std::fs::metadata(&file).is_ok_and(|meta| meta.len() <= MOST_BYTES);
        if let (true, Ok(text)) = (small, std::fs::read_to_string(&file)) {
            keep(&text, home, &mut found);
        }
    }
    found
}

fn keep(text: &str, home: Option<&Path>, found: &mut GitConfig) {
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            // Sections with a name in quotes are about servers, programs and conditions.
            section = head
                .split_once(']')
                .map(|(name, _)| name.trim().to_lowercase())
                .unwrap_or_default();
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim().to_lowercase(), value.trim());
        let kept = KEPT
            .iter()
            .any(|(name, keys)| *name == section && keys.contains(&key.as_str()));
        // One that goes on in the next line, or holds quotes within, is nothing that is needed here.
        let plain = value.trim_matches('"');
        if !kept || plain.contains(['"', '\\', '#', ';']) {
            continue;
        }
        let _ = writeln!(found.text, "[{section}]\n\t{key} = \"{plain}\"");
        if key.ends_with("file") {
            let place = match (plain.strip_prefix("~/"), home) {
                (Some(rest), Some(home)) => home.join(rest),
                _ => plain.into(),
            };
            found.files.push(place);
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_show_things_are_kept_and_secrets_are_not() {
        let text = "
[user]
    name = Anna Meier
    email=anna@example.com
    signingkey = ABC
[core]
    excludesFile = ~/.ignored
    fsmonitor = evil
    pager = \"less; evil\"
[http]
    extraHeader = Authorization: secret
[url \"https://token@example.com/\"]
    insteadOf = https://example.com/
[alias]
    st = !evil
[safe]
    directory = \"*\"
[diff \"x\"]
    textconv = evil
[diff]
    external = evil
    algorithm = histogram
";
        let mut found = GitConfig::default();
        keep(text, Some(Path::new("/home/anna")), &mut found);
        assert_eq!(
            found.text,
            "[user]\n\tname = \"Anna Meier\"\n[user]\n\temail = \"anna@example.com\"\n\
             [core]\n\texcludesfile = \"~/.ignored\"\n[safe]\n\tdirectory = \"*\"\n[diff]\n\talgorithm = \"histogram\"\n"
        );
        assert_eq!(found.files, [PathBuf::from("/home/anna/.ignored")]);
    }
}
