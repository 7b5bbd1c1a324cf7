//! Permission rules: what is allowed, what is denied, and what a person is asked.
//!
//! Rules come from the user's file, from the project's file, from answers kept for a location or for ever, and from
//! answers given in the session. Denials win over everything. A project's file travels with its contents, which may be
//! anybody's: it may deny whatever it likes, but allow only files inside the project.
//!
//! ```toml
//! mode = "ask"                      # or "auto-approve-safe", "approve-all", "deny-all"; only in the user's file
//! exclude = [".env", "*.pem"]       # files that no tool may see
//!
//! [[allow]]
//! command = "npm run"               # commands that begin with these words; "npm run a [=]": exactly this command
//! [[allow]]
//! path = "docs/**"                  # as in .gitignore; access = "read" or "write", both when left out
//! [[allow]]
//! url = "https://docs.rs/*"         # or a host: "docs.rs", "*.example.com"
//! [[deny]]
//! tool = "github/delete_*"          # shell, write, read, url, memory, <server>/<tool>, mcp-sampling/<server>, a client's tool;
//!                                   # client/<tool>: a client's tool even if it is called like another one
//! [[location."/home/me/project".allow]]
//! command = "cargo"                 # only there
//! ```

mod allowing;
mod commands;
mod decide;
mod file;
mod home;
mod lasting;
mod names;
mod pattern;
mod remembered;
mod searches;
mod subject;
mod targets;

use std::path::{Path, PathBuf};

use lodge_events::{PermissionResult, PermissionResultKind, PermissionRule};
use serde::{Deserialize, Serialize};

use crate::git_files::GitFiles;

pub use decide::{decide, governs};
pub(crate) use home::is_for_agents;
pub use lasting::{lasting, rules_for};
pub use names::{client_tool, client_tools, escaped, sampling_of, server_tool, server_tools};
pub use pattern::Exclusions;

/// What begins the name under which people are asked about a request in an agent's own words. No tool is called like that.
const AGENT_REQUEST: &str = "agent ";

/// What rules call a request of another program's agent that only the agent's own words describe. A rule about them would allow
/// anything, so none allows one, and none is made when somebody allows one for longer than once.
pub fn agent_request(agent: &str) -> String {
    format!("{AGENT_REQUEST}{agent}")
}

/// How questions are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Ask, except for what the [`Policy`] considers harmless.
    #[default]
    Ask,
    /// Reading and writing files inside the roots and commands that only read are allowed; the rest is asked, and so is a
    /// command that writes a file by redirection.
    AutoApproveSafe,
    /// Everything is allowed that no rule denies (`--yolo`).
    ApproveAll,
    /// Everything is denied.
    DenyAll,
}

/// What is asked when no rule answers, in mode [`Mode::Ask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// How questions are treated.
    pub mode: Mode,
    /// Ask also for reading files inside the roots.
    pub ask_for_reads_in_cwd: bool,
    /// Ask also for commands that only read inside the roots.
    pub ask_for_safe_commands: bool,
    /// Do not ask for writing files inside the roots.
    pub allow_writes_in_cwd: bool,
}

impl Policy {
    /// Asks about everything that no rule answers, as clients with a permission handler expect.
    pub fn ask_everything() -> Self {
        Self {
            ask_for_reads_in_cwd: true,
            ask_for_safe_commands: true,
            ..Self::default()
        }
    }

    /// A mode with its usual answers: reads inside the roots need no approval.
    pub fn of(mode: Mode) -> Self {
        Self {
            mode,
            ..Self::default()
        }
    }
}

/// Allow, ask or deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// No question.
    Allow,
    /// A person has to say, whatever else says yes.
    Ask,
    /// No, whatever else says yes.
    Deny,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleSubject {
    /// A tool or kind of request, as a pattern: `shell`, `write`, `read`, `url`, `memory`, `<server>/<tool>`, the name
    /// of a client's tool, `client/<name>` for a client's tool and nothing else, `mcp-sampling/<server>`.
    Tool(String),
    /// Commands that begin with these words: `git log`, `npm run`. With `[=]` at the end, which only rules that allow may have,
    /// exactly the pipeline with this text.
    Command(String),
    /// Files that match, in the syntax of `.gitignore`.
    Path {
        /// The pattern.
        glob: String,
        /// `read` or `write`; both if omitted. Write access includes read access.
        access: Option<Access>,
    },
    /// Addresses: a host (`docs.rs`, `*.example.com`) or the beginning of an address with `*` for anything.
    Url(String),
}

