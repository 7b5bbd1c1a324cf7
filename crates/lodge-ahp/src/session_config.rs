//! What can be set about a session: the schema that forms are made from, and a value for everything in it. Both depend on
//! where the session works, and on each other.

use std::{path::PathBuf, sync::Arc};

use ahp_types::state::{ConfigSchema, ModelSelection};
use lodge_host::{Approval, GitContext, Host};
use serde_json::{Map, Value, json};

use crate::face::Face;

/// Branches that are in the schema; others are found by typing.
const SHOWN_BRANCHES: usize = 10;

/// The setting with the approval mode by its own name. `autoApprove` is what other clients know, and has only two values.
pub(crate) const APPROVALS: &str = "lodge.approvals";

const APPROVAL_NAMES: [(Approval, &str); 5] = [
    (Approval::Ask, "ask"),
    (Approval::AutoSafe, "safe"),
    (Approval::AutoEdit, "edits"),
    (Approval::ApproveAll, "all"),
    (Approval::DenyAll, "none"),
];

/// The values that say which approval mode a session has.
pub(crate) fn approval_values(approval: Approval) -> [(&'static str, &'static str); 2] {
    let known = if approval == Approval::ApproveAll {
        "autoApprove"
    } else {
        "default"
    };
    let mut names = APPROVAL_NAMES.iter();
    // An unknown mode would ask about everything.
    let name = names
        .find(|(mode, _)| *mode == approval)
        .map_or("ask", |(_, name)| name);
    [("autoApprove", known), (APPROVALS, name)]
}

/// The approval mode of this name.
pub(crate) fn approval_named(name: &str) -> Option<Approval> {
    let found = APPROVAL_NAMES.iter().find(|(_, known)| *known == name)?;
    Some(found.0)
}

/// Where a session works on a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Isolation {
    /// In the directory itself.
    #[default]
    Folder,
    /// In a work tree of its own.
    Worktree,
}

impl Isolation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Worktree => "worktree",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Folder, Self::Worktree]
            .into_iter()
            .find(|one| one.as_str() == text)
    }
}

/// What a session has to do with git; only where there is a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Branching {
    pub(crate) isolation: Isolation,
    /// The branch that it works on, or that its work tree begins at.
    pub(crate) branch: String,
}

impl Branching {
    /// In the directory itself, on what is checked out there.
    pub(crate) fn folder(git: &GitContext) -> Option<Self> {
        git.root.as_ref()?;
        Some(Self {
            isolation: Isolation::Folder,
            branch: git.branch.clone().unwrap_or_else(|| "HEAD".to_owned()),
        })
    }
}

/// A choice among few.
fn choice(title: &str, description: &str, default: &str, choices: &[(&str, &str, &str)]) -> Value {
    let column = |of: fn(&(&str, &str, &str)) -> Value| choices.iter().map(of).collect::<Value>();
    json!({
        "type": "string",
        "title": title,
        "description": description,
        "default": default,
        "enum": column(|choice| choice.0.into()),
        "enumLabels": column(|choice| choice.1.into()),
        "enumDescriptions": column(|choice| choice.2.into()),
    })
}

/// What the effort to reason with is called: in the configuration of a session, and in that of a model, where VS Code has its
/// picker for it.
pub(crate) const EFFORT: &str = "thinkingLevel";
/// The effort that the model chooses by itself.
pub(crate) const DEFAULT_EFFORT: &str = "default";

/// The effort that a value names; none is the model's own.
pub(crate) fn effort_of(value: &str) -> Option<String> {
    (value != DEFAULT_EFFORT).then(|| value.to_owned())
}

/// Whether a model can be asked for an effort. A model that is not known says so when it is used.
pub(crate) fn takes_effort(host: &Host, model: Option<&str>, effort: Option<&str>) -> bool {
    let model = host.models().resolve(model);
    effort.is_none_or(|effort| {
        model.is_ok_and(|model| model.info().reasoning_efforts.iter().any(|known| known == effort))
    })
}

/// The effort that somebody chose with a model.
pub(crate) fn effort_in(model: &ModelSelection) -> Option<&str> {
    model.config.as_ref()?.get(EFFORT)?.as_str()
}

fn effort_label(effort: &str) -> String {
    match effort {
        "xhigh" => "Extra high".to_owned(),
        other => {
            let mut letters = other.chars();
            let first = letters.next().map(|first| first.to_uppercase().to_string());
            first.unwrap_or_default() + letters.as_str()
        }
    }
}

fn effort_choice(efforts: &[&str]) -> Value {
    json!({
        "type": "string",
        "title": "Thinking level",
        "description": "How much the model reasons before it answers",
        "enum": efforts,
        "enumLabels": efforts.iter().map(|effort| effort_label(effort)).collect::<Vec<_>>(),
    })
}

