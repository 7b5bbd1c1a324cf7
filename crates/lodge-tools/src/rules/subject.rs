//! What a request is about, in terms of rules.

use std::{
    cell::OnceCell,
    collections::HashMap,
    path::{Path, PathBuf},
};

use lodge_events::{PermissionRequest, ShellPermission};

use super::{
    AGENT_REQUEST, Access, Effect, Place, Rule, RuleSet, RuleSubject, Source,
    names::Name,
    pattern::{begins_with, covers, is_spelt, path_matcher, url_matches},
    remembered::CommandRule,
    searches, targets,
};
use crate::{
    paths,
    shell::{Analysis, Pipeline, ProgramCall, analyse, in_directory},
};

/// Whether only an agent's own words describe a request.
pub(super) fn is_in_own_words(request: &PermissionRequest) -> bool {
    matches!(request, PermissionRequest::CustomTool(tool) if tool.tool_name.starts_with(AGENT_REQUEST))
}

/// Places that a path means; `None` if they are not known before it runs.
type Places = Option<Vec<PathBuf>>;

/// What a request is about, in terms of rules.
pub(super) struct Subject<'a> {
    pub(super) request: &'a PermissionRequest,
    /// What rules about tools call it.
    pub(super) name: Option<Name<'a>>,
    /// What is known about a command that calls programs.
    pub(super) command: Analysis,
    /// Places it names, each with whether it may be written.
    pub(super) files: Vec<(Places, bool)>,
    pub(super) urls: Vec<String>,
    pub(super) roots: Vec<PathBuf>,
    /// Places of what its command names, by the names, and of what may be a name.
    places: HashMap<String, Places>,
    /// Directories that clients named, with and without links.
    named: Vec<PathBuf>,
    /// Where links of guarded names lead.
    linked: OnceCell<Vec<PathBuf>>,
    cwd: PathBuf,
    /// What the directories in exact rules count from.
    location: PathBuf,
}

impl<'a> Subject<'a> {
    pub(super) fn new(request: &'a PermissionRequest, rules: &RuleSet, place: &Place) -> Self {
        let roots: Vec<PathBuf> = place
            .roots
            .iter()
            .chain([&place.cwd])
            .filter_map(|root| paths::real(root).ok())
            .collect();
        let named = place.named.iter().flat_map(|dir| {
            let dir = place.cwd.join(dir);
            [paths::real(&dir).ok(), Some(paths::normal(&dir))]
        });
        let has_location = !rules.location.as_os_str().is_empty();
        let location = if has_location { &rules.location } else { &place.cwd };
        let mut subject = Self {
            named: named.flatten().collect(),
            request,
            name: Name::of(request),
            command: Analysis::default(),
            files: Vec::new(),
            urls: Vec::new(),
            roots,
            places: HashMap::new(),
            linked: OnceCell::new(),
            cwd: place.cwd.clone(),
            location: paths::real(location).unwrap_or_else(|_| location.clone()),
        };
        match request {
            PermissionRequest::Shell(shell) => {
                // What is written to a running command is no command.
                if shell.command_segments.is_some() {
                    subject.command = analyse(&shell.full_command_text);
                }
                subject.look(shell);
                subject.urls = shell.possible_urls.iter().map(|url| url.url.clone()).collect();
            }
            PermissionRequest::Read(read) => {
                subject
                    .files
                    .push((both(&read.path, read.resolved_path.as_deref(), place), false));
            }
            PermissionRequest::Write(write) => {
                subject
                    .files
                    .push((both(&write.file_name, write.resolved_path.as_deref(), place), true));
            }
            PermissionRequest::Url(url) => {
                subject.urls.push(url.url.clone());
            }
            _ => {}
        }
        subject
    }

    /// Finds the places of everything that a command names.
    fn look(&mut self, shell: &ShellPermission) {
        let mut looked = targets::Looked::default();
        let calls = self.command.calls();
        let named = calls.flat_map(|call| call.files().map(|(path, _)| path));
        let is_literal = self.command.understood;
        let mut places: HashMap<String, Places> = HashMap::new();
        for path in shell.possible_paths.iter().map(String::as_str).chain(named) {
            if !places.contains_key(path) {
                let found = targets::of_command(&self.cwd, path, is_literal, &mut looked);
                places.insert(path.to_owned(), found);
            }
        }
        let all = shell.possible_paths.iter().filter_map(|path| places.get(path));
        self.files = all
            .map(|places| (places.clone(), shell.has_write_file_redirection))
            .collect();
        self.places = places;
    }

    /// The places of a path that its command names.
    pub(super) fn places_of(&self, path: &str) -> Option<&[PathBuf]> {
        self.places.get(path)?.as_deref()
    }

