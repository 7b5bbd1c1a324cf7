//! Decides a permission request: allow, deny or ask.

use std::path::{Path, PathBuf};

use globset::GlobMatcher;
use lodge_events::{
    PermissionRequest, PermissionResultKind, PermissionRule, ReadPermission, ShellCommand, ShellPermission,
    WritePermission,
};

use super::{
    AGENT_REQUEST, Access, Decision, Effect, Mode, Place, Policy, Rule, RuleSet, RuleSubject, Source,
    pattern::{begins_with, covers, name_matches, path_matcher, url_matches},
    remembered, sampling_of, searches, targets,
};
use crate::{
    paths,
    shell::{Analysis, ProgramCall, analyse},
};

/// Decides a request by the rules, or says that somebody has to be asked.
pub fn decide(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> Decision {
    let subject = Subject::new(request, place);
    let managed = place.managed.iter().map(|rule| (Source::Managed, rule));
    let all: Vec<(Source, &Rule)> = managed
        .chain(rules.rules.iter().map(|(source, rule)| (*source, rule)))
        .chain(place.session.iter().map(|rule| (Source::Session, rule)))
        .collect();
    if let Some((path, why)) = subject.excluded(rules) {
        return Decision::Deny {
            why: format!("{} {why}", path.display()),
            kind: PermissionResultKind::DeniedByContentExclusion,
            rule: None,
            path: Some(path.display().to_string()),
        };
    }
    let denies = |rule: &Rule| rule.effect == Effect::Deny && subject.touches(&rule.what, &rules.location);
    if let Some((source, rule)) = all.iter().find(|(_, rule)| denies(rule)) {
        return Decision::Deny {
            why: format!("denied by {}", source.words()),
            kind: PermissionResultKind::DeniedByRules,
            rule: Some(rule.named()),
            path: None,
        };
    }
    if rules.policy.mode == Mode::DenyAll {
        return Decision::Deny {
            why: "everything is denied in this mode".to_owned(),
            kind: PermissionResultKind::DeniedByRules,
            rule: None,
            path: None,
        };
    }
    let asks = |rule: &Rule| rule.effect == Effect::Ask && subject.touches(&rule.what, &rules.location);
    if all.iter().any(|(_, rule)| asks(rule)) {
        return Decision::AskByPolicy { why: None };
    }
    let hides = |(source, rule): &&(Source, &Rule)| subject.hides_from(*source, rule, &rules.location);
    let unchecked: Vec<&(Source, &Rule)> = all.iter().filter(hides).collect();
    if !unchecked.is_empty() {
        let why = Some(could_not_check(request, &unchecked));
        let policy = unchecked.iter().any(|(source, _)| *source == Source::Managed);
        return if policy {
            Decision::AskByPolicy { why }
        } else {
            Decision::Ask { why }
        };
    }
    let found = |glob: &&str| subject.may_find(glob, &rules.location);
    if matches!(request, PermissionRequest::Shell(_))
        && let Some(glob) = rules.exclusions.globs().find(found)
    {
        let why = format!("This command reads whole directories, which may contain files that {glob} excludes.");
        return Decision::Ask { why: Some(why) };
    }
    match rules.policy.mode {
        Mode::ApproveAll => {
            return Decision::Allow {
                why: "everything is allowed in this mode".to_owned(),
                approved: true,
            };
        }
        Mode::Ask | Mode::AutoApproveSafe | Mode::DenyAll => {}
    }
    if let PermissionRequest::CustomTool(tool) = request
        && tool.skip_permission == Some(true)
    {
        return Decision::Allow {
            why: "the tool needs no permission".to_owned(),
            approved: true,
        };
    }
    let allowing = Allowing {
        hidden: !rules.exclusions.is_empty(),
        files: all
            .iter()
            .filter_map(|(source, rule)| FileRule::new(*source, rule, &rules.location))
            .collect(),
        rules: all,
        policy: rules.policy,
        jail: place.jail,
        subject: &subject,
    };
    allowing.answer(request).unwrap_or(Decision::Ask { why: None })
}

/// Names rules that cannot be applied to a request, for people.
fn could_not_check(request: &PermissionRequest, rules: &[&(Source, &Rule)]) -> String {
    let names: Vec<String> = rules
        .iter()
        .take(3)
        .map(|(source, rule)| {
            let PermissionRule { kind, argument } = rule.named();
            format!("{kind} {} ({})", argument.unwrap_or_default(), source.words())
        })
        .collect();
    let more = if rules.len() > names.len() { ", …" } else { "" };
    let unknown = match is_in_own_words(request) {
        true => "Only the agent's own words say what this request does.",
        false => "What this command runs or reads is only known at run time.",
    };
    format!(
        "{unknown} These rules could not be checked: {}{more}.",
        names.join(", ")
    )
}

fn approved_by(source: Source) -> Decision {
    Decision::Allow {
        why: format!("allowed by {}", source.words()),
        approved: true,
    }
}

fn looks_harmless(why: &str) -> Decision {
    Decision::Allow {
        why: why.to_owned(),
        approved: false,
    }
}

/// Whether policy denies a request or wants a person to answer it.
pub fn governs(request: &PermissionRequest, rules: &RuleSet, place: &Place) -> bool {
    if place.managed.is_empty() {
        return false;
    }
    let subject = Subject::new(request, place);
    let strict = place.managed.iter().filter(|rule| rule.effect != Effect::Allow);
    strict.into_iter().any(|rule| {
        let base = &rules.location;
        subject.touches(&rule.what, base) || subject.hides_from(Source::Managed, rule, base)
    })
}

/// Commands that read whole directories.
const SEARCHERS: &[&str] = &[
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "ag",
    "find",
    "git grep",
    "git diff",
    "git show",
    "git log",
    "git whatchanged",
    "git stash list",
    "git stash show",
    "git reflog",
    "git reflog show",
    "diff",
];

/// What a request is about, in terms of rules.
struct Subject<'a> {
    request: &'a PermissionRequest,
    names: Vec<String>,
    /// What is known about a command that calls programs.
    command: Analysis,
    /// Places it names, each with whether it may be written; `None` for one that is not known.
    files: Vec<(Option<Vec<PathBuf>>, bool)>,
    urls: Vec<String>,
    roots: Vec<PathBuf>,
    /// Directories that clients named, with and without links.
    named: Vec<PathBuf>,
}

