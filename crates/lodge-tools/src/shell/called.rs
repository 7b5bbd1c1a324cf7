//! What rules about commands compare: pipelines, and the calls of programs in them.

/// Programs that are joined by `|`, in one directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Pipeline {
    /// The directory that `cd` leads to; empty where the command starts.
    pub(crate) dir: String,
    /// The text that no other pipeline has (see [`super::exact`]). `None` where names of files could change what it does.
    pub(crate) exact: Option<String>,
    /// The programs, in their order.
    pub(crate) calls: Vec<ProgramCall>,
}

/// A call of a program that was understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ProgramCall {
    /// Name with subcommand, and what precedes it and changes its meaning.
    pub(crate) identifier: String,
    /// What precedes it and changes its meaning, the program and its arguments.
    pub(crate) words: Vec<String>,
    /// The program and its arguments.
    pub(crate) bare: String,
    /// Whether it only reads, but for redirections.
    pub(crate) read_only: bool,
    /// Whether it is harmless even where no jail is, but for redirections.
    pub(crate) trivial: bool,
    /// Whether a file is its input.
    pub(crate) reads_file: bool,
    /// Files that it writes by redirection.
    pub(crate) redirected: Vec<String>,
    /// Paths that it names, and whether it surely may write them; those of redirections, too.
    pub(crate) paths: Vec<(String, bool)>,
    /// Other arguments that may be names of files.
    pub(crate) operands: Vec<String>,
    /// Files among the paths that it runs.
    pub(crate) runs: Vec<String>,
    /// Arguments that name what it leaves alone.
    pub(crate) spared: Vec<String>,
    /// Whether it may be called to write files that its other arguments name.
    pub(crate) edits: bool,
    /// Addresses that it names.
    pub(crate) urls: Vec<String>,
}

impl ProgramCall {
    /// Everything that may be the name of a file, and whether it may write that.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        let named = self.paths.iter().map(|(path, write)| (path, *write));
        let all = named.chain(self.operands.iter().map(|path| (path, false)));
        all.map(|(path, write)| (path.as_str(), write || !self.read_only && !self.leaves(path)))
    }

    /// Whether it is called to write this file. Any other may be written, too, but whoever approved the whole text of a call
    /// has seen all that it names.
    pub(crate) fn rewrites(&self, path: &str) -> bool {
        self.paths.iter().any(|(named, write)| *write && named == path) || self.edits && !self.leaves(path)
    }

    fn leaves(&self, path: &str) -> bool {
        let mut left = self.runs.iter().chain(&self.spared);
        left.any(|left| left == path)
    }
}
