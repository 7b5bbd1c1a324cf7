//! The working directory and environment of servers that are local programs.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use lodge_rpc::Launch;

use crate::config::Transport;

/// Where programs run and which variables they see.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The directory, unless a server names its own.
    pub cwd: PathBuf,
    /// The variables that programs begin with; those of this process when left out.
    pub variables: Option<Vec<(OsString, OsString)>>,
    /// Variables to set above all others.
    pub env: Vec<(OsString, OsString)>,
    /// How long a server may take to start; two minutes when left out.
    pub start_limit: Option<Duration>,
}

impl Surroundings {
    /// The variable of this name, as programs see it.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Some(variables) => {
                let (_, value) = variables.iter().find(|(known, _)| known == name)?;
                value.clone().into_string().ok()
            }
            None => std::env::var(name).ok(),
        }
    }

    /// How a server is started here, if it is a program.
    pub(crate) fn launch(&self, transport: &Transport) -> Option<Launch> {
        let Transport::Stdio {
            command,
            args,
            env,
            cwd,
        } = transport
        else {
            return None;
        };
        let own = env
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Some(Launch {
            command: command.clone(),
            args: args.clone(),
            cwd: cwd.as_ref().map_or_else(|| self.cwd.clone(), |cwd| self.cwd.join(cwd)),
            variables: self.variables.clone(),
            env: own.chain(self.env.iter().cloned()).collect(),
        })
    }
}