impl<'a> Subject<'a> {
    fn new(request: &'a PermissionRequest, place: &Place) -> Self {
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
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mut subject = Self {
            named: named.flatten().collect(),
            request,
            names: Vec::new(),
            command: Analysis::default(),
            files: Vec::new(),
            urls: Vec::new(),
            roots,
        };
        match request {
            PermissionRequest::Shell(shell) => {
                subject.names = names(&["shell", "bash"]);
                // What is written to a running command is no command.
                if shell.command_segments.is_some() {
                    subject.command = analyse(&shell.full_command_text);
                }
                let mut looked = targets::Looked::default();
                subject.files = shell
                    .possible_paths
                    .iter()
                    .map(|path| {
                        let places = targets::of_command(&place.cwd, path, &mut looked);
                        (places, shell.has_write_file_redirection)
                    })
                    .collect();
                subject.urls = shell.possible_urls.iter().map(|url| url.url.clone()).collect();
            }
            PermissionRequest::Read(read) => {
                subject.names = names(&["read"]);
                subject
                    .files
                    .push((both(&read.path, read.resolved_path.as_deref(), place), false));
            }
            PermissionRequest::Write(write) => {
                subject.names = names(&["write"]);
                subject
                    .files
                    .push((both(&write.file_name, write.resolved_path.as_deref(), place), true));
            }
            PermissionRequest::Url(url) => {
                subject.names = names(&["url", "web_fetch"]);
                subject.urls.push(url.url.clone());
            }
            // Not a tool: who allows all tools of a server does not mean this.
            PermissionRequest::Mcp(mcp) if mcp.is_sampling() => {
                subject.names = vec![sampling_of(&mcp.server_name)];
            }
            PermissionRequest::Mcp(mcp) => subject.names = vec![format!("{}/{}", mcp.server_name, mcp.tool_name)],
            PermissionRequest::CustomTool(tool) => subject.names = vec![tool.tool_name.clone()],
            PermissionRequest::Memory(_) => subject.names = names(&["memory"]),
            PermissionRequest::Hook(hook) => subject.names = vec![hook.tool_name.clone()],
            PermissionRequest::Other(_) => {}
        }
        subject
    }

