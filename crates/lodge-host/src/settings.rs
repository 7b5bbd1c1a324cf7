//! Settings of the host. Clients set them and all clients see them; the host itself reads few.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    RegisterError,
    registers::{Register, Registers},
};

pub(crate) struct Settings(Register<Value>);

impl Settings {
    pub(crate) fn new(registers: &Arc<dyn Registers>) -> Self {
        Self(Register::new(registers, "setting"))
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        self.0.get(name)
    }

    pub(crate) fn all(&self) -> Map<String, Value> {
        self.0.list().into_iter().collect()
    }

    /// Replaces all settings.
    pub(crate) fn replace(&self, values: &Map<String, Value>) -> Result<(), RegisterError> {
        for (name, _) in self.0.list() {
            if !values.contains_key(&name) {
                self.0.remove(&name)?;
            }
        }
        for (name, value) in values {
            self.0.set(name, value)?;
        }
        Ok(())
    }
}
