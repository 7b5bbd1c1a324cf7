//! Skills that the user has turned off for all sessions.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use lodge_mcp::Configured;
use lodge_tools::custom::Places;
use serde::{Deserialize, Serialize};

use crate::{Host, HostError, McpFiles, host::Inner};

/// The file in the home that keeps the user's choices.
pub(crate) const SKILLS_FILE: &str = "skills.json";

/// What is kept of the user's choices.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    disabled_skills: BTreeSet<String>,
}

impl Inner {
    fn skills_file(&self) -> PathBuf {
        self.home_path().join(SKILLS_FILE)
    }

    /// Names of skills that are off. A file that cannot be read turns nothing off.
    pub(crate) fn disabled_skills(&self) -> BTreeSet<String> {
        disabled_skills(self.home_path())
            .inspect_err(|error| tracing::warn!(error, "no skill is off"))
            .unwrap_or_default()
    }
}

/// Names of skills that are off in new sessions of this home, or why that is not known.
pub fn disabled_skills(home: &Path) -> Result<BTreeSet<String>, String> {
    let path = home.join(SKILLS_FILE);
    match std::fs::read(&path) {
        Ok(text) => match serde_json::from_slice::<Kept>(&text) {
            Ok(kept) => Ok(kept.disabled_skills),
            Err(error) => Err(format!("{}: {error}", path.display())),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

impl Host {
    /// Where the user's skills and agents are.
    pub fn places(&self) -> Places {
        Places::of_user(self.home().path())
    }

    /// The MCP servers that files describe for a new session in this folder. Reads files.
    pub fn configured_servers(&self, cwd: &Path) -> Vec<Configured> {
        self.inner().mcp_of_files(&McpFiles::default(), cwd)
    }

    /// What was signed in to, for all sessions.
    pub fn mcp_logins(&self) -> &lodge_mcp::Logins {
        self.inner().mcp_logins()
    }

    /// Names of skills that are off in new sessions.
    pub fn disabled_skills(&self) -> BTreeSet<String> {
        self.inner().disabled_skills()
    }

    /// Says which skills are off in new sessions.
    pub fn set_disabled_skills(&self, names: BTreeSet<String>) -> Result<(), HostError> {
        let path = self.inner().skills_file();
        let kept = Kept { disabled_skills: names };
        let text = serde_json::to_vec_pretty(&kept).map_err(|error| HostError::Invalid(error.to_string()))?;
        self.home().ensure()?;
        lodge_files::replace(&path, &text)
            .map_err(|error| HostError::Invalid(format!("{} cannot be written: {error}", path.display())))
    }
}
