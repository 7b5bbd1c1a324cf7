//! The variables that people brought for their sessions. They are in memory only: whoever comes back after a restart brings them again.

use lodge_agent::Supply;
use lodge_tools::Environment;

use super::{Host, Inner};
use crate::{HostError, Session};

impl Host {
    /// Gives a session the variables of whoever opens it. Where it has somebody's already, they are replaced only if nobody else
    /// has it open and it does nothing.
    pub async fn bring_environment(&self, id: &str, environment: Environment, alone: bool) -> Result<(), HostError> {
        let live = self.live(id);
        let is_busy = live.as_ref().is_some_and(Session::is_busy);
        if self.0.environments.lock().contains_key(id) && (!alone || is_busy) {
            return Ok(());
        }
        self.0.keep_environment(id, &environment);
        match live {
            Some(session) => Ok(session.supply(Supply::Environment(environment)).await?),
            None => Ok(()),
        }
    }

    /// The variables of a session that is opened: the caller's, or those that were brought for it or for the session it is a chat of.
    pub(crate) fn environment_of(&self, id: &str, main: Option<&str>) -> Environment {
        if self.1.is_some() {
            let environment = self.environment();
            self.0.keep_environment(id, &environment);
            return environment;
        }
        let known = self.0.environments.lock();
        let brought = known.get(id).or_else(|| known.get(main?));
        brought.cloned().unwrap_or_default()
    }
}

impl Inner {
    fn keep_environment(&self, id: &str, environment: &Environment) {
        let mut known = self.environments.lock();
        // Sessions of one terminal share its variables.
        let same = known.values().find(|other| *other == environment).cloned();
        known.insert(id.to_owned(), same.unwrap_or_else(|| environment.clone()));
    }

    /// Forgets the variables of a session that is deleted.
    pub(crate) fn forget_environment(&self, id: &str) {
        self.environments.lock().remove(id);
    }
}
