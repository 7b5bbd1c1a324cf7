//! Commands from files: `*.prompt.md` as in VS Code and the Copilot CLI, `*.md` as in Claude Code. They are prompts for the
//! agent and run nothing, so they need no trust.

use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};

use lodge_agent::Mode;
use lodge_tools::custom::Found;

use super::{CommandInfo, CommandSource, Invoked};

/// So many are listed at most.
const MOST: usize = 500;
/// So deep directories are looked into.
pub(crate) const DEPTH: usize = 3;
/// So much of a file is read.
const LARGEST: u64 = 256 << 10;

/// The commands in these places. Of two with the same name the first counts.
pub(super) fn find(places: &[PathBuf]) -> Found<CommandInfo> {
    let (mut found, mut others) = (BTreeMap::new(), Found::default());
    for place in places {
        look(place, "", DEPTH, &mut found, &mut others);
    }
    others.all = found.into_values().collect();
    others
}

fn look(
    dir: &Path,
    prefix: &str,
    depth: usize,
    found: &mut BTreeMap<String, CommandInfo>,
    others: &mut Found<CommandInfo>,
) {
    let listed = std::fs::read_dir(dir).inspect_err(|error| {
        if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            others.errors.push(format!("{}: {error}", dir.display()));
        }
    });
    let mut entries: Vec<PathBuf> = listed
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    // A plugin may name one command.
    entries.extend(Some(dir.to_owned()).filter(|path| path.is_file()));
    for path in entries {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if depth > 0 && !file.starts_with('.') {
                look(&path, &format!("{prefix}{file}:"), depth - 1, found, others);
            }
            continue;
        }
        let Some(stem) = file.strip_suffix(".prompt.md").or_else(|| file.strip_suffix(".md")) else {
            continue;
        };
        let name = format!("{prefix}{stem}").to_lowercase().replace(' ', "-");
        if found.contains_key(&name) {
            others.hidden.push(format!(
                "{} is not used: another file that takes precedence defines {name}",
                path.display()
            ));
            continue;
        }
        let text = match read(&path, &name) {
            Ok(_) if found.len() == MOST => Err(format!("there are more than {MOST} commands")),
            read => read,
        };
        let text = match text {
            Ok(text) => text,
            Err(why) => {
                others.errors.push(format!("{}: {why}", path.display()));
                continue;
            }
        };
        let (front, body) = front_matter(&text);
        let first = body
            .lines()
            .map(|line| line.trim_start_matches('#').trim())
            .find(|line| !line.is_empty());
        let description = front
            .get("description")
            .map(String::as_str)
            .or(first)
            .unwrap_or_default();
        found.insert(
            name.clone(),
            CommandInfo {
                name,
                description: description.chars().take(200).collect(),
                hint: front.get("argument-hint").cloned(),
                while_busy: true,
                source: CommandSource::File(path),
            },
        );
    }
}

/// The text of a file that describes a command of this name, or why it cannot be used.
fn read(path: &Path, name: &str) -> Result<String, String> {
    if super::split(&format!("/{name}")).is_none() {
        return Err(format!("{name:?} cannot be the name of a command"));
    }
    text(path)
}

/// What is in a file that describes a command, or why it cannot be used.
pub(super) fn text(path: &Path) -> Result<String, String> {
    let text = lodge_files::read_regular(path, LARGEST).map_err(|error| error.to_string())?;
    String::from_utf8(text).map_err(|_| "it is not text".to_owned())
}

/// What stands between the lines of dashes at the top, and the rest.
fn front_matter(text: &str) -> (BTreeMap<&str, String>, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let rest = text
        .strip_prefix("---")
        .and_then(|rest| rest.strip_prefix('\n').or_else(|| rest.strip_prefix("\r\n")));
    let Some((front, body)) = rest.and_then(|rest| rest.split_once("\n---")) else {
        return (BTreeMap::new(), text);
    };
    let values = front.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim();
        let bare = value
            .strip_prefix(['"', '\''])
            .and_then(|value| value.strip_suffix(['"', '\'']));
        Some((key.trim(), bare.unwrap_or(value).to_owned()))
    });
    (values.collect(), body.split_once('\n').map_or("", |(_, body)| body))
}

/// The words of a file with what was typed after its name in them.
pub(super) fn filled(text: &str, input: &str) -> Invoked {
    let (front, body) = front_matter(text);
    let mode = match front.get("mode").map(String::as_str) {
        Some("plan") => Some(Mode::Plan),
        _ => None,
    };
    let words: Vec<&str> = input.split_whitespace().collect();
    let (mut out, mut rest, mut used) = (String::new(), body.trim(), false);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let input_variable = || {
            let inside = after.strip_prefix("{input:")?;
            let end = inside.find('}')?;
            (!inside[..end].contains('\n')).then(|| &inside[end + 1..])
        };
        if let Some(next) = after.strip_prefix("ARGUMENTS").or_else(input_variable) {
            out.push_str(input);
            (rest, used) = (next, true);
        } else if let Some(digit) = after
            .chars()
            .next()
            .and_then(|c| c.to_digit(10))
            .filter(|digit| *digit > 0)
        {
            out.push_str(words.get(digit as usize - 1).unwrap_or(&""));
            (rest, used) = (&after[1..], true);
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    if !used && !input.is_empty() {
        out.push_str("\n\n");
        out.push_str(input);
    }
    Invoked::Prompt { text: out, mode }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_where_the_file_wants_them() {
        for (text, input, expected) in [
            ("Look at $ARGUMENTS.", "a b", "Look at a b."),
            ("From $1 to $2, $3!", "x y", "From x to y, !"),
            ("Cost $100 of ${input:thing:what}", "gold", "Cost gold00 of gold"),
            ("Plain.", "more", "Plain.\n\nmore"),
            ("Plain.", "", "Plain."),
            ("$HOME and $ and ${x}", "", "$HOME and $ and ${x}"),
            ("---\ndescription: Says it\n---\nBody $ARGUMENTS", "in", "Body in"),
            ("---\nno end", "", "---\nno end"),
        ] {
            let Invoked::Prompt { text: filled, .. } = filled(text, input) else {
                panic!("{text}")
            };
            assert_eq!(filled, expected, "{text:?}");
        }
    }

    #[test]
    fn files_are_found_with_their_words() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "a/Review Me.prompt.md",
            "---\ndescription: \"Reviews it\"\nargument-hint: FILE\n---\nReview $1",
        );
        write("a/git/commit.md", "# Commit it\nNow.");
        write("a/notes.txt", "no");
        write("b/commit.md", "other");
        write("b/review-me.md", "second");
        write("b/what (?).md", "odd");
        let found = find(&[dir.path().join("a"), dir.path().join("b"), dir.path().join("none")]);
        let shown: Vec<_> = found
            .all
            .iter()
            .map(|command| {
                (
                    command.name.as_str(),
                    command.description.as_str(),
                    command.hint.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("commit", "other", None),
                ("git:commit", "Commit it", None),
                ("review-me", "Reviews it", Some("FILE"))
            ]
        );
        assert!(found.hidden[0].contains("b/review-me.md is not used"), "{found:?}");
        assert!(found.errors[0].contains("cannot be the name"), "{found:?}");
    }
}
