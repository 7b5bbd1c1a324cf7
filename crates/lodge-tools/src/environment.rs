//! The environment of a session's programs: that of whoever started the session, without secrets.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    sync::Arc,
};

use crate::process::MARK;

/// The only variables of Lodge's own that programs see: they hold no secrets.
const HARMLESS: &[&str] = &[
    MARK,
    "LODGE_BIN",
    "LODGE_HOME",
    "LODGE_LOG",
    "LODGE_MODEL",
    "LODGE_PLAIN",
    "LODGE_SYNC",
];

/// Variables of others that no program sees: what a program prints ends up in events and logs.
const SECRET: &[&str] = &[
    "COPILOT_SDK_AUTH_TOKEN",
    "COPILOT_CONNECTION_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
];

/// Variables of a process. Without any said, those of this one.
#[derive(Clone, Default, PartialEq, Eq)]
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
        let hidden = hidden();
        all.into_iter().filter(|(name, _)| !is_secret(name, &hidden)).collect()
    }

    /// The same without what looks like a credential of the person's: for programs that come from folders and serve a session.
    pub fn without_credentials(&self) -> Vec<(OsString, OsString)> {
        let mut variables = self.visible();
        variables.retain(|(name, _)| !is_credential(name));
        variables
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

/// From now on no program that the host starts sees these variables: the host reads credentials from them.
pub fn hide_variables(names: impl IntoIterator<Item = String>) {
    HIDDEN.lock().extend(names);
}

static HIDDEN: parking_lot::Mutex<Vec<String>> = parking_lot::Mutex::new(Vec::new());

/// What [`hide_variables`] named.
fn hidden() -> Vec<String> {
    HIDDEN.lock().clone()
}

/// Whether no program may see a variable: because of its own name, or because it is among the hidden ones.
fn is_secret(name: &OsStr, hidden: &[String]) -> bool {
    let text = name.to_string_lossy();
    SECRET.contains(&text.as_ref())
        || hidden.iter().any(|hidden| *hidden == text)
        || (text.starts_with("LODGE_") && !HARMLESS.contains(&text.as_ref()))
}

/// How the names of variables end that hold credentials.
const CREDENTIALS: [&str; 11] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "_PASS",
    "_PAT",
    "_AUTH",
    "_KEY",
    "APIKEY",
    "CREDENTIALS",
];

/// Whether a variable looks like a credential.
fn is_credential(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_uppercase();
    CREDENTIALS.iter().any(|end| name.ends_with(end))
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
        hide_variables(["HEADERS_OF_A_COLLECTOR".to_owned()]);
        let all = Environment::of(names.map(|name| (name.into(), "value".into())));
        let seen: Vec<OsString> = all.visible().into_iter().map(|(name, _)| name).collect();
        assert_eq!(seen, ["LODGE_HOME", "LODGE_MODEL", "PATH"]);
    }

    #[test]
    fn some_programs_see_no_credentials() {
        let names = [
            "PATH",
            "GITHUB_TOKEN",
            "gh_token",
            "AWS_SECRET_ACCESS_KEY",
            "STRIPE_SECRET_KEY",
            "GITHUB_PAT",
            "SMTP_PASS",
            "NPM_CONFIG__AUTH",
            "DB_PASSWORD",
            "SSH_AUTH_SOCK",
            "TOKENS_PER_MINUTE",
        ];
        let all = Environment::of(names.map(|name| (name.into(), "value".into())));
        let seen: Vec<OsString> = all.without_credentials().into_iter().map(|(name, _)| name).collect();
        assert_eq!(seen, ["PATH", "SSH_AUTH_SOCK", "TOKENS_PER_MINUTE"]);
    }
}
