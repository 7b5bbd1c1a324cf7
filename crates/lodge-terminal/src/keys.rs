//! The table of keys. The client acts on it, the help shows it, and docs/terminal.md is checked against it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

pub(crate) fn action(key: &KeyEvent) -> Option<Action> {
    KEYS.iter()
        .find(|(names, _, _)| {
            names
                .split(", ")
                .filter_map(parse)
                .any(|(modifiers, code)| matches(key, modifiers, code))
        })
        .map(|(_, action, _)| *action)
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

fn parse(name: &str) -> Option<(KeyModifiers, KeyCode)> {
    let mut modifiers = KeyModifiers::NONE;
    let mut rest = name;
    for (word, modifier) in [
        ("Ctrl-", KeyModifiers::CONTROL),
        ("Alt-", KeyModifiers::ALT),
        ("Shift-", KeyModifiers::SHIFT),
    ] {
        if let Some(after) = rest.strip_prefix(word) {
            modifiers |= modifier;
            rest = after;
        }
    }
    let code = match rest {
        "Enter" => KeyCode::Enter,
        "Esc" => KeyCode::Esc,
        "Tab" if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
        "Tab" => KeyCode::Tab,
        "PageUp" => KeyCode::PageUp,
        "PageDown" => KeyCode::PageDown,
        "Up" => KeyCode::Up,
        "Down" => KeyCode::Down,
        "Home" => KeyCode::Home,
        "End" => KeyCode::End,
        "F1" => KeyCode::F(1),
        other => KeyCode::Char(other.chars().next().filter(|_| other.len() == 1)?.to_ascii_lowercase()),
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
                assert_eq!(super::action(&KeyEvent::new(key.1, key.0)), Some(*action), "{name}");
            }
        }
    }
}
