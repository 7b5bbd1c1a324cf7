//! The table of keys. The client acts on it, the help shows it, and docs/terminal.md is checked against it. People may change it.

use std::collections::BTreeMap;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde::Deserialize;

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Sends the typed message.
    Send,
    /// Begins a new line in the editor.
    NewLine,
    /// Closes what is open, or else stops the running turn.
    Escape,
    /// Clears the editor; the second time, leaves.
    Leave,
    /// Leaves if the editor is empty.
    End,
    /// Suspends this program until the shell resumes it.
    Suspend,
    /// Opens the typed text in the person's own editor.
    Editor,
    /// Attaches the image from the clipboard.
    PasteImage,
    /// Scrolls up by a page.
    PageUp,
    /// Scrolls down by a page.
    PageDown,
    /// Scrolls up by a line.
    LineUp,
    /// Scrolls down by a line.
    LineDown,
    /// Scrolls to the first line.
    Top,
    /// Scrolls to the last line and follows it.
    Bottom,
    /// Expands or collapses the last tool call on the screen.
    Details,
    /// Expands or collapses all tool calls.
    AllDetails,
    /// Searches the conversation.
    Search,
    /// Shows sub-agents, background work and the queue.
    Tasks,
    /// Switches to the next mode.
    Mode,
    /// Takes the last queued message back into the editor.
    Unqueue,
    /// Moves between the editor and the questions, and from one question to the next.
    Questions,
    /// Searches earlier messages.
    Earlier,
    /// Shows the sessions.
    Sessions,
    /// Shows the models.
    Models,
    /// Redraws the screen.
    Redraw,
    /// Shows the keys.
    Help,
}

/// The table: names of keys, their actions, and a description.
pub const KEYS: &[(&str, Action, &str)] = &[
    (
        "Enter",
        Action::Send,
        "Send the message; while the agent works, it waits in the queue",
    ),
    ("Shift-Enter, Alt-Enter, Ctrl-J", Action::NewLine, "Start a new line"),
    (
        "Esc",
        Action::Escape,
        "Close what is open; else stop the running turn; twice, go back to an earlier message",
    ),
    (
        "Ctrl-C",
        Action::Leave,
        "Clear what is typed, or stop the turn; pressed again, leave",
    ),
    ("Ctrl-D", Action::End, "Leave, when nothing is typed"),
    ("Tab", Action::Questions, "Complete; else go to the next question"),
    (
        "Shift-Tab",
        Action::Mode,
        "Change the mode: interactive, plan, autopilot",
    ),
    ("PageUp", Action::PageUp, "Scroll back"),
    ("PageDown", Action::PageDown, "Scroll forward"),
    ("Shift-Up, Ctrl-Up", Action::LineUp, "Scroll back by a line"),
    ("Shift-Down, Ctrl-Down", Action::LineDown, "Scroll forward by a line"),
    ("Ctrl-Home", Action::Top, "Go to the beginning of the conversation"),
    ("Ctrl-End", Action::Bottom, "Go to the end and follow it"),
    (
        "Ctrl-O",
        Action::Details,
        "Open or close the output of the last tool call in view",
    ),
    ("Ctrl-X", Action::AllDetails, "Open or close all output and reasoning"),
    (
        "Ctrl-F",
        Action::Search,
        "Search the conversation: Enter goes on, Up or Ctrl-P goes back, Down or Ctrl-N forward",
    ),
    (
        "Ctrl-T",
        Action::Tasks,
        "Show sub-agents, background work and the queue",
    ),
    (
        "Alt-Up",
        Action::Unqueue,
        "Take back the last queued message to edit it",
    ),
    ("Ctrl-R", Action::Earlier, "Search earlier messages"),
    ("Ctrl-S", Action::Sessions, "Choose a session"),
    ("Alt-M", Action::Models, "Choose a model"),
    ("Ctrl-G", Action::Editor, "Write the message in $VISUAL or $EDITOR"),
    ("Ctrl-V", Action::PasteImage, "Attach the image on the clipboard"),
    ("Ctrl-Z", Action::Suspend, "Suspend; `fg` returns"),
    ("Ctrl-L", Action::Redraw, "Redraw the screen"),
    (
        "F1",
        Action::Help,
        "Show the keys and commands; so does `?` in an empty editor",
    ),
];

