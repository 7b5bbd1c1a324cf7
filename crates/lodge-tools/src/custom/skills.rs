//! Skills: folders of instructions that an agent reads when it needs them.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use lodge_events::SkillSource;

use crate::rules::{Access, Rule, RuleSubject};

use super::{
    Found, MOST, Place, Tier, entries,
    front_matter::{Parts, flag, split, text, words},
    hidden_by, is_name, read_of,
};

/// The file that makes a folder a skill.
const FILE: &str = "SKILL.md";
/// Longer descriptions are cut: all of them go into every model call.
const LONGEST_DESCRIPTION: usize = 1024;

/// A skill. Its text is read when it is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// The name to load it by.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Its `SKILL.md`.
    pub path: PathBuf,
    /// The folder that brought it; `None` for the person's and clients' own.
    pub folder: Option<PathBuf>,
    /// Where it was found.
    pub source: SkillSource,
    /// Whether a person can load it.
    pub user_invocable: bool,
    /// Whether the model must not load it on its own.
    pub disable_model_invocation: bool,
    /// Tools that need no permission while it is active.
    pub allowed_tools: Vec<String>,
    /// Arguments it expects, for people.
    pub argument_hint: Option<String>,
}

impl Skill {
    /// The folder.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// The text for the model: the file without its front matter.
    pub fn content(&self) -> Result<String, String> {
        let file = read_of(self.folder.as_deref(), &self.path)?;
        Ok(split(&file).map_or_else(|_| file.clone(), |parts| parts.body.to_owned()))
    }
}

impl Skill {
    /// What its allowed tools allow. A project's files travel with its contents, which may be anybody's, so that what they
    /// allow themselves counts for nothing.
    pub fn rules(&self) -> Vec<Rule> {
        if matches!(self.source, SkillSource::Project | SkillSource::Inherited) {
            return Vec::new();
        }
        self.allowed_tools
            .iter()
            .map(|word| Rule::allow(allowed(word)))
            .collect()
    }
}

/// What a word like `view`, `Bash(git log:*)` or `server/tool` is about.
fn allowed(word: &str) -> RuleSubject {
    let (name, of) = match word.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.trim_end_matches(')').trim())),
        None => (word, None),
    };
    let of = of.filter(|of| !of.is_empty() && *of != "*");
    let path = |glob: &str, access| RuleSubject::Path {
        glob: glob.to_owned(),
        access: Some(access),
    };
    match (name.to_ascii_lowercase().as_str(), of) {
        ("bash" | "shell" | "execute", Some(command)) => {
            RuleSubject::Command(command.trim_end_matches('*').trim_end_matches(':').trim().to_owned())
        }
        ("bash" | "shell" | "execute", None) => RuleSubject::Tool("shell".to_owned()),
        ("read" | "view" | "grep" | "glob" | "search", Some(glob)) => path(glob, Access::Read),
        ("read" | "view" | "grep" | "glob" | "search", None) => RuleSubject::Tool("read".to_owned()),
        ("edit" | "write" | "create" | "multiedit", Some(glob)) => path(glob, Access::Write),
        ("edit" | "write" | "create" | "multiedit", None) => RuleSubject::Tool("write".to_owned()),
        ("webfetch" | "web_fetch" | "web" | "fetch" | "url", Some(address)) => {
            RuleSubject::Url(address.trim_start_matches("domain:").to_owned())
        }
        ("webfetch" | "web_fetch" | "web" | "fetch" | "url", None) => RuleSubject::Tool("url".to_owned()),
        _ => RuleSubject::Tool(word.to_owned()),
    }
}

/// Looks for skills. Of two with the same name the first found counts.
pub fn find_skills(places: &[Place]) -> Found<Skill> {
    let mut found = Found::default();
    let mut names = HashSet::new();
    for place in places {
        // A place that a client names may also be one skill, and so may a plugin.
        let own = Some(place.path.clone()).filter(|_| matches!(place.tier, Tier::Given | Tier::Plugin));
        for folder in own.into_iter().chain(entries(&place.path, &mut found.errors)) {
            let path = folder.join(FILE);
            if !path.is_file() {
                continue;
            }
            if found.all.len() >= MOST {
                found.errors.push(format!(
                    "There are more than {MOST} skills; {} is ignored",
                    path.display()
                ));
                return found;
            }
            match read_skill(&path, &folder, place, &mut found.warnings) {
                Ok(skill) if names.insert(skill.name.clone()) => found.all.push(skill),
                Ok(skill) => found.hidden.push(hidden_by(&path, &skill.name)),
                Err(error) => found.errors.push(error),
            }
        }
    }
    found
}

