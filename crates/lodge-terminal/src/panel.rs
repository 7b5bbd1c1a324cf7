//! The open questions of a session. One is in front; keys lead to the others.

use std::collections::HashSet;

use ahp::ahp_types::{
    StateAction, Uri,
    state::{ChatInputQuestion, FileEdit, SessionInputRequest, ToolCallConfirmationState, ToolInput},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::text::{Line, Span};

use crate::{
    client::ask::{self, About, Asked, Reply, Verdict},
    composer::Composer,
    edits::Edit,
    plain::{plain, plain_line},
    theme::Theme,
    wrap::{self, Margin},
};

/// How many of the other questions get a row each.
const OTHERS: usize = 3;

/// A choice, and its meaning.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    label: String,
    says: Says,
}

#[derive(Debug, Clone, PartialEq)]
enum Says {
    Verdict(Verdict),
    /// A line of input for the form.
    Line(String),
    /// The person types text first.
    Words,
    /// One of several options that can be ticked.
    Tick(String),
}

/// What a question is about.
enum Body {
    Text(String),
    Command(String),
    Edits(Vec<Edit>),
}

struct Question {
    asked: Asked,
    title: String,
    body: Body,
    /// Changed files whose contents are at the host and were not asked for yet.
    unread: Vec<FileEdit>,
    message: String,
    choices: Vec<Choice>,
    selected: usize,
    ticked: HashSet<usize>,
    /// The first visible row of the body, and the number of rows below the visible ones.
    top: usize,
    below: usize,
    /// The text that is being typed, if one is wanted.
    words: Option<Composer>,
    /// Whether it has been drawn, so that a person could have seen it.
    drawn: bool,
    complaint: Option<String>,
}

/// What a key means for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// It moves the selection or edits.
    Choice,
    /// It answers the question, but could also be the first letter of a message.
    Decision,
    /// It belongs to a message.
    Message,
}

/// The open questions.
#[derive(Default)]
pub(crate) struct Panel {
    open: Vec<Question>,
    current: usize,
    /// Ids of questions that were answered here; the host has not confirmed the answers yet.
    answered: HashSet<String>,
    pub(crate) focused: bool,
}

impl Panel {
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Updates the questions. `who` names the sub-agents that ask in chats of their own. True if there is a new question.
    pub(crate) fn follow(&mut self, needed: &[SessionInputRequest], who: impl Fn(&str) -> Option<String>) -> bool {
        let key = |request: &SessionInputRequest| ask::key(request).map(|(key, _)| key.to_owned());
        let ids: HashSet<String> = needed.iter().filter_map(key).collect();
        self.answered.retain(|id| ids.contains(id));
        let front = self.open.get(self.current).map(|question| question.asked.id.clone());
        let answered = &self.answered;
        self.open
            .retain(|question| ids.contains(&question.asked.id) && !answered.contains(&question.asked.id));
        let mut new = false;
        for request in needed {
            let Some(id) = key(request) else { continue };
            let known = self.open.iter().any(|question| question.asked.id == id);
            if !known && !self.answered.contains(&id) {
                let mut question = Question::new(request);
                if let Some(question) = &mut question
                    && let Some(who) = who(&question.asked.chat)
                {
                    question.title = format!("{who}: {}", question.title);
                }
                new |= question.is_some();
                self.open.extend(question);
            }
        }
        self.current = front
            .and_then(|id| self.open.iter().position(|question| question.asked.id == id))
            .unwrap_or(0);
        if self.open.is_empty() {
            self.focused = false;
        }
        new
    }

    /// Changed files that questions are about and whose contents are at the host. Each is returned once.
    pub(crate) fn take_unread(&mut self) -> Vec<(String, Vec<FileEdit>)> {
        let unread = self.open.iter_mut().filter(|question| !question.unread.is_empty());
        unread
            .map(|question| (question.asked.id.clone(), std::mem::take(&mut question.unread)))
            .collect()
    }

    /// Sets both versions of a file. Unlike the call's input, they have the lines around the change.
    pub(crate) fn show_edits(&mut self, id: &str, edits: Vec<Edit>) {
        let question = self.open.iter_mut().find(|question| question.asked.id == id);
        if let Some(question) = question.filter(|_| !edits.is_empty()) {
            question.body = Body::Edits(edits);
        }
    }