    /// Each time that a command calls a program by this name.
    fn calls_of<'b>(&'b self, identifier: &'b str) -> impl Iterator<Item = &'b ProgramCall> {
        self.command
            .calls
            .iter()
            .filter(move |call| call.identifier == identifier)
    }

    /// A file that no tool may see, and why not.
    fn excluded(&self, rules: &RuleSet) -> Option<(&PathBuf, String)> {
        let why = |path: &PathBuf| {
            if let Some(glob) = rules.exclusions.matching(path) {
                return Some(format!("is excluded by the pattern {glob}"));
            }
            let hidden = rules.home.as_ref()?.hides(path, &self.roots);
            hidden.then(|| "is in Lodge's home, which is hidden from agents".to_owned())
        };
        self.files
            .iter()
            .filter_map(|(places, _)| places.as_ref())
            .flatten()
            .find_map(|path| Some((path, why(path)?)))
    }

    /// Whether writing a place is more than it seems.
    fn guards(&self, path: &Path) -> bool {
        targets::guarded(path, &self.roots) || targets::guards_named(path, &self.named, &self.roots)
    }

    /// Whether a denial is about any part of the request.
    fn touches(&self, what: &RuleSubject, base: &Path) -> bool {
        match what {
            RuleSubject::Tool(pattern) => self.names.iter().any(|name| name_matches(name, pattern)),
            RuleSubject::Command(words) => match self.request {
                PermissionRequest::Shell(shell) => {
                    let (words, _) = remembered::parts(words);
                    let segments = shell
                        .command_segments
                        .iter()
                        .flatten()
                        .map(|segment| &segment.full_command_text);
                    let named = shell.commands.iter().map(|command| &command.identifier);
                    let bare = self.command.calls.iter().map(|call| &call.bare);
                    segments.chain(named).chain(bare).any(|text| runs(text, words))
                }
                _ => false,
            },
            RuleSubject::Path { .. } if self.files.is_empty() => false,
            RuleSubject::Path { glob, access } => {
                let Ok(matcher) = path_matcher(glob, base, true) else {
                    return false;
                };
                self.files.iter().any(|(places, write)| {
                    let concerned = match access {
                        None => true,
                        Some(Access::Write) => *write || self.runs_writer(),
                        Some(Access::Read) => !matches!(self.request, PermissionRequest::Write(_)),
                    };
                    concerned && places.iter().flatten().any(|path| covers(&matcher, path))
                })
            }
            RuleSubject::Url(pattern) => self.urls.iter().any(|url| url_matches(url, pattern)),
        }
    }

    /// Whether a rule against something cannot be applied to it, because it may run or touch more than can be seen.
    fn hides_from(&self, source: Source, rule: &Rule, base: &Path) -> bool {
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
            (_, RuleSubject::Command(_) | RuleSubject::Url(_)) => opaque,
            (_, RuleSubject::Path { glob, access }) => {
                opaque || self.files.iter().any(|(places, _)| places.is_none()) || finds(glob, access)
            }
        }
    }

    /// Whether it shows files that it does not name, and one that fits a pattern may be among them.
    fn may_find(&self, glob: &str, base: &Path) -> bool {
        let places: Vec<&PathBuf> = self
            .files
            .iter()
            .filter_map(|(places, _)| places.as_ref())
            .flatten()
            .collect();
        searches::may_find(self.request, &places, &self.roots, glob, base)
    }

    /// Whether it is a command that may write the paths it names.
    fn runs_writer(&self) -> bool {
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
    [text, inner, name].iter().any(|text| begins_with(text, words))
}

/// A path as it is named and as it was resolved when permission was asked: a rule may be about either.
fn both(path: &str, resolved: Option<&str>, place: &Place) -> Option<Vec<PathBuf>> {
    let named = paths::absolute(&place.cwd, path);
    let real = resolved.map(PathBuf::from).or_else(|| paths::real(&named).ok())?;
    Some(if named == real { vec![real] } else { vec![real, named] })
}