fn read_skill(path: &Path, folder: &Path, place: &Place, warnings: &mut Vec<String>) -> Result<Skill, String> {
    let file = read_of(place.brought_by(), path)?;
    let Parts { fields, body } = split(&file).map_err(|error| format!("{}: {error}", path.display()))?;
    let name = text(&fields, &["name"]).unwrap_or_else(|| {
        warnings.push(format!("{}: missing name; the folder's name is used", path.display()));
        folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    });
    if !is_name(&name) {
        return Err(format!("{}: invalid name {name:?}", path.display()));
    }
    let description = text(&fields, &["description"]).unwrap_or_else(|| {
        warnings.push(format!("{}: missing description", path.display()));
        let line = body
            .lines()
            .map(|line| line.trim_start_matches('#').trim())
            .find(|line| !line.is_empty());
        line.unwrap_or(&name).to_owned()
    });
    Ok(Skill {
        description: description.chars().take(LONGEST_DESCRIPTION).collect(),
        path: path.to_owned(),
        folder: place.brought_by().map(Path::to_owned),
        source: match place.tier {
            Tier::Given => SkillSource::Custom,
            Tier::Project => SkillSource::Project,
            Tier::Inherited => SkillSource::Inherited,
            Tier::Plugin => SkillSource::Plugin,
            Tier::User => SkillSource::PersonalCopilot,
            Tier::Shared => SkillSource::PersonalAgents,
        },
        user_invocable: flag(&fields, &["user-invocable", "user_invocable"]).unwrap_or(true),
        disable_model_invocation: flag(&fields, &["disable-model-invocation", "disable_model_invocation"])
            .unwrap_or(false),
        allowed_tools: words(&fields, &["allowed-tools", "allowed_tools"]).unwrap_or_default(),
        argument_hint: text(&fields, &["argument-hint", "argument_hint"]),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, at: &str, text: &str) {
        let path = root.join(at);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn skills_are_found_by_precedence_and_bad_ones_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        write(
            root,
            "given/a/SKILL.md",
            "---\nname: a\ndescription: first\nallowed-tools: Bash(git:*), view\n---\n\nDo a.\n",
        );
        write(root, "given/broken/SKILL.md", "---\nname: broken\n");
        write(root, "given/plain/SKILL.md", "# Plain words\nbody");
        write(root, "given/no-skill/README.md", "nothing");
        write(
            root,
            "work/.github/skills/a/SKILL.md",
            "---\nname: a\ndescription: second\n---\n",
        );
        write(
            root,
            "work/.github/skills/b/SKILL.md",
            "---\nname: b\ndescription: B\nuser-invocable: false\n---\nx",
        );
        let work = root.join("work");
        let mut places = vec![Place::given(&root.join("given"), &work)];
        places.extend(super::super::Places::project(super::super::Kind::Skills, &work));
        let found = find_skills(&places);
        let seen: Vec<_> = found
            .all
            .iter()
            .map(|skill| (skill.name.as_str(), skill.description.as_str(), skill.source.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("a", "first", "custom"),
                ("plain", "Plain words", "custom"),
                ("b", "B", "project")
            ]
        );
        assert_eq!(found.all[0].allowed_tools, ["Bash(git:*)", "view"]);
        assert_eq!(found.all[0].content().unwrap(), "Do a.\n");
        assert!(!found.all[2].user_invocable);
        assert_eq!(found.errors.len(), 1, "{:?}", found.errors);
        assert!(found.errors[0].contains("broken"));
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
    }

    #[test]
    fn allowed_tools_become_rules_but_not_those_of_a_project() {
        for (word, expected) in [
            ("bash", RuleSubject::Tool("shell".into())),
            ("Bash(git log:*)", RuleSubject::Command("git log".into())),
            ("Bash(*)", RuleSubject::Tool("shell".into())),
            ("Read", RuleSubject::Tool("read".into())),
            ("WebFetch(domain:docs.rs)", RuleSubject::Url("docs.rs".into())),
            ("github/get_issue", RuleSubject::Tool("github/get_issue".into())),
        ] {
            assert_eq!(allowed(word), expected, "{word}");
        }
        let mut skill = Skill {
            name: "s".into(),
            description: String::new(),
            path: PathBuf::new(),
            folder: None,
            source: SkillSource::Custom,
            user_invocable: true,
            disable_model_invocation: false,
            allowed_tools: vec!["bash".into()],
            argument_hint: None,
        };
        assert_eq!(skill.rules().len(), 1);
        skill.source = SkillSource::Project;
        assert!(skill.rules().is_empty());
    }

    #[test]
    fn a_place_that_a_client_names_may_be_one_skill() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "SKILL.md", "---\nname: one\ndescription: d\n---\n");
        let found = find_skills(&[Place::given(dir.path(), Path::new("/"))]);
        assert_eq!(found.all.len(), 1);
    }
}
