//! Analyses what a shell command does, as far as that can be known before it runs.
//!
//! The principle: allow what is known to be harmless, do not list what is forbidden. A small, strict parser
//! ([`parser`]) accepts simple commands of literal words. Tables list which programs only read, and with which options
//! ([`read_only`], [`git`]). Anything else does not count as harmless. For text that the parser rejects, the programs
//! are only guessed ([`guess`]), to show to people and to compare with deny rules.

mod build;
mod called;
mod danger;
mod edits;
mod exact;
mod git;
mod guess;
mod options;
mod parser;
mod programs;
mod read_only;
mod sed;
mod special;
mod wrappers;

pub(crate) use called::{Pipeline, ProgramCall};
pub(crate) use danger::misleads;
pub(crate) use exact::in_directory;
use lodge_events::{CommandSegment, ShellCommand};

/// What is known about a command before it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// Programs it runs, and whether each only reads.
    pub commands: Vec<ShellCommand>,
    /// The same with their arguments, each time they are called.
    pub segments: Vec<CommandSegment>,
    /// Paths it names.
    pub paths: Vec<String>,
    /// Paths among them that it may write.
    pub writes: Vec<String>,
    /// Addresses it names.
    pub urls: Vec<String>,
    /// Whether it redirects output to a file.
    pub writes_by_redirection: bool,
    /// What is risky about it, for people.
    pub warning: Option<String>,
    /// Whether everything in it was understood; otherwise the rest is a guess.
    pub understood: bool,
    /// What it runs, if everything was understood.
    pub(crate) pipelines: Vec<Pipeline>,
    /// Whether the names of its programs say what it does.
    rememberable: bool,
    /// Whether it is one program of a very short list, plainly called.
    trivial: bool,
}

impl Analysis {
    /// Calls of programs, if everything was understood.
    pub(crate) fn calls(&self) -> impl Iterator<Item = &ProgramCall> {
        self.pipelines.iter().flat_map(|pipeline| &pipeline.calls)
    }

    /// Whether its programs say what it does, so that rules about commands can be applied to it.
    pub fn can_be_remembered(&self) -> bool {
        self.understood && self.rememberable && !self.commands.is_empty()
    }

    /// Whether all of its programs only read and it writes no file.
    pub fn only_reads(&self) -> bool {
        self.can_be_remembered() && !self.writes_by_redirection && self.commands.iter().all(|command| command.read_only)
    }

    /// Whether it is harmless even where nothing keeps it from doing harm.
    pub fn is_trivial(&self) -> bool {
        self.trivial && self.only_reads()
    }
}

/// Reads a command. The work is linear in its length, and what is too long is not read.
pub fn analyse(command: &str) -> Analysis {
    let found = parser::read(command).and_then(|commands| build::analysis(&commands));
    let mut found = found.unwrap_or_else(|| guess::analysis(command));
    if danger::runs_download(&found.commands) {
        found.warning = Some("Runs what it downloads.".to_owned());
    }
    if danger::misleads(command) {
        let warning = "Contains characters that cannot be seen or that change the order of what you see.";
        found.warning = Some(match found.warning.take() {
            Some(other) => format!("{warning} {other}"),
            None => warning.to_owned(),
        });
    }
    found
}

#[cfg(test)]
mod tests;