impl RuleSubject {
    /// Whether its pattern can be read. One that cannot would fit nothing, and a denial would never hold.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Self::Tool(pattern) => globset::Glob::new(pattern).map(drop).map_err(|error| error.to_string()),
            Self::Path { glob, .. } => pattern::path_matcher(glob, Path::new("/"), false).map(drop),
            Self::Command(_) | Self::Url(_) => Ok(()),
        }
    }
}

/// What is done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Allow, ask or deny.
    pub effect: Effect,
    /// What it is about.
    pub what: RuleSubject,
}

impl Rule {
    /// A rule that allows.
    pub fn allow(what: RuleSubject) -> Self {
        Self {
            effect: Effect::Allow,
            what,
        }
    }

    /// A rule that has a person asked.
    pub fn ask(what: RuleSubject) -> Self {
        Self {
            effect: Effect::Ask,
            what,
        }
    }

    /// A rule that denies.
    pub fn deny(what: RuleSubject) -> Self {
        Self {
            effect: Effect::Deny,
            what,
        }
    }

    /// The rule as permission results name it.
    pub fn named(&self) -> PermissionRule {
        let (kind, argument) = match &self.what {
            RuleSubject::Tool(pattern) => ("tool", pattern),
            RuleSubject::Command(words) => ("shell", words),
            RuleSubject::Path {
                glob,
                access: Some(Access::Read),
            } => ("read", glob),
            RuleSubject::Path {
                glob,
                access: Some(Access::Write),
            } => ("write", glob),
            RuleSubject::Path { glob, access: None } => ("path", glob),
            RuleSubject::Url(pattern) => ("url", pattern),
        };
        PermissionRule {
            kind: kind.to_owned(),
            argument: Some(argument.clone()),
        }
    }
}

/// Who made a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The user's file.
    User,
    /// The user's file, for this location only.
    Location,
    /// The project's file.
    Project,
    /// An answer in this session.
    Session,
    /// The policy supplied by the app that opened the session.
    Managed,
}

impl Source {
    fn words(self) -> &'static str {
        match self {
            Self::User => "the user's rules",
            Self::Location => "a rule for this location",
            Self::Project => "the project's rules",
            Self::Session => "an answer in this session",
            Self::Managed => "the organisation's policy",
        }
    }
}

/// For how long an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In this location, for ever.
    Location,
    /// Everywhere, for ever.
    Always,
}

/// Where a session works, and what was answered in it.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// Working directory.
    pub cwd: PathBuf,
    /// Directories that count as inside: the working directory, others the user named, the session's own.
    pub roots: Vec<PathBuf>,
    /// Directories whose files start programs because a client named them: a person is asked before anything is written there.
    pub named: Vec<PathBuf>,
    /// Answers kept for the session; see [`rules_for`].
    pub session: Vec<Rule>,
    /// The policy supplied by the app that opened the session.
    pub managed: Vec<Rule>,
    /// Whether commands that nobody approved can be jailed on this machine.
    pub jail: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Go on without a question.
    Allow {
        /// Why, for people.
        why: String,
        /// Whether a rule or the mode approves it. Otherwise it only looks harmless, and runs where it can do no harm.
        approved: bool,
    },
    /// Do not.
    Deny {
        /// Why, for people.
        why: String,
        /// How the result is named on the wire.
        kind: PermissionResultKind,
        /// The rule that denied it.
        rule: Option<PermissionRule>,
        /// The path that is excluded.
        path: Option<String>,
    },
    /// Somebody has to say.
    Ask {
        /// What they should know, when a rule could not be checked.
        why: Option<String>,
    },
    /// A person has to say, because policy wants it.
    AskByPolicy {
        /// The same.
        why: Option<String>,
    },
}

impl Decision {
    /// The result for `permission.completed`; `None` when somebody has to be asked.
    pub fn result(&self) -> Option<PermissionResult> {
        match self {
            Self::Ask { .. } | Self::AskByPolicy { .. } => None,
            Self::Allow { .. } => Some(PermissionResult::approved()),
            Self::Deny {
                why, path: Some(path), ..
            } => Some(PermissionResult::excluded(path, why)),
            Self::Deny { rule, .. } => Some(PermissionResult::denied_by_rules(rule.iter().cloned().collect())),
        }
    }
}