    /// Forgets which questions were answered here: an answer was refused, or another host has the session.
    pub(crate) fn refused(&mut self) {
        self.answered.clear();
    }

    pub(crate) fn next(&mut self) {
        if !self.open.is_empty() {
            self.current = (self.current + 1) % self.open.len();
        }
    }

    /// The id of the question in front, if it has been drawn.
    pub(crate) fn front(&self) -> Option<&str> {
        let question = self.open.get(self.current).filter(|question| question.drawn)?;
        Some(&question.asked.id)
    }

    /// What a key means for the question in front.
    pub(crate) fn means(&self, key: &KeyEvent) -> Means {
        let question = self.open.get(self.current);
        question.map_or(Means::Message, |question| question.means(key))
    }

    /// Handles a key for the question in front. Returns the answer, if this is one.
    pub(crate) fn key(&mut self, key: &KeyEvent) -> Option<(Uri, Box<StateAction>)> {
        let question = self.open.get_mut(self.current)?;
        let (chat, action) = question.key(key)?;
        let question = self.open.remove(self.current);
        self.answered.insert(question.asked.id);
        self.current = 0;
        if self.open.is_empty() {
            self.focused = false;
        }
        Some((chat, action))
    }

    /// Handles pasted text. False if the question in front wants no text.
    pub(crate) fn paste(&mut self, text: &str) -> bool {
        let question = self.open.get_mut(self.current);
        let words = question.and_then(|question| question.words.as_mut());
        let wanted = words.is_some();
        if let Some(words) = words {
            words.insert(text);
        }
        wanted
    }

    /// Whether Esc belongs to the question, because text is being typed.
    pub(crate) fn takes_escape(&mut self) -> bool {
        let Some(question) = self.open.get_mut(self.current) else {
            return false;
        };
        !question.choices.is_empty() && question.words.take().is_some()
    }

    /// Scrolls the body of the question in front. False if all of it is visible.
    pub(crate) fn scroll(&mut self, by: isize) -> bool {
        let question = self.open.get_mut(self.current).filter(|_| self.focused);
        let Some(question) = question.filter(|question| question.top + question.below > 0) else {
            return false;
        };
        let last = question.top + question.below;
        question.top = question.top.saturating_add_signed(by).min(last);
        true
    }

    /// The other questions, a row each.
    fn others(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let open = self.open.iter().enumerate();
        let others: Vec<&Question> = open
            .filter(|(at, _)| *at != self.current)
            .map(|(_, other)| other)
            .collect();
        let row = |text: &str| Line::styled(wrap::fit(text, width), theme.dim);
        let shown = others.iter().take(OTHERS);
        let mut rows: Vec<Line> = shown
            .map(|other| row(&format!("? {}  {}", plain_line(&other.title), other.in_short())))
            .collect();
        if let Some(more) = others.len().checked_sub(OTHERS).filter(|more| *more > 0) {
            rows.push(row(&format!("? {more} more")));
        }
        rows
    }

    /// The question in front, in at most this many rows.
    pub(crate) fn rows(&mut self, width: usize, height: usize, theme: &Theme) -> Vec<Line<'static>> {
        let many = self.open.len();
        let others = self.others(width, theme);
        let Some(question) = self.open.get_mut(self.current) else {
            return Vec::new();
        };
        question.drawn = true;
        let mut head = Vec::new();
        let count = match many {
            1 => String::new(),
            many => format!("  ({} of {many}, Tab: next)", self.current + 1),
        };
        let mut title = wrap::words(
            &vec![
                ("? ".to_owned(), theme.warning),
                (plain(&question.title), theme.strong),
                (count, theme.dim),
            ],
            width,
            &Margin::default(),
        );
        head.append(&mut title);
        let mut foot = question.foot(width, theme, self.focused);
        foot.extend(others);
        let room = height.saturating_sub(head.len() + foot.len());
        let body = question.body(width, theme);
        let all = body.len();
        if all <= room.max(1) {
            (question.top, question.below) = (0, 0);
            head.extend(body);
        } else {
            let fit = room.saturating_sub(1);
            question.top = question.top.min(all - fit);
            question.below = all - fit - question.top;
            let (first, last) = (question.top + 1, question.top + fit);
            head.extend(body.into_iter().skip(question.top).take(fit));
            let text = match fit {
                0 => format!("    … {all} rows"),
                _ => format!("    … rows {first}–{last} of {all} · PageUp, PageDown"),
            };
            head.push(Line::styled(wrap::fit(&text, width), theme.dim));
        }
        head.extend(foot);
        head.truncate(height);
        head
    }
}

