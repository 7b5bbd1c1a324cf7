//! Calls of programs inside a command.

use lodge_events::{CommandSegment, ShellCommand};

use super::{
    Analysis, danger,
    dirs::{Dirs, Outcome, UNKNOWN_DIR, join, moved, with},
    programs, scripts,
    walk::{MAX_DEPTH, Walk, hides_substitution},
    word::Word,
    wrappers::{Wrapped, unwrap},
};

/// Scripts in scripts in scripts.
const MAX_SCRIPTS: usize = 5;

impl Walk {
    /// A program with its arguments.
    pub(super) fn simple(&mut self, words: Vec<Word>, dirs: Dirs, depth: usize) -> Outcome {
        let mut expanded = Vec::with_capacity(words.len());
        for word in words {
            let raw = word.raw.clone();
            match word.expand() {
                Some(words) => expanded.extend(words),
                None => {
                    self.lost = true;
                    expanded.push(Word::unknown(raw));
                }
            }
        }
        let words = expanded;
        let Some(first) = words.first() else {
            return Outcome::same(dirs);
        };
        let name = match &first.text {
            Some(text) if !first.glob && !text.is_empty() && depth < MAX_DEPTH => programs::name_of(text).to_owned(),
            _ => {
                if !first.raw.is_empty() {
                    self.add(first.raw.clone(), false, &words);
                }
                self.lost = true;
                return Outcome::same(dirs);
            }
        };
        if let Some(warning) = danger::of_call(&words) {
            self.warn(warning);
        }
        self.tainted |= words.iter().any(|word| hides_substitution(word.shown()));
        match name.as_str() {
            "cd" | "pushd" | "popd" => return self.change_directory(&name, &words[1..], dirs),
            "alias" | "unalias" | "enable" => self.tainted = true,
            "read" | "mapfile" | "readarray" | "getopts" | "unset" => {
                for word in &words[1..] {
                    self.sets(word.shown());
                    // The shell runs substitutions in the index of what it is told to set.
                    self.tainted |= word.text.is_none();
                }
            }
            // A file of arguments.
            "xargs" => {
                let file = |word: &Word| word.shown().starts_with("-a") || word.shown().starts_with("--arg-file");
                self.lost |= words.iter().any(file);
            }
            "wait" => self.tainted |= words.iter().any(|word| word.shown().starts_with("-p")),
            _ => {}
        }
        match unwrap(&words) {
            Wrapped::No => {}
            Wrapped::Nothing => {
                self.add(name, true, &words);
                return Outcome::same(dirs);
            }
            Wrapped::Words {
                words: inner,
                assignments,
                directory,
                more_args,
            } => {
                return self.wrapped(&name, inner, &assignments, directory, more_args, dirs, depth);
            }
            Wrapped::AsOther(inner) => {
                self.warn(danger::AS_ADMINISTRATOR);
                let outer = std::mem::replace(
                    &mut self.found,
                    Analysis {
                        rememberable: true,
                        ..Analysis::default()
                    },
                );
                self.simple(inner, dirs.clone(), depth + 1);
                let inner = std::mem::replace(&mut self.found, outer);
                if inner.commands.is_empty() {
                    self.found.rememberable = false;
                    self.add(name, false, &words);
                } else {
                    self.merge_as(&name, inner);
                }
                return Outcome::same(dirs);
            }
            Wrapped::Script(script) => {
                self.scripts += 1;
                match script.text {
                    Some(text) if self.scripts <= MAX_SCRIPTS => {
                        let after = self.script(&text, dirs.clone());
                        self.lost |= programs::is_shell(&name) && !programs::reads_as_bash(&name);
                        // Only `eval` runs in this very shell.
                        return Outcome::same(if name == "eval" { after } else { dirs });
                    }
                    _ => {
                        self.add(name, false, &words);
                        self.found.rememberable = false;
                        self.lost = true;
                        return Outcome::same(dirs);
                    }
                }
            }
            Wrapped::Unknown => {
                self.add(name, false, &words);
                self.found.rememberable = false;
                self.lost = true;
                return Outcome::same(dirs);
            }
        }
        if matches!(name.as_str(), "find" | "gfind") {
            for run in scripts::find_runs(&words[1..]) {
                self.simple(run, dirs.clone(), depth + 1);
            }
        }
        let call = programs::call(&words);
        self.downloads |= matches!(name.as_str(), "curl" | "wget");
        self.shell_reads |= programs::is_shell(&name);
        self.add(call.identifier, call.read_only, &words);
        self.found.rememberable &= call.rememberable;
        self.found.urls.extend(call.urls);
        for (path, write) in call.paths {
            self.path(&path, write, &dirs);
        }
        Outcome::same(dirs)
    }

