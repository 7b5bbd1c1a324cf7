//! What a shell command does, read from its grammar.

use lodge_events::ShellCommand;

/// What is known about a command before it runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// Programs it runs, and whether each only reads.
    pub commands: Vec<ShellCommand>,
    /// Paths it names.
    pub paths: Vec<String>,
    /// Paths among them that it may write.
    pub writes: Vec<String>,
    /// Addresses it names.
    pub urls: Vec<String>,
    /// Whether it redirects output to a file.
    pub writes_by_redirection: bool,
    /// What is risky about it.
    pub warning: Option<String>,
    /// Whether everything in it was understood.
    pub understood: bool,
}

impl Analysis {
    /// Whether an approval of its programs would say what it does.
    pub fn can_be_remembered(&self) -> bool {
        self.understood && !self.commands.is_empty()
    }
}

/// Reads a command.
pub fn analyse(command: &str) -> Analysis {
    let first = command.split_whitespace().next().unwrap_or_default();
    Analysis {
        commands: vec![ShellCommand {
            identifier: first.to_owned(),
            read_only: false,
        }],
        ..Analysis::default()
    }
}
