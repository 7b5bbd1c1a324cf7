//! Whether files that customise sessions have changed: skills, agents, instructions, commands, hooks, MCP servers. It compares
//! only names, lengths and times, so it is cheap to ask often.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use lodge_agent::{Customization, GitContext, instruction_places};
use lodge_mcp::Configured;
use lodge_tools::custom::Kind;

use crate::{Host, Session, Trust, blocking::run_blocking, commands};

/// So many names are looked at; what is beyond is found when somebody asks for it.
const MOST: usize = 5_000;

/// Files that customise sessions, as they were.
#[derive(Debug)]
pub struct Watched {
    look: u64,
    /// The MCP servers that they describe.
    pub servers: Vec<Configured>,
}

impl Host {
    /// Looks at the files that customise sessions in this directory: the given one, or one that does not live yet. Nothing when
    /// they are as they were.
    pub async fn look_again(
        &self,
        session: Option<Session>,
        cwd: PathBuf,
        custom: Customization,
        before: Option<&Watched>,
    ) -> Option<Watched> {
        let (host, before) = (self.clone(), before.map(|before| before.look));
        let look = move || {
            let look = host.look(&cwd, &custom);
            let servers = || match session {
                Some(session) => session.configured_servers(),
                None => host.configured_servers(&cwd),
            };
            (before != Some(look)).then(|| Watched {
                look,
                servers: servers(),
            })
        };
        run_blocking(look).await.ok().flatten()
    }

    /// A number that is another one when a file was added, changed or removed that customises sessions in this directory.
    fn look(&self, cwd: &Path, custom: &Customization) -> u64 {
        let home = self.home().path();
        let mut look = Look {
            hasher: DefaultHasher::new(),
            left: MOST,
        };
        for kind in [Kind::Skills, Kind::Agents] {
            for place in self.places().all(kind, cwd) {
                look.at(&place.path, 2);
            }
        }
        let given = [
            &custom.skill_directories,
            &custom.agent_directories,
            &custom.hook_directories,
        ];
        for given in given.into_iter().flatten() {
            look.at(&cwd.join(given), 2);
        }
        for place in commands::places(cwd, Some(home), &[]) {
            look.at(&place, commands::DEPTH + 1);
        }
        let root = GitContext::of(cwd).root.map(PathBuf::from);
        let root = root.as_deref().unwrap_or(cwd);
        for directory in cwd.ancestors().take_while(|dir| dir.starts_with(root)) {
            for (place, _) in instruction_places(directory) {
                look.at(&place, 1);
            }
        }
        let servers = lodge_mcp::files::places(home, cwd);
        for place in Trust::at(home).hook_places(cwd).into_iter().chain(servers) {
            look.at(&place, 1);
        }
        look.hasher.finish()
    }
}

struct Look {
    hasher: DefaultHasher,
    left: usize,
}

impl Look {
    /// Looks at a file, or at what is in a directory and so deep below it.
    fn at(&mut self, path: &Path, depth: usize) {
        let Ok(metadata) = std::fs::metadata(path) else { return };
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        path.hash(&mut self.hasher);
        if !metadata.is_dir() {
            let times = (
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            );
            (times, metadata.len(), metadata.ino()).hash(&mut self.hasher);
            return;
        }
        let Some(depth) = depth.checked_sub(1) else { return };
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<PathBuf> = entries.take(self.left).map(|entry| entry.path()).collect();
        names.sort();
        for name in names {
            self.at(&name, depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_happens_to_a_file_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let seen = || {
            let mut look = Look {
                hasher: DefaultHasher::new(),
                left: MOST,
            };
            look.at(&dir.path().join("skills"), 2);
            look.hasher.finish()
        };
        let mut last = seen();
        let at = |name: &str| dir.path().join(name);
        let mut changed = |what: &str| {
            let now = seen();
            assert_ne!(now, last, "{what}");
            last = now;
        };
        std::fs::create_dir_all(at("skills/one")).unwrap();
        changed("a directory");
        std::fs::write(at("skills/one/SKILL.md"), "1").unwrap();
        changed("a file");
        std::fs::write(at("skills/one/SKILL.md"), "12").unwrap();
        changed("its contents");
        std::fs::rename(at("skills/one"), at("skills/two")).unwrap();
        changed("its name");
        std::fs::remove_dir_all(at("skills")).unwrap();
        changed("its end");
        std::fs::write(at("other"), "").unwrap();
        assert_eq!(seen(), last, "nothing that concerns it");
    }
}
