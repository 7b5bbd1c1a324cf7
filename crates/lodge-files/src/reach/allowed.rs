//! What may be reached, as plain data. Putting it together touches no disk; whatever looks at files runs on a thread for that, so
//! that a directory on a machine that does not answer keeps nobody else waiting.

use std::path::{Path, PathBuf};

use super::{FileError, Files, Private, Root};
use crate::{Grants, blocking::run_blocking};

/// What somebody may reach.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// With everything beneath them.
    pub roots: Vec<Root>,
    /// The homes of people and hosts, named without links. What holds one is no project.
    pub homes: Vec<PathBuf>,
    /// What nobody reaches, whichever way leads there.
    pub private: Private,
    /// Whose grants count as well.
    pub granted: Option<(Grants, String)>,
}

impl Reach {
    /// The files, for whoever may block: this reads grants.
    pub fn files(self) -> Files {
        let mut roots = self.roots;
        roots.extend(self.granted.iter().flat_map(|(grants, client)| grants.roots(client)));
        Files {
            roots,
            homes: self.homes,
            private: self.private,
        }
    }

    /// Does something to the files.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce(&Files) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        run_blocking(move || work(&self.files())).await?
    }
}

/// Whether a directory, named without links, is one that clients may reach because a session works there. One that holds a home, as
/// `/` does, is not: any client can make a session there, and everything a person has would be open to it. It takes a grant.
pub(super) fn is_project(real: &Path, homes: &[PathBuf]) -> bool {
    real.parent().is_some() && !homes.iter().any(|home| home.starts_with(real))
}