/// Whether a key types a character.
fn is_letter(key: &KeyEvent) -> bool {
    matches!(key.code, KeyCode::Char(_)) && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
}

impl Question {
    fn new(request: &SessionInputRequest) -> Option<Self> {
        let (asked, _) = ask::ask(request)?;
        let mut unread = Vec::new();
        let (title, body) = match request {
            SessionInputRequest::ToolConfirmation(needed) => match &needed.tool_call {
                ToolCallConfirmationState::PendingConfirmation(call) => {
                    let title = call.confirmation_title.as_ref().unwrap_or(&call.invocation_message);
                    let body = match &call.tool_input {
                        Some(ToolInput::Inline(input)) => match Edit::read(input) {
                            Some(edit) => Body::Edits(vec![edit]),
                            None => Body::Command(input.clone()),
                        },
                        Some(ToolInput::ContentRef(input)) => Body::Text(input.uri.clone()),
                        None => Body::Text(String::new()),
                    };
                    unread = call.edits.as_ref().map(|edits| edits.items.clone()).unwrap_or_default();
                    let why = call.intention.as_ref().filter(|text| !text.is_empty());
                    let why = why.map(|why| format!("  {why}")).unwrap_or_default();
                    (format!("{}{why}", title.as_text()), body)
                }
                ToolCallConfirmationState::PendingResultConfirmation(call) => {
                    let title = format!("{}. Use the result?", call.past_tense_message.as_text());
                    (title, Body::Text(String::new()))
                }
                ToolCallConfirmationState::Unknown(_) => return None,
            },
            SessionInputRequest::ChatInput(needed) => {
                let title = crate::client::form::asked(&needed.request).to_owned();
                (title, Body::Text(needed.request.url.clone().unwrap_or_default()))
            }
            _ => return None,
        };
        let mut question = Self {
            asked,
            title,
            body,
            unread,
            message: String::new(),
            choices: Vec::new(),
            selected: 0,
            ticked: HashSet::new(),
            top: 0,
            below: 0,
            words: None,
            drawn: false,
            complaint: None,
        };
        question.prepare();
        Some(question)
    }

    /// Sets the choices for the next part of a form.
    fn prepare(&mut self) {
        let verdict = |label: &str, verdict| Choice {
            label: label.to_owned(),
            says: Says::Verdict(verdict),
        };
        let line = |label: &str, line: &str| Choice {
            label: label.to_owned(),
            says: Says::Line(line.to_owned()),
        };
        let words = |label: &str| Choice {
            label: label.to_owned(),
            says: Says::Words,
        };
        (self.selected, self.complaint, self.words) = (0, None, None);
        self.ticked.clear();
        self.message.clear();
        self.choices = match &self.asked.about {
            About::Call { options, .. } => {
                let mut choices: Vec<Choice> = match options.is_empty() {
                    true => vec![verdict("Allow", Verdict::Yes), verdict("Deny", Verdict::No(None))],
                    false => options
                        .iter()
                        .enumerate()
                        .map(|(at, option)| verdict(&option.label, Verdict::Option(at + 1)))
                        .collect(),
                };
                choices.push(words("Deny, and say why"));
                choices
            }
            About::Result { .. } => vec![verdict("Yes", Verdict::Yes), verdict("No", Verdict::No(None))],
            About::Form { request, next, .. } => {
                let Some(question) = request.questions.iter().flatten().nth(*next) else {
                    self.choices = vec![line("Yes", "y"), line("No", "n")];
                    return;
                };
                let text = crate::client::form::text(question);
                let first = text.lines().next().unwrap_or_default().to_owned();
                if Some(first.as_str()) != crate::client::form::asked(request).lines().next() {
                    self.message = first;
                }
                let labelled = |label: &str, more: Option<&String>| match more {
                    Some(more) => format!("{label}: {more}"),
                    None => label.to_owned(),
                };
                match question {
                    ChatInputQuestion::Boolean(_) => vec![line("Yes", "y"), line("No", "n")],
                    ChatInputQuestion::SingleSelect(q) => {
                        let options = q.options.iter().enumerate();
                        let mut choices: Vec<Choice> = options
                            .map(|(at, option)| {
                                line(
                                    &labelled(&option.label, option.description.as_ref()),
                                    &(at + 1).to_string(),
                                )
                            })
                            .collect();
                        if q.allow_freeform_input == Some(true) {
                            choices.push(words("Something else"));
                        }
                        choices
                    }
                    ChatInputQuestion::MultiSelect(q) => q
                        .options
                        .iter()
                        .enumerate()
                        .map(|(at, option)| Choice {
                            label: labelled(&option.label, option.description.as_ref()),
                            says: Says::Tick((at + 1).to_string()),
                        })
                        .collect(),
                    _ => {
                        self.words = Some(Composer::default());
                        Vec::new()
                    }
                }
            }
        };
        if self.choices.len() == 1 && self.choices[0].says == Says::Words {
            self.choices.clear();
            self.words = Some(Composer::default());
        }
    }

