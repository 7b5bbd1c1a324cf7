//! Settings of the host as a whole. Its schema names none of them; what clients set is kept for them, so that all of them,
//! also those that come later, see what any of them chose. This host reads one, which turns automations off.

use ahp_types::{
    actions::RootConfigChangedAction,
    common::JsonObject,
    state::{ConfigSchema, RootConfigState},
};

use super::{
    Refusal, Write,
    plan::{NoChange, Plan},
};
use crate::face::Inner;

/// Bytes of all settings together, as they are written.
pub(super) const ROOM: usize = 256 * 1024;

/// The settings as the root state shows them.
pub(crate) fn shown(values: JsonObject) -> RootConfigState {
    let schema = ConfigSchema {
        r#type: "object".to_owned(),
        properties: Default::default(),
        required: None,
    };
    RootConfigState { schema, values }
}

/// What a change of settings does.
pub(super) fn check(inner: &Inner, changed: &RootConfigChangedAction) -> Result<Plan, Refusal> {
    let known = inner.core.root.config.as_ref().map(|config| &config.values);
    let mut values = match changed.replace {
        Some(true) => JsonObject::default(),
        _ => known.cloned().unwrap_or_default(),
    };
    values.extend(changed.config.clone());
    if known == Some(&values) {
        return Ok(Plan::nothing(NoChange::Echo));
    }
    if serde_json::to_vec(&values).map_or(true, |text| text.len() > ROOM) {
        return Err(Refusal::SettingsTooLarge);
    }
    Ok(Plan::write(Some(Write::Settings(values))))
}
