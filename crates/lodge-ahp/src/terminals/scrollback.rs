//! How much of a terminal's past is kept.
//!
//! The protocol has no action that forgets the beginning of a terminal's content, so the host forgets it alone: clients
//! that listened all the time know more than a snapshot says. They stay in step all the same, because what later actions
//! speak of is never forgotten: output goes to the last part, and only the last part can be a command that still runs. So
//! the host's content is always the end of each client's, and in front of it stands what the terminal was set to there:
//! colours, modes, margins. Of a full-screen program that is how its screen looked.

use ahp_types::state::{TerminalContentPart, TerminalUnclassifiedPart};
use lodge_host::terminal::{Modes, screen};

/// Commands and what stands between them.
const MAX_PARTS: usize = 1000;

pub(super) fn text(part: &TerminalContentPart) -> &str {
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

/// What begins the screen that full-screen programs draw on.
const OTHER_SCREEN: &str = "\u{1b}[?1049h";

/// Forgets the oldest where there is more than may be. Returns the bytes that are left.
pub(super) fn trim(
    content: &mut Vec<TerminalContentPart>,
    limit: usize,
    modes: &mut Modes,
    (cols, rows): (u16, u16),
) -> usize {
    let mut whole = size(content);
    if whole <= limit && content.len() <= MAX_PARTS {
        return whole;
    }
    if redraw(content, modes, cols, rows) {
        whole = size(content);
        if whole <= limit / 4 * 3 {
            return whole;
        }
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
    let Some(head) = text_mut(&mut content[0]) else {
        return size(content);
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

/// A full-screen program draws over what it drew: all of it is replaced by how its screen looks now. False when none runs.
fn redraw(content: &mut Vec<TerminalContentPart>, modes: &Modes, cols: u16, rows: u16) -> bool {
    let mut now = modes.clone();
    content.iter().for_each(|part| now.follow(text(part)));
    if !now.is_alternate() {
        return false;
    }
    let begin = |(at, part): (usize, &TerminalContentPart)| Some((at, text(part).rfind(OTHER_SCREEN)?));
    let Some((at, begin)) = content.iter().enumerate().rev().find_map(begin) else {
        return false;
    };
    let picture = screen::picture(content.iter().map(text), cols, rows);
    if let Some(before) = text_mut(&mut content[at]) {
        before.truncate(begin);
    }
    let last = content.len() - 1;
    if at < last {
        content.drain(at + 1..last);
    }
    if let Some(end) = content.last_mut().and_then(text_mut) {
        if at < last {
            end.clear();
        }
        end.push_str(&now.prelude());
        end.push_str(&picture);
    }
    true
}

fn text_mut(part: &mut TerminalContentPart) -> Option<&mut String> {
    match part {
        TerminalContentPart::Command(command) => Some(&mut command.output),
        TerminalContentPart::Unclassified(part) => Some(&mut part.value),
        TerminalContentPart::Unknown(_) => None,
    }
}

/// Where to cut: after the line that `at` is in, or, in a line without end, at least not within a sequence.
fn line_after(text: &str, at: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let at = text.ceil_char_boundary(at);
    if let Some(end) = memchr::memchr(b'\n', &text.as_bytes()[at..]) {
        return at + end + 1;
    }
    let near = text.floor_char_boundary(at.saturating_sub(64));
    text[near..at].rfind('\u{1b}').map_or(at, |escape| near + escape)
}

#[cfg(test)]
mod tests {
    use ahp_types::state::TerminalCommandPart;

    use super::*;

    const SIZE: (u16, u16) = (80, 24);

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
        assert_eq!(trim(&mut content, 100, &mut Modes::default(), SIZE), 6);
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
        trim(&mut content, 200, &mut Modes::default(), SIZE);
        assert_eq!(size(&content), 144);
        assert!(matches!(&content[0], TerminalContentPart::Command(part) if part.command_id == "2"));
        assert!(text(&content[0]).starts_with("line 02\n"), "{content:?}");
    }

    #[test]
    fn a_line_without_end_is_cut_before_a_sequence_and_colours_go_on() {
        let mut content = vec![plain(format!("\u{1b}[31m{}\u{1b}[1mbold", "\u{fc}".repeat(100)))];
        let mut modes = Modes::default();
        trim(&mut content, 8, &mut modes, SIZE);
        assert_eq!(text(&content[0]), "\u{1b}[31m\u{1b}[1mbold");
    }

    #[test]
    fn what_a_full_screen_program_drew_is_replaced_by_its_screen() {
        let frames: String = (0..200).map(|n| format!("\u{1b}[3;5Hframe {n:03}")).collect();
        let drawn = format!("before\r\n{OTHER_SCREEN}\u{1b}[2J\u{1b}[?25l\u{1b}[1;1Htitle{frames}");
        for parts in [
            vec![plain("$ top\r\n"), command(1, drawn.clone(), false)],
            vec![plain(drawn.clone()), command(1, "\u{1b}[5;1Hmore", true), plain("")],
        ] {
            let mut content = parts.clone();
            let last = std::mem::discriminant(content.last().unwrap());
            trim(&mut content, 1000, &mut Modes::default(), SIZE);
            assert!(size(&content) < 600, "{content:?}");
            assert_eq!(std::mem::discriminant(content.last().unwrap()), last);
            let show = |content: &[TerminalContentPart]| screen::picture(content.iter().map(text), SIZE.0, SIZE.1);
            assert_eq!(show(&content), show(&parts));
            let whole: String = content.iter().map(text).collect();
            assert!(whole.contains("before\r\n") && whole.contains("frame 199") && whole.contains("title"));
        }
    }

    #[test]
    fn what_comes_later_always_finds_its_part() {
        let mut content: Vec<_> = (0..3000).map(|n| command(n, "", true)).collect();
        content.push(command(3000, "\u{1b}[?25l", false));
        trim(&mut content, 100, &mut Modes::default(), SIZE);
        assert!(content.len() <= MAX_PARTS);
        assert!(matches!(content.last(), Some(TerminalContentPart::Command(part)) if part.command_id == "3000"));
    }
}
