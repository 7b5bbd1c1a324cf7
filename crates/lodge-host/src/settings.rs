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

    /// Replaces all settings, or none if that fails.
    pub(crate) fn replace(&self, values: &Map<String, Value>) -> Result<(), RegisterError> {
        let known = self.all();
        let gone = known.keys().filter(|name| !values.contains_key(*name));
        let gone = gone.map(|name| (name.as_str(), None));
        let set = values.iter().map(|(name, value)| (name.as_str(), Some(value)));
        self.0.set_all(gone.chain(set))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::registers::{FILE, FileRegisters};

    fn settings(home: &std::path::Path) -> Settings {
        let file = FileRegisters::open(home.join(FILE), false).unwrap();
        let registers: Arc<dyn Registers> = Arc::new(file);
        Settings::new(&registers)
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn settings_are_replaced_all_or_none() {
        let dir = tempfile::tempdir().unwrap();
        let before = map(json!({ "a": 1, "b": 2 }));
        settings(dir.path()).replace(&before).unwrap();
        // The second one does not fit.
        let wrong = map(json!({ "a": 3, "b": "x".repeat(9 << 20), "c": 4 }));
        settings(dir.path()).replace(&wrong).unwrap_err();
        assert_eq!(settings(dir.path()).all(), before);
        let after = map(json!({ "b": 3, "c": null }));
        let length = std::fs::metadata(dir.path().join(FILE)).unwrap().len();
        settings(dir.path()).replace(&after).unwrap();
        assert_eq!(settings(dir.path()).all(), after);
        // Whenever a kill cuts the file short.
        let text = std::fs::read(dir.path().join(FILE)).unwrap();
        for cut in length as usize..text.len() - 1 {
            std::fs::write(dir.path().join(FILE), &text[..cut]).unwrap();
            assert_eq!(settings(dir.path()).all(), before, "cut at {cut}");
        }
    }
}
