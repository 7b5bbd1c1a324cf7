//! Splits a growing Markdown text into pieces that are drawn separately. Only the last piece changes while the text grows, so drawing an
//! answer costs only what was added, however long the answer is.

use crate::highlight::{Colouring, Open, colouring, line};
use crate::theme::{Scheme, Theme};

/// The most lines of code in one piece, and the bytes of prose after which any line break begins a new piece.
const CODE_LINES: usize = 40;
const PROSE_BYTES: usize = 8 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Prose,
    Code { colouring: Colouring, open: Open },
}

/// A piece of the text, possibly empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) kind: Kind,
    /// Whether it continues the previous piece.
    pub(crate) continues: bool,
}

/// A code fence that is not closed yet.
#[derive(Debug, Clone, Copy)]
struct Fence {
    mark: u8,
    length: usize,
    /// Whether it is inside a list or a quote, and so part of the prose.
    inner: bool,
}

/// The pieces of a text.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    pub(crate) all: Vec<Chunk>,
    /// All complete lines up to this offset have been read.
    read: usize,
    fence: Option<Fence>,
    lines: usize,
    /// Whether the last line that was read was empty.
    blank: bool,
}

impl Chunks {
    /// Reads what was added to the text. Text that was read before must not have changed.
    pub(crate) fn follow(&mut self, text: &str) {
        while let Some(length) = text[self.read..].find('\n') {
            let (from, to) = (self.read, self.read + length + 1);
            self.whole_line(&text[from..to], from, to, text);
            self.read = to;
        }
        if self.read < text.len() {
            // A line that may become a fence counts as prose until it is complete.
            self.paragraph(&text[self.read..], self.read);
            self.cut(text);
        }
        // A closing fence is never shown, not even while its line is incomplete.
        let tail = text[self.read..].trim_end();
        let closes = |fence: Fence| !fence.inner && tail.bytes().all(|byte| byte == fence.mark);
        let end = match self.fence.is_some_and(closes) {
            true => self.read,
            false => text.len(),
        };
        if let Some(last) = self.all.last_mut() {
            last.end = end.max(last.start);
        }
    }

    fn begin(&mut self, start: usize, kind: Kind, continues: bool) {
        if let Some(last) = self.all.last_mut() {
            last.end = last.end.min(start).max(last.start);
            if last.start >= start {
                self.all.pop();
            } else {
                last.end = start;
            }
        }
        self.lines = 0;
        self.all.push(Chunk {
            start,
            end: start,
            kind,
            continues,
        });
    }

    /// Begins a new piece at a paragraph after an empty line, unless the paragraph is indented and so belongs to what is above it.
    fn paragraph(&mut self, line: &str, from: usize) {
        let begins = self.blank && self.fence.is_none() && !line.starts_with([' ', '\t']) && !line.trim().is_empty();
        match self.all.last() {
            None => self.begin(from, Kind::Prose, false),
            // The line has been cut already.
            Some(last) if last.start > from => {}
            Some(last) if last.kind == Kind::Prose => {
                let long = from - last.start > PROSE_BYTES;
                if begins || long {
                    self.begin(from, Kind::Prose, long && !begins);
                }
            }
            // The code before this line has ended.
            Some(_) if self.fence.is_none() => self.begin(from, Kind::Prose, false),
            Some(_) => {}
        }
    }

    /// Cuts a line that is too long for one piece, between words if possible.
    fn cut(&mut self, text: &str) {
        while let Some(last) = self.all.last()
            && last.kind == Kind::Prose
            && self.fence.is_none()
            && text.len() - last.start > 2 * PROSE_BYTES
        {
            let (from, most) = (last.start + PROSE_BYTES, last.start + 2 * PROSE_BYTES);
            let space = text.as_bytes()[from..most].iter().position(|byte| *byte == b' ');
            let start = space.map_or_else(|| text.floor_char_boundary(most), |at| from + at + 1);
            self.begin(start, Kind::Prose, true);
        }
    }

    fn whole_line(&mut self, line: &str, from: usize, to: usize, text: &str) {
        let bare = line.trim_end();
        let marks = bare.trim_start();
        let indent = bare.len() - marks.len();
        if let Some(fence) = self.fence {
            let closing = marks.bytes().take_while(|byte| *byte == fence.mark).count();
            if closing >= fence.length && closing == marks.len() && (fence.inner || indent < 4) {
                self.fence = None;
                if !fence.inner {
                    // The fence itself is not shown: code ends before it, and prose begins after it.
                    if let Some(last) = self.all.last_mut() {
                        last.end = from;
                    }
                    self.begin_after_code(to);
                }
            } else if !fence.inner {
                self.code_line(from, text);
            }
            return;
        }
        let mark = marks
            .as_bytes()
            .first()
            .copied()
            .filter(|byte| matches!(byte, b'`' | b'~'));
        let length = mark.map_or(0, |mark| marks.bytes().take_while(|byte| *byte == mark).count());
        let opens = length >= 3 && !(mark == Some(b'`') && marks[length..].contains('`'));
        if let Some(mark) = mark.filter(|_| opens) {
            let inner = indent > 0;
            if inner {
                self.paragraph(line, from);
            }
            self.fence = Some(Fence { mark, length, inner });
            if !inner {
                let colouring = colouring(marks[length..].trim());
                let open = Open::default();
                self.begin(from, Kind::Code { colouring, open }, false);
                if let Some(last) = self.all.last_mut() {
                    (last.start, last.end) = (to, to);
                }
            }
            self.blank = false;
            return;
        }
        self.paragraph(line, from);
        self.cut(&text[..to]);
        self.blank = marks.is_empty();
        if self.blank && self.all.len() == 1 && self.all[0].start == from {
            // Empty lines at the beginning are skipped.
            self.all.pop();
        }
    }

