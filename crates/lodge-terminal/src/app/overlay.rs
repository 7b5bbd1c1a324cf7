//! What covers the conversation for a while: pickers, the tasks, the help.

use ahp::ahp_types::{
    StateAction, Uri,
    actions::ChatTruncatedAction,
    state::{ChildCustomization, Customization, Message, MessageKind},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::text::{Line, Span};

use super::{
    App, COMMANDS, Effect, HostName, Seek, Work,
    sessions::{Asks, Columns, SESSIONS},
    tasks::About,
};
use crate::{
    client::mirror::{APPROVALS, APPROVALS_KEY},
    keys::{Action, EDITOR_KEYS, KEYS, Keymap},
    plain::{plain, plain_line},
    theme::{Scheme, Theme},
    wrap,
};

pub(super) enum Overlay {
    Picker(Picker),
    /// The line that is selected.
    Tasks(usize),
    /// The first row that is shown.
    Help(usize),
    /// What a command in the background printed.
    Output(Output),
}

/// A text to read.
pub(super) struct Output {
    title: String,
    text: String,
    /// The first row that is shown; the last rows are if it is too high.
    top: usize,
}

/// What choosing something does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pick {
    Session(HostName, Uri),
    Setting(&'static str, String),
    Agent(Option<(String, Uri)>),
    Theme(Scheme),
    Message(String),
    /// The turn to go back to, none for the beginning, and the message that followed it.
    Back(Option<String>, Box<Message>),
    /// Load the turns before the known ones; the number of messages that are listed now.
    Older(usize),
}

pub(super) struct Choice {
    pub(super) mark: char,
    pub(super) label: String,
    pub(super) detail: String,
    pub(super) pick: Pick,
    /// The columns of a session.
    pub(super) columns: Option<Columns>,
}

pub(super) struct Picker {
    title: &'static str,
    pub(super) query: String,
    pub(super) choices: Vec<Choice>,
    pub(super) selected: usize,
    /// Whether only sessions of this directory are listed.
    pub(super) here: bool,
    pub(super) asks: Option<Asks>,
}

impl Overlay {
    pub(super) fn paste(&mut self, text: &str) {
        let Self::Picker(picker) = self else { return };
        let line = text.split(['\r', '\n']).next().unwrap_or_default();
        match &mut picker.asks {
            Some(Asks::Rename(title)) => title.insert(line),
            // As any other key than `y`.
            Some(Asks::Delete) => picker.asks = None,
            None => {
                picker.query.push_str(line);
                picker.selected = 0;
            }
        }
    }
}

impl Picker {
    pub(super) fn new(title: &'static str, choices: Vec<Choice>) -> Self {
        let selected = choices.iter().position(|choice| choice.mark == '*').unwrap_or(0);
        Self {
            title,
            query: String::new(),
            choices,
            selected,
            here: false,
            asks: None,
        }
    }

    /// What is selected.
    pub(super) fn chosen(&self) -> Option<Pick> {
        self.matching().get(self.selected).map(|choice| choice.pick.clone())
    }

    pub(super) fn is_sessions(&self) -> bool {
        self.title == SESSIONS
    }

    pub(super) fn matching(&self) -> Vec<&Choice> {
        let mut found: Vec<(usize, &Choice)> = self
            .choices
            .iter()
            .filter(|choice| !self.here || choice.columns.as_ref().is_some_and(|columns| columns.here))
            .filter_map(|choice| {
                // A detail is long, and has any few letters in some order.
                let detail = choice.detail.to_lowercase().contains(&self.query.to_lowercase());
                let rank = rank(&self.query, &choice.label).or(detail.then_some(usize::MAX))?;
                Some((rank, choice))
            })
            .collect();
        found.sort_by_key(|(rank, _)| *rank);
        found.into_iter().map(|(_, choice)| choice).collect()
    }
}

/// How well letters fit a text, less is better; nothing when they are not all in it in their order.
fn rank(letters: &str, text: &str) -> Option<usize> {
    let text = text.to_lowercase();
    let letters = letters.to_lowercase();
    if let Some(at) = text.find(letters.trim()) {
        return Some(at.min(1));
    }
    let mut gaps = 2;
    let mut rest = text.chars();
    for letter in letters.chars().filter(|c| !c.is_whitespace()) {
        gaps += rest.by_ref().position(|c| c == letter)?;
    }
    Some(gaps)
}

/// How long ago something was.
pub(super) fn age(time: &str) -> String {
    let Ok(then) = time.parse::<jiff::Timestamp>() else {
        return String::new();
    };
    match jiff::Timestamp::now().as_second() - then.as_second() {
        ..60 => "now".to_owned(),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..86_400 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

impl App {
    pub(super) fn pick_model(&mut self) {
        let now = self.model.as_deref().or(self.mirror.model()).map(str::to_owned);
        let models = self.mirror.root.agents.iter().flat_map(|agent| &agent.models);
        let choices = models
            .map(|model| Choice {
                mark: if now.as_deref() == Some(model.id.as_str()) {
                    '*'
                } else {
                    ' '
                },
                label: model.id.clone(),
                detail: model
                    .max_context_window
                    .map(|window| format!("{}k tokens", window / 1000))
                    .unwrap_or_default(),
                pick: Pick::Setting("model", model.id.clone()),
                columns: None,
            })
            .collect();
        self.overlay = Some(Overlay::Picker(Picker::new("Models", choices)));
    }

    fn pick_setting(&mut self, title: &'static str, key: &'static str, choices: &[(&str, &str)], now: &str) {
        let choices = choices
            .iter()
            .map(|(value, what)| Choice {
                mark: if now == *value { '*' } else { ' ' },
                label: (*value).to_owned(),
                detail: (*what).to_owned(),
                pick: Pick::Setting(key, (*value).to_owned()),
                columns: None,
            })
            .collect();
        self.overlay = Some(Overlay::Picker(Picker::new(title, choices)));
    }

    pub(super) fn pick_mode(&mut self) {
        let modes = [
            ("interactive", "Does what you ask and stops"),
            ("plan", "Plans and changes nothing"),
            ("autopilot", "Works until the task is complete"),
        ];
        let now = self.setting("mode").unwrap_or("interactive").to_owned();
        self.pick_setting("Modes", "mode", &modes, &now);
    }

    pub(super) fn pick_approvals(&mut self) {
        let now = self.approvals().to_owned();
        self.pick_setting("Approvals", APPROVALS_KEY, &APPROVALS, &now);
    }

    pub(super) fn pick_theme(&mut self) {
        let choices = Scheme::ALL
            .iter()
            .map(|scheme| Choice {
                mark: if *scheme == self.scheme { '*' } else { ' ' },
                label: scheme.name().to_owned(),
                detail: String::new(),
                pick: Pick::Theme(*scheme),
                columns: None,
            })
            .collect();
        self.overlay = Some(Overlay::Picker(Picker::new("Themes", choices)));
    }

    pub(super) fn pick_earlier(&mut self) {
        let choice = |text: &str| Choice {
            mark: ' ',
            label: text.to_owned(),
            detail: String::new(),
            pick: Pick::Message(text.to_owned()),
            columns: None,
        };
        let choices = self.composer.earlier().map(choice).collect();
        self.overlay = Some(Overlay::Picker(Picker::new("Earlier messages", choices)));
    }

    /// Messages of the conversation that can be said again, the newest first.
    pub(super) fn pick_turn(&mut self, selected: usize) {
        let chat = &self.mirror.chat.state;
        // What is before the first turn that is known may not be the beginning.
        let skipped = usize::from(chat.turns_next_cursor.is_some());
        let turns = chat.turns.iter().enumerate().skip(skipped).rev();
        let messages = turns
            .filter(|(_, turn)| turn.message.origin.kind == MessageKind::User)
            .map(|(at, turn)| {
                let kept = at.checked_sub(1).map(|before| chat.turns[before].id.clone());
                Choice {
                    mark: ' ',
                    label: turn.message.text.clone(),
                    detail: turn.started_at.as_deref().map(age).unwrap_or_default(),
                    pick: Pick::Back(kept, Box::new(turn.message.clone())),
                    columns: None,
                }
            });
        let mut choices: Vec<Choice> = messages.collect();
        let older = chat.turns_next_cursor.is_some().then(|| Choice {
            mark: ' ',
            label: "… earlier messages".to_owned(),
            detail: String::new(),
            pick: Pick::Older(choices.len()),
            columns: None,
        });
        choices.extend(older);
        let mut picker = Picker::new("Rewind to before", choices);
        picker.selected = selected.min(picker.choices.len().saturating_sub(1));
        self.overlay = Some(Overlay::Picker(picker));
    }

    /// Agents that can be chosen: name, description, address.
    fn agents(&self) -> Vec<(String, String, Uri)> {
        let state = &self.mirror.session.state;
        let children = state
            .customizations
            .iter()
            .flatten()
            .flat_map(|customization| match customization {
                Customization::Plugin(plugin) => plugin.children.as_deref().unwrap_or_default(),
                Customization::Directory(directory) => directory.children.as_deref().unwrap_or_default(),
                _ => &[],
            });
        children
            .filter_map(|child| match child {
                ChildCustomization::Agent(agent) => Some((
                    agent.name.clone(),
                    agent.description.clone().unwrap_or_default(),
                    agent.uri.clone(),
                )),
                _ => None,
            })
            .collect()
    }

    pub(super) fn pick_agent(&mut self) {
        let now = self.agent.as_ref().map(|(_, uri)| uri.clone());
        let mark = |is: bool| if is { '*' } else { ' ' };
        let mut choices = vec![Choice {
            mark: mark(now.is_none()),
            label: "Default agent".to_owned(),
            detail: String::new(),
            pick: Pick::Agent(None),
            columns: None,
        }];
        for (name, what, uri) in self.agents() {
            choices.push(Choice {
                mark: mark(now.as_ref() == Some(&uri)),
                label: name.clone(),
                detail: what,
                pick: Pick::Agent(Some((name, uri))),
                columns: None,
            });
        }
        self.overlay = Some(Overlay::Picker(Picker::new("Agents", choices)));
    }

    pub(super) fn choose_agent(&mut self, wanted: &str) {
        let found = self.agents().into_iter().find(|(name, ..)| name == wanted);
        match found {
            Some((name, _, uri)) => {
                self.tell(&format!("Switched to {name}."));
                self.agent = Some((name, uri));
            }
            None => self.complain(&format!("There is no agent {wanted:?}; /agent lists them.")),
        }
    }

    fn take(&mut self, pick: Pick) {
        match pick {
            Pick::Session(host, uri) if host == self.host && self.shows(&uri) => {}
            Pick::Session(host, uri) => self.effects.push(Effect::Open(host, uri)),
            Pick::Setting(key, value) => self.configure(key, value.into()),
            Pick::Agent(agent) => self.agent = agent,
            Pick::Theme(scheme) => self.choose_theme(scheme),
            Pick::Message(text) => self.composer.set(&text),
            Pick::Older(listed) => {
                if self.load_older() {
                    self.seek = Some(Seek::Messages(listed));
                    self.tell("Loading earlier messages …");
                }
            }
            Pick::Back(turn_id, message) => {
                let chat = self.mirror.chat.uri.clone();
                self.dispatch(chat, StateAction::ChatTruncated(ChatTruncatedAction { turn_id }));
                self.restore(&message);
                self.tell("Files are unchanged. /rewind also undoes file changes.");
            }
        }
    }

    pub(super) fn overlay_key(&mut self, key: &KeyEvent, action: Option<Action>) {
        if self.sessions_key(key) {
            return;
        }
        if action == Some(Action::Escape) {
            self.overlay = None;
            return;
        }
        let step: isize = match key.code {
            KeyCode::Up => -1,
            KeyCode::Down => 1,
            KeyCode::PageUp => -(self.page as isize),
            KeyCode::PageDown => self.page as isize,
            _ => 0,
        };
        let tasks = self.tasks();
        match &mut self.overlay {
            Some(Overlay::Help(top)) => match step {
                0 => self.overlay = None,
                step => *top = top.saturating_add_signed(step),
            },
            Some(Overlay::Output(output)) => match step {
                0 => self.overlay = Some(Overlay::Tasks(0)),
                step => output.top = output.top.saturating_add_signed(step),
            },
            Some(Overlay::Tasks(selected)) => {
                *selected = selected.saturating_add_signed(step).min(tasks.len().saturating_sub(1));
                let about = tasks.get(*selected).map(|task| task.about.clone());
                match (key.code, about) {
                    (KeyCode::Enter, Some(About::Queued(id))) => {
                        self.overlay = None;
                        self.take_back(&id);
                    }
                    (KeyCode::Delete | KeyCode::Backspace | KeyCode::Char('x'), Some(About::Queued(id))) => {
                        self.unqueue(&id);
                    }
                    (KeyCode::Char('x'), Some(About::Chat(_, call))) => {
                        self.effects.push(Effect::Stop(Work::Call(call)));
                    }
                    (KeyCode::Char('x'), Some(About::Shell(id, _))) => self.effects.push(Effect::Stop(Work::Shell(id))),
                    (KeyCode::Enter, Some(About::Shell(id, command))) => {
                        self.effects.push(Effect::Output(id, command));
                    }
                    (KeyCode::Enter, Some(About::Chat(chat, _))) => {
                        self.overlay = None;
                        self.effects.push(Effect::Watch(chat));
                    }
                    (KeyCode::Char('q') | KeyCode::Enter, _) => self.overlay = None,
                    _ if action == Some(Action::Tasks) => self.overlay = None,
                    _ => {}
                }
            }
            Some(Overlay::Picker(picker)) => {
                let count = picker.matching().len();
                picker.selected = picker.selected.saturating_add_signed(step).min(count.saturating_sub(1));
                match key.code {
                    KeyCode::Enter => {
                        if let Some(pick) = picker.chosen() {
                            self.overlay = None;
                            self.take(pick);
                        }
                    }
                    KeyCode::Backspace => drop(picker.query.pop()),
                    KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
                        picker.query.push(c);
                        picker.selected = 0;
                    }
                    _ => {}
                }
            }
            None => {}
        }
    }

    /// Shows what a command in the background printed, which [`Effect::Output`] asked for, if the tasks are still open.
    pub fn show_output(&mut self, title: String, text: String) {
        if matches!(self.overlay, Some(Overlay::Tasks(_))) {
            let top = usize::MAX;
            self.overlay = Some(Overlay::Output(Output { title, text, top }));
            self.changed = true;
        }
    }

    /// The rows of what covers the conversation.
    pub(super) fn overlay_rows(&mut self, width: usize, height: usize) -> Vec<Line<'static>> {
        let theme = self.theme;
        let tasks = self.tasks();
        match &mut self.overlay {
            Some(Overlay::Help(top)) => {
                let rows = help(width, &theme, &self.keys);
                *top = (*top).min(rows.len().saturating_sub(height));
                rows.into_iter().skip(*top).take(height).collect()
            }
            Some(Overlay::Output(output)) => {
                let title = format!("$ {}", plain_line(&output.title));
                let head = [
                    Line::styled(wrap::fit(&title, width), theme.heading),
                    Line::styled(
                        wrap::fit("↑↓ PageUp PageDown scroll · any other key goes back", width),
                        theme.dim,
                    ),
                    Line::default(),
                ];
                let text = match output.text.trim_end() {
                    "" => "It has printed nothing yet.",
                    text => text,
                };
                let text = plain(text);
                let lines = text.lines().map(|line| vec![(line.to_owned(), theme.text)]);
                let rows: Vec<Line> = lines
                    .flat_map(|line| wrap::hard(&line, width, &wrap::Margin::default()))
                    .collect();
                let room = height.saturating_sub(head.len());
                output.top = output.top.min(rows.len().saturating_sub(room));
                head.into_iter()
                    .chain(rows.into_iter().skip(output.top))
                    .take(height)
                    .collect()
            }
            Some(Overlay::Tasks(selected)) => {
                let mut rows = vec![
                    Line::styled("Sub-agents, background work, queue", theme.heading),
                    Line::styled(
                        wrap::fit(
                            "Enter: show it, or edit a message · x: stop or remove it · Esc: close",
                            width,
                        ),
                        theme.dim,
                    ),
                    Line::default(),
                ];
                if tasks.is_empty() {
                    rows.push(Line::styled("There is no background work.", theme.dim));
                }
                for (at, task) in tasks.iter().enumerate() {
                    let style = if at == *selected { theme.selected } else { theme.text };
                    let text = format!("{} {}", task.mark, plain_line(&task.text));
                    rows.push(Line::styled(wrap::fit(&text, width), style));
                }
                window(rows, 3 + *selected, height)
            }
            Some(Overlay::Picker(picker)) => {
                let matching = picker.matching();
                let mut rows = vec![
                    Line::from(vec![
                        Span::styled(picker.title, theme.heading),
                        Span::styled("  › ", theme.accent),
                        Span::styled(plain_line(&picker.query), theme.text),
                        Span::styled("▏", theme.accent),
                    ]),
                    picker.hint(width, &theme),
                    Line::default(),
                ];
                if matching.is_empty() {
                    let is_loading = picker.is_sessions() && !self.sessions.contains_key(&self.host);
                    let why = if is_loading { "Loading …" } else { "No match." };
                    rows.push(Line::styled(why, theme.dim));
                }
                for (at, choice) in matching.iter().enumerate() {
                    if let Some(columns) = &choice.columns {
                        rows.push(columns.row(choice, width, at == picker.selected, &theme));
                        continue;
                    }
                    let style = if at == picker.selected {
                        theme.selected
                    } else {
                        theme.text
                    };
                    let label = format!("{} {}", choice.mark, plain_line(&choice.label));
                    let detail = plain_line(&choice.detail);
                    let room = width.saturating_sub(wrap::columns(&detail).min(width / 2) + 2);
                    let label = wrap::fit(&label, room.max(20));
                    let detail = wrap::fit(&detail, width.saturating_sub(wrap::columns(&label) + 2));
                    let mut row = Line::from(vec![
                        Span::styled(label, style),
                        Span::styled("  ", style),
                        Span::styled(detail, if at == picker.selected { style } else { theme.dim }),
                    ]);
                    let blank = width.saturating_sub(row.width());
                    row.push_span(Span::styled(" ".repeat(blank), style));
                    rows.push(row);
                }
                window(rows, 3 + picker.selected, height)
            }
            None => Vec::new(),
        }
    }
}

/// Rows of which one has to be on the screen; the first three stay.
fn window(mut rows: Vec<Line<'static>>, wanted: usize, height: usize) -> Vec<Line<'static>> {
    let head = 3.min(rows.len());
    let surplus = (wanted + 1).saturating_sub(height);
    rows.drain(head..(head + surplus).min(rows.len()));
    rows.truncate(height);
    rows
}

/// Columns of the names in the help.
const HELP_COLUMN: usize = 26;

fn help(width: usize, theme: &Theme, keys: &Keymap) -> Vec<Line<'static>> {
    let mut rows = vec![
        Line::from(vec![
            Span::styled("Keys", theme.heading),
            Span::styled("  ↑↓ scrolls · Esc closes", theme.dim),
        ]),
        Line::default(),
    ];
    let table = |left: String, right: &str| {
        // Names that are too long for their column have a row of their own.
        let left = format!("  {left}");
        let short = wrap::columns(&left) < HELP_COLUMN;
        let blank = " ".repeat(HELP_COLUMN);
        let first = match short {
            true => format!("{left:<HELP_COLUMN$}"),
            false => blank.clone(),
        };
        let margin = wrap::Margin {
            first: vec![(first, theme.accent)],
            rest: vec![(blank, theme.text)],
        };
        let mut rows = Vec::new();
        if !short {
            rows.push(Line::styled(wrap::fit(&left, width), theme.accent));
        }
        rows.extend(wrap::words(&vec![(right.to_owned(), theme.text)], width, &margin));
        rows
    };
    for (_, action, what) in KEYS {
        let names = keys.names(*action);
        if !names.is_empty() {
            rows.extend(table(names, what));
        }
    }
    rows.extend([
        Line::default(),
        Line::styled("In the editor", theme.heading),
        Line::default(),
    ]);
    for (names, what) in EDITOR_KEYS {
        rows.extend(table((*names).to_owned(), what));
    }
    rows.extend([
        Line::default(),
        Line::styled("Commands", theme.heading),
        Line::default(),
    ]);
    for (name, argument, what) in COMMANDS {
        rows.extend(table(format!("/{name} {argument}"), what));
    }
    rows.extend(table("!COMMAND".to_owned(), "Run a command in the session's shell"));
    rows.extend(table("@FILE".to_owned(), "Attach a file; the menu completes it"));
    rows.extend(table("//TEXT".to_owned(), "Send TEXT with its slash"));
    rows.extend([
        Line::default(),
        Line::styled(
            "Other commands are the host's; the menu behind / shows them all.",
            theme.dim,
        ),
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_find_what_has_them_in_their_order() {
        assert!(rank("gpt", "gpt-5 openai") < rank("gpt", "g-p-t"));
        assert_eq!(rank("xyz", "gpt"), None);
        assert_eq!(rank("", "anything"), Some(0));
    }

    #[test]
    fn what_is_selected_is_on_the_screen() {
        let rows: Vec<Line> = (0..100).map(|number| Line::raw(number.to_string())).collect();
        let shown = window(rows, 50, 10);
        assert_eq!(shown.len(), 10);
        assert!(shown.iter().any(|row| row.to_string() == "50"));
        assert_eq!(shown[0].to_string(), "0");
    }
}
