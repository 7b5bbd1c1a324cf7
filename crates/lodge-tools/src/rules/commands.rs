//! Which commands rules and modes allow.
//!
//! A command is **approved** if rules cover each of its pipelines: a rule that holds exactly this pipeline, or rules that people
//! wrote about the programs in it. Beside covered programs only those may stand that are harmless even without a jail. A command
//! that nobody approved is allowed if all of it is **harmless**, and runs in the jail. One that is neither is asked about.

use std::path::PathBuf;

use lodge_events::ShellPermission;

use super::{
    Decision, Mode, RuleSubject,
    allowing::{Allowing, looks_harmless},
    pattern::{begins_with, url_fits},
    remembered::CommandRule,
    targets,
};
use crate::shell::{Pipeline, ProgramCall};

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

impl Allowing<'_> {
    pub(super) fn shell(&self, shell: &ShellPermission) -> Option<Decision> {
        let command = &self.subject.command;
        // What was not understood may run more than it shows: no rule about commands can be enough for it.
        if !shell.can_offer_session_approval || !command.can_be_remembered() {
            return None;
        }
        let pipelines = &command.pipelines;
        let approved = Decision::Allow {
            why: "its commands are allowed by rules".to_owned(),
            approved: true,
        };
        if !pipelines.is_empty() && pipelines.iter().all(|pipeline| self.covers(pipeline, false)) {
            return Some(approved);
        }
        if self.is_safe_allowed() && self.is_harmless() {
            return Some(looks_harmless("only reads inside the working directory"));
        }
        let is_covered = self.is_safe_allowed() && pipelines.iter().all(|pipeline| self.covers(pipeline, true));
        (is_covered && pipelines.iter().any(|pipeline| self.concerns(pipeline))).then_some(approved)
    }

    /// Whether a rule is about something in a pipeline.
    fn concerns(&self, pipeline: &Pipeline) -> bool {
        let mut calls = pipeline.calls.iter();
        calls.any(|call| self.rules_call(call) || !call.redirected.is_empty()) || self.remembers(pipeline)
    }

    fn is_safe_allowed(&self) -> bool {
        self.policy.mode == Mode::AutoApproveSafe || !self.policy.ask_for_safe_commands
    }

    /// Whether a command can do no harm where it runs.
    fn is_harmless(&self) -> bool {
        let command = &self.subject.command;
        let only_moves = command.pipelines.is_empty();
        let is_held = self.jail || only_moves || command.is_trivial();
        let is_harmless = |pipeline: &Pipeline| {
            let mut calls = pipeline.calls.iter();
            calls.all(|call| {
                // What searches whole directories would find hidden files too.
                let finds_hidden = self.hidden && SEARCHERS.contains(&call.identifier.as_str());
                call.read_only && call.redirected.is_empty() && !finds_hidden && self.may_touch(call)
            })
        };
        is_held && self.stays_inside() && command.pipelines.iter().all(is_harmless)
    }

    /// Whether the directory that `cd` leads to, and everything else that the command surely names, may be touched.
    fn stays_inside(&self) -> bool {
        self.subject.files.iter().all(|(places, _)| {
            let is_allowed =
                |path: &PathBuf| targets::inside(path, &self.subject.roots) || self.file_rule(path, false).is_some();
            places.as_ref().is_some_and(|places| places.iter().all(is_allowed))
        })
    }

    /// Whether rules cover a pipeline; with programs between that are harmless without a jail, if these are allowed.
    fn covers(&self, pipeline: &Pipeline, with_trivial: bool) -> bool {
        if self.remembers(pipeline) {
            return true;
        }
        let dir = self.subject.directory(pipeline);
        let Some(dir) = dir.filter(|dir| targets::inside(dir, &self.subject.roots)) else {
            return false;
        };
        // What people's rules say of a program does not say it of the program in another directory.
        let mut is_ruled = pipeline.dir.is_empty() || self.subject.is_cwd(&dir);
        pipeline.calls.iter().all(|call| {
            // Nor does it say what the program may read from its input: whatever feeds it has to be ruled, too.
            is_ruled &= self.rules_call(call) && !call.reads_file;
            (is_ruled || with_trivial && call.trivial) && self.may_touch(call) && self.may_redirect(call)
        })
    }

    /// Whether a rule holds exactly this pipeline.
    fn remembers(&self, pipeline: &Pipeline) -> bool {
        let Some(text) = self.subject.exact_text(pipeline) else {
            return false;
        };
        let is_it = |what: &RuleSubject| match what {
            RuleSubject::Command(rule) => CommandRule::read(rule) == CommandRule::Exactly(&text),
            _ => false,
        };
        self.rule(is_it).is_some()
    }

    /// Whether a call begins with the words of a rule.
    fn rules_call(&self, call: &ProgramCall) -> bool {
        let begins = |what: &RuleSubject| match what {
            RuleSubject::Command(rule) => match CommandRule::read(rule) {
                CommandRule::Beginning(words) => begins_with(call.words.iter().map(String::as_str), words),
                CommandRule::Exactly(_) | CommandRule::WithOptions(_) => false,
            },
            _ => false,
        };
        self.rule(begins).is_some()
    }

    /// Whether a call may touch what it names: files inside or of rules, none of them guarded, and addresses of rules.
    fn may_touch(&self, call: &ProgramCall) -> bool {
        let subject = self.subject;
        let may_be_touched = |(path, write): (&str, bool)| {
            let is_allowed = |place: &PathBuf| {
                let is_inside = targets::inside(place, &subject.roots);
                !(write && subject.guards(place)) && (is_inside || self.file_rule(place, write).is_some())
            };
            subject
                .places_of(path)
                .is_some_and(|places| places.iter().all(is_allowed))
        };
        let is_allowed = |url: &String| {
            self.rule(|what| matches!(what, RuleSubject::Url(pattern) if url_fits(url, pattern)))
                .is_some()
        };
        call.files().all(may_be_touched) && call.urls.iter().all(is_allowed)
    }

    /// Whether rules allow all files to be written that a call redirects its output to. No mode does: what nobody approved runs
    /// where nothing can be written.
    fn may_redirect(&self, call: &ProgramCall) -> bool {
        call.redirected.iter().all(|path| {
            let places = self.subject.places_of(path);
            places.is_some_and(|places| places.iter().all(|place| self.file_rule(place, true).is_some()))
        })
    }
}