    /// What a wrapper runs.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one wrapped call")]
    fn wrapped(
        &mut self,
        name: &str,
        mut inner: Vec<Word>,
        assignments: &[String],
        directory: Option<Word>,
        more_args: bool,
        dirs: Dirs,
        depth: usize,
    ) -> Outcome {
        for name in assignments {
            self.sets(name);
        }
        if more_args {
            // Arguments from the input: paths nobody knows yet, or options.
            inner.push(Word::unknown("$(xargs)"));
        }
        let from = match directory {
            Some(directory) => moved(&dirs, directory.text.as_deref()),
            None => dirs.clone(),
        };
        if inner.is_empty() {
            // `exec > file` only redirects.
            if name != "exec" {
                self.add(
                    name.to_owned(),
                    name == "time" || name == "command",
                    &[Word::literal(name)],
                );
            }
            return Outcome::same(dirs);
        }
        let outcome = self.simple(inner, from, depth + 1);
        // These run what they are given in this very shell.
        if matches!(name, "command" | "builtin" | "time") {
            outcome
        } else {
            Outcome::same(dirs)
        }
    }

    fn change_directory(&mut self, name: &str, args: &[Word], dirs: Dirs) -> Outcome {
        self.add(name.to_owned(), true, &[]);
        let target: Vec<&Word> = args
            .iter()
            .filter(|word| {
                word.text
                    .as_deref()
                    .is_none_or(|text| text == "-" || !text.starts_with('-'))
            })
            .collect();
        let success = match (name, target.as_slice()) {
            ("popd", _) | (_, [_, _, ..]) => with(Dirs::new(), UNKNOWN_DIR),
            ("pushd", []) => with(Dirs::new(), UNKNOWN_DIR),
            (_, []) => moved(&dirs, Some("~")),
            (_, [word]) => {
                let known = word
                    .text
                    .as_deref()
                    .filter(|text| *text != "-" && !text.is_empty() && !word.glob);
                moved(&dirs, known)
            }
        };
        // Going somewhere is looking there.
        for dir in &success {
            self.note(dir.clone(), false);
        }
        Outcome { success, failure: dirs }
    }

    /// Notes a path as seen from every directory the shell may be in.
    pub(super) fn path(&mut self, text: &str, write: bool, dirs: &Dirs) {
        if text.is_empty() {
            return;
        }
        for dir in dirs {
            self.note(join(dir, text), write);
        }
    }

    pub(super) fn note(&mut self, path: String, write: bool) {
        if write && !self.found.writes.contains(&path) {
            self.found.writes.push(path.clone());
        }
        if !path.is_empty() && !self.found.paths.contains(&path) {
            self.found.paths.push(path);
        }
    }

    pub(super) fn add(&mut self, identifier: String, read_only: bool, words: &[Word]) {
        if !words.is_empty() {
            let name = programs::name_of(words[0].shown());
            let text = [name]
                .into_iter()
                .chain(words[1..].iter().map(Word::shown))
                .collect::<Vec<_>>()
                .join(" ");
            let segment = CommandSegment {
                identifier: identifier.clone(),
                full_command_text: text,
            };
            if !self.found.segments.contains(&segment) {
                self.found.segments.push(segment);
            }
        }
        match self
            .found
            .commands
            .iter_mut()
            .find(|command| command.identifier == identifier)
        {
            Some(command) => command.read_only &= read_only,
            None => self.found.commands.push(ShellCommand { identifier, read_only }),
        }
    }

    /// Takes over what runs under another name, such as `sudo`.
    fn merge_as(&mut self, prefix: &str, inner: Analysis) {
        for command in inner.commands {
            self.add(format!("{prefix} {}", command.identifier), false, &[]);
        }
        self.found
            .segments
            .extend(inner.segments.into_iter().map(|segment| CommandSegment {
                identifier: format!("{prefix} {}", segment.identifier),
                full_command_text: format!("{prefix} {}", segment.full_command_text),
            }));
        for path in inner.paths {
            let write = inner.writes.contains(&path);
            self.note(path, write);
        }
        self.found.urls.extend(inner.urls);
        self.found.writes_by_redirection |= inner.writes_by_redirection;
        self.found.rememberable &= inner.rememberable;
    }

    pub(super) fn warn(&mut self, warning: &str) {
        self.found.warning.get_or_insert_with(|| warning.to_owned());
    }
}