/// Why a request may go on without a question.
struct Allowing<'a> {
    /// Whether some files are hidden.
    hidden: bool,
    rules: Vec<(Source, &'a Rule)>,
    files: Vec<FileRule>,
    policy: Policy,
    /// Whether what nobody approved runs where it can do no harm.
    jail: bool,
    subject: &'a Subject<'a>,
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

impl Allowing<'_> {
    fn answer(&self, request: &PermissionRequest) -> Option<Decision> {
        if matches!(request, PermissionRequest::Write(_)) && self.writes_guarded() {
            return None;
        }
        // Nobody but the agent says what it is, so no rule can be about it.
        if is_in_own_words(request) {
            return None;
        }
        let by_name = |what: &RuleSubject| match what {
            RuleSubject::Tool(pattern) => self.subject.names.iter().any(|name| name_matches(name, pattern)),
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
                    self.rule(|what| matches!(what, RuleSubject::Url(pattern) if url_matches(&url.url, pattern)))?;
                Some(approved_by(source))
            }
            _ => None,
        }
    }

    /// The source of an allowing rule that fits.
    fn rule(&self, fits: impl Fn(&RuleSubject) -> bool) -> Option<Source> {
        self.rules
            .iter()
            .find(|(_, rule)| rule.effect == Effect::Allow && fits(&rule.what))
            .map(|(source, _)| *source)
    }

    /// The source of a rule that allows a file to be read or written.
    fn file_rule(&self, path: &Path, write: bool) -> Option<Source> {
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

    fn shell(&self, shell: &ShellPermission) -> Option<Decision> {
        // What was not understood may run more than it shows: no rule about commands can be enough for it.
        if !shell.can_offer_session_approval || shell.commands.is_empty() {
            return None;
        }
        let safe = self.policy.mode == Mode::AutoApproveSafe || !self.policy.ask_for_safe_commands;
        let read_only = shell.commands.iter().all(|command| command.read_only);
        let writes = shell.has_write_file_redirection || !read_only;
        let harmless = self.jail || self.subject.command.is_trivial();
        let ruled = |command: &ShellCommand| self.command_rule(&command.identifier);
        let commands = shell.commands.iter().all(|command| {
            // What searches whole directories would find hidden files too.
            let finds_hidden = self.hidden && SEARCHERS.contains(&command.identifier.as_str());
            let harmless = harmless || command.identifier == "cd";
            (safe && harmless && command.read_only && !finds_hidden) || ruled(command)
        });
        let files = self.subject.files.iter().all(|(places, _)| {
            places
                .as_ref()
                .is_some_and(|places| places.iter().all(|path| self.file_of_command(path, writes)))
        });
        let urls = self.subject.urls.iter().all(|url| {
            self.rule(|what| matches!(what, RuleSubject::Url(pattern) if url_matches(url, pattern)))
                .is_some()
        });
        // Programs that only read write nothing but what is redirected, which counts as writing a file.
        let redirections = !(shell.has_write_file_redirection && read_only) || self.redirections_allowed();
        if !(commands && files && urls && redirections) {
            return None;
        }
        if !(writes || shell.commands.iter().all(ruled)) {
            return Some(looks_harmless("only reads inside the working directory"));
        }
        // Outside the jail, a repository decides what git runs. The rule for another part of the line is not about that.
        let steered = |command: &ShellCommand| runs_git(&command.identifier) && !ruled(command);
        (!shell.commands.iter().any(steered)).then(|| Decision::Allow {
            why: "its commands are allowed by rules".to_owned(),
            approved: true,
        })
    }

    fn command_rule(&self, identifier: &str) -> bool {
        let begins = |text: &str| {
            self.rule(|what| matches!(what, RuleSubject::Command(words) if begins_with(text, words)))
                .is_some()
        };
        let remembers = |call: Option<&ProgramCall>| {
            let allowing = self.rules.iter().filter(|(_, rule)| rule.effect == Effect::Allow);
            let words = allowing.filter_map(|(_, rule)| match &rule.what {
                RuleSubject::Command(words) => Some(words.as_str()),
                _ => None,
            });
            remembered::allow(words, identifier, call)
        };
        let mut calls = self.subject.calls_of(identifier).peekable();
        match calls.peek() {
            _ if begins(identifier) => true,
            Some(_) => calls.all(|call| begins(&call.text) || remembers(Some(call))),
            None => remembers(None),
        }
    }

    /// Whether a command that is allowed may touch a file.
    fn file_of_command(&self, path: &Path, writes: bool) -> bool {
        if writes && self.subject.guards(path) {
            return false;
        }
        targets::inside(path, &self.subject.roots) || self.file_rule(path, writes).is_some()
    }

    /// Whether rules allow all files to be written. No mode does: what nobody approved runs where nothing can be written.
    fn redirections_allowed(&self) -> bool {
        self.places().all(|path| self.file_rule(path, true).is_some())
    }
}

