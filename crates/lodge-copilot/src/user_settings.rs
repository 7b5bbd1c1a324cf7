//! The user's settings for all sessions of SDK clients: `settings.json` in the home. The file is small and read whenever it is
//! needed, so changes by other programs apply at once.

use std::{io, path::Path};

use serde_json::{Map, Value, json};

/// The model of sessions that name none.
pub(crate) const MODEL: &str = "model";
/// The reasoning effort of sessions that name none.
pub(crate) const EFFORT: &str = "effortLevel";
/// Whether AGENTS.md and its like are read.
pub(crate) const INSTRUCTIONS: &str = "customInstructions";
/// Whether conversations are compacted on their own.
pub(crate) const COMPACTION: &str = "autoCompaction";

/// Every setting with its default.
fn defaults() -> Map<String, Value> {
    let defaults = json!({
        MODEL: null,
        EFFORT: null,
        INSTRUCTIONS: true,
        COMPACTION: true,
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => unreachable!("it is an object"),
    }
}

/// The settings that the user changed.
#[derive(Debug, Default)]
pub(crate) struct UserSettings(Map<String, Value>);

impl UserSettings {
    /// Reads them. A missing file has no settings; an invalid one is an error.
    pub(crate) fn read(home: &Path) -> io::Result<Self> {
        let path = home.join("settings.json");
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Self)
                .map_err(|error| io::Error::other(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(io::Error::other(format!("{}: {error}", path.display()))),
        }
    }

    /// Changes settings; `null` resets one. The file is replaced as a whole.
    pub(crate) fn change(home: &Path, changes: Map<String, Value>) -> io::Result<()> {
        let mut settings = Self::read(home)?;
        for (key, value) in changes {
            match value {
                Value::Null => drop(settings.0.remove(&key)),
                value => drop(settings.0.insert(key, value)),
            }
        }
        let text = serde_json::to_vec_pretty(&settings.0)?;
        lodge_files::replace(&home.join("settings.json"), &text)
    }

    /// A setting, if the user changed it.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// A text setting, if the user changed it.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key)?.as_str().map(str::to_owned)
    }

    /// Whether the user turned off a setting that is on by default.
    pub(crate) fn is_off(&self, key: &str) -> bool {
        self.get(key) == Some(&Value::Bool(false))
    }

    /// Every setting with its value, its default, and whether the two are the same.
    pub(crate) fn list(&self) -> Value {
        let mut list = Map::new();
        let known = defaults();
        for key in known.keys().chain(self.0.keys()) {
            let default = known.get(key).cloned().unwrap_or(Value::Null);
            let set = self.get(key);
            list.insert(
                key.clone(),
                json!({"value": set.unwrap_or(&default), "default": default, "isDefault": set.is_none()}),
            );
        }
        Value::Object(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_taken_back_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let change = |changes: Value| UserSettings::change(home, changes.as_object().unwrap().clone()).unwrap();
        assert!(!UserSettings::read(home).unwrap().is_off(COMPACTION));
        change(json!({"autoCompaction": false, "model": "m", "other": 7}));
        let settings = UserSettings::read(home).unwrap();
        assert!(settings.is_off(COMPACTION));
        assert_eq!(settings.text(MODEL).as_deref(), Some("m"));
        assert_eq!(
            settings.list()["other"],
            json!({"value": 7, "default": null, "isDefault": false})
        );
        change(json!({"autoCompaction": null, "other": null}));
        let list = UserSettings::read(home).unwrap().list();
        assert_eq!(
            list["autoCompaction"],
            json!({"value": true, "default": true, "isDefault": true})
        );
        assert!(list.get("other").is_none());
        std::fs::write(home.join("settings.json"), "[").unwrap();
        assert!(UserSettings::read(home).is_err());
    }
}
