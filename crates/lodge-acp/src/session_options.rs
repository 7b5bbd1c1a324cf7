//! The options of a session: mode, model, reasoning effort, approvals.

use lodge_host::{APPROVALS, Approval, Change, Host, MODES, Mode, Session};
use lodge_rpc::Error;
use serde_json::{Value, json};

use crate::connection::failed;

const MODEL: &str = "model";
const EFFORT: &str = "reasoning_effort";
const APPROVAL: &str = "approval";
const MODE: &str = "mode";
/// The effort that the model chooses by itself.
const DEFAULT_EFFORT: &str = "default";

/// The modes, and the session's current one.
pub(crate) fn modes(session: &Session) -> Value {
    let all = MODES
        .iter()
        .map(|(mode, name, description)| json!({ "id": mode.as_str(), "name": name, "description": description }));
    json!({ "currentModeId": session.settings().mode.as_str(), "availableModes": all.collect::<Vec<_>>() })
}

fn select(id: &str, category: &str, name: &str, current: &str, options: Vec<Value>) -> Value {
    json!({
        "type": "select",
        "id": id,
        "category": category,
        "name": name,
        "currentValue": current,
        "options": options,
    })
}

fn option(value: &str, name: &str, description: Option<&str>) -> Value {
    let mut option = json!({ "value": value, "name": name });
    if let Some(description) = description {
        option["description"] = description.into();
    }
    option
}

/// All options, with their current values.
pub(crate) fn all(host: &Host, session: &Session) -> Value {
    let settings = session.settings();
    let model = &settings.model;
    let modes = MODES
        .iter()
        .map(|(mode, name, description)| option(mode.as_str(), name, Some(description)));
    let mut models: Vec<Value> = host
        .models()
        .list()
        .iter()
        .map(|known| option(&known.id, &known.name, Some(&known.provider)))
        .collect();
    if !models.iter().any(|known| known["value"] == model.id.as_str()) {
        models.push(option(&model.id, &model.name, Some(&model.provider)));
    }
    let mut options = vec![
        select(MODE, "mode", "Mode", settings.mode.as_str(), modes.collect()),
        select(MODEL, "model", "Model", &model.id, models),
    ];
    if !model.reasoning_efforts.is_empty() {
        let default = option(DEFAULT_EFFORT, "Default", None);
        let efforts = model
            .reasoning_efforts
            .iter()
            .map(|effort| option(effort, effort, None));
        let current = settings.reasoning_effort.as_deref().unwrap_or(DEFAULT_EFFORT);
        let efforts = std::iter::once(default).chain(efforts).collect();
        options.push(select(EFFORT, "thought_level", "Reasoning", current, efforts));
    }
    let allowed = |approval: &Approval| *approval != Approval::ApproveAll || session.may_approve_all();
    let approvals = APPROVALS.iter().filter(|(approval, ..)| allowed(approval));
    let approvals = approvals.map(|(_, id, name, description)| option(id, name, Some(description)));
    let current = APPROVALS.iter().find(|(approval, ..)| *approval == settings.approval);
    let current = current.map_or("safe", |(_, id, ..)| id);
    options.push(select(APPROVAL, "_approval", "Approvals", current, approvals.collect()));
    options.into()
}

/// Sets the mode.
pub(crate) async fn set_mode(session: &Session, mode: &str) -> Result<(), Error> {
    let unknown = || Error::params(format!("There is no mode `{mode}`."));
    let mode = Mode::parse(mode).ok_or_else(unknown)?;
    session.configure(Change::Mode(mode)).await.map_err(failed)
}

/// Sets another option.
pub(crate) async fn set(host: &Host, session: &Session, id: &str, value: &Value) -> Result<(), Error> {
    let wrong = || Error::params(format!("{value} cannot be chosen for `{id}`."));
    let value = value.as_str().ok_or_else(wrong)?;
    // Only offered values can be chosen.
    let options = all(host, session);
    let offered = options
        .as_array()
        .into_iter()
        .flatten()
        .find(|option| option["id"] == id);
    let offered = offered.ok_or_else(|| Error::params(format!("There is no option `{id}`.")))?;
    let values = offered["options"].as_array();
    if !values.into_iter().flatten().any(|option| option["value"] == value) {
        return Err(wrong());
    }
    let change = match id {
        MODE => return set_mode(session, value).await,
        MODEL => return session.select_model(host, value).await.map_err(failed),
        EFFORT => Change::ReasoningEffort((value != DEFAULT_EFFORT).then(|| value.to_owned())),
        _ => {
            let known = APPROVALS.iter().find(|(_, known, ..)| *known == value);
            Change::Approval(known.ok_or_else(wrong)?.0)
        }
    };
    session.configure(change).await.map_err(failed)
}