/// The editor's keys, as in readline.
pub const EDITOR_KEYS: &[(&str, &str)] = &[
    ("Up, Down", "Move by a row; at the edge, recall earlier messages"),
    ("Ctrl-P, Ctrl-N", "Recall the previous or next message"),
    ("Left, Right, Ctrl-B", "Move by a character"),
    ("Ctrl-Left, Ctrl-Right, Alt-B, Alt-F", "Move by a word"),
    (
        "Home, End, Ctrl-A, Ctrl-E",
        "Move to the beginning or the end of the line",
    ),
    ("Backspace, Delete, Ctrl-H", "Delete a character"),
    ("Ctrl-W, Alt-Backspace, Alt-D", "Delete a word"),
    ("Ctrl-U, Ctrl-K", "Delete to the beginning or the end of the line"),
    ("Ctrl-Y", "Insert what was deleted"),
    ("Ctrl-_", "Undo"),
];

/// A key with its modifiers.
type Stroke = (KeyModifiers, KeyCode);

/// What the keys do: the table, and what a person changed in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Keymap(Vec<(String, Stroke, Action)>);

impl Default for Keymap {
    fn default() -> Self {
        let keys = KEYS.iter().flat_map(|(names, action, _)| {
            let names = names.split(", ");
            names.filter_map(|name| Some((name.to_owned(), parse(name)?, *action)))
        });
        Self(keys.collect())
    }
}

impl TryFrom<BTreeMap<String, String>> for Keymap {
    type Error = String;

    fn try_from(changes: BTreeMap<String, String>) -> Result<Self, String> {
        let mut keys = Self::default();
        for (name, action) in changes {
            let stroke = parse(&name).ok_or_else(|| format!("{name:?} is not a key; an example is \"ctrl-t\""))?;
            let is_typed = !stroke.0.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
            if is_typed && matches!(stroke.1, KeyCode::Char(_)) {
                return Err(format!("{name:?} is a letter that people type; add `ctrl-` or `alt-`"));
            }
            keys.0.retain(|(_, known, _)| *known != stroke);
            if action == "none" {
                continue;
            }
            let action: serde::de::value::StrDeserializer<'_, serde::de::value::Error> =
                serde::de::IntoDeserializer::into_deserializer(action.as_str());
            let action = Action::deserialize(action).map_err(|error| format!("{name:?}: {error}, `none`"))?;
            keys.0.push((title(&name), stroke, action));
        }
        Ok(keys)
    }
}

impl Keymap {
    pub(crate) fn action(&self, key: &KeyEvent) -> Option<Action> {
        let mut keys = self.0.iter();
        keys.find(|(_, (modifiers, code), _)| matches(key, *modifiers, *code))
            .map(|(.., action)| *action)
    }