/// What can be set about a model that offers these efforts.
pub(crate) fn model_schema(efforts: &[String]) -> Option<ConfigSchema> {
    // Who chose a level can go back to the model's own.
    let choices: Vec<&str> = [DEFAULT_EFFORT]
        .into_iter()
        .chain(efforts.iter().map(String::as_str))
        .collect();
    let mut effort = effort_choice(&choices);
    effort["default"] = DEFAULT_EFFORT.into();
    let schema = json!({ "type": "object", "properties": { EFFORT: effort } });
    serde_json::from_value(schema).ok().filter(|_| !efforts.is_empty())
}

impl Face {
    /// The schema, in the order that forms show it. `branches` are those to choose from; a session that has begun keeps its
    /// place.
    pub(crate) fn config_schema(&self, git: Option<&Branching>, branches: &[String], begun: bool) -> Arc<Value> {
        let models = self.host.models();
        let list = models.list();
        let mut model = json!({
            "type": "string",
            "title": "Model",
            "description": "The model that answers",
            "default": models.default_model().as_str(),
            "enum": list.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(),
            "enumLabels": list.iter().map(|model| model.name.as_str()).collect::<Vec<_>>(),
        });
        let mut mode = choice(
            "Mode",
            "How the agent works",
            "interactive",
            &[
                ("interactive", "Interactive", "Does what you ask and stops"),
                ("plan", "Plan", "Plans and changes nothing"),
                ("autopilot", "Autopilot", "Works until the task is complete"),
            ],
        );
        let mut approve = choice(
            "Approvals",
            "What needs your approval",
            "default",
            &[
                ("default", "Default approvals", "Asks before anything risky"),
                ("autoApprove", "Approve everything", "Approves everything"),
            ],
        );
        for property in [&mut model, &mut mode, &mut approve] {
            property["sessionMutable"] = true.into();
        }
        let mut properties = Map::new();
        properties.insert("model".into(), model);
        let mut efforts = vec![DEFAULT_EFFORT];
        for effort in list.iter().flat_map(|model| &model.reasoning_efforts) {
            if !efforts.contains(&effort.as_str()) {
                efforts.push(effort);
            }
        }
        if efforts.len() > 1 {
            let mut effort = effort_choice(&efforts);
            effort["default"] = DEFAULT_EFFORT.into();
            effort["sessionMutable"] = true.into();
            properties.insert(EFFORT.into(), effort);
        }
        properties.insert("mode".into(), mode);
        properties.insert("autoApprove".into(), approve);
        if let Some(git) = git {
            let mut isolation = choice(
                "Isolation",
                "Where the agent works",
                "folder",
                &[
                    ("folder", "Folder", "In the directory itself"),
                    ("worktree", "Worktree", "In its own git worktree, on its own branch"),
                ],
            );
            if begun {
                isolation["readOnly"] = true.into();
            }
            properties.insert("isolation".into(), isolation);
            let free = git.isolation == Isolation::Worktree && !begun;
            let mut shown = vec![git.branch.clone()];
            let others = branches.iter().filter(|branch| **branch != git.branch && free);
            shown.extend(others.take(SHOWN_BRANCHES).cloned());
            properties.insert(
                "branch".into(),
                json!({
                    "type": "string",
                    "title": "Branch",
                    "description": "The branch to work on, or to start the worktree from",
                    "default": git.branch,
                    "enum": shown,
                    "enumLabels": shown,
                    "enumDynamic": free,
                    "readOnly": !free,
                }),
            );
        }
        Arc::new(json!({ "type": "object", "properties": properties }))
    }
}

/// A schema for clients that have a picker of models: a second one beside it would be confusing.
pub(crate) fn without_model(schema: &mut Value) {
    if let Some(properties) = schema["properties"].as_object_mut() {
        properties.shift_remove("model");
        properties.shift_remove(EFFORT);
    }
}

/// What git has to do with what somebody wants, and the branches there are.
pub(crate) async fn branching(directory: PathBuf, config: &Map<String, Value>) -> (Option<Branching>, Vec<String>) {
    let Some(mut git) = Branching::folder(&lodge_host::git_context(directory.clone()).await) else {
        return (None, Vec::new());
    };
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    let mut branches = Vec::new();
    if text("isolation") == Some("worktree") {
        git.isolation = Isolation::Worktree;
        branches = lodge_host::branches(directory).await;
        if let Some(wanted) = text("branch").filter(|wanted| branches.iter().any(|branch| branch == wanted)) {
            git.branch = wanted.to_owned();
        }
    }
    (Some(git), branches)
}

/// A value for everything in a schema: what was given where it can be, else the default.
pub(crate) fn values(schema: &Value, git: Option<&Branching>, given: &Map<String, Value>) -> Map<String, Value> {
    let mut values = Map::new();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let decided = git.and_then(|git| match key.as_str() {
            "isolation" => Some(json!(git.isolation.as_str())),
            "branch" => Some(json!(git.branch)),
            _ => None,
        });
        let allowed = property["enum"].as_array();
        let chosen = given
            .get(key)
            .filter(|value| allowed.is_none_or(|allowed| allowed.contains(value)));
        let value = decided.unwrap_or_else(|| chosen.unwrap_or(&property["default"]).clone());
        values.insert(key.clone(), value);
    }
    values
}