    /// The directory of a pipeline, without links.
    pub(super) fn directory(&self, pipeline: &Pipeline) -> Option<PathBuf> {
        paths::real(&paths::in_directory(&self.cwd, &pipeline.dir)).ok()
    }

    /// Whether a directory is the one where commands start.
    pub(super) fn is_cwd(&self, dir: &Path) -> bool {
        paths::real(&self.cwd).is_ok_and(|cwd| cwd == dir)
    }

    /// The text that a rule about exactly this pipeline has: its own, and where it runs, counted from the location. `None` if the
    /// text does not say which files outside the session's directories it means, or if it names a guarded one that it writes.
    pub(super) fn exact_text(&self, pipeline: &Pipeline) -> Option<String> {
        let text = pipeline.exact.as_ref()?;
        let is_said = |call: &ProgramCall, path: &str| {
            let said = paths::without_system_link(&paths::normal(&paths::in_directory(&self.cwd, path)));
            let is_fine = |place: &PathBuf| {
                let is_known = targets::inside(place, &self.roots) || *place == said;
                is_known && !(call.rewrites(path) && self.guards(place))
            };
            self.places_of(path).is_some_and(|places| places.iter().all(is_fine))
        };
        let is_all_said = |call: &ProgramCall| call.files().all(|(path, _)| is_said(call, path));
        if !pipeline.calls.iter().all(is_all_said) {
            return None;
        }
        let dir = self.directory(pipeline)?;
        match dir.strip_prefix(&self.location).unwrap_or(&dir).to_str()? {
            "" => Some(text.clone()),
            dir => Some(in_directory(dir, text)),
        }
    }