/// All rules that hold for a session but those of the session itself.
#[derive(Debug, Clone, Default)]
pub struct RuleSet {
    /// What is asked when no rule answers.
    pub policy: Policy,
    rules: Vec<(Source, Rule)>,
    exclusions: Exclusions,
    /// Hidden from tools.
    home: Option<home::Home>,
    /// The user's file.
    file: Option<PathBuf>,
    location: PathBuf,
    notes: Vec<String>,
}

/// Why rules could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
}

impl RuleSet {
    /// No rules but a policy.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            ..Self::default()
        }
    }

    /// Rules of the user (`<home>/permissions.toml`) and of the project that `cwd` is in (`.lodge/permissions.toml`).
    /// A mode in the user's file takes the place of the policy's.
    pub fn load(home: &Path, cwd: &Path, policy: Policy) -> Result<Self, RulesError> {
        let mut set = Self {
            policy,
            location: location(cwd),
            home: Some(home::Home::new(home)),
            ..Self::default()
        };
        let user = home.join("permissions.toml");
        set.read_user(&user)?;
        set.file = Some(user);
        set.read_project()?;
        Ok(set)
    }

    /// Adds a rule that is written nowhere.
    pub fn add(&mut self, source: Source, rule: Rule) {
        self.rules.push((source, rule));
    }

    /// Hides files from every tool: globs as in `.gitignore`.
    pub fn exclude(&mut self, glob: &str) -> Result<(), String> {
        self.exclusions.add(glob, &self.location)
    }

    /// Files that searches leave out, for [`crate::SessionTools`]: those that no tool may see, also in the host's home, and those that
    /// a rule denies.
    pub fn unsearchable(&self) -> Exclusions {
        let mut found = self.exclusions.clone();
        found.hide_home(self.home.clone());
        for (_, rule) in &self.rules {
            if let (Effect::Deny, RuleSubject::Path { glob, access }) = (rule.effect, &rule.what)
                && *access != Some(Access::Write)
            {
                // One that is no pattern matches nothing, here and where it is decided.
                let _ = found.add(glob, &self.location);
            }
        }
        found
    }

    /// Keeps rules for this location or for ever, in the user's file and from now on.
    pub fn remember(&mut self, scope: Scope, rules: &[Rule]) -> Result<(), RulesError> {
        let (source, location) = match scope {
            Scope::Location => (Source::Location, Some(self.location.clone())),
            Scope::Always => (Source::User, None),
        };
        let new: Vec<Rule> = rules
            .iter()
            .filter(|rule| !self.rules.contains(&(source, (*rule).clone())))
            .cloned()
            .collect();
        if let (Some(file), false) = (&self.file, new.is_empty()) {
            file::append(file, location.as_deref(), &new)?;
        }
        self.rules.extend(new.into_iter().map(|rule| (source, rule)));
        Ok(())
    }

    /// Takes rules of this location back, from the user's file and from now on; all of them when none are named.
    pub fn forget_for_location(&mut self, rules: Option<&[Rule]>) -> Result<(), RulesError> {
        let gone = |(source, rule): &(Source, Rule)| {
            *source == Source::Location && rules.is_none_or(|rules| rules.contains(rule))
        };
        let going: Vec<Rule> = self
            .rules
            .iter()
            .filter(|entry| gone(entry))
            .map(|(_, rule)| rule.clone())
            .collect();
        if let (Some(file), false) = (&self.file, going.is_empty()) {
            file::remove(file, &self.location, &going)?;
        }
        self.rules.retain(|entry| !gone(entry));
        Ok(())
    }

    /// The rules that hold in this location only.
    pub fn of_location(&self) -> Vec<Rule> {
        let of_location = self.rules.iter().filter(|(source, _)| *source == Source::Location);
        of_location.map(|(_, rule)| rule.clone()).collect()
    }

    /// What in the files was not taken, and why; for people.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The location that answers are kept for: the root of the git repository, or the working directory.
    pub fn location(&self) -> &Path {
        &self.location
    }
}

/// The root of the git repository that `cwd` is in, or `cwd` itself.
pub fn location(cwd: &Path) -> PathBuf {
    GitFiles::root_around(cwd).unwrap_or(cwd).to_owned()
}

#[cfg(test)]
mod tests;
