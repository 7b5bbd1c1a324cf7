//! The environment of a session's programs: that of whoever started the session, without secrets.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    sync::Arc,
};

use crate::process;

/// Variables of a process. Without any said, those of this one.
#[derive(Clone, Default)]
pub struct Environment(Option<Arc<BTreeMap<OsString, OsString>>>);

impl Environment {
    /// The variables of another process.
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(Some(Arc::new(variables.into_iter().collect())))
    }

    /// One of them.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<OsString> {
        match &self.0 {
            Some(variables) => variables.get(name.as_ref()).cloned(),
            None => std::env::var_os(name),
        }
    }

    /// One of them as text, unless it is empty.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.into_string().ok().filter(|value| !value.is_empty())
    }

    /// All except those that no program may see.
    pub fn visible(&self) -> Vec<(OsString, OsString)> {
        let all: Vec<_> = match &self.0 {
            Some(variables) => variables
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            None => std::env::vars_os().collect(),
        };
        let hidden = process::hidden();
        all.into_iter()
            .filter(|(name, _)| !process::is_secret(name, &hidden))
            .collect()
    }

    /// The command gets these variables, and no others.
    pub(crate) fn hand_on(&self, command: &mut tokio::process::Command) {
        command.env_clear().envs(self.visible());
    }
}

/// Values are nobody's business.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lodges_own_variables_programs_see_the_harmless_ones_and_nothing_that_is_hidden() {
        let names = [
            "PATH",
            "LODGE_HOME",
            "LODGE_MODEL",
            "LODGE_FLEET",
            "LODGE_FLEET_SYSTEM",
            "LODGE_TOKEN",
            "LODGE_PROVIDER_BASE_URL",
            "LODGE_SOMETHING_NEW",
            "OPENAI_API_KEY",
            "HEADERS_OF_A_COLLECTOR",
        ];
        process::hide_variables(["HEADERS_OF_A_COLLECTOR".to_owned()]);
        let all = Environment::of(names.map(|name| (name.into(), "value".into())));
        let seen: Vec<OsString> = all.visible().into_iter().map(|(name, _)| name).collect();
        assert_eq!(seen, ["LODGE_HOME", "LODGE_MODEL", "PATH"]);
    }
}
