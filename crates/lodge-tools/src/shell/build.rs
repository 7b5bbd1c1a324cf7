//! Combines what is known about the commands of a text into its analysis.

use lodge_events::{CommandSegment, ShellCommand};

use super::{
    Analysis, Pipeline, ProgramCall, danger, exact,
    parser::{Join, Simple, Word, quoted},
    programs::{self, Call},
    wrappers::{self, Inner},
};

/// Harmless even where no jail is: they take no option and no file that would make them anything else.
#[rustfmt::skip]
const TRIVIAL: &[&str] = &[
    "ls", "pwd", "cat", "head", "tail", "wc", "echo", "true", "false", "sleep", "whoami", "uname", "date", "basename",
    "dirname", "nproc",
];

/// The same if they are given no file, as after `|`.
const FILTERS: &[&str] = &[
    "grep", "egrep", "fgrep", "sort", "uniq", "cut", "tr", "nl", "tac", "rev",
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
    let mut pipelines: Vec<Vec<&Simple>> = Vec::new();
    for simple in rest {
        match pipelines.last_mut() {
            Some(pipeline) if simple.join == Join::Pipe => pipeline.push(simple),
            _ => pipelines.push(vec![simple]),
        }
    }
    for pipeline in pipelines {
        found.add(&pipeline, &dirs)?;
    }
    (!found.commands.is_empty()).then_some(found)
}

/// Where `cd` leads. How `..` is followed depends on the links that the shell came by.
fn directory(simple: &Simple) -> Option<String> {
    let [_, dir] = simple.words.as_slice() else {
        return None;
    };
    let plain = simple.assignments.is_empty() && simple.reads().chain(simple.writes()).next().is_none();
    let odd = dir.glob || dir.text.starts_with('-') || dir.text.split('/').any(|part| part == "..");
    (plain && !odd && !dir.text.is_empty()).then(|| programs::path(dir))
}

fn is_plain(simple: &Simple) -> bool {
    let mut operands = simple.words.iter().skip_while(|word| word.text.starts_with('-'));
    TRIVIAL.contains(&simple.words[0].text.as_str())
        && takes_literal_words(simple)
        && operands.all(|word| !word.text.starts_with('-') || word.text == "-" || simple.words[1] == *word)
}

fn is_filter(simple: &Simple, call: &Call) -> bool {
    let name = simple.words[0].text.as_str();
    FILTERS.contains(&name) && takes_literal_words(simple) && call.paths.is_empty()
}

/// Whether nothing but the words that stand there is what it gets.
fn takes_literal_words(simple: &Simple) -> bool {
    let is_literal = simple.words.iter().all(|word| !word.glob && !word.home);
    is_literal && simple.assignments.is_empty() && simple.reads().next().is_none()
}

impl Analysis {
    fn add(&mut self, commands: &[&Simple], dirs: &[String]) -> Option<()> {
        let mut calls = Vec::new();
        for simple in commands {
            calls.push(self.call(simple)?);
        }
        let options = |(simple, call): (&&Simple, &ProgramCall)| {
            !call.read_only && simple.words.iter().any(|word| word.may_be_option())
        };
        let is_pinned = !commands.iter().zip(&calls).any(options);
        for dir in dirs {
            let there: Vec<ProgramCall> = calls.iter().map(|call| call.in_directory(dir)).collect();
            for (path, write) in there.iter().flat_map(|call| &call.paths) {
                self.path(path.clone(), *write);
            }
            let pipeline = Pipeline {
                dir: dir.clone(),
                exact: is_pinned.then(|| exact::of_pipeline(commands)),
                calls: there,
            };
            if !self.pipelines.contains(&pipeline) {
                self.pipelines.push(pipeline);
            }
        }
        Some(())
    }

    /// What a command calls, with paths as they stand there.
    fn call(&mut self, simple: &Simple) -> Option<ProgramCall> {
        let Inner { words, prefix, checked } = wrappers::unwrap(simple)?;
        let mut call = programs::call(words);
        // Set variables and added arguments can make a program anything.
        call.read_only &= checked && prefix.is_empty();
        // Which part of a word is a pattern is not kept.
        let is_mixed = words.iter().any(|word| word.glob && word.quoted_pattern);
        self.rememberable &= call.rememberable && checked && !is_mixed;
        let trivial = call.read_only && (is_plain(simple) || is_filter(simple, &call));
        let called = ProgramCall::new(call, &prefix, words, simple);
        self.segment(called.identifier.clone(), called.words.join(" "));
        self.command(called.identifier.clone(), called.read_only);
        self.urls.extend(called.urls.iter().cloned());
        self.writes_by_redirection |= !called.redirected.is_empty();
        Some(ProgramCall { trivial, ..called })
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

impl ProgramCall {
    /// `words[0]` is the program.
    fn new(call: Call, prefix: &[&str], words: &[Word], simple: &Simple) -> Self {
        let name = programs::name_of(&words[0].text);
        let arguments = words[1..].iter().map(|word| word.text.as_str());
        let bare: Vec<&str> = [name].into_iter().chain(arguments).collect();
        // A value with blanks must not read like a program.
        let before = prefix.iter().map(|word| quoted(word));
        let redirected: Vec<String> = simple.writes().map(programs::path).collect();
        let reads = simple.reads().map(|word| (programs::path(word), false));
        let writes = redirected.iter().map(|path| (path.clone(), true));
        let named = call.paths.into_iter().filter(|(path, _)| !path.is_empty());
        Self {
            identifier: before.chain([call.identifier]).collect::<Vec<_>>().join(" "),
            words: prefix.iter().chain(&bare).map(|word| (*word).to_owned()).collect(),
            bare: bare.join(" "),
            read_only: call.read_only,
            trivial: false,
            reads_file: simple.reads().next().is_some(),
            paths: named.chain(reads).chain(writes).collect(),
            redirected,
            operands: call.operands,
            runs: call.runs,
            spared: call.spared,
            edits: call.edits,
            urls: call.urls,
        }
    }

    /// With its paths as seen from a directory.
    fn in_directory(&self, dir: &str) -> Self {
        let all = |paths: &[String]| paths.iter().map(|path| join(dir, path)).collect();
        let paths = self.paths.iter().map(|(path, write)| (join(dir, path), *write));
        Self {
            paths: paths.collect(),
            redirected: all(&self.redirected),
            operands: all(&self.operands),
            runs: all(&self.runs),
            spared: all(&self.spared),
            ..self.clone()
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
