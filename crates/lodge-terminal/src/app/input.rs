//! What a person presses.

use std::time::{Duration, Instant};

use ahp::ahp_types::{
    StateAction,
    actions::{ChatPendingMessageRemovedAction, ChatTurnCancelledAction, ChatTurnStartedAction},
    state::{Message, MessageAttachment, PendingMessageKind},
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::{App, DELETED, Decision, Effect, Search, Seek, Sent, Wire, overlay::Overlay};
use crate::{
    keys::Action,
    panel::Means,
    plain::shown_path,
    transcript::Look,
    vim::{Mode, Vim},
};

/// Within this time the second Ctrl-C leaves, and the second Esc goes back.
const TWICE: Duration = Duration::from_secs(2);
/// Letters that follow each other within this time are a message, not an answer.
const BURST: Duration = Duration::from_millis(250);
/// Lines of a paste that are shown in the editor; longer ones are folded.
const FOLDED: usize = 20;
/// Endings of names of images.
const IMAGES: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

impl App {
    /// A key.
    pub fn key(&mut self, key: &KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        self.changed = true;
        if let Some(note) = &mut self.note {
            note.seen = true;
        }
        let action = self.keys.action(key);
        if action != Some(Action::Leave) {
            self.armed = None;
        }
        if action != Some(Action::Escape) && self.escaped.take().is_some() {
            self.note = None;
        }
        if matches!(action, Some(Action::Leave | Action::Suspend | Action::Redraw)) {
            return self.act(action, key);
        }
        if self.overlay.is_some() {
            return self.overlay_key(key, action);
        }
        if self.search.is_some() && self.search_key(key, action) {
            return;
        }
        self.seek = None;
        if self.panel.focused && !self.panel.is_empty() {
            // What nobody has seen yet is not answered.
            self.panel.focused = self.panel.front().is_some();
            if self.panel.focused && self.question_key(key, action) {
                return;
            }
        }
        if self.menu.is_some() && self.menu_key(key) {
            return;
        }
        self.act(action, key);
    }

    /// Pasted text.
    pub fn paste(&mut self, text: &str) {
        self.changed = true;
        if let Some(search) = &mut self.search {
            search.words.push_str(text.lines().next().unwrap_or_default());
            return self.count_found();
        }
        if let Some(overlay) = &mut self.overlay {
            return overlay.paste(text);
        }
        if self.panel.focused && self.panel.front().is_some() && self.panel.paste(text) {
            return;
        }
        self.panel.focused = false;
        if let Some(paths) = image_paths(text) {
            return self.effects.extend(paths.into_iter().map(Effect::Attach));
        }
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = match text.lines().count() {
            lines if lines > FOLDED => self.tokens.paste(text),
            _ => text,
        };
        self.composer.insert(&text);
        self.typed();
    }

    /// Takes what was typed, with the whole of what was pasted, and remembers it.
    fn take_typed(&mut self) -> String {
        let text = self.tokens.unfold(self.composer.take());
        self.composer.remember(&text);
        text
    }

    /// The size of the screen.
    pub fn resize(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (usize::from(width), usize::from(height));
        self.changed = true;
    }

    fn act(&mut self, action: Option<Action>, key: &KeyEvent) {
        let inserts = self.vim.as_ref().is_none_or(|vim| vim.mode == Mode::Insert);
        if key.code == KeyCode::Char('?') && self.composer.is_empty() && inserts {
            self.overlay = Some(Overlay::Help(0));
            return;
        }
        match action {
            Some(Action::Send) => self.enter(),
            Some(Action::NewLine) => self.composer.insert("\n"),
            Some(Action::Escape) => self.escape(),
            Some(Action::Leave) => self.leave(),
            Some(Action::End) if self.composer.is_empty() => self.effects.push(Effect::Leave(0)),
            Some(Action::End) => {
                self.composer
                    .key(&KeyEvent::new(KeyCode::Delete, KeyModifiers::NONE), self.width);
            }
            Some(Action::Suspend) => self.effects.push(Effect::Suspend),
            Some(Action::Editor) => {
                let text = self.tokens.unfold(self.composer.text().to_owned());
                self.effects.push(Effect::Edit(text));
            }
            Some(Action::PasteImage) => self.effects.push(Effect::AttachCopied),
            Some(Action::PageUp) => self.scroll(-(self.page as isize)),
            Some(Action::PageDown) => self.scroll(self.page as isize),
            Some(Action::LineUp) => self.scroll(-1),
            Some(Action::LineDown) => self.scroll(1),
            Some(Action::Top) => {
                self.seek = Some(Seek::Beginning);
                self.go_on_seeking();
            }
            Some(Action::Bottom) => self.transcript.follow_end(),
            Some(Action::Details) => {
                if !self.transcript.toggle_last() {
                    self.tell("No tool call is in view.");
                }
            }
            Some(Action::AllDetails) => self.transcript.toggle_all(),
            Some(Action::Search) => self.search = Some(Search::default()),
            Some(Action::Tasks) => self.overlay = Some(Overlay::Tasks(0)),
            Some(Action::Mode) => self.next_mode(),
            Some(Action::Unqueue) => self.take_back_last(),
            Some(Action::Questions) if !self.panel.is_empty() => self.panel.focused = true,
            Some(Action::Questions) => self.typed(),
            Some(Action::Earlier) => self.pick_earlier(),
            Some(Action::Sessions) => self.pick_session(),
            Some(Action::Models) => self.pick_model(),
            Some(Action::Redraw) => {
                self.transcript.redraw();
                self.effects.push(Effect::Redraw);
            }
            Some(Action::Help) => self.overlay = Some(Overlay::Help(0)),
            None => {
                let width = self.editor_width();
                if let (Some(vim), KeyCode::Char(letter)) = (&mut self.vim, key.code)
                    && vim.mode == Mode::Normal
                    && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT)
                {
                    vim.key(letter, &mut self.composer, width);
                } else if self.composer.key(key, width) {
                    self.typed();
                }
            }
        }
    }

    pub(super) fn editor_width(&self) -> usize {
        self.width.saturating_sub(3).max(4)
    }

    fn enter(&mut self) {
        if self.composer.before_cursor().ends_with('\\') && self.composer.before_cursor() == self.composer.text() {
            let from = self.composer.text().len() - 1;
            self.composer.replace_from(from, "\n");
            return;
        }
        if self.composer.text().trim().is_empty() {
            return match self.wire {
                Wire::Away => self.effects.push(Effect::StartHost { asked: true }),
                Wire::Up => self.send_queued(),
            };
        }
        self.menu = None;
        if self.deleted && !self.composer.text().starts_with('/') {
            return self.tell(DELETED);
        }
        if self.watches() {
            return self.tell("You are viewing a sub-agent. Press Esc to go back.");
        }
        if let Some(vim) = &mut self.vim {
            *vim = Vim::default();
        }
        let text = self.take_typed();
        self.effects.push(Effect::Remember(text.clone()));
        self.entered(text.trim());
    }

    fn escape(&mut self) {
        if self.menu.take().is_some() {
            return;
        }
        if let Some(vim) = &mut self.vim
            && vim.escape(&mut self.composer)
        {
            return;
        }
        if self.watches() {
            let own = self.mirror.own_chat().to_owned();
            return self.effects.push(Effect::Watch(own));
        }
        if self.mirror.is_busy() {
            return self.cancel();
        }
        if !self.transcript.is_following() {
            return self.transcript.follow_end();
        }
        if self.composer.is_empty() && !self.mirror.chat.state.turns.is_empty() {
            match self.escaped.take().filter(|escaped| escaped.elapsed() < TWICE) {
                Some(_) => self.pick_turn(0),
                None => {
                    self.escaped = Some(Instant::now());
                    self.tell("Press Esc again to go back to an earlier message.");
                }
            }
        }
    }

    /// Stops the running turn.
    pub(super) fn cancel(&mut self) {
        if self.watches() {
            return self.tell("You are viewing a sub-agent. Press Esc to go back.");
        }
        let Some(turn) = &self.mirror.chat.state.active_turn else {
            return self.tell("Nothing is running.");
        };
        let started = turn.started_at.parse::<jiff::Timestamp>();
        let duration = started.map_or(0, |started| {
            (jiff::Timestamp::now().as_millisecond() - started.as_millisecond()).max(0)
        });
        let action = ChatTurnCancelledAction {
            turn_id: turn.id.clone(),
            duration,
            meta: None,
        };
        self.cancelling = self.wire == Wire::Up;
        let chat = self.mirror.chat.uri.clone();
        self.dispatch(chat, StateAction::ChatTurnCancelled(action));
    }

    fn leave(&mut self) {
        if self.armed.is_some_and(|armed| armed.elapsed() < TWICE) {
            return self.effects.push(Effect::Leave(0));
        }
        if self.overlay.take().is_some() || self.search.take().is_some() || self.menu.take().is_some() {
            return;
        }
        self.armed = Some(Instant::now());
        if self.panel.clear_words() {
            return self.tell("Press Ctrl-C again to leave; the session stays.");
        }
        if !self.composer.is_empty() {
            self.take_typed();
            return self.tell("Press Ctrl-C again to leave; the session stays.");
        }
        if self.mirror.is_busy() && !self.cancelling && self.wire == Wire::Up {
            self.cancel();
        }
        self.tell("Press Ctrl-C again to leave; the session stays.");
    }

    pub(super) fn scroll(&mut self, by: isize) {
        let look = Look {
            width: self.width,
            theme: &self.theme,
            output: 0,
        };
        self.transcript.scroll(by, &self.mirror.chat.state, look);
        if by < 0 {
            self.older();
        }
    }

    /// Asks for earlier turns when the beginning of what is known is on the screen.
    fn older(&mut self) {
        if self.transcript.at_top {
            self.load_older();
        }
    }

    /// Asks for earlier turns. False when there are none.
    pub(super) fn load_older(&mut self) -> bool {
        if self.loading || self.wire == Wire::Away {
            return true;
        }
        if let Some(cursor) = self.mirror.chat.state.turns_next_cursor.clone() {
            self.loading = true;
            self.effects.push(Effect::Older(cursor));
        }
        self.loading
    }

    /// Goes to what is looked for, as soon as the turns with it are here.
    pub(super) fn go_on_seeking(&mut self) {
        let look = Look {
            width: self.width,
            theme: &self.theme,
            output: 0,
        };
        self.transcript.follow(&self.mirror.chat.state);
        match self.seek.take() {
            None => {}
            Some(Seek::Beginning) => {
                self.transcript.jump_to_start();
                if self.load_older() {
                    self.seek = Some(Seek::Beginning);
                }
            }
            Some(Seek::Messages(known)) => self.pick_turn(known),
            Some(Seek::Words(words)) => {
                if self.transcript.search(&words, true, &self.mirror.chat.state, look) {
                    return self.count_found();
                }
                match self.load_older() {
                    true => {
                        self.tell("Searching earlier turns …");
                        self.seek = Some(Seek::Words(words));
                    }
                    false => self.tell(&format!("No more matches above for {words:?}.")),
                }
            }
        }
    }

    /// A key while a question is in front. False when it is none for it.
    fn question_key(&mut self, key: &KeyEvent, action: Option<Action>) -> bool {
        if let Some(held) = self.held.take() {
            match (key.code, self.panel.means(key)) {
                // A burst of letters is a message that somebody types.
                (KeyCode::Char(_), Means::Decision | Means::Message) => {
                    self.panel.focused = false;
                    self.act(None, &held.key);
                    return false;
                }
                (KeyCode::Enter, _) => {
                    self.decide(&held);
                    return true;
                }
                _ if action == Some(Action::Escape) => {}
                _ => self.decide(&held),
            }
            if !self.panel.focused || self.panel.front().is_none() {
                return false;
            }
        }
        match action {
            Some(Action::Escape) if self.panel.takes_escape() => true,
            Some(Action::Escape) => {
                self.panel.focused = false;
                true
            }
            Some(Action::Questions) => {
                self.panel.next();
                true
            }
            Some(Action::PageUp) => self.panel.scroll_page(-1),
            Some(Action::PageDown) => self.panel.scroll_page(1),
            Some(Action::NewLine | Action::Editor | Action::End) if self.panel.words().is_some() => {
                self.words_key(key, action)
            }
            Some(Action::Send) | None => {
                match (self.panel.means(key), self.panel.front()) {
                    (Means::Choice, _) | (_, None) => self.answer(key),
                    (Means::Decision, Some(question)) => {
                        self.held = Some(Decision {
                            question: question.to_owned(),
                            key: *key,
                            since: Instant::now(),
                        });
                    }
                    (Means::Message, _) => {
                        self.panel.focused = false;
                        return false;
                    }
                }
                true
            }
            _ => false,
        }
    }

    /// Handles a key that edits an answer as it edits a message. False if it does nothing to the answer.
    fn words_key(&mut self, key: &KeyEvent, action: Option<Action>) -> bool {
        let Some(words) = self.panel.words() else { return false };
        match action {
            Some(Action::NewLine) => words.insert("\n"),
            Some(Action::Editor) => {
                let text = words.text().to_owned();
                self.effects.push(Effect::Edit(text));
            }
            Some(Action::End) if words.is_empty() => return false,
            Some(Action::End) => {
                words.key(&KeyEvent::new(KeyCode::Delete, KeyModifiers::NONE), usize::MAX);
            }
            _ => drop(words.key(key, usize::MAX)),
        }
        true
    }

    /// Takes a letter for a decision when no other letter followed it in time.
    pub(super) fn take_decision(&mut self) {
        if let Some(held) = self.held.take_if(|held| held.since.elapsed() >= BURST) {
            self.decide(&held);
        }
    }

    fn decide(&mut self, held: &Decision) {
        // Somebody else may have answered meanwhile.
        if self.panel.front() == Some(&held.question) {
            self.answer(&held.key);
        }
    }

    fn answer(&mut self, key: &KeyEvent) {
        self.changed = true;
        if let Some((chat, action)) = self.panel.key(key) {
            match self.wire {
                Wire::Up => self.effects.push(Effect::Dispatch(chat, action, Sent::Answer)),
                Wire::Away => {
                    self.panel.refused();
                    self.tell("The host is not reachable; answer when it is back.");
                }
            }
        }
    }

    fn search_key(&mut self, key: &KeyEvent, action: Option<Action>) -> bool {
        let Some(search) = &mut self.search else { return false };
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let control = key.modifiers == KeyModifiers::CONTROL;
        match (key.code, action) {
            (_, Some(Action::Escape | Action::Search)) => {
                self.search = None;
                return true;
            }
            (KeyCode::Enter, _) => search.onwards ^= key.modifiers.contains(KeyModifiers::SHIFT),
            (KeyCode::Up, _) => search.onwards = false,
            (KeyCode::Down, _) => search.onwards = true,
            (KeyCode::Char('p'), _) if control => search.onwards = false,
            (KeyCode::Char('n'), _) if control => search.onwards = true,
            (KeyCode::Backspace, _) => {
                search.words.pop();
                self.count_found();
                return true;
            }
            (KeyCode::Char(c), None) if plain => {
                search.words.push(c);
                self.count_found();
                return true;
            }
            (
                _,
                Some(
                    Action::PageUp
                    | Action::PageDown
                    | Action::LineUp
                    | Action::LineDown
                    | Action::Top
                    | Action::Bottom,
                ),
            ) => {
                return false;
            }
            _ => return true,
        }
        let (words, onwards) = (search.words.clone(), search.onwards);
        let look = Look {
            width: self.width,
            theme: &self.theme,
            output: 0,
        };
        if words.is_empty() {
            return true;
        }
        if !onwards {
            self.seek = Some(Seek::Words(words));
            self.go_on_seeking();
        } else if !self.transcript.search(&words, false, &self.mirror.chat.state, look) {
            self.tell(&format!("No more matches below for {words:?}."));
        }
        self.count_found();
        true
    }

    /// Counts the matches of the search, as far as turns are loaded.
    pub(super) fn count_found(&mut self) {
        let Some(search) = &mut self.search else { return };
        let look = Look {
            width: self.width,
            theme: &self.theme,
            output: 0,
        };
        self.transcript.follow(&self.mirror.chat.state);
        search.found = self.transcript.count(&search.words, &self.mirror.chat.state, look);
    }

    /// Begins a turn with the first message that waits. After a turn was stopped, only the person says when.
    fn send_queued(&mut self) {
        let queued = self.mirror.chat.state.queued_messages.iter().flatten().next();
        let Some(queued) = queued.filter(|_| self.rests()) else {
            return;
        };
        let action = ChatTurnStartedAction {
            turn_id: queued.id.clone(),
            started_at: format!("{:.3}", jiff::Timestamp::now()),
            message: queued.message.clone(),
            queued_message_id: Some(queued.id.clone()),
            meta: None,
        };
        let chat = self.mirror.chat.uri.clone();
        self.dispatch(chat, StateAction::ChatTurnStarted(action));
        self.transcript.follow_end();
    }

    fn take_back_last(&mut self) {
        let queued = self.mirror.chat.state.queued_messages.iter().flatten().last();
        match queued.map(|queued| queued.id.clone()) {
            Some(id) => self.take_back(&id),
            None => self.tell("No message is queued."),
        }
    }

    /// Takes a message that waits back into the editor.
    pub(super) fn take_back(&mut self, id: &str) {
        let queued = self.mirror.chat.state.queued_messages.iter().flatten();
        let Some(message) = queued
            .filter(|queued| queued.id == id)
            .map(|queued| queued.message.clone())
            .next()
        else {
            return;
        };
        self.unqueue(id);
        self.restore(&message);
    }

    /// Puts a message into the editor, above what is typed, with its attachments.
    pub(super) fn restore(&mut self, message: &Message) {
        let attached = message.attachments.iter().flatten();
        let attached: Vec<_> = attached
            .map(|attachment| match attachment {
                MessageAttachment::Resource(file) => (Some(format!("@{}", self.below(&file.uri))), attachment),
                _ => (None, attachment),
            })
            .collect();
        let text = self.tokens.restore(&message.text, attached);
        let typed = self.composer.text().to_owned();
        let between = if typed.is_empty() { "" } else { "\n" };
        self.composer.set(&format!("{text}{between}{typed}"));
    }

    pub(super) fn unqueue(&mut self, id: &str) {
        let action = ChatPendingMessageRemovedAction {
            kind: PendingMessageKind::Queued,
            id: id.to_owned(),
        };
        let chat = self.mirror.chat.uri.clone();
        self.dispatch(chat, StateAction::ChatPendingMessageRemoved(action));
    }
}

