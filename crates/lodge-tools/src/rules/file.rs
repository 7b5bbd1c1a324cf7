//! Reads and writes files with rules.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{Access, Effect, Mode, Rule, RuleSet, RuleSubject, RulesError, Source, remembered::CommandRule};

/// A project's file.
const IN_PROJECTS: &str = ".lodge/permissions.toml";
/// The longest file of a project that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// A file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mode: Option<Mode>,
    #[serde(default)]
    allow: Vec<Entry>,
    #[serde(default)]
    deny: Vec<Entry>,
    /// Files that no tool may see.
    #[serde(default)]
    exclude: Vec<String>,
    /// Rules that hold in one place.
    #[serde(default)]
    location: BTreeMap<PathBuf, Location>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Location {
    #[serde(default)]
    allow: Vec<Entry>,
    #[serde(default)]
    deny: Vec<Entry>,
}

/// One rule: exactly one of the four, `access` only with `path`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    tool: Option<String>,
    command: Option<String>,
    path: Option<String>,
    access: Option<Access>,
    url: Option<String>,
}

impl Entry {
    fn what(self) -> Result<RuleSubject, String> {
        match self {
            Entry {
                tool: Some(tool),
                command: None,
                path: None,
                access: None,
                url: None,
            } => Ok(RuleSubject::Tool(tool)),
            Entry {
                tool: None,
                command: Some(words),
                path: None,
                access: None,
                url: None,
            } => Ok(RuleSubject::Command(words)),
            Entry {
                tool: None,
                command: None,
                path: Some(glob),
                access,
                url: None,
            } => {
                super::pattern::path_matcher(&glob, Path::new("/"), false)
                    .map_err(|error| format!("path {glob}: {error}"))?;
                Ok(RuleSubject::Path { glob, access })
            }
            Entry {
                tool: None,
                command: None,
                path: None,
                access: None,
                url: Some(url),
            } => Ok(RuleSubject::Url(url)),
            _ => Err("a rule names exactly one of tool, command, path (with access) or url".to_owned()),
        }
    }
}

fn rules(allow: Vec<Entry>, deny: Vec<Entry>) -> Result<Vec<Rule>, String> {
    let allow = allow.into_iter().map(|entry| {
        Ok(Rule {
            effect: Effect::Allow,
            what: entry.what()?,
        })
    });
    let deny = deny.into_iter().map(|entry| match entry.what()? {
        RuleSubject::Command(words) if !matches!(CommandRule::read(&words), CommandRule::Beginning(_)) => {
            Err(format!("command {words}: only an allow rule can end in [=]"))
        }
        what => Ok(Rule {
            effect: Effect::Deny,
            what,
        }),
    });
    deny.chain(allow).collect()
}

/// What a file says, from what reading its text came to; nothing where there is no file.
fn parsed(path: &Path, text: std::io::Result<String>) -> Result<Option<File>, RulesError> {
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(RulesError::File {
                path: path.to_owned(),
                error,
            });
        }
    };
    let file = toml::from_str(&text).map_err(|error| syntax(path, error.to_string().trim_end().to_owned()))?;
    Ok(Some(file))
}

fn syntax(path: &Path, message: String) -> RulesError {
    RulesError::Syntax {
        path: path.to_owned(),
        message,
    }
}

impl RuleSet {
    pub(super) fn read_user(&mut self, path: &Path) -> Result<(), RulesError> {
        let Some(file) = parsed(path, std::fs::read_to_string(path))? else {
            return Ok(());
        };
        let wrong = |message: String| syntax(path, message);
        if let Some(mode) = file.mode {
            self.policy.mode = mode;
        }
        let of_user = rules(file.allow, file.deny).map_err(wrong)?;
        self.note_outdated(path, &of_user);
        self.add_all(Source::User, of_user);
        for (place, location) in file.location {
            let found = rules(location.allow, location.deny).map_err(wrong)?;
            if place == self.location {
                self.note_outdated(path, &found);
                self.add_all(Source::Location, found);
            }
        }
        file.exclude
            .iter()
            .try_for_each(|glob| self.exclude(glob))
            .map_err(wrong)
    }

    pub(super) fn read_project(&mut self) -> Result<(), RulesError> {
        let path = self.location.join(IN_PROJECTS);
        let text = lodge_files::text_in_folder(&self.location, IN_PROJECTS, LONGEST);
        let Some(file) = parsed(&path, text)? else {
            return Ok(());
        };
        let wrong = |message: String| syntax(&path, message);
        let shown = path.display();
        if file.mode.is_some_and(|mode| mode != Mode::DenyAll) {
            self.notes
                .push(format!("{shown}: a project cannot set the approval mode"));
        } else if file.mode.is_some() {
            self.policy.mode = Mode::DenyAll;
        }
        if !file.location.is_empty() {
            self.notes
                .push(format!("{shown}: a project cannot have rules for other locations"));
        }
        for rule in rules(file.allow, file.deny).map_err(wrong)? {
            let why = match &rule.what {
                _ if rule.effect == Effect::Deny => None,
                RuleSubject::Path { glob, .. } if stays_inside(glob, &self.location) => None,
                RuleSubject::Path { glob, .. } => Some(format!("path {glob} is outside the project")),
                what => Some(format!("a project may only allow its own files, not {}", kind(what))),
            };
            match why {
                None => self.add_all(Source::Project, vec![anchored(rule, &self.location)]),
                Some(why) => self.notes.push(format!("{shown}: rule ignored: {why}")),
            }
        }
        file.exclude
            .iter()
            .try_for_each(|glob| self.exclude(glob))
            .map_err(wrong)
    }

