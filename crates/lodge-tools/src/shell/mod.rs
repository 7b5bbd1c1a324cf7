//! What a shell command does, read from its grammar before it runs.
//!
//! The command is parsed as bash parses it; programs are told from their arguments, quoting is removed, what is nested
//! (substitutions, `sh -c`, `xargs`, `find -exec`) is looked at too. The rule behind everything: what is not surely
//! understood is not taken for harmless.

mod calls;
mod danger;
mod dirs;
mod git;
mod programs;
mod redirects;
mod scripts;
mod variables;
mod walk;
mod word;
mod wrappers;

use lodge_events::{CommandSegment, ShellCommand};

/// What is known about a command before it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// Programs it runs, and whether each only reads.
    pub commands: Vec<ShellCommand>,
    /// The same with their arguments, each time they are called.
    pub segments: Vec<CommandSegment>,
    /// Paths it names. One that holds a `$` is only known when the command runs.
    pub paths: Vec<String>,
    /// Paths among them that it may write.
    pub writes: Vec<String>,
    /// Addresses it names.
    pub urls: Vec<String>,
    /// Whether it redirects output to a file.
    pub writes_by_redirection: bool,
    /// What is risky about it, for people.
    pub warning: Option<String>,
    /// Whether everything in it was understood.
    pub understood: bool,
    /// Whether the names of its programs say what it does.
    rememberable: bool,
}

impl Analysis {
    /// Whether an approval of its programs for later would mean something.
    pub fn can_be_remembered(&self) -> bool {
        self.understood && self.rememberable && !self.commands.is_empty()
    }

    /// Whether all of its programs only read and it writes no file.
    pub fn only_reads(&self) -> bool {
        self.understood && !self.writes_by_redirection && self.commands.iter().all(|command| command.read_only)
    }
}

/// Reads a command.
pub fn analyse(command: &str) -> Analysis {
    walk::analyse(command)
}

#[cfg(test)]
mod tests;
