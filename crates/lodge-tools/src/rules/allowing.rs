//! Which requests rules and modes allow.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use lodge_events::{PermissionRequest, ReadPermission, WritePermission};

use super::{
    Access, Decision, Effect, Mode, Place, Policy, Rule, RuleSet, RuleSubject, Source,
    pattern::{covers, path_matcher, url_fits},
    subject::{Subject, is_in_own_words},
    targets,
};

/// Why a request may go on without a question.
pub(super) struct Allowing<'a> {
    /// Whether some files are hidden.
    pub(super) hidden: bool,
    pub(super) rules: Vec<(Source, &'a Rule)>,
    files: Vec<FileRule>,
    pub(super) policy: Policy,
    /// Whether what nobody approved runs where it can do no harm.
    pub(super) jail: bool,
    pub(super) subject: &'a Subject<'a>,
}

/// A rule that allows files, ready to be compared.
struct FileRule {
    source: Source,
    access: Option<Access>,
    matcher: GlobMatcher,
}

impl FileRule {
    fn new(source: Source, rule: &Rule, base: &Path) -> Option<Self> {
        match &rule.what {
            RuleSubject::Path { glob, access } if rule.effect == Effect::Allow => Some(Self {
                source,
                access: *access,
                matcher: path_matcher(glob, base, false).ok()?,
            }),
            _ => None,
        }
    }
}

impl<'a> Allowing<'a> {
    pub(super) fn new(subject: &'a Subject<'a>, all: Vec<(Source, &'a Rule)>, rules: &RuleSet, place: &Place) -> Self {
        let files = all
            .iter()
            .filter_map(|(source, rule)| FileRule::new(*source, rule, &rules.location));
        Self {
            hidden: !rules.exclusions.is_empty(),
            files: files.collect(),
            rules: all,
            policy: rules.policy,
            jail: place.jail,
            subject,
        }
    }

    pub(super) fn answer(&self, request: &PermissionRequest) -> Option<Decision> {
        if matches!(request, PermissionRequest::Write(_)) && self.writes_guarded() {
            return None;
        }
        // Nobody but the agent says what it is, so no rule can be about it.
        if is_in_own_words(request) {
            return None;
        }
        let by_name = |what: &RuleSubject| match what {
            RuleSubject::Tool(pattern) => self.subject.name.as_ref().is_some_and(|name| name.is(pattern)),
            _ => false,
        };
        if let Some(source) = self.rule(by_name) {
            return Some(approved_by(source));
        }
        match request {
            PermissionRequest::Read(read) => self.read(read),
            PermissionRequest::Write(write) => self.write(write),
            PermissionRequest::Shell(shell) => self.shell(shell),
            PermissionRequest::Url(url) => {
                let source =
                    self.rule(|what| matches!(what, RuleSubject::Url(pattern) if url_fits(&url.url, pattern)))?;
                Some(approved_by(source))
            }
            _ => None,
        }
    }

    /// The source of an allowing rule that fits.
    pub(super) fn rule(&self, fits: impl Fn(&RuleSubject) -> bool) -> Option<Source> {
        self.rules
            .iter()
            .find(|(_, rule)| rule.effect == Effect::Allow && fits(&rule.what))
            .map(|(source, _)| *source)
    }

    /// The source of a rule that allows a file to be read or written.
    pub(super) fn file_rule(&self, path: &Path, write: bool) -> Option<Source> {
        self.files
            .iter()
            .find(|rule| (rule.access != Some(Access::Read) || !write) && covers(&rule.matcher, path))
            .map(|rule| rule.source)
    }

    /// Where the files of the request are, as far as that is known.
    fn places(&self) -> impl Iterator<Item = &PathBuf> {
        let known = self.subject.files.iter().filter_map(|(places, _)| places.as_ref());
        known.flatten()
    }

    /// Whether a file is written that no rule is enough for, by its name or by where its name leads.
    fn writes_guarded(&self) -> bool {
        self.places().any(|path| self.subject.guards(path))
    }

    fn real_place(&self) -> Option<&PathBuf> {
        self.subject.files.first()?.0.as_ref()?.first()
    }

    fn read(&self, _: &ReadPermission) -> Option<Decision> {
        let path = self.real_place()?;
        if let Some(source) = self.file_rule(path, false) {
            return Some(approved_by(source));
        }
        let safe = self.policy.mode == Mode::AutoApproveSafe || !self.policy.ask_for_reads_in_cwd;
        (safe && targets::inside(path, &self.subject.roots))
            .then(|| looks_harmless("reads inside the working directory"))
    }

    fn write(&self, _: &WritePermission) -> Option<Decision> {
        let path = self.real_place()?;
        if let Some(source) = self.file_rule(path, true) {
            return Some(approved_by(source));
        }
        let safe = self.policy.mode == Mode::AutoApproveSafe || self.policy.allow_writes_in_cwd;
        (safe && targets::inside(path, &self.subject.roots))
            .then(|| looks_harmless("writes inside the working directory"))
    }
}

fn approved_by(source: Source) -> Decision {
    Decision::Allow {
        why: format!("allowed by {}", source.words()),
        approved: true,
    }
}

pub(super) fn looks_harmless(why: &str) -> Decision {
    Decision::Allow {
        why: why.to_owned(),
        approved: false,
    }
}
