//! How much of a terminal's past is kept.
//!
//! The protocol has no action that forgets the beginning of a terminal's content, so the host forgets it alone: clients
//! that listened all the time know more than a snapshot says. They stay in step all the same, because what later actions
//! speak of is never forgotten: output goes to the last part, and only the last part can be a command that still runs. So
//! the host's content is always the end of each client's, and in front of it stands what the terminal was set to there:
//! colours, modes, margins.

use ahp_types::state::{TerminalContentPart, TerminalUnclassifiedPart};
use lodge_tools::terminal::Modes;

/// Commands and what stands between them.
const MAX_PARTS: usize = 1000;

fn text(part: &TerminalContentPart) -> &str {
    match part {
        TerminalContentPart::Command(command) => &command.output,
        TerminalContentPart::Unclassified(part) => &part.value,
        TerminalContentPart::Unknown(_) => "",
    }
}

/// Bytes of a content.
pub(super) fn size(content: &[TerminalContentPart]) -> usize {
    content.iter().map(|part| text(part).len()).sum()
}

/// Forgets the oldest where there is more than may be. Returns the bytes that are left.
pub(super) fn trim(content: &mut Vec<TerminalContentPart>, limit: usize, modes: &mut Modes) -> usize {
    let whole = size(content);
    if whole <= limit && content.len() <= MAX_PARTS {
        return whole;
    }
    // More than needed, so that it is not needed again at once.
    let mut excess = whole.saturating_sub(limit / 4 * 3);
    let mut gone = content.len().saturating_sub(MAX_PARTS / 4 * 3).min(content.len() - 1);
    excess = excess.saturating_sub(size(&content[..gone]));
    while gone + 1 < content.len() && text(&content[gone]).len() <= excess {
        excess -= text(&content[gone]).len();
        gone += 1;
    }
    for part in content.drain(..gone) {
        modes.follow(text(&part));
    }
    let head = match &mut content[0] {
        TerminalContentPart::Command(command) => &mut command.output,
        TerminalContentPart::Unclassified(part) => &mut part.value,
        TerminalContentPart::Unknown(_) => return size(content),
    };
    let cut = line_after(head, excess);
    modes.follow(&head[..cut]);
    head.drain(..cut);
    let prelude = modes.prelude();
    if !prelude.is_empty() {
        match &mut content[0] {
            TerminalContentPart::Unclassified(part) => part.value.insert_str(0, &prelude),
            _ => {
                let part = TerminalUnclassifiedPart { value: prelude };
                content.insert(0, TerminalContentPart::Unclassified(part));
            }
        }
    }
    size(content)
}

/// Where to cut: after the line that `at` is in, or, in a line without end, at least not within a sequence.
fn line_after(text: &str, at: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let at = text.ceil_char_boundary(at);
    if let Some(end) = text[at..].find('\n') {
        return at + end + 1;
    }
    let near = text.floor_char_boundary(at.saturating_sub(64));
    text[near..at].rfind('\u{1b}').map_or(at, |escape| near + escape)
}

#[cfg(test)]
mod tests {
    use ahp_types::state::TerminalCommandPart;

    use super::*;

    fn plain(value: impl Into<String>) -> TerminalContentPart {
        TerminalContentPart::Unclassified(TerminalUnclassifiedPart { value: value.into() })
    }

    fn command(id: usize, output: impl Into<String>, is_complete: bool) -> TerminalContentPart {
        TerminalContentPart::Command(TerminalCommandPart {
            command_id: id.to_string(),
            command_line: "ls".to_owned(),
            output: output.into(),
            timestamp: 0,
            is_complete,
            exit_code: None,
            duration_ms: None,
        })
    }

    #[test]
    fn what_is_short_is_kept_whole() {
        let mut content = vec![plain("$ "), command(1, "out\n", true)];
        assert_eq!(trim(&mut content, 100, &mut Modes::default()), 6);
        assert_eq!(content.len(), 2);
    }

    #[test]
    fn old_parts_go_first_and_the_rest_begins_with_a_line() {
        let lines: String = (0..20).map(|n| format!("line {n:02}\n")).collect();
        let mut content = vec![
            plain("x".repeat(50)),
            command(1, lines.clone(), true),
            command(2, lines, false),
        ];
        trim(&mut content, 200, &mut Modes::default());
        assert_eq!(size(&content), 144);
        assert!(matches!(&content[0], TerminalContentPart::Command(part) if part.command_id == "2"));
        assert!(text(&content[0]).starts_with("line 02\n"), "{content:?}");
    }

    #[test]
    fn a_line_without_end_is_cut_before_a_sequence_and_colours_go_on() {
        let mut content = vec![plain(format!("\u{1b}[31m{}\u{1b}[1mbold", "\u{fc}".repeat(100)))];
        let mut modes = Modes::default();
        trim(&mut content, 8, &mut modes);
        assert_eq!(text(&content[0]), "\u{1b}[31m\u{1b}[1mbold");
    }

    #[test]
    fn what_comes_later_always_finds_its_part() {
        let mut content: Vec<_> = (0..3000).map(|n| command(n, "", true)).collect();
        content.push(command(3000, "\u{1b}[?25l", false));
        trim(&mut content, 100, &mut Modes::default());
        assert!(content.len() <= MAX_PARTS);
        assert!(matches!(content.last(), Some(TerminalContentPart::Command(part)) if part.command_id == "3000"));
    }
}
