//! Lodge's home is hidden from tools, whatever a session works in: it holds the token, the keys and the other sessions.

use std::path::{Path, PathBuf};

/// What people and their clients put there for agents to read.
const FOR_AGENTS: &[&str] = &["skills", "agents", "plugins", "ahp/plugins"];
/// Each session keeps its files in a directory of this one.
const SESSIONS: &str = "session-state";

/// Whether a place in the home is there for agents.
pub(crate) fn is_for_agents(below_home: &Path) -> bool {
    FOR_AGENTS.iter().any(|name| below_home.starts_with(name))
}

/// The home of the host that runs the session.
#[derive(Debug, Clone)]
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new(home: &Path) -> Self {
        Self(crate::paths::real(home).unwrap_or_else(|_| home.to_owned()))
    }

    /// Whether a place is hidden from a session that works in these directories. Not hidden are those of them that lie in the home:
    /// the session's own directory and worktrees.
    pub(super) fn hides<'a>(&self, place: &Path, roots: impl IntoIterator<Item = &'a PathBuf>) -> bool {
        let Ok(below) = place.strip_prefix(&self.0) else {
            return false;
        };
        let is_own = |root: &PathBuf| {
            let inside = root.starts_with(&self.0) && *root != self.0 && *root != self.0.join(SESSIONS);
            inside && place.starts_with(root)
        };
        !is_for_agents(below) && !roots.into_iter().any(is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_sees_its_own_part_of_the_home_and_what_is_there_for_agents() {
        let home = Home::new(Path::new("/nowhere/me/.lodge"));
        let roots = [
            "/nowhere/me",
            "/nowhere/me/.lodge",
            "/nowhere/me/.lodge/session-state",
            "/nowhere/me/.lodge/session-state/one",
            "/nowhere/me/.lodge/worktrees/x",
        ];
        let roots = roots.map(PathBuf::from);
        for (place, hidden) in [
            ("", true),
            ("/token", true),
            ("/lodge.toml", true),
            ("/session-state", true),
            ("/session-state/two/events.jsonl", true),
            ("/worktrees/y/file", true),
            ("/skills-not", true),
            ("/session-state/one/files/x", false),
            ("/worktrees/x/file", false),
            ("/skills/a/SKILL.md", false),
        ] {
            let place = PathBuf::from(format!("/nowhere/me/.lodge{place}"));
            assert_eq!(home.hides(&place, &roots), hidden, "{}", place.display());
        }
        assert!(!home.hides(Path::new("/nowhere/me/.lodge-not/x"), &roots));
    }
}
