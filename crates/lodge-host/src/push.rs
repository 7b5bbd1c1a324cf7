//! What the host keeps for web push: its key, and where the browsers of paired devices want to be told.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    RegisterError,
    registers::{Register, Registers},
};

/// There is one key.
const THE_KEY: &str = "host";

/// Where a browser wants to be told, as its push service said it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushSubscription {
    /// The address of the push service.
    pub endpoint: String,
    /// What messages are encrypted with.
    pub keys: PushKeys,
}

/// The keys of a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushKeys {
    /// Its public key.
    pub p256dh: String,
    /// The secret that it shares with the host.
    pub auth: String,
}

/// The key, and the subscriptions by their devices.
pub struct PushSubscriptions {
    key: Register<String>,
    subscriptions: Register<PushSubscription>,
}

impl PushSubscriptions {
    pub(crate) fn new(registers: &Arc<dyn Registers>) -> Self {
        Self {
            key: Register::new(registers, "push_key"),
            subscriptions: Register::new(registers, "push"),
        }
    }

    /// The key by which push services know the host again.
    pub fn key(&self) -> Option<String> {
        self.key.get(THE_KEY)
    }

    /// Gives the host another key. Subscriptions are for a key, so they go with the old one.
    pub fn set_key(&self, key: &str) -> Result<(), RegisterError> {
        for (device, _) in self.all() {
            self.remove(&device)?;
        }
        self.key.set(THE_KEY, &key.to_owned())?;
        Ok(self.key.sync()?)
    }

    /// All subscriptions.
    pub fn all(&self) -> Vec<(String, PushSubscription)> {
        self.subscriptions.list()
    }

    /// Keeps the subscription of a device.
    pub fn set(&self, device: &str, wanted: &PushSubscription) -> Result<(), RegisterError> {
        self.subscriptions.set(device, wanted)
    }

    /// Forgets the subscription of a device.
    pub fn remove(&self, device: &str) -> Result<(), RegisterError> {
        self.subscriptions.remove(device)
    }
}
