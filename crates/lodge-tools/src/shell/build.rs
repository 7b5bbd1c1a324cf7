//! Combines what is known about the commands of a text into its analysis.

use lodge_events::{CommandSegment, ShellCommand};

use super::{
    Analysis, ProgramCall, danger,
    parser::{Join, Simple},
    programs::{self, Call},
    wrappers::{self, Inner},
};

/// Harmless even where no jail is: they take no option and no file that would make them anything else.
#[rustfmt::skip]
const TRIVIAL: &[&str] = &[
    "ls", "pwd", "cat", "head", "tail", "wc", "echo", "true", "false", "sleep", "whoami", "uname", "date", "basename",
    "dirname", "nproc",
];

/// What is known about commands, or `None` when one of them is not understood.
pub(super) fn analysis(commands: &[Simple]) -> Option<Analysis> {
    let mut found = Analysis {
        understood: true,
        rememberable: true,
        trivial: commands.len() == 1 && is_plain(&commands[0]),
        ..Analysis::default()
    };
    let mut rest = commands;
    // Where the shell may be: a path counts from each of these.
    let mut dirs = vec![String::new()];
    if let [first, after @ ..] = commands
        && first.words[0].text == "cd"
    {
        let dir = directory(first)?;
        found.command("cd".to_owned(), true);
        found.path(dir.clone(), false);
        match after.first() {
            Some(next) if next.join != Join::And => return None,
            _ => rest = after,
        }
        // Only what follows `&&` alone is skipped when the directory is not there.
        let surely = after.iter().all(|next| matches!(next.join, Join::And | Join::Pipe));
        dirs.retain(|_| !surely);
        dirs.push(dir);
    }
    for simple in rest {
        found.add(simple, &dirs)?;
    }
    (!found.commands.is_empty()).then_some(found)
}

/// Where `cd` leads. How `..` is followed depends on the links that the shell came by.
fn directory(simple: &Simple) -> Option<String> {
    let [_, dir] = simple.words.as_slice() else {
        return None;
    };
    let plain = simple.assignments.is_empty() && simple.reads.is_empty() && simple.writes.is_empty();
    let odd = dir.glob || dir.text.starts_with('-') || dir.text.split('/').any(|part| part == "..");
    (plain && !odd && !dir.text.is_empty()).then(|| programs::path(dir))
}

fn is_plain(simple: &Simple) -> bool {
    let mut operands = simple.words.iter().skip_while(|word| word.text.starts_with('-'));
    TRIVIAL.contains(&simple.words[0].text.as_str())
        && simple.assignments.is_empty()
        && simple.reads.is_empty()
        && simple.words.iter().all(|word| !word.glob && !word.home)
        && operands.all(|word| !word.text.starts_with('-') || word.text == "-" || simple.words[1] == *word)
}

impl Analysis {
    fn add(&mut self, simple: &Simple, dirs: &[String]) -> Option<()> {
        let Inner { words, prefix, checked } = wrappers::unwrap(simple)?;
        let mut call = programs::call(words);
        // Set variables and added arguments can make a program anything.
        call.read_only &= checked && prefix.is_empty();
        // Which part of a word is a pattern is not kept.
        let is_mixed = words.iter().any(|word| word.glob && word.quoted_pattern);
        self.rememberable &= call.rememberable && checked && !is_mixed;
        let Call { identifier, paths, .. } = call;
        let called = ProgramCall::new(&identifier, &prefix, words);
        self.segment(called.identifier.clone(), called.text.clone());
        self.command(called.identifier.clone(), call.read_only);
        if !self.calls.contains(&called) {
            self.calls.push(called);
        }
        self.urls.extend(call.urls);
        let reads = simple.reads.iter().map(|word| (programs::path(word), false));
        let writes = simple.writes.iter().map(|word| (programs::path(word), true));
        self.writes_by_redirection |= !simple.writes.is_empty();
        for (path, write) in paths.into_iter().chain(reads).chain(writes) {
            for dir in dirs {
                self.path(join(dir, &path), write);
            }
        }
        Some(())
    }

    pub(super) fn command(&mut self, identifier: String, read_only: bool) {
        match self
            .commands
            .iter_mut()
            .find(|command| command.identifier == identifier)
        {
            Some(command) => command.read_only &= read_only,
            None => self.commands.push(ShellCommand { identifier, read_only }),
        }
    }

    pub(super) fn segment(&mut self, identifier: String, text: String) {
        if let Some(warning) = danger::warning(&text) {
            self.warning.get_or_insert_with(|| warning.to_owned());
        }
        let segment = CommandSegment {
            identifier,
            full_command_text: text,
        };
        if !self.segments.contains(&segment) {
            self.segments.push(segment);
        }
    }

    pub(super) fn path(&mut self, path: String, write: bool) {
        if write && !self.writes.contains(&path) {
            self.writes.push(path.clone());
        }
        if !path.is_empty() && !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

/// A path as seen from a directory; `..` stays, because a link may stand before it.
pub(super) fn join(dir: &str, path: &str) -> String {
    if dir.is_empty() || path.starts_with(['/', '~']) {
        return path.to_owned();
    }
    format!("{}/{path}", dir.trim_end_matches('/'))
}
