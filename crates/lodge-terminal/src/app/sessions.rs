//! The list of sessions: what each is about, what it does, where it works, and what can be done with it from here.

use ahp::ahp_types::{
    StateAction, Uri,
    actions::SessionTitleChangedAction,
    state::{SessionStatus, SessionSummary},
};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_core::text::{Line, Span};

use super::{
    App, Effect, HostName, Wire,
    overlay::{Choice, Overlay, Pick, Picker, age},
};
use crate::{
    composer::Composer,
    plain::{plain_line, shown_path},
    theme::Theme,
    wrap,
};

pub(super) const SESSIONS: &str = "Sessions";

/// Narrower lists have no column for the directory.
const WIDE: usize = 80;
const AGE: usize = 6;
const ID: usize = 8;

/// The columns of a session beside its title.
#[derive(Debug, Clone)]
pub(super) struct Columns {
    glyph: char,
    place: String,
    age: String,
    id: String,
    /// Whether it works in the directory of the session that is shown.
    pub(super) here: bool,
}

/// What is asked about the selected session.
pub(super) enum Asks {
    Delete,
    Rename(Composer),
}

impl App {
    /// A session in the list; where it is on another host, with the host's name.
    fn session_choice(&self, host: &HostName, session: &SessionSummary) -> Choice {
        let is = |state: SessionStatus| session.status & state.bits() == state.bits();
        let (glyph, state) = if is(SessionStatus::InputNeeded) {
            ('?', "needs an answer")
        } else if is(SessionStatus::InProgress) {
            ('●', "working")
        } else if is(SessionStatus::Error) {
            ('✗', "failed")
        } else {
            (' ', "")
        };
        let directory = |directories: &Option<Vec<Uri>>| directories.iter().flatten().next().map(|uri| shown_path(uri));
        let place = directory(&session.working_directories);
        let here = directory(&self.mirror.session.state.working_directories);
        let title = match session.title.as_str() {
            "" => "(no messages)",
            title => title,
        };
        let label = match host {
            _ if *host == self.host => title.to_owned(),
            Some(name) => format!("on {name}, {title}"),
            None => format!("on this machine, {title}"),
        };
        let is_shown = *host == self.host && self.shows(&session.resource);
        let id = session.resource.rsplit(['/', ':']).next().unwrap_or_default();
        let columns = Columns {
            glyph,
            here: *host == self.host && place == here,
            place: plain_line(&place.unwrap_or_default()),
            age: age(&session.modified_at),
            id: plain_line(id).chars().take(ID).collect(),
        };
        Choice {
            mark: if is_shown { '*' } else { ' ' },
            label,
            detail: format!("{} {state} {}", columns.place, columns.id),
            pick: Pick::Session(host.clone(), session.resource.clone()),
            columns: Some(columns),
        }
    }

    /// Opens the list with the sessions known so far and asks the hosts for theirs.
    pub(super) fn pick_session(&mut self) {
        if self.wire == Wire::Away {
            return self.tell("The host is not reachable; try again when it is back.");
        }
        self.overlay = Some(Overlay::Picker(Picker::new(SESSIONS, self.session_choices())));
        self.effects.push(Effect::List);
    }

    /// The sessions of all hosts, the newest first.
    fn session_choices(&self) -> Vec<Choice> {
        let lists = self.sessions.iter();
        let mut sessions: Vec<(&HostName, &SessionSummary)> = lists
            .flat_map(|(host, list)| list.iter().map(move |session| (host, session)))
            .collect();
        if self.sessions.len() > 1 {
            sessions.sort_by(|(_, one), (_, other)| other.modified_at.cmp(&one.modified_at));
        }
        let sessions = sessions.into_iter();
        sessions
            .map(|(host, session)| self.session_choice(host, session))
            .collect()
    }

    /// Puts what the hosts answered into the list, if it is open. What was typed and selected stays.
    pub(super) fn refresh_sessions(&mut self) {
        let choices = self.session_choices();
        let Some(Overlay::Picker(picker)) = &mut self.overlay else {
            return;
        };
        if picker.is_sessions() {
            let chosen = picker.chosen();
            picker.choices = choices;
            let at = picker
                .matching()
                .iter()
                .position(|choice| Some(&choice.pick) == chosen.as_ref());
            if at.is_none() {
                picker.asks = None;
            }
            picker.selected = at.unwrap_or(0);
            self.changed = true;
        }
    }