fn runs_git(identifier: &str) -> bool {
    identifier.split(' ').any(|word| word == "git")
}

/// Whether only an agent's own words describe a request.
fn is_in_own_words(request: &PermissionRequest) -> bool {
    matches!(request, PermissionRequest::CustomTool(tool) if tool.tool_name.starts_with(AGENT_REQUEST))
}

/// What to keep when a person allows a request for longer than once.
pub fn rules_for(request: &PermissionRequest, place: &Place) -> Vec<Rule> {
    let subject = Subject::new(request, place);
    let mut what = Vec::new();
    let root_of = |path: &Path| subject.roots.iter().find(|root| path.starts_with(root));
    let access = |write: bool| Some(if write { Access::Write } else { Access::Read });
    let exactly = |path: &Path, write: bool| RuleSubject::Path {
        glob: globset::escape(&path.display().to_string()),
        access: access(write),
    };
    match request {
        PermissionRequest::Shell(shell) if shell.can_offer_session_approval => {
            // Beside a command that changes something, only these may go on unasked.
            let harmless = |command: &ShellCommand| place.jail && command.read_only && !runs_git(&command.identifier);
            let all_read = shell.commands.iter().all(|command| command.read_only);
            let asked = shell.commands.iter().filter(|command| all_read || !harmless(command));
            let rules =
                |command: &ShellCommand| remembered::rules(&command.identifier, subject.calls_of(&command.identifier));
            what.extend(asked.flat_map(rules).map(RuleSubject::Command));
            let writes = shell.has_write_file_redirection || subject.runs_writer();
            for path in subject.files.iter().filter_map(|(places, _)| places.as_ref()).flatten() {
                if root_of(path).is_none() || shell.has_write_file_redirection {
                    what.push(exactly(path, writes));
                }
            }
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
            what.extend(
                subject
                    .names
                    .iter()
                    .map(|name| RuleSubject::Tool(globset::escape(name))),
            );
        }
        _ => {}
    }
    if !matches!(request, PermissionRequest::Shell(shell) if !shell.can_offer_session_approval) {
        what.extend(subject.urls.iter().filter_map(|url| {
            let url = reqwest::Url::parse(url).ok()?;
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            Some(RuleSubject::Url(format!(
                "{}://{}{port}/*",
                url.scheme(),
                url.host_str()?
            )))
        }));
    }
    let mut rules: Vec<Rule> = Vec::new();
    for what in what {
        if !rules.iter().any(|rule| rule.what == what) {
            rules.push(Rule::allow(what));
        }
    }
    rules
}

/// What people would allow who allow a request for longer than once: what the rules of [`rules_for`] say. Empty where there are none.
pub fn lasting(request: &PermissionRequest, place: &Place) -> String {
    let here = paths::real(&place.cwd).unwrap_or_else(|_| place.cwd.clone());
    let rules = rules_for(request, place);
    let said = rules.iter().map(|rule| match &rule.what {
        RuleSubject::Command(words) => remembered::described(words),
        RuleSubject::Tool(pattern) => format!("calls of `{}`", unescaped(pattern)),
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
    });
    said.collect::<Vec<_>>().join(" and ")
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
