//! GitHub accounts that a client signed in with. They are kept in memory only: this host never writes their tokens to disk.

use parking_lot::Mutex;
use serde_json::Value;
use uuid::Uuid;

#[derive(Clone)]
pub(crate) struct Account {
    /// The GitHub host, e.g. `https://github.com`.
    pub(crate) host: String,
    /// The account's name there.
    pub(crate) login: String,
    pub(crate) token: String,
    /// GitHub's description of the account, if GitHub could be asked.
    pub(crate) user: Option<Value>,
}

impl Account {
    /// The id with which clients choose it; it reveals nothing of the token.
    pub(crate) fn selection_id(&self) -> String {
        let name = format!("{}/{}", self.host.trim_end_matches('/'), self.login);
        Uuid::new_v5(&Uuid::NAMESPACE_URL, name.as_bytes()).to_string()
    }

    fn is(&self, host: &str, login: &str) -> bool {
        is_same_host(&self.host, host) && self.login == login
    }
}

/// Whether two texts name the same GitHub host: the scheme is optional, and case does not matter.
pub(crate) fn is_same_host(a: &str, b: &str) -> bool {
    let name = |host: &str| {
        let host = host.trim_end_matches('/');
        host.strip_prefix("https://").unwrap_or(host).to_ascii_lowercase()
    };
    name(a) == name(b)
}

/// The accounts, the current one last.
#[derive(Default)]
pub(crate) struct Accounts(Mutex<Vec<Account>>);

impl Accounts {
    pub(crate) fn all(&self) -> Vec<Account> {
        self.0.lock().clone()
    }

    pub(crate) fn current(&self) -> Option<Account> {
        self.0.lock().last().cloned()
    }

    /// Adds an account, replacing an older entry for it.
    pub(crate) fn add(&self, account: Account) {
        let mut all = self.0.lock();
        all.retain(|known| !known.is(&account.host, &account.login));
        all.push(account);
    }

    /// Removes an account. False if it is unknown.
    pub(crate) fn remove(&self, host: &str, login: &str) -> bool {
        let mut all = self.0.lock();
        let had = all.len();
        all.retain(|known| !known.is(host, login));
        all.len() < had
    }
}