    fn means(&self, key: &KeyEvent) -> Means {
        let KeyCode::Char(c) = key.code else {
            return Means::Choice;
        };
        if self.words.is_some() || !is_letter(key) {
            return Means::Choice;
        }
        let ticks = matches!(
            self.choices.first(),
            Some(Choice {
                says: Says::Tick(_),
                ..
            })
        );
        let is_form = matches!(self.asked.about, About::Form { .. });
        match c {
            ' ' if ticks => Means::Choice,
            '1'..='9' if (c as usize - '1' as usize) < self.choices.len() => match ticks {
                true => Means::Choice,
                false => Means::Decision,
            },
            'y' | 'Y' | 'a' | 'A' | 'n' | 'N' if !is_form => Means::Decision,
            _ => Means::Message,
        }
    }

    fn key(&mut self, key: &KeyEvent) -> Option<(Uri, Box<StateAction>)> {
        let plain_key = is_letter(key);
        if let Some(words) = &mut self.words {
            match key.code {
                KeyCode::Enter => return self.say_words(),
                // There is no earlier answer to go back to.
                KeyCode::Up | KeyCode::Down => {}
                _ => drop(words.key(key, usize::MAX)),
            }
            return None;
        }
        let count = self.choices.len();
        match key.code {
            KeyCode::Up => self.selected = (self.selected + count - 1) % count.max(1),
            KeyCode::Down => self.selected = (self.selected + 1) % count.max(1),
            KeyCode::Char(' ') if matches!(self.choices.get(self.selected)?.says, Says::Tick(_)) => {
                self.tick(self.selected);
            }
            KeyCode::Char(c @ '1'..='9') if plain_key => {
                let at = c as usize - '1' as usize;
                if at < count {
                    self.selected = at;
                    if matches!(self.choices[at].says, Says::Tick(_)) {
                        self.tick(at);
                    } else {
                        return self.choose();
                    }
                }
            }
            KeyCode::Char(c) if plain_key && !matches!(self.asked.about, About::Form { .. }) => {
                let verdict = match c.to_ascii_lowercase() {
                    'y' => Verdict::Yes,
                    'a' => Verdict::Always,
                    'n' => Verdict::No(None),
                    _ => return None,
                };
                let reply = self.asked.decide(verdict);
                return self.reply(reply);
            }
            KeyCode::Enter => return self.choose(),
            _ => {}
        }
        None
    }

    fn tick(&mut self, at: usize) {
        if !self.ticked.remove(&at) {
            self.ticked.insert(at);
        }
    }

    fn choose(&mut self) -> Option<(Uri, Box<StateAction>)> {
        let choice = self.choices.get(self.selected)?.clone();
        let reply = match choice.says {
            Says::Verdict(verdict) => self.asked.decide(verdict),
            Says::Line(line) => self.asked.read(&line),
            Says::Words => {
                self.words = Some(Composer::default());
                return None;
            }
            Says::Tick(_) => {
                let mut ticked: Vec<&usize> = self.ticked.iter().collect();
                ticked.sort();
                let lines: Vec<String> = ticked.iter().map(|at| (**at + 1).to_string()).collect();
                self.asked.read(&lines.join(", "))
            }
        };
        self.reply(reply)
    }

