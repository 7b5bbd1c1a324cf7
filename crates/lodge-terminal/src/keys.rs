//! The keys: one table that the client acts by, the help shows, and docs/terminal.md is checked against.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does, whatever is on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sends what is typed.
    Send,
    /// Goes on in the next line.
    NewLine,
    /// Closes what is open, or stops the running turn.
    Escape,
    /// Clears what is typed; the second one leaves.
    Leave,
    /// Leaves when nothing is typed.
    End,
    /// Stops this program until the shell brings it back.
    Suspend,
    /// Opens what is typed in an editor.
    Editor,
    /// Attaches the image on the clipboard.
    PasteImage,
    /// Scrolls.
    PageUp,
    /// Scrolls.
    PageDown,
    /// Scrolls.
    LineUp,
    /// Scrolls.
    LineDown,
    /// To the first line.
    Top,
    /// To the last line, and follow it.
    Bottom,
    /// Opens or closes the output of a tool call.
    Details,
    /// Opens or closes all of them.
    AllDetails,
    /// Looks for words in the conversation.
    Search,
    /// Shows agents, background work and the queue.
    Tasks,
    /// Goes from mode to mode.
    Mode,
    /// Takes the last message that waits back into the editor.
    Unqueue,
    /// To the questions and back, and from one question to the next.
    Questions,
    /// Shows what was typed before.
    Earlier,
    /// Shows the sessions.
    Sessions,
    /// Shows the models.
    Models,
    /// Draws everything anew.
    Redraw,
    /// Shows the keys.
    Help,
}

/// The table: names of keys, what they do, and how that reads.
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

/// Keys of the editor, which are those of readline.
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
    // Terminals disagree on whether Shift is told beside a key that has it in itself.
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