    /// Says which rules an earlier build made that allow nothing any more.
    fn note_outdated(&mut self, path: &Path, rules: &[Rule]) {
        for rule in rules {
            if let RuleSubject::Command(text) = &rule.what
                && let CommandRule::WithOptions(words) = CommandRule::read(text)
            {
                self.notes.push(format!(
                    "{}: command {text} allows nothing: rules with options in brackets are no longer supported. Remove it and approve \
                     the command again, or write {words} to allow all commands that begin so",
                    path.display()
                ));
            }
        }
    }

    fn add_all(&mut self, source: Source, rules: Vec<Rule>) {
        self.rules.extend(rules.into_iter().map(|rule| (source, rule)));
    }
}

fn kind(what: &RuleSubject) -> &'static str {
    match what {
        RuleSubject::Tool(_) => "tools",
        RuleSubject::Command(_) => "commands",
        RuleSubject::Path { .. } => "paths",
        RuleSubject::Url(_) => "addresses",
    }
}

/// Whether a project's pattern can only match what is in the project.
fn stays_inside(glob: &str, project: &Path) -> bool {
    let upwards = glob.split('/').any(|part| part == "..");
    !upwards && !glob.starts_with('~') && (!glob.starts_with('/') || Path::new(glob).starts_with(project))
}

/// A project's allowing pattern that would match at any depth anywhere matches only in the project.
fn anchored(rule: Rule, project: &Path) -> Rule {
    match rule {
        Rule {
            effect: Effect::Allow,
            what: RuleSubject::Path { glob, access },
        } if !glob.contains('/') => {
            let glob = format!("{}/**/{glob}", globset::escape(&project.display().to_string()));
            Rule::allow(RuleSubject::Path { glob, access })
        }
        rule => rule,
    }
}

/// Adds rules to the user's file. What people wrote there stays as it is: new tables are put at the end.
pub(super) fn append(path: &Path, location: Option<&Path>, rules: &[Rule]) -> Result<(), RulesError> {
    let failed = |error: std::io::Error| RulesError::File {
        path: path.to_owned(),
        error,
    };
    let mut text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        text => text.map_err(failed)?,
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for rule in rules {
        text.push_str(&table(location, rule));
    }
    // A file written in another style (`allow = [...]`) cannot be added to in this way.
    toml::from_str::<File>(&text).map_err(|error| syntax(path, format!("cannot add the rule: {}", error.message())))?;
    replace(path, &text).map_err(failed)
}

/// A rule as [`append`] writes it.
fn table(location: Option<&Path>, rule: &Rule) -> String {
    let name = match rule.effect {
        Effect::Allow => "allow",
        Effect::Ask => "ask",
        Effect::Deny => "deny",
    };
    let place = location
        .map(|place| format!("location.{}.", quoted(&place.display().to_string())))
        .unwrap_or_default();
    let what = match &rule.what {
        RuleSubject::Tool(pattern) => format!("tool = {}\n", quoted(pattern)),
        RuleSubject::Command(words) => format!("command = {}\n", quoted(words)),
        RuleSubject::Url(pattern) => format!("url = {}\n", quoted(pattern)),
        RuleSubject::Path { glob, access } => {
            let access = match access {
                None => "",
                Some(Access::Read) => "access = \"read\"\n",
                Some(Access::Write) => "access = \"write\"\n",
            };
            format!("path = {}\n{access}", quoted(glob))
        }
    };
    format!("\n[[{place}{name}]]\n{what}")
}

/// Takes rules of a location out of the user's file. Only what [`append`] wrote can be taken out: what people wrote
/// there in their own way is theirs to change.
pub(super) fn remove(path: &Path, location: &Path, rules: &[Rule]) -> Result<(), RulesError> {
    let failed = |error: std::io::Error| RulesError::File {
        path: path.to_owned(),
        error,
    };
    let mut text = std::fs::read_to_string(path).map_err(failed)?;
    for rule in rules {
        let table = table(Some(location), rule);
        if !text.contains(&table) {
            let message = format!("Lodge did not write this rule; remove it by hand:{}", table.trim_end());
            return Err(syntax(path, message));
        }
        text = text.replace(&table, "");
    }
    replace(path, &text).map_err(failed)
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Writes the file all at once, readable by its owner alone.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    crate::spill::make_private_dir(path.parent().unwrap_or(Path::new(".")))?;
    lodge_files::replace(path, text.as_bytes())
}