    fn say_words(&mut self) -> Option<(Uri, Box<StateAction>)> {
        let words = self
            .words
            .as_ref()
            .map(|words| words.text().to_owned())
            .unwrap_or_default();
        let reply = match &self.asked.about {
            About::Form { .. } => self.asked.read(&words),
            _ => {
                let why = Some(words.trim().to_owned()).filter(|why| !why.is_empty());
                self.asked.decide(Verdict::No(why))
            }
        };
        self.reply(reply)
    }

    fn reply(&mut self, reply: Reply) -> Option<(Uri, Box<StateAction>)> {
        match reply {
            Reply::Answer(chat, action) => return Some((chat, action)),
            Reply::More(_) => self.prepare(),
            Reply::Again(why) => self.complaint = Some(why),
            Reply::None => {}
        }
        None
    }

    /// What the question is about, in one line.
    fn in_short(&self) -> String {
        match &self.body {
            Body::Text(text) | Body::Command(text) => plain_line(text.lines().next().unwrap_or_default()),
            Body::Edits(edits) => edits
                .iter()
                .map(|edit| plain_line(&edit.path))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    fn body(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let margin = Margin::spaces(4);
        let lines = |text: &str, style| -> Vec<Line<'static>> {
            plain(text)
                .lines()
                .flat_map(|line| wrap::hard(&vec![(line.to_owned(), style)], width, &margin))
                .collect()
        };
        match &self.body {
            Body::Text(text) => lines(text, theme.text),
            Body::Command(text) => lines(text, theme.code),
            Body::Edits(edits) => {
                let mut rows = Vec::new();
                for edit in edits {
                    let (added, removed) = edit.counts();
                    let text = format!("    {}  +{added} −{removed}", plain_line(&edit.path));
                    rows.push(Line::styled(wrap::fit(&text, width), theme.dim));
                    rows.extend(edit.rows(width, 1000, theme));
                }
                rows
            }
        }
    }

    fn foot(&self, width: usize, theme: &Theme, focused: bool) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        if !self.message.is_empty() {
            rows.extend(wrap::words(
                &vec![(plain(&self.message), theme.text)],
                width,
                &Margin::spaces(2),
            ));
        }
        for (at, choice) in self.choices.iter().enumerate() {
            let tick = match choice.says {
                Says::Tick(_) if self.ticked.contains(&at) => "☑ ",
                Says::Tick(_) => "☐ ",
                _ => "",
            };
            let chosen = at == self.selected && focused && self.words.is_none();
            let mark = if chosen { "›" } else { " " };
            let style = if chosen { theme.selected } else { theme.text };
            // What is allowed is read whole.
            let margin = Margin {
                first: vec![(format!("{mark} {}. {tick}", at + 1), style)],
                rest: vec![("     ".to_owned(), style)],
            };
            let label = wrap::words(&vec![(plain_line(&choice.label), style)], width, &margin);
            rows.extend(label.into_iter().map(|row| row.style(style)));
        }
        if let Some(words) = &self.words {
            let (before, after) = words.text().split_at(words.cursor());
            let (before, after) = (plain_line(before), plain_line(after));
            // The row in which the person types is visible.
            let room = width.saturating_sub(5);
            let skip = before.chars().count().saturating_sub(room);
            let shown: String = before.chars().skip(skip).collect();
            let left = room.saturating_sub(wrap::columns(&shown));
            rows.push(Line::from(vec![
                Span::styled("  › ", theme.accent),
                Span::styled(shown, theme.text),
                Span::styled(if focused { "▏" } else { "" }, theme.accent),
                Span::styled(wrap::fit(&after, left), theme.text),
            ]));
        }
        if let Some(why) = &self.complaint {
            rows.push(Line::styled(
                wrap::fit(&format!("  {}", plain_line(why)), width),
                theme.error,
            ));
        }
        let hint = match (focused, &self.words) {
            (false, _) => "  Tab to answer",
            (true, Some(_)) => "  Enter to send · Esc to cancel",
            (true, None)
                if matches!(
                    self.choices.first(),
                    Some(Choice {
                        says: Says::Tick(_),
                        ..
                    })
                ) =>
            {
                "  Space to select · Enter to submit · Esc to the editor"
            }
            (true, None) => "  ↑↓ Enter or a number · Esc to the editor",
        };
        rows.push(Line::styled(wrap::fit(hint, width), theme.dim));
        rows
    }
}