    fn begin_after_code(&mut self, start: usize) {
        self.lines = 0;
        self.blank = true;
        self.all.push(Chunk {
            start,
            end: start,
            kind: Kind::Prose,
            continues: false,
        });
    }

    fn code_line(&mut self, from: usize, text: &str) {
        self.lines += 1;
        let Some(last) = self.all.last() else { return };
        let Kind::Code { colouring, open } = last.kind else {
            return;
        };
        if self.lines <= CODE_LINES {
            return;
        }
        let mut open = open;
        if matches!(colouring, Colouring::Tokens(_)) {
            let theme = Theme::new(Scheme::Plain);
            for before in text[last.start..from].lines() {
                line(colouring, &mut open, before, &theme);
            }
        }
        self.begin(from, Kind::Code { colouring, open }, true);
        self.lines = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Vec<(String, bool)> {
        let mut chunks = Chunks::default();
        chunks.follow(text);
        let kinds = |chunk: &Chunk| (text[chunk.start..chunk.end].to_owned(), chunk.kind == Kind::Prose);
        chunks
            .all
            .iter()
            .filter(|chunk| chunk.start < chunk.end)
            .map(kinds)
            .collect()
    }

    #[test]
    fn prose_and_code_are_pieces_of_their_own() {
        let prose = |text: &str| (text.to_owned(), true);
        let code = |text: &str| (text.to_owned(), false);
        for (text, expected) in [
            ("", vec![]),
            ("one\ntwo", vec![prose("one\ntwo")]),
            ("one\n\ntwo", vec![prose("one\n\n"), prose("two")]),
            ("- a\n\n  b\n\nc", vec![prose("- a\n\n  b\n\n"), prose("c")]),
            ("```rust\nx\n```\nafter", vec![code("x\n"), prose("after")]),
            ("before\n```\nx\n\ny", vec![prose("before\n"), code("x\n\ny")]),
            ("```\nx\n```", vec![code("x\n")]),
            (
                "- a\n  ```\n  x\n\n  y\n  ```\n",
                vec![prose("- a\n  ```\n  x\n\n  y\n  ```\n")],
            ),
        ] {
            assert_eq!(shape(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_text_that_grows_has_the_pieces_of_the_whole() {
        let text =
            "# Title\n\nSome *words*,\nmore.\n\n```rust\nfn a() {\n\n}\n```\n\n- x\n\n- y\n\n~~~\nraw\n~~~\nend\n";
        let mut whole = Chunks::default();
        whole.follow(text);
        for step in 1..8 {
            let mut grown = Chunks::default();
            let mut at = 0;
            while at < text.len() {
                at = (at + step).min(text.len());
                grown.follow(&text[..at]);
            }
            assert_eq!(grown.all, whole.all, "{step} bytes at a time");
        }
    }

    #[test]
    fn a_line_without_an_end_is_cut_wherever_it_stands_still() {
        let text = format!("begin\n\n{}\nnext\n\n{}", "wörds ".repeat(6000), "日".repeat(20_000));
        let mut whole = Chunks::default();
        whole.follow(&text);
        let longest = whole.all.iter().map(|chunk| chunk.end - chunk.start).max().unwrap();
        assert!(longest <= 2 * PROSE_BYTES, "{longest}");
        assert!(whole.all.windows(2).all(|pair| pair[0].end == pair[1].start));
        let mut grown = Chunks::default();
        for (at, _) in text.char_indices().step_by(500) {
            grown.follow(&text[..at]);
        }
        grown.follow(&text);
        assert_eq!(grown.all, whole.all);
    }

    #[test]
    fn long_code_is_cut_and_knows_what_is_open() {
        let text = format!("```rust\n/*\n{}*/\nlet x;\n", "inside\n".repeat(100));
        let mut chunks = Chunks::default();
        chunks.follow(&text);
        assert_eq!(chunks.all.len(), 3);
        let opens: Vec<Open> = chunks
            .all
            .iter()
            .filter_map(|chunk| match chunk.kind {
                Kind::Code { open, .. } => Some(open),
                Kind::Prose => None,
            })
            .collect();
        assert_eq!(opens, [Open::Nothing, Open::Comment, Open::Comment]);
        assert!(chunks.all[1].continues);
    }
}