    /// Handles a key that the list of sessions has for itself. False if it has none.
    pub(super) fn sessions_key(&mut self, key: &KeyEvent) -> bool {
        let Some(Overlay::Picker(picker)) = &mut self.overlay else {
            return false;
        };
        if !picker.is_sessions() {
            return false;
        }
        // Also where no session is listed.
        if picker.asks.is_none() && key.code == KeyCode::Tab {
            picker.here = !picker.here;
            picker.selected = 0;
            return true;
        }
        let Some(Pick::Session(host, uri)) = picker.chosen() else {
            return false;
        };
        let control = key.modifiers == KeyModifiers::CONTROL;
        match (&mut picker.asks, key.code) {
            (Some(_), KeyCode::Esc) => picker.asks = None,
            (Some(Asks::Delete), KeyCode::Char('y' | 'Y')) => {
                picker.asks = None;
                self.delete_session(&host, uri);
            }
            (Some(Asks::Delete), _) => picker.asks = None,
            (Some(Asks::Rename(title)), KeyCode::Enter) => {
                let title = title.text().trim().to_owned();
                picker.asks = None;
                if !title.is_empty() {
                    self.rename_session(&host, uri, title);
                }
            }
            (Some(Asks::Rename(_)), KeyCode::Up | KeyCode::Down) => {}
            (Some(Asks::Rename(title)), _) => drop(title.key(key, usize::MAX)),
            (None, KeyCode::Char('d')) if control => picker.asks = Some(Asks::Delete),
            (None, KeyCode::Char('e')) if control => {
                let mut title = Composer::default();
                let mut known = self.sessions.get(&host).into_iter().flatten();
                let now = known.find(|session| session.resource == uri);
                title.set(now.map_or("", |session| session.title.as_str()));
                picker.asks = Some(Asks::Rename(title));
            }
            _ => return false,
        }
        true
    }

    fn delete_session(&mut self, host: &HostName, uri: Uri) {
        if *host != self.host {
            return self.complain("To delete a session of another host, open one of that host first.");
        }
        for list in self.sessions.get_mut(host).into_iter() {
            list.retain(|session| session.resource != uri);
        }
        self.refresh_sessions();
        self.effects.push(Effect::Delete(uri));
    }

    fn rename_session(&mut self, host: &HostName, uri: Uri, title: String) {
        if *host != self.host {
            return self.complain("To rename a session of another host, open one of that host first.");
        }
        let mut known = self.sessions.get_mut(host).into_iter().flatten();
        if let Some(session) = known.find(|session| session.resource == uri) {
            session.title.clone_from(&title);
        }
        self.refresh_sessions();
        if let Some(Overlay::Picker(picker)) = &mut self.overlay {
            // The words that found it may not be in its new title.
            picker.query.clear();
            let renamed = Pick::Session(host.clone(), uri.clone());
            let at = picker.matching().iter().position(|choice| choice.pick == renamed);
            picker.selected = at.unwrap_or(0);
        }
        if self.shows(&uri) {
            let action = SessionTitleChangedAction { title };
            return self.dispatch(uri, StateAction::SessionTitleChanged(action));
        }
        self.effects.push(Effect::Rename(uri, title));
    }
}

impl Picker {
    /// The row below the title: the keys, or what is asked.
    pub(super) fn hint(&self, width: usize, theme: &Theme) -> Line<'static> {
        let title = self
            .matching()
            .get(self.selected)
            .map_or("", |choice| choice.label.as_str());
        let (text, style) = match &self.asks {
            Some(Asks::Delete) => (
                format!(
                    "Delete {:?}? y deletes it for good · any other key keeps it",
                    plain_line(title)
                ),
                theme.warning,
            ),
            Some(Asks::Rename(title)) => {
                let (before, after) = title.text().split_at(title.cursor());
                let text = format!("New title: {}▏{}", plain_line(before), plain_line(after));
                (text, theme.accent)
            }
            None if self.is_sessions() => {
                let scope = if self.here { "all directories" } else { "this directory" };
                let keys = format!("Tab: {scope} · Ctrl-D deletes · Ctrl-E renames");
                let whole = format!("Type to search · ↑↓ Enter · {keys} · Esc closes");
                let text = if wrap::columns(&whole) <= width { whole } else { keys };
                (text, theme.dim)
            }
            None => ("Type to search · ↑↓ Enter · Esc closes".to_owned(), theme.dim),
        };
        Line::styled(wrap::fit(&text, width), style)
    }
}

impl Columns {
    /// The row of a session.
    pub(super) fn row(&self, choice: &Choice, width: usize, is_selected: bool, theme: &Theme) -> Line<'static> {
        let style = if is_selected { theme.selected } else { theme.text };
        let dim = if is_selected { style } else { theme.dim };
        let state = match self.glyph {
            _ if is_selected => style,
            '?' => theme.warning,
            '✗' => theme.error,
            _ => theme.accent,
        };
        let place_width = if width < WIDE { 0 } else { width / 3 };
        let place = match place_width {
            0 => String::new(),
            room => {
                let place = end(&self.place, room);
                format!("  {place}{}", " ".repeat(room.saturating_sub(wrap::columns(&place))))
            }
        };
        let rest = format!("{place}  {:>AGE$}  {:<ID$}", self.age, self.id);
        let room = width.saturating_sub(4 + wrap::columns(&rest));
        let label = wrap::fit(&plain_line(&choice.label), room);
        let blank = " ".repeat(room.saturating_sub(wrap::columns(&label)));
        Line::from(vec![
            Span::styled(format!("{} ", choice.mark), style),
            Span::styled(format!("{} ", self.glyph), state),
            Span::styled(format!("{label}{blank}"), style),
            Span::styled(rest, dim),
        ])
    }
}

/// The end of a path that fits into this many columns.
fn end(path: &str, width: usize) -> String {
    if wrap::columns(path) <= width {
        return path.to_owned();
    }
    let mut starts = path.char_indices().map(|(at, _)| at);
    let start = starts.find(|at| wrap::columns(&path[*at..]) < width);
    format!("…{}", &path[start.unwrap_or(path.len())..])
}
