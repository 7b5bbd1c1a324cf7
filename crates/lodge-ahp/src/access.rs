//! What clients may reach of the host's files.

use crate::{
    face::Face,
    files::{Files, Root},
    uri,
};

impl Face {
    /// The files that a client may reach: where sessions work, and what the host was set up with.
    pub(crate) fn files(&self, _client: &str) -> Files {
        let config = &self.config;
        let mut roots: Vec<Root> = config
            .roots
            .iter()
            .chain(&config.default_directory)
            .map(Root::whole)
            .collect();
        let inner = self.inner.lock();
        let sessions = inner.core.sessions.values();
        let directories = sessions.flat_map(|session| session.state.working_directories.iter().flatten());
        roots.extend(
            directories
                .filter_map(|directory| uri::path(directory))
                .map(Root::whole),
        );
        roots.sort();
        roots.dedup();
        Files::new(roots)
    }
}
