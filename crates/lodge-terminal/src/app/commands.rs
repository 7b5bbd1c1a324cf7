//! The slash commands of this client. The host has others.

use ahp::ahp_types::{
    StateAction,
    actions::{ChatTurnResumeAction, SessionConfigChangedAction, SessionTitleChangedAction},
    state::ResponsePart,
};
use serde_json::Value;

use super::{App, Effect, Search, Setting, overlay::Overlay};
use crate::{
    client::mirror::{APPROVALS, APPROVALS_KEY, NO_APPROVALS, NOT_FAILED},
    plain::plain,
    theme::{Scheme, Theme},
    vim::Vim,
};

/// The commands of this client: name, arguments, description.
pub const COMMANDS: &[(&str, &str, &str)] = &[
    ("new", "", "Start a new session"),
    ("sessions", "", "Choose a session"),
    ("model", "[ID]", "Choose a model"),
    ("mode", "[MODE]", "Choose how the agent works"),
    ("agent", "[NAME]", "Choose a custom agent"),
    (
        "approvals",
        "[ask|safe|edits|all|none]",
        "Choose what runs without approval",
    ),
    ("steer", "TEXT", "Send a message into the running turn"),
    ("cancel", "", "Stop the running turn"),
    ("retry", "", "Try the failed turn again"),
    ("tasks", "", "Show sub-agents, background work and the queue"),
    ("search", "", "Search the conversation"),
    ("copy", "", "Copy the last answer"),
    ("rename", "TITLE", "Change the title"),
    ("theme", "[dark|light|plain]", "Choose the colours"),
    ("vim", "", "Turn vi keys on or off"),
    ("login", "", "Set up a model: provider, key, test"),
    ("help", "", "Show keys and commands"),
    ("quit", "", "Leave; the session keeps running"),
];

