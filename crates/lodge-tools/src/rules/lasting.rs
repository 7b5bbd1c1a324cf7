//! What is kept when a person allows a request for longer than once.

use std::path::Path;

use lodge_events::PermissionRequest;

use super::{
    Access, Place, Rule, RuleSet, RuleSubject,
    names::{self, Name},
    remembered::{self, CommandRule},
    subject::{Subject, is_in_own_words},
};
use crate::paths;

/// What to keep when a person allows a request for longer than once.
pub fn rules_for(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> Vec<Rule> {
    let subject = Subject::new(request, rules, place);
    let mut what = Vec::new();
    let root_of = |path: &Path| subject.roots.iter().find(|root| path.starts_with(root));
    let access = |write: bool| Some(if write { Access::Write } else { Access::Read });
    let exactly = |path: &Path, write: bool| RuleSubject::Path {
        glob: globset::escape(&path.display().to_string()),
        access: access(write),
    };
    match request {
        PermissionRequest::Shell(shell) => {
            let texts = subject.exact_texts(shell);
            what.extend(texts.iter().map(|text| RuleSubject::Command(remembered::exactly(text))));
        }
        PermissionRequest::Read(_) | PermissionRequest::Write(_) => {
            let write = matches!(request, PermissionRequest::Write(_));
            let first = subject.files.first().and_then(|(places, _)| places.as_ref()?.first());
            // Inside, one answer stands for the whole root; outside, for that one place.
            what.extend(first.map(|path| match root_of(path) {
                Some(root) => RuleSubject::Path {
                    glob: format!("{}/**", globset::escape(&root.display().to_string())),
                    access: access(write),
                },
                None => exactly(path, write),
            }));
        }
        request if is_in_own_words(request) => {}
        PermissionRequest::Mcp(_) | PermissionRequest::CustomTool(_) | PermissionRequest::Memory(_) => {
            what.extend(subject.name.as_ref().and_then(Name::kept));
        }
        PermissionRequest::Url(asked) => what.extend(site(&asked.url).map(RuleSubject::Url)),
        _ => {}
    }
    let mut rules: Vec<Rule> = Vec::new();
    for what in what {
        if !rules.iter().any(|rule| rule.what == what) {
            rules.push(Rule::allow(what));
        }
    }
    rules
}

/// All addresses of the machine that an address names.
fn site(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    Some(format!("{}://{}{port}/*", url.scheme(), url.host_str()?))
}

/// What people would allow who allow a request for longer than once: what the rules of [`rules_for`] say. Empty where there are none.
pub fn lasting(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> String {
    let here = paths::real(&place.cwd).unwrap_or_else(|_| place.cwd.clone());
    let made = rules_for(request, rules, place);
    let commands = made.iter().filter_map(|rule| match &rule.what {
        RuleSubject::Command(rule) => Some(CommandRule::read(rule).words()),
        _ => None,
    });
    let commands = Some(remembered::described(&commands.collect::<Vec<_>>())).filter(|said| !said.is_empty());
    let others = made.iter().filter_map(|rule| {
        Some(match &rule.what {
            RuleSubject::Command(_) => return None,
            RuleSubject::Tool(pattern) => match names::of_client(pattern) {
                Some(name) => format!("calls of the app's tool `{}`", unescaped(name)),
                None => format!("calls of `{}`", unescaped(pattern)),
            },
            RuleSubject::Url(pattern) => format!("addresses below {}", pattern.trim_end_matches('*')),
            RuleSubject::Path { glob, access } => {
                let done = if *access == Some(Access::Read) {
                    "reads"
                } else {
                    "edits"
                };
                match glob.strip_suffix("/**") {
                    Some(root) if Path::new(&unescaped(root)) == here => format!("all {done} in this directory"),
                    Some(root) => format!("all {done} in {}", unescaped(root)),
                    None => format!("{done} of {}", unescaped(glob)),
                }
            }
        })
    });
    commands.into_iter().chain(others).collect::<Vec<_>>().join(" and ")
}

/// A path or name as it was before `globset::escape` put its special characters into brackets.
fn unescaped(pattern: &str) -> String {
    let mut plain = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '[' => {
                plain.extend(rest.next());
                rest.next();
            }
            c => plain.push(c),
        }
    }
    plain
}