/// The paths of images, when nothing else was pasted or dropped. Terminals quote them as a shell does, or leave them as they are.
fn image_paths(text: &str) -> Option<Vec<String>> {
    let words: Option<Vec<String>> = split(text).iter().map(|word| image_path(word)).collect();
    words
        .filter(|words| !words.is_empty())
        .or_else(|| Some(vec![image_path(text.trim())?]))
}

/// The path of an image.
fn image_path(text: &str) -> Option<String> {
    let text = match text.starts_with("file://") {
        true => shown_path(text),
        false => text.to_owned(),
    };
    let (_, ending) = text.rsplit_once('.')?;
    let is_image = IMAGES.contains(&ending.to_ascii_lowercase().as_str());
    let is_path = text.starts_with(['/', '~', '.']) && !text.contains('\n');
    (is_image && is_path).then_some(text)
}

/// The words of a line, as a shell reads them.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, Some(open)) if letter == open => quote = None,
            ('\\', None) => word.get_or_insert_default().extend(letters.next()),
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_an_image_is_known_as_such() {
        for (text, expected) in [
            ("/tmp/a.png", Some("/tmp/a.png")),
            ("'/tmp/a b.JPG' ", Some("/tmp/a b.JPG")),
            ("/tmp/a\\ b.webp", Some("/tmp/a b.webp")),
            ("file:///tmp/x.gif", Some("/tmp/x.gif")),
            ("file:///tmp/a%20b.png", Some("/tmp/a b.png")),
            ("/tmp/a b.png", Some("/tmp/a b.png")),
            ("see /tmp/a.png", None),
            ("/tmp/a.txt", None),
        ] {
            let expected = expected.map(|path| vec![path.to_owned()]);
            assert_eq!(image_paths(text), expected, "{text:?}");
        }
        let both = Some(vec!["/a b.png".to_owned(), "/c.jpg".to_owned()]);
        for text in [
            "'/a b.png' '/c.jpg'",
            "/a\\ b.png /c.jpg",
            "\"/a b.png\"\nfile:///c.jpg",
        ] {
            assert_eq!(image_paths(text), both, "{text:?}");
        }
    }
}
