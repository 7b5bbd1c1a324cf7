//! The open questions of a session. One is in front; keys lead to the others.

use std::collections::HashSet;

use ahp::ahp_types::{
    StateAction, Uri,
    state::{ChatInputOption, ChatInputQuestion, FileEdit, SessionInputRequest, ToolCallConfirmationState, ToolInput},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::text::Line;

use crate::{
    client::{
        ask::{self, About, Asked, Reply, Verdict},
        form,
    },
    composer::Composer,
    edits::Edit,
    plain::{plain, plain_line},
    theme::Theme,
    wrap::{self, Margin},
};

/// How many of the other questions get a row each.
const OTHERS: usize = 3;
/// The rows of a title that are always visible, and the rows of an answer that is being typed.
const TITLE_ROWS: usize = 3;
const WORDS_ROWS: usize = 5;

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
    /// The rows of the body, as they were laid out for this width and theme.
    laid_out: Option<(usize, Theme, Vec<Line<'static>>)>,
    /// Changed files whose contents are at the host and were not asked for yet.
    unread: Vec<FileEdit>,
    message: String,
    choices: Vec<Choice>,
    selected: usize,
    ticked: HashSet<usize>,
    /// The first visible row of the body, the number of visible ones, and that of those below.
    top: usize,
    visible: usize,
    below: usize,
    /// The text that is being typed, if one is wanted.
    words: Option<Composer>,
    /// Whether it has been drawn, so that a person could have seen it.
    drawn: bool,
    complaint: Option<String>,
    /// What answers if nothing is typed.
    hint: Option<String>,
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
            question.laid_out = None;
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

    /// The text that is being typed as an answer to the question in front, if it is typed now.
    pub(crate) fn words(&mut self) -> Option<&mut Composer> {
        let question = self.open.get_mut(self.current).filter(|question| question.drawn);
        question.and_then(|question| question.words.as_mut())
    }

    /// Clears the answer that is being typed. False if there is none.
    pub(crate) fn clear_words(&mut self) -> bool {
        let focused = self.focused;
        let words = self.words().filter(|words| focused && !words.is_empty());
        words.map(Composer::take).is_some()
    }

    /// Whether Esc belongs to the question, because text is being typed.
    pub(crate) fn takes_escape(&mut self) -> bool {
        let Some(question) = self.open.get_mut(self.current) else {
            return false;
        };
        !question.choices.is_empty() && question.words.take().is_some()
    }

    /// Scrolls the body of the question in front by as much as is visible, but for one row. False if all of it is visible.
    pub(crate) fn scroll_page(&mut self, direction: isize) -> bool {
        let visible = self.open.get(self.current).map_or(0, |question| question.visible);
        let page = isize::try_from(visible.saturating_sub(1).max(1)).unwrap_or(1);
        self.scroll(direction * page)
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
        let count = match many {
            1 => String::new(),
            many => format!("  ({} of {many}, Tab: next)", self.current + 1),
        };
        let mut head = question.title(&count, width, theme);
        let scrolled = question.top;
        let body = question.body(width, theme).len();
        // The answers are always visible. The rest of a long title scrolls with the body, for which a row and a hint remain.
        let least = (head.len() + body).min(3);
        let foot = question.foot(width, theme, self.focused, height.saturating_sub(least));
        let room = height.saturating_sub(foot.len());
        let title = match head.len() + body <= room {
            true => head.len(),
            false => TITLE_ROWS.min(room.saturating_sub(2)).max(1),
        };
        let rest = head.split_off(head.len().min(title));
        let room = room.saturating_sub(head.len());
        let body = question.body(width, theme);
        let all = rest.len() + body.len();
        let others: Vec<Line> = match all <= room {
            true => others.into_iter().take(room - all).collect(),
            false => others.into_iter().take(room / 4).collect(),
        };
        let room = room - others.len();
        let (mut top, mut visible, mut below) = (0, all, 0);
        let all_rows = rest.iter().chain(body);
        if all <= room {
            head.extend(all_rows.cloned());
        } else {
            let fit = room.saturating_sub(1);
            top = scrolled.min(all - fit);
            (visible, below) = (fit, all - fit - top);
            head.extend(all_rows.skip(top).take(fit).cloned());
            let text = match fit {
                0 => format!("    … {all} rows"),
                _ => format!("    … rows {}–{} of {all} · PageUp, PageDown", top + 1, top + fit),
            };
            let hint = Line::styled(wrap::fit(&text, width), theme.dim);
            head.extend((room > 0).then_some(hint));
        }
        (question.top, question.visible, question.below) = (top, visible, below);
        head.extend(foot);
        head.extend(others);
        head
    }
}

/// The rows with this one among them, as many as fit.
fn around(mut rows: Vec<Line<'static>>, wanted: usize, most: usize) -> Vec<Line<'static>> {
    let first = (wanted + 1).saturating_sub(most).min(rows.len());
    rows.drain(..first);
    rows.truncate(most);
    rows
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
                let title = form::asked(&needed.request).to_owned();
                (title, Body::Text(needed.request.url.clone().unwrap_or_default()))
            }
            _ => return None,
        };
        let mut question = Self {
            asked,
            title,
            body,
            laid_out: None,
            unread,
            message: String::new(),
            choices: Vec::new(),
            selected: 0,
            ticked: HashSet::new(),
            top: 0,
            visible: 0,
            below: 0,
            words: None,
            drawn: false,
            complaint: None,
            hint: None,
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
        (self.selected, self.complaint, self.words, self.hint) = (0, None, None, None);
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
                let message = form::message(question);
                if *next > 0 || message != form::asked(request) {
                    message.clone_into(&mut self.message);
                }
                let default = form::default(question);
                let (options, free) = form::options(question);
                match question {
                    ChatInputQuestion::Boolean(_) => {
                        self.selected = usize::from(default.as_deref() == Some("n"));
                        vec![line("Yes", "y"), line("No", "n")]
                    }
                    ChatInputQuestion::SingleSelect(_) | ChatInputQuestion::MultiSelect(_) => {
                        let ticks = matches!(question, ChatInputQuestion::MultiSelect(_));
                        let is_recommended = |option: &ChatInputOption| option.recommended == Some(true);
                        self.selected = options.iter().position(is_recommended).unwrap_or(0);
                        let says = |number: String| match ticks {
                            true => Says::Tick(number),
                            false => Says::Line(number),
                        };
                        let choice = |(at, option): (usize, &ChatInputOption)| Choice {
                            label: form::label(option),
                            says: says((at + 1).to_string()),
                        };
                        let mut choices: Vec<Choice> = options.iter().enumerate().map(choice).collect();
                        choices.extend(free.then(|| words("Something else")));
                        choices
                    }
                    _ => {
                        self.hint = default.map(|default| format!("Enter alone: {default}"));
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
                KeyCode::Up | KeyCode::Down if !words.text().contains('\n') => {}
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
                let line = self.ticks("");
                self.asked.read(&line)
            }
        };
        self.reply(reply)
    }

    /// The line for the options that are ticked, and words of one's own.
    fn ticks(&self, words: &str) -> String {
        let mut ticked: Vec<&usize> = self.ticked.iter().collect();
        ticked.sort();
        let numbers = ticked.iter().map(|at| (**at + 1).to_string());
        let words = Some(words.to_owned()).filter(|words| !words.trim().is_empty());
        numbers.chain(words).collect::<Vec<_>>().join(", ")
    }

    fn say_words(&mut self) -> Option<(Uri, Box<StateAction>)> {
        let words = self
            .words
            .as_ref()
            .map(|words| words.text().to_owned())
            .unwrap_or_default();
        let reply = match &self.asked.about {
            About::Form { .. } => {
                let line = self.ticks(&words);
                self.asked.read(&line)
            }
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

    /// The title, with the number of questions behind it.
    fn title(&self, count: &str, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let title = plain(&self.title);
        let lines: Vec<&str> = title.lines().collect();
        let last = lines.len().saturating_sub(1);
        let margin = Margin {
            first: vec![("? ".to_owned(), theme.warning)],
            rest: Vec::new(),
        };
        let rows = lines.iter().enumerate().flat_map(|(number, line)| {
            let margin = match number {
                0 => margin.clone(),
                _ => Margin::default(),
            };
            let mut pieces = vec![((*line).to_owned(), theme.strong)];
            if number == last {
                pieces.push((count.to_owned(), theme.dim));
            }
            wrap::words(&pieces, width, &margin)
        });
        rows.collect()
    }

    /// The rows of the body. They are kept, as a change may be long.
    fn body(&mut self, width: usize, theme: &Theme) -> &[Line<'static>] {
        let same = |(laid_out, with, _): &(usize, Theme, _)| *laid_out == width && with == theme;
        if !self.laid_out.as_ref().is_some_and(same) {
            self.laid_out = Some((width, *theme, self.body.rows(width, theme)));
        }
        self.laid_out.as_ref().map_or(&[], |(_, _, rows)| rows)
    }

    /// The answers, in at most this many rows, so that the selected one is visible.
    fn foot(&self, width: usize, theme: &Theme, focused: bool, most: usize) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        let lines = |text: &str, style| -> Vec<Line<'static>> {
            let text = plain(text);
            let rows = text.lines().map(|line| vec![(line.to_owned(), style)]);
            rows.flat_map(|line| wrap::words(&line, width, &Margin::spaces(2)))
                .collect()
        };
        rows.extend(lines(&self.message, theme.text));
        let mut selected = 0;
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
            if at == self.selected {
                selected = rows.len() - 1;
            }
        }
        let mut end = self.words_rows(width, theme, focused);
        end.extend(self.complaint.iter().flat_map(|why| lines(why, theme.error)));
        end.extend(self.hint.iter().flat_map(|hint| lines(hint, theme.dim)));
        let ticks = self.choices.iter().any(|choice| matches!(choice.says, Says::Tick(_)));
        let hint = match (focused, &self.words) {
            (false, _) => "  Tab to answer",
            (true, Some(_)) => "  Enter to send · Esc to cancel",
            (true, None) if ticks => "  Space to select · Enter to submit · Esc to the editor",
            (true, None) => "  ↑↓ Enter or a number · Esc to the editor",
        };
        end.push(Line::styled(wrap::fit(hint, width), theme.dim));
        let end = around(end, 0, most);
        let mut rows = around(rows, selected, most.saturating_sub(end.len()));
        rows.extend(end);
        rows
    }

    /// The answer that is being typed, with its cursor in view.
    fn words_rows(&self, width: usize, theme: &Theme, focused: bool) -> Vec<Line<'static>> {
        let Some(words) = &self.words else { return Vec::new() };
        let (before, after) = words.text().split_at(words.cursor());
        let cursor = if focused { "▏" } else { "" };
        let lay_out = |text: &str| -> Vec<Line<'static>> {
            let text = plain(text);
            let rows = text.split('\n').enumerate().flat_map(|(number, line)| {
                let first = if number == 0 { "  › " } else { "    " };
                let margin = Margin {
                    first: vec![(first.to_owned(), theme.accent)],
                    rest: vec![("    ".to_owned(), theme.accent)],
                };
                wrap::hard(&vec![(line.to_owned(), theme.text)], width, &margin)
            });
            rows.collect()
        };
        let at = lay_out(&format!("{before}{cursor}")).len() - 1;
        let rows = lay_out(&format!("{before}{cursor}{after}"));
        around(rows, at, WORDS_ROWS)
    }
}

impl Body {
    fn rows(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let margin = Margin::spaces(4);
        let lines = |text: &str, style| -> Vec<Line<'static>> {
            plain(text)
                .lines()
                .flat_map(|line| wrap::hard(&vec![(line.to_owned(), style)], width, &margin))
                .collect()
        };
        match self {
            Self::Text(text) => lines(text, theme.text),
            Self::Command(text) => lines(text, theme.code),
            Self::Edits(edits) => {
                let mut rows = Vec::new();
                for edit in edits {
                    let (added, removed) = edit.counts();
                    let text = format!("    {}  +{added} −{removed}", plain_line(&edit.path));
                    rows.push(Line::styled(wrap::fit(&text, width), theme.dim));
                    // Who approves a change can read all of it.
                    rows.extend(edit.rows(width, usize::MAX, theme));
                }
                rows
            }
        }
    }
}
