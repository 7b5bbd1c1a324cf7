//! Breaks styled text into rows.

use ratatui_core::{
    style::Style,
    text::{Line, Span},
};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The distance between tab stops, in columns.
const TAB: usize = 4;

/// A line of text before it is wrapped.
pub(crate) type Pieces = Vec<(String, Style)>;

/// What is put in front of the first row and of the following ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Margin {
    pub(crate) first: Pieces,
    pub(crate) rest: Pieces,
}

impl Margin {
    pub(crate) fn spaces(count: usize) -> Self {
        Self::both(vec![(" ".repeat(count), Style::new())])
    }

    pub(crate) fn both(pieces: Pieces) -> Self {
        Self {
            first: pieces.clone(),
            rest: pieces,
        }
    }
}

/// The width of a text in columns.
pub(crate) fn columns(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

fn width_of(pieces: &Pieces) -> usize {
    pieces.iter().map(|(text, _)| columns(text)).sum()
}

/// The row that is being filled.
struct Row {
    pieces: Pieces,
    margin: usize,
    used: usize,
}

impl Row {
    fn new(margin: &Pieces) -> Self {
        let used = width_of(margin);
        Self {
            pieces: margin.clone(),
            margin: used,
            used,
        }
    }

    fn push(&mut self, text: &str, style: Style, width: usize) {
        self.used += width;
        match self.pieces.last_mut() {
            Some((last, same)) if *same == style && self.used > self.margin + width => last.push_str(text),
            _ => self.pieces.push((text.to_owned(), style)),
        }
    }

    fn finish(self) -> Line<'static> {
        Line::from(
            self.pieces
                .into_iter()
                .map(|(text, style)| Span::styled(text, style))
                .collect::<Vec<_>>(),
        )
    }
}

/// Breaks a line between words, or inside a word that is longer than a row.
pub(crate) fn words(pieces: &Pieces, width: usize, margin: &Margin) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let mut row = Row::new(&margin.first);
    // Even a narrow screen gets a few columns of text.
    let width = width.max(row.used + 4);
    let mut word: Vec<(&str, Style, usize)> = Vec::new();
    let mut word_width = 0;
    let mut spaces: Vec<(&str, Style)> = Vec::new();
    let graphemes = pieces
        .iter()
        .flat_map(|(text, style)| text.graphemes(true).map(move |grapheme| (grapheme, *style)))
        .map(Some)
        .chain([None]);
    for next in graphemes {
        let is_space = next.is_none_or(|(grapheme, _)| grapheme == " " || grapheme == "\t");
        if !is_space {
            let Some((grapheme, style)) = next else { continue };
            let columns = columns(grapheme);
            word.push((grapheme, style, columns));
            word_width += columns;
            // A word that is longer than a row is broken at its end.
            if word_width >= width - row.margin {
                flush_word(
                    &mut rows,
                    &mut row,
                    &mut spaces,
                    &mut word,
                    &mut word_width,
                    width,
                    margin,
                );
            }
            continue;
        }
        if !word.is_empty() {
            flush_word(
                &mut rows,
                &mut row,
                &mut spaces,
                &mut word,
                &mut word_width,
                width,
                margin,
            );
        }
        spaces.extend(next.map(|(grapheme, style)| (if grapheme == "\t" { " " } else { grapheme }, style)));
    }
    rows.push(row.finish());
    rows
}

fn flush_word(
    rows: &mut Vec<Line<'static>>,
    row: &mut Row,
    spaces: &mut Vec<(&str, Style)>,
    word: &mut Vec<(&str, Style, usize)>,
    word_width: &mut usize,
    width: usize,
    margin: &Margin,
) {
    let fits = row.used + spaces.len() + *word_width <= width;
    if fits {
        for (space, style) in spaces.drain(..) {
            row.push(space, style, 1);
        }
    } else {
        spaces.clear();
        if row.used > row.margin {
            rows.push(std::mem::replace(row, Row::new(&margin.rest)).finish());
        }
    }
    for (grapheme, style, columns) in word.drain(..) {
        if row.used + columns > width && row.used > row.margin {
            rows.push(std::mem::replace(row, Row::new(&margin.rest)).finish());
        }
        row.push(grapheme, style, columns);
    }
    *word_width = 0;
}

/// Breaks a line exactly where the row ends, as for code. Tabs go to the next tab stop.
pub(crate) fn hard(pieces: &Pieces, width: usize, margin: &Margin) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let mut row = Row::new(&margin.first);
    let width = width.max(row.used + 4);
    for (text, style) in pieces {
        for grapheme in text.graphemes(true) {
            if grapheme == "\t" {
                let stop = TAB - (row.used - row.margin) % TAB;
                for _ in 0..stop.min(width - row.used) {
                    row.push(" ", *style, 1);
                }
                continue;
            }
            let columns = columns(grapheme);
            if row.used + columns > width {
                rows.push(std::mem::replace(&mut row, Row::new(&margin.rest)).finish());
            }
            row.push(grapheme, *style, columns);
        }
    }
    rows.push(row.finish());
    rows
}

/// The beginning of a text that fits into this many columns.
pub(crate) fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for grapheme in text.graphemes(true) {
        used += columns(grapheme);
        if used > width {
            break;
        }
        out.push_str(grapheme);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(rows: &[Line]) -> Vec<String> {
        rows.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_break_between_words_and_long_ones_inside() {
        let margin = Margin {
            first: vec![("- ".into(), Style::new())],
            rest: vec![("  ".into(), Style::new())],
        };
        for (given, width, expected) in [
            ("", 10, vec!["- "]),
            ("one two three", 9, vec!["- one two", "  three"]),
            ("one  two", 20, vec!["- one  two"]),
            ("abcdefghijkl", 7, vec!["- abcde", "  fghij", "  kl"]),
            ("日本語日本語", 8, vec!["- 日本語", "  日本語"]),
            ("a \u{1f980}b", 5, vec!["- a", "  🦀b"]),
        ] {
            let rows = words(&vec![(given.into(), Style::new())], width, &margin);
            assert_eq!(text(&rows), expected, "{given:?} in {width}");
            assert!(rows.iter().all(|row| row.width() <= width.max(6)));
        }
    }

    #[test]
    fn code_breaks_where_the_row_ends_and_tabs_go_to_stops() {
        let rows = hard(&vec![("a\tbcdefg".into(), Style::new())], 8, &Margin::spaces(2));
        assert_eq!(text(&rows), ["  a   bc", "  defg"]);
    }

    #[test]
    fn what_does_not_fit_is_marked() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("日本語", 4), "日…");
    }
}
