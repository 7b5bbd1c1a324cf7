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
    /// The host that let it in, where that is another one.
    via: Option<String>,
}

/// An admission as one host tells another of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Introduction {
    role: Role,
    #[serde(default)]
    device: Option<Device>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Device {
    id: String,
    name: String,
}

impl Admission {
    /// The owner, who is never revoked.
    pub fn owner() -> Self {
        Self {
            identity: Identity::Owner,
            role: Role::Owner,
            revoked: CancellationToken::new(),
            via: None,
        }
    }

    /// Somebody whom another host let in. Its device is that host's: it has the host's name before its own id, and no device of this
    /// host has that id. A device is never the owner, whatever it is said to be.
    pub fn introduced(by: &str, introduction: Introduction) -> Self {
        let Introduction { role, device } = introduction;
        let (identity, role) = match device {
            None => (Identity::Owner, role),
            Some(Device { id, name }) => {
                let id = format!("{by}/{id}");
                (Identity::Device { id, name }, role.min(Role::Full))
            }
        };
        Self {
            identity,
            role,
            revoked: CancellationToken::new(),
            via: Some(by.to_owned()),
        }
    }

    /// What another host is told of it.
    pub fn introduction(&self) -> Introduction {
        let device = match &self.identity {
            Identity::Owner => None,
            Identity::Device { id, name } => Some(Device {
                id: id.clone(),
                name: name.clone(),
            }),
        };
        Introduction {
            role: self.role,
            device,
        }
    }

    /// The other host that let it in; nothing when this one did.
    pub fn via(&self) -> Option<&str> {
        self.via.as_deref()
    }

    pub(crate) fn device(id: String, name: String, role: Role, revoked: CancellationToken) -> Self {
        Self {
            identity: Identity::Device { id, name },
            role,
            revoked,
            via: None,
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
    fn another_host_hears_who_it_is_and_what_it_may_do() {
        let device = |role| Admission::device("d".into(), "phone".into(), role, CancellationToken::new());
        let told = |admission: &Admission| {
            let text = serde_json::to_string(&admission.introduction()).expect("plain data");
            Admission::introduced("one", serde_json::from_str(&text).expect("an introduction"))
        };
        let phone = told(&device(Role::Approve));
        assert_eq!((phone.identity.device(), phone.role()), (Some("one/d"), Role::Approve));
        assert_eq!(phone.via(), Some("one"));
        let owner = told(&Admission::owner());
        assert_eq!((owner.identity.device(), owner.role()), (None, Role::Owner));
        assert_eq!(told(&device(Role::Owner)).role(), Role::Full);
    }

    #[test]
    fn nobody_is_made_an_owner_by_name() {
        assert_eq!("view-only".parse(), Ok(Role::View));
        assert!("owner".parse::<Role>().is_err());
    }
}