    /// The names of the keys that do this.
    pub(crate) fn names(&self, action: Action) -> String {
        let keys = self.0.iter().filter(|(.., does)| *does == action);
        keys.map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// A sentence about the key that does this, if there is one.
    pub(crate) fn does(&self, action: Action, what: &str) -> Option<String> {
        let (name, ..) = self.0.iter().find(|(.., does)| *does == action)?;
        Some(format!("{name} {what}"))
    }

    /// A text, and behind it the key that does this, if there is one.
    pub(crate) fn hint(&self, text: &str, action: Action) -> String {
        match self.0.iter().find(|(.., does)| *does == action) {
            Some((name, ..)) => format!("{text} ({name})"),
            None => text.to_owned(),
        }
    }
}

/// The name of a key as the table spells it: `Ctrl-T` for `ctrl-t`.
fn title(name: &str) -> String {
    let parts = name.split('-').map(|part| match part.to_ascii_lowercase().as_str() {
        "pageup" => "PageUp".to_owned(),
        "pagedown" => "PageDown".to_owned(),
        part => {
            let (first, rest) = part.split_at(part.chars().next().map_or(0, char::len_utf8));
            format!("{}{rest}", first.to_uppercase())
        }
    });
    parts.collect::<Vec<_>>().join("-")
}

fn matches(key: &KeyEvent, modifiers: KeyModifiers, code: KeyCode) -> bool {
    // For a key that implies Shift, some terminals report Shift and others do not.
    let told = match key.code {
        KeyCode::BackTab => key.modifiers | KeyModifiers::SHIFT,
        _ => key.modifiers,
    };
    let pressed = match key.code {
        KeyCode::Char(c) => KeyCode::Char(c.to_ascii_lowercase()),
        other => other,
    };
    pressed == code && told == modifiers
}

fn parse(name: &str) -> Option<Stroke> {
    let name = name.to_ascii_lowercase();
    let mut modifiers = KeyModifiers::NONE;
    let mut rest = name.as_str();
    for (word, modifier) in [
        ("ctrl-", KeyModifiers::CONTROL),
        ("alt-", KeyModifiers::ALT),
        ("shift-", KeyModifiers::SHIFT),
    ] {
        if let Some(after) = rest.strip_prefix(word) {
            modifiers |= modifier;
            rest = after;
        }
    }
    let code = match rest {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        "tab" => KeyCode::Tab,
        "pageup" => KeyCode::PageUp,
        "pagedown" => KeyCode::PageDown,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "left" => KeyCode::Left,
        "right" => KeyCode::Right,
        "home" => KeyCode::Home,
        "end" => KeyCode::End,
        "insert" => KeyCode::Insert,
        "delete" => KeyCode::Delete,
        "space" => KeyCode::Char(' '),
        other => {
            let mut letters = other.chars();
            match (letters.next()?, letters.as_str()) {
                (letter, "") => KeyCode::Char(letter),
                ('f', number) => KeyCode::F(number.parse().ok().filter(|number| (1..=12).contains(number))?),
                _ => return None,
            }
        }
    };
    Some((modifiers, code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_in_the_table_is_a_key_of_its_own() {
        let mut seen = Vec::new();
        for (names, action, _) in KEYS {
            for name in names.split(", ") {
                let key = parse(name).unwrap_or_else(|| panic!("{name} is not a key"));
                assert!(!seen.contains(&key), "{name} is there twice");
                seen.push(key);
                assert_eq!(
                    Keymap::default().action(&KeyEvent::new(key.1, key.0)),
                    Some(*action),
                    "{name}"
                );
                assert_eq!(title(&name.to_lowercase()), *name);
            }
        }
    }

    #[test]
    fn a_person_gives_keys_another_meaning_and_mistakes_are_named() {
        let change = |key: &str, action: &str| Keymap::try_from(BTreeMap::from([(key.to_owned(), action.to_owned())]));
        let control_t = KeyEvent::new(KeyCode::Char('t'), KeyModifiers::CONTROL);
        let f5 = KeyEvent::new(KeyCode::F(5), KeyModifiers::NONE);
        let keys = change("f5", "tasks").unwrap();
        assert_eq!(keys.action(&f5), Some(Action::Tasks));
        assert_eq!(keys.names(Action::Tasks), "Ctrl-T, F5");
        let keys = change("ctrl-t", "page-up").unwrap();
        assert_eq!(keys.action(&control_t), Some(Action::PageUp));
        assert_eq!(keys.names(Action::PageUp), "PageUp, Ctrl-T");
        assert_eq!(keys.hint("1 task", Action::Tasks), "1 task");
        assert_eq!(change("Ctrl-T", "none").unwrap().action(&control_t), None);
        for (key, action, expected) in [
            ("hyper-t", "tasks", "\"hyper-t\" is not a key"),
            ("ctrl-f99", "tasks", "is not a key"),
            ("t", "tasks", "\"t\" is a letter"),
            ("shift-t", "tasks", "\"shift-t\" is a letter"),
            ("ctrl-t", "task", "unknown variant `task`, expected one of `send`"),
        ] {
            let error = change(key, action).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