    /// The texts of all pipelines of a command, if each has one.
    pub(super) fn exact_texts(&self, shell: &ShellPermission) -> Vec<String> {
        if !shell.can_offer_session_approval || !self.command.can_be_remembered() {
            return Vec::new();
        }
        let texts = self.command.pipelines.iter().map(|pipeline| self.exact_text(pipeline));
        texts.collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// A file that no tool may see, and why not.
    pub(super) fn excluded(&self, rules: &RuleSet) -> Option<(&PathBuf, String)> {
        let mut named = self.files.iter().filter_map(|(places, _)| places.as_ref()).flatten();
        named.find_map(|path| Some((path, self.why_hidden(path, rules)?)))
    }

    fn why_hidden(&self, path: &Path, rules: &RuleSet) -> Option<String> {
        if let Some(glob) = rules.exclusions.matching(path) {
            return Some(format!("is excluded by the pattern {glob}"));
        }
        let hidden = rules.home.as_ref()?.hides(path, &self.roots);
        hidden.then(|| "is in Lodge's home, which is hidden from agents".to_owned())
    }

    /// Why a command may show a file that no tool may see, though it names none.
    pub(super) fn may_show_excluded(&self, rules: &RuleSet) -> Option<String> {
        let PermissionRequest::Shell(shell) = self.request else {
            return None;
        };
        if let Some(glob) = rules
            .exclusions
            .globs()
            .find(|glob| self.may_find(glob, &rules.location))
        {
            let why = "This command reads whole directories, which may contain files that";
            return Some(format!("{why} {glob} excludes."));
        }
        let hidden = self.operands().flatten().flatten();
        if let Some((path, why)) = hidden
            .filter_map(|path| Some((path, self.why_hidden(path, rules)?)))
            .next()
        {
            return Some(format!(
                "An argument of this command may be the file {}. It {why}.",
                path.display()
            ));
        }
        let is_unknown = !shell.can_offer_session_approval || self.names_unknown_files();
        let glob = rules.exclusions.globs().next().filter(|_| is_unknown)?;
        Some(format!(
            "What this command runs or reads is only known at run time. It may be a file that {glob} excludes."
        ))
    }

    /// The places of arguments that may be names of files.
    fn operands(&self) -> impl Iterator<Item = Option<&[PathBuf]>> {
        let operands = self.command.calls().flat_map(|call| &call.operands);
        operands.map(|path| self.places_of(path))
    }

    fn names_unknown_files(&self) -> bool {
        self.files.iter().any(|(places, _)| places.is_none()) || self.operands().any(|places| places.is_none())
    }

    /// Whether writing a place is more than it seems.
    pub(super) fn guards(&self, path: &Path) -> bool {
        let linked = || self.linked.get_or_init(|| targets::linked(&self.roots));
        targets::guarded(path, &self.roots)
            || targets::guards_named(path, &self.named, &self.roots)
            || linked().iter().any(|place| path.starts_with(place))
    }

    /// Whether a denial is about any part of the request.
    pub(super) fn touches(&self, what: &RuleSubject, base: &Path) -> bool {
        match what {
            RuleSubject::Tool(pattern) => self.name.as_ref().is_some_and(|name| name.may_be(pattern)),
            RuleSubject::Command(rule) => match self.request {
                PermissionRequest::Shell(shell) => {
                    let words = CommandRule::read(rule).words();
                    let segments = shell
                        .command_segments
                        .iter()
                        .flatten()
                        .map(|segment| &segment.full_command_text);
                    let named = shell.commands.iter().map(|command| &command.identifier);
                    let bare = self.command.calls().map(|call| &call.bare);
                    segments.chain(named).chain(bare).any(|text| runs(text, words))
                }
                _ => false,
            },
            RuleSubject::Path { .. } if self.files.is_empty() => false,
            RuleSubject::Path { glob, access } => {
                let files = self.files.iter().map(|(places, write)| (places.as_deref(), *write));
                self.is_about(files, glob, *access, base)
            }
            RuleSubject::Url(pattern) => self.urls.iter().any(|url| url_matches(url, pattern)),
        }
    }

    /// Whether a pattern fits one of these files, which may be written, and the access is one that the request wants.
    fn is_about<'b>(
        &self,
        mut files: impl Iterator<Item = (Option<&'b [PathBuf]>, bool)>,
        glob: &str,
        access: Option<Access>,
        base: &Path,
    ) -> bool {
        let Ok(matcher) = path_matcher(glob, base, true) else {
            return false;
        };
        files.any(|(places, write)| {
            let concerned = match access {
                None => true,
                Some(Access::Write) => write || self.runs_writer(),
                Some(Access::Read) => !matches!(self.request, PermissionRequest::Write(_)),
            };
            concerned && places.iter().copied().flatten().any(|path| covers(&matcher, path))
        })
    }

    /// Whether a rule against something cannot be applied to it, because it may run or touch more than can be seen.
    pub(super) fn hides_from(&self, source: Source, rule: &Rule, base: &Path) -> bool {
        // It may use any tool.
        if is_in_own_words(self.request) {
            return rule.effect != Effect::Allow;
        }
        let finds = |glob: &str, access: &Option<Access>| *access != Some(Access::Write) && self.may_find(glob, base);
        let PermissionRequest::Shell(shell) = self.request else {
            // Tools that search leave out what files of rules deny (see `RuleSet::unsearchable`), and know no others.
            let known = matches!(source, Source::User | Source::Location | Source::Project);
            return match &rule.what {
                RuleSubject::Path { glob, access } if rule.effect != Effect::Allow && !known => finds(glob, access),
                _ => false,
            };
        };
        let opaque = !shell.can_offer_session_approval;
        match (rule.effect, &rule.what) {
            (Effect::Allow, _) | (_, RuleSubject::Tool(_)) => false,
            (_, RuleSubject::Command(_)) => opaque,
            // Programs differ in what they make of other spellings.
            (_, RuleSubject::Url(_)) => opaque || self.urls.iter().any(|url| !is_spelt(url)),
            (_, RuleSubject::Path { glob, access }) => {
                let operands = || self.operands().map(|places| (places, false));
                opaque
                    || self.names_unknown_files()
                    || finds(glob, access)
                    || self.is_about(operands(), glob, *access, base)
            }
        }
    }

    /// Whether it shows files that it does not name, and one that fits a pattern may be among them.
    pub(super) fn may_find(&self, glob: &str, base: &Path) -> bool {
        let places: Vec<&PathBuf> = self
            .files
            .iter()
            .filter_map(|(places, _)| places.as_ref())
            .flatten()
            .collect();
        searches::may_find(self.request, &places, &self.roots, glob, base)
    }

    /// Whether it is a command that may write the paths it names.
    pub(super) fn runs_writer(&self) -> bool {
        matches!(self.request, PermissionRequest::Shell(shell) if shell.commands.iter().any(|command| !command.read_only))
    }
}

/// Whether a command is one that a rule names, also when it has another path or runs as somebody else.
fn runs(text: &str, words: &str) -> bool {
    let outer = |word: &str| matches!(word, "sudo" | "doas" | "nohup") || word.contains('=');
    let mut inner = text;
    while let Some((_, rest)) = inner.split_once(' ').filter(|(word, _)| outer(word)) {
        inner = rest;
    }
    let program = inner.split(' ').next().unwrap_or_default();
    let name = program.rfind('/').map_or(inner, |at| &inner[at + 1..]);
    [text, inner, name]
        .iter()
        .any(|text| begins_with(text.split_whitespace(), words))
}

/// A path as it is named and as it was resolved when permission was asked: a rule may be about either.
fn both(path: &str, resolved: Option<&str>, place: &Place) -> Option<Vec<PathBuf>> {
    let named = paths::absolute(&place.cwd, path);
    let real = resolved.map(PathBuf::from).or_else(|| paths::real(&named).ok())?;
    Some(if named == real { vec![real] } else { vec![real, named] })
}