impl App {
    /// Handles a line that begins with a slash.
    pub(super) fn entered(&mut self, text: &str) {
        let Some(command) = text.strip_prefix('/') else {
            return self.say(text, false);
        };
        if command.starts_with('/') {
            return self.say(command, false);
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = rest.trim();
        match (name, rest) {
            ("new", "") => self.effects.push(Effect::New),
            ("sessions" | "resume", "") => self.pick_session(),
            ("model" | "models", "") => self.pick_model(),
            ("model", wanted) => self.choose_model(wanted),
            ("mode", "") => self.pick_mode(),
            ("mode", wanted) => self.configure("mode", wanted.into()),
            ("agent", "") => self.pick_agent(),
            ("agent", wanted) => self.choose_agent(wanted),
            ("approvals", "") => self.pick_approvals(),
            ("approvals", wanted) if APPROVALS.iter().any(|(mode, _)| *mode == wanted) => {
                self.configure(APPROVALS_KEY, wanted.into());
            }
            ("approvals", _) => self.complain(NO_APPROVALS),
            ("steer", words) if !words.is_empty() => self.say(words, self.mirror.is_busy()),
            ("cancel", "") => self.cancel(),
            ("retry", "") => self.retry(),
            ("tasks", "") => self.overlay = Some(Overlay::Tasks(0)),
            ("search", _) => {
                self.search = Some(Search {
                    words: rest.to_owned(),
                    ..Search::default()
                });
                self.count_found();
            }
            ("copy", "") => self.copy(),
            ("rename" | "title", title) if !title.is_empty() => {
                let action = SessionTitleChangedAction {
                    title: title.to_owned(),
                };
                let session = self.mirror.session.uri.clone();
                self.dispatch(session, StateAction::SessionTitleChanged(action));
            }
            ("theme", "") => self.pick_theme(),
            ("theme", wanted) => match Scheme::parse(wanted) {
                Some(scheme) => self.choose_theme(scheme),
                None => self.complain("The themes are dark, light and plain."),
            },
            ("vim", "") => {
                self.vim = match self.vim {
                    Some(_) => None,
                    None => Some(Vim::default()),
                };
                let now = if self.vim.is_some() { "on" } else { "off" };
                self.tell(&format!("Vi keys are {now}."));
                self.effects.push(Effect::Save(Setting::Vim(self.vim.is_some())));
            }
            ("login", "") => self.effects.push(Effect::Login),
            ("help" | "?", "") => self.overlay = Some(Overlay::Help(0)),
            ("quit" | "exit" | "q", "") => self.effects.push(Effect::Leave(0)),
            // Everything else goes to the host, which reports unknown commands.
            _ => self.say(text, false),
        }
    }

    /// Tries a failed turn again.
    fn retry(&mut self) {
        match self.mirror.failed_turn().map(str::to_owned) {
            Some(turn_id) => {
                let chat = self.mirror.chat.uri.clone();
                self.dispatch(chat, StateAction::ChatTurnResume(ChatTurnResumeAction { turn_id }));
                self.transcript.follow_end();
            }
            None => self.tell(NOT_FAILED),
        }
    }

    /// Chooses a theme, from now on.
    pub(super) fn choose_theme(&mut self, scheme: Scheme) {
        self.paint(scheme);
        self.effects.push(Effect::Save(Setting::Theme(scheme)));
    }

    /// Chooses a theme.
    pub fn paint(&mut self, scheme: Scheme) {
        self.scheme = scheme;
        self.theme = Theme::new(scheme);
        self.transcript.redraw();
        self.effects.push(Effect::Redraw);
    }

    /// Changes a setting of the session.
    pub(super) fn configure(&mut self, key: &str, value: Value) {
        let mut config = serde_json::Map::new();
        config.insert(key.to_owned(), value);
        let action = SessionConfigChangedAction { config, replace: None };
        let session = self.mirror.session.uri.clone();
        self.dispatch(session, StateAction::SessionConfigChanged(action));
    }

    pub(super) fn setting(&self, key: &str) -> Option<&str> {
        self.mirror.session.state.config.as_ref()?.values.get(key)?.as_str()
    }

    /// The approval mode.
    pub(super) fn approvals(&self) -> &str {
        self.mirror.approvals()
    }

    pub(super) fn next_mode(&mut self) {
        let modes = ["interactive", "plan", "autopilot"];
        let now = self.setting("mode").unwrap_or(modes[0]);
        let at = modes.iter().position(|mode| *mode == now).unwrap_or(0);
        self.configure("mode", modes[(at + 1) % modes.len()].into());
    }

    pub(super) fn choose_model(&mut self, wanted: &str) {
        let models = self.mirror.root.agents.iter().flat_map(|agent| &agent.models);
        let ids: Vec<String> = models.map(|model| model.id.clone()).collect();
        let mut similar = ids.iter().filter(|id| id.contains(wanted));
        let only = similar.next().filter(|_| similar.next().is_none());
        match ids.iter().find(|id| *id == wanted).or(only).cloned() {
            Some(id) => self.use_model(&id),
            None => self.complain(&format!("No single model matches {wanted:?}; /model lists them.")),
        }
    }

    /// Changes the model of this session.
    pub fn use_model(&mut self, id: &str) {
        self.tell(&format!("Switched to {id}."));
        self.configure("model", id.into());
    }

    fn copy(&mut self) {
        let chat = &self.mirror.chat.state;
        let active = chat.active_turn.iter().map(|turn| turn.response_parts.as_slice());
        let mut parts = active.chain(chat.turns.iter().rev().map(|turn| turn.response_parts.as_slice()));
        let answer = parts.find_map(|parts| {
            parts.iter().rev().find_map(|part| match part {
                ResponsePart::Markdown(part) if !part.content.trim().is_empty() => Some(part.content.clone()),
                _ => None,
            })
        });
        match answer {
            Some(answer) => {
                // A program into which this is pasted must not be controlled by it, either.
                self.effects.push(Effect::Copy(plain(&answer)));
                self.tell("The last answer is on the clipboard, if your terminal allows it (OSC 52).");
            }
            None => self.tell("There is no answer yet."),
        }
    }
}
