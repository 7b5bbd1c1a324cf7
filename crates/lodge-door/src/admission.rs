//! The identity and role of a connection.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

/// What a connection may do. Each role may do everything that those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Look at everything, change nothing.
    #[serde(rename = "view-only")]
    View,
    /// Also answer the agents' questions.
    #[serde(rename = "approve-only")]
    Approve,
    /// Everything the owner may do, except managing devices.
    #[serde(rename = "full")]
    Full,
    /// Everything.
    #[serde(rename = "owner")]
    Owner,
}

impl Role {
    /// The roles that a device can have.
    pub const OF_DEVICES: [Self; 3] = [Self::Full, Self::Approve, Self::View];

    /// Its name, on every wire, in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view-only",
            Self::Approve => "approve-only",
            Self::Full => "full",
            Self::Owner => "owner",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = String;

    /// Reads the role of a device.
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::OF_DEVICES.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("unknown role {text:?}: use full, approve-only or view-only"))
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Has the token, or is the host's user on its local socket.
    Owner,
    /// A paired device.
    Device {
        /// Its id, as `lodge devices` lists it.
        id: String,
        /// What people call it.
        name: String,
    },
}

impl Identity {
    /// The id of the device, where it is one. Names can change, ids cannot.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Owner => None,
            Self::Device { id, .. } => Some(id),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Device { id, name } => write!(f, "device {id} ({name})"),
        }
    }
}

/// The identity and role that a connection was admitted with.
#[derive(Debug, Clone)]
pub struct Admission {
    /// Who it is.
    pub identity: Identity,
    role: Role,
    revoked: CancellationToken,
}

impl Admission {
    /// The owner, who is never revoked.
    pub fn owner() -> Self {
        Self {
            identity: Identity::Owner,
            role: Role::Owner,
            revoked: CancellationToken::new(),
        }
    }

    pub(crate) fn device(id: String, name: String, role: Role, revoked: CancellationToken) -> Self {
        Self {
            identity: Identity::Device { id, name },
            role,
            revoked,
        }
    }

    /// What it may do.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether something that needs this role is allowed now; else why not, for people.
    pub fn check(&self, needed: Role) -> Result<(), String> {
        if self.is_revoked() {
            Err("this device was revoked".to_owned())
        } else if self.role < needed {
            Err(format!(
                "this device's role is {}; this needs the role {needed}",
                self.role
            ))
        } else {
            Ok(())
        }
    }

    /// Whether its device was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.is_cancelled()
    }

    /// Resolves when its device is revoked.
    pub async fn revoked(&self) {
        self.revoked.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_may_do_what_those_before_it_may_and_no_more() {
        let roles = [Role::View, Role::Approve, Role::Full, Role::Owner];
        for (at, role) in roles.into_iter().enumerate() {
            let admission = Admission::device("d".into(), "phone".into(), role, CancellationToken::new());
            for (needed_at, needed) in roles.into_iter().enumerate() {
                assert_eq!(admission.check(needed).is_ok(), needed_at <= at, "{role} for {needed}");
            }
        }
    }

    #[test]
    fn a_revoked_device_may_do_nothing() {
        let revoked = CancellationToken::new();
        let admission = Admission::device("d".into(), "phone".into(), Role::Full, revoked.clone());
        assert!(admission.check(Role::View).is_ok());
        revoked.cancel();
        assert!(admission.check(Role::View).is_err());
    }

    #[test]
    fn nobody_is_made_an_owner_by_name() {
        assert_eq!("view-only".parse(), Ok(Role::View));
        assert!("owner".parse::<Role>().is_err());
    }
}
