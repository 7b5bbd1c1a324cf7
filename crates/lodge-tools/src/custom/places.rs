//! Where skills and agents are searched for.

use std::path::{Path, PathBuf};

use crate::git_files::GitFiles;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Folders with a `SKILL.md`.
    Skills,
    /// Files with an agent each.
    Agents,
}

/// Whose place it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// Named by a client.
    Given,
    /// The project's.
    Project,
    /// A parent directory's, inside the same repository.
    Inherited,
    /// A plugin's.
    Plugin,
    /// The user's, for this program and the Copilot CLI.
    User,
    /// The user's, shared by agents of any make.
    Shared,
}

/// A directory to look in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory, which need not exist.
    pub path: PathBuf,
    /// Whose it is.
    pub tier: Tier,
    /// The project it belongs to.
    pub project: Option<PathBuf>,
    /// Whether it is the one to make something new in.
    pub preferred: bool,
}

/// Directories of the user that hold customizations: this program's home and what other agents have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// The home of this program.
    pub home: Option<PathBuf>,
    /// The user's home directory.
    pub user: Option<PathBuf>,
}

impl Places {
    /// Those of the user who runs the program.
    pub fn of_user(home: &Path) -> Self {
        Self {
            home: Some(home.to_owned()),
            user: std::env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute()),
        }
    }

    /// The user's directories.
    pub fn user(&self, kind: Kind) -> Vec<Place> {
        let name = match kind {
            Kind::Skills => "skills",
            Kind::Agents => "agents",
        };
        let place = |path: PathBuf, tier, preferred| Place {
            path,
            tier,
            project: None,
            preferred,
        };
        let mut places = Vec::new();
        places.extend(self.home.iter().map(|home| place(home.join(name), Tier::User, true)));
        if let Some(user) = &self.user {
            let copilot = user.join(".copilot");
            if self.home.as_ref() != Some(&copilot) {
                places.push(place(copilot.join(name), Tier::User, places.is_empty()));
            }
            if kind == Kind::Skills {
                places.push(place(user.join(".agents/skills"), Tier::Shared, false));
            }
            places.push(place(user.join(".claude").join(name), Tier::Shared, false));
        }
        places
    }

    /// A project's directories; those of parents up to the repository's root are inherited.
    pub fn project(kind: Kind, project: &Path) -> Vec<Place> {
        let names: &[&str] = match kind {
            Kind::Skills => &[".github/skills", ".agents/skills", ".claude/skills"],
            Kind::Agents => &[".github/agents", ".claude/agents"],
        };
        let root = GitFiles::root_around(project).unwrap_or(project);
        let dirs = project.ancestors().take_while(|dir| dir.starts_with(root));
        dirs.flat_map(|dir| names.iter().map(move |name| (dir, name)))
            .map(|(dir, name)| Place {
                path: dir.join(name),
                tier: if dir == project { Tier::Project } else { Tier::Inherited },
                project: Some(project.to_owned()),
                preferred: dir == project && *name == names[0],
            })
            .collect()
    }

    /// A project's directories but the user's: whoever works in the home directory has the person's own files there.
    pub fn of_project(&self, kind: Kind, project: &Path) -> Vec<Place> {
        let user = self.user(kind);
        let mut places = Self::project(kind, project);
        places.retain(|place| user.iter().all(|own| own.path != place.path));
        places
    }

    /// Everything that counts for a session there.
    pub fn all(&self, kind: Kind, cwd: &Path) -> Vec<Place> {
        let mut places = self.of_project(kind, cwd);
        places.extend(self.user(kind));
        places
    }
}

impl Place {
    /// The folder it belongs to; `None` for the person's and clients' own.
    pub(super) fn brought_by(&self) -> Option<&Path> {
        match self.tier {
            // `<folder>/.github/agents`
            Tier::Project | Tier::Inherited => self.path.ancestors().nth(2),
            Tier::Given | Tier::Plugin | Tier::User | Tier::Shared => None,
        }
    }

    /// One of a plugin.
    pub fn of_plugin(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            tier: Tier::Plugin,
            project: None,
            preferred: false,
        }
    }

    /// One that a client names; a relative one counts from the working directory.
    pub fn given(path: &Path, cwd: &Path) -> Self {
        Self {
            path: cwd.join(path),
            tier: Tier::Given,
            project: None,
            preferred: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_home_directory_the_users_files_are_not_a_projects() {
        let places = Places {
            home: None,
            user: Some("/nowhere/me".into()),
        };
        let claude = |cwd: &str| {
            let all = places.all(Kind::Skills, Path::new(cwd)).into_iter();
            let named = all.filter(|place| place.path.ends_with(".claude/skills"));
            named.map(|place| place.tier).collect::<Vec<_>>()
        };
        assert_eq!(claude("/nowhere/me"), [Tier::Shared]);
        assert_eq!(claude("/nowhere/me/work"), [Tier::Project, Tier::Shared]);
    }
}
