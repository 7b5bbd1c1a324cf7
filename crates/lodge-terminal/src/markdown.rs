//! Lays out Markdown as rows. The text may be anything: what would control the terminal is replaced here, after entities such as
//! `&#27;` were decoded.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui_core::{style::Style, text::Line};

use crate::{
    highlight::{self, Colouring, Open},
    plain::{plain, plain_line},
    theme::Theme,
    wrap::{self, Margin, Pieces, columns},
};

/// The indentation of code, in columns.
const CODE_INDENT: usize = 2;

/// Lays out prose.
pub(crate) fn prose(text: &str, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page::new(width, theme);
    for event in Parser::new_ext(text, options) {
        page.event(event);
    }
    page.end_line();
    while page.rows.last().is_some_and(|row| row.width() == 0) {
        page.rows.pop();
    }
    page.rows
}

/// Lays out code.
pub(crate) fn code(text: &str, colouring: Colouring, open: Open, width: usize, theme: &Theme) -> Vec<Line<'static>> {
    let mut open = open;
    let margin = Margin::spaces(CODE_INDENT);
    plain(text)
        .lines()
        .flat_map(|line| wrap::hard(&highlight::line(colouring, &mut open, line, theme), width, &margin))
        .collect()
}

/// A list: the number of its next item, if it is numbered.
struct List(Option<u64>);

#[derive(Default)]
struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Pieces>>,
}

struct Page<'a> {
    rows: Vec<Line<'static>>,
    width: usize,
    theme: &'a Theme,
    line: Pieces,
    styles: Vec<Style>,
    lists: Vec<List>,
    quotes: usize,
    /// The mark of an item that is still empty.
    mark: Option<String>,
    indents: Vec<usize>,
    code: Option<(Colouring, String)>,
    table: Option<Table>,
    links: Vec<(String, usize)>,
}

impl<'a> Page<'a> {
    fn new(width: usize, theme: &'a Theme) -> Self {
        Self {
            rows: Vec::new(),
            width,
            theme,
            line: Vec::new(),
            styles: Vec::new(),
            lists: Vec::new(),
            quotes: 0,
            mark: None,
            indents: Vec::new(),
            code: None,
            table: None,
            links: Vec::new(),
        }
    }

    fn style(&self) -> Style {
        self.styles
            .iter()
            .fold(self.theme.text, |style, more| style.patch(*more))
    }

    fn put(&mut self, text: &str) {
        let style = self.style();
        self.push(text, style);
    }

    /// Adds a piece to the line. No text reaches a line in another way.
    fn push(&mut self, text: &str, style: Style) {
        self.line.push((plain_line(text), style));
    }

    /// Adds an empty row, unless the last row is empty.
    fn gap(&mut self) {
        if self.rows.last().is_some_and(|row| row.width() > 0) {
            self.rows.push(Line::default());
        }
    }

    fn margin(&mut self) -> Margin {
        let bars = ("▎ ".repeat(self.quotes), self.theme.dim);
        let depth: usize = self.indents.iter().sum();
        let rest = (" ".repeat(depth), self.theme.text);
        let first = match self.mark.take() {
            Some(mark) => {
                let before = depth.saturating_sub(columns(&mark));
                (format!("{}{mark}", " ".repeat(before)), self.theme.accent)
            }
            None => rest.clone(),
        };
        Margin {
            first: vec![bars.clone(), first],
            rest: vec![bars, rest],
        }
    }

    fn end_line(&mut self) {
        if self.line.is_empty() && self.mark.is_none() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        let margin = self.margin();
        self.rows.extend(wrap::words(&line, self.width, &margin));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&plain(&text)),
                None => self.put(&text),
            },
            Event::Code(text) => {
                let style = self.style().patch(self.theme.code);
                self.push(&text, style);
            }
            // Models mean the line breaks that they write.
            Event::SoftBreak | Event::HardBreak => self.end_line(),
            // Each line of a block is an event of its own.
            Event::Html(text) => {
                for line in text.lines() {
                    self.put(line);
                    self.end_line();
                }
            }
            Event::InlineHtml(text) => self.put(&text),
            Event::Rule => {
                self.end_line();
                self.gap();
                let rule = "─".repeat(self.width.min(40));
                self.rows.push(Line::styled(rule, self.theme.dim));
                self.rows.push(Line::default());
            }
            Event::TaskListMarker(done) => self.put(if done { "☑ " } else { "☐ " }),
            Event::FootnoteReference(name) => self.put(&format!("[{name}]")),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.put(&text),
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph if self.lists.is_empty() => self.gap(),
            Tag::Heading { level, .. } => {
                self.gap();
                self.styles.push(match level {
                    HeadingLevel::H1 | HeadingLevel::H2 => self.theme.heading,
                    _ => self.theme.strong,
                });
            }
            Tag::HtmlBlock => {
                self.end_line();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            Tag::BlockQuote(_) => {
                self.end_line();
                self.gap();
                self.quotes += 1;
            }
            Tag::CodeBlock(kind) => {
                self.end_line();
                let name = match &kind {
                    CodeBlockKind::Fenced(name) => name.as_ref(),
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((highlight::colouring(name), String::new()));
            }
            Tag::List(first) => {
                self.end_line();
                if self.lists.is_empty() {
                    self.gap();
                }
                self.lists.push(List(first));
            }
            Tag::Item => {
                self.end_line();
                let mark = match self.lists.last_mut() {
                    Some(List(Some(number))) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                self.indents.push(columns(&mark));
                self.mark = Some(mark);
            }
            Tag::Emphasis => self.styles.push(self.theme.emphasis),
            Tag::Strong => self.styles.push(self.theme.strong),
            Tag::Strikethrough => {
                let crossed = Style::new().add_modifier(ratatui_core::style::Modifier::CROSSED_OUT);
                self.styles.push(crossed);
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((plain_line(&dest_url), self.line.len()));
                self.styles.push(self.theme.link);
            }
            Tag::Table(alignments) => {
                self.end_line();
                self.gap();
                self.table = Some(Table {
                    alignments,
                    rows: Vec::new(),
                });
            }
            Tag::TableHead => {
                self.styles.push(self.theme.strong);
                self.table_row();
            }
            Tag::TableRow => self.table_row(),
            _ => {}
        }
    }

    fn table_row(&mut self) {
        if let Some(table) = &mut self.table {
            table.rows.push(Vec::new());
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.end_line();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            TagEnd::Heading(_) => {
                self.end_line();
                self.styles.pop();
                self.gap();
            }
            TagEnd::BlockQuote(_) => {
                self.end_line();
                self.quotes = self.quotes.saturating_sub(1);
                self.gap();
            }
            TagEnd::CodeBlock => {
                let Some((colouring, text)) = self.code.take() else {
                    return;
                };
                let mut margin = self.margin();
                margin.first.push((" ".repeat(CODE_INDENT), self.theme.text));
                margin.rest.push((" ".repeat(CODE_INDENT), self.theme.text));
                let mut open = Open::default();
                for line in text.lines() {
                    let line = highlight::line(colouring, &mut open, line, self.theme);
                    self.rows.extend(wrap::hard(&line, self.width, &margin));
                    margin.first = margin.rest.clone();
                }
                self.gap();
            }
            TagEnd::List(_) => {
                self.end_line();
                self.lists.pop();
                if self.lists.is_empty() {
                    self.gap();
                }
            }
            TagEnd::Item => {
                self.end_line();
                self.indents.pop();
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => drop(self.styles.pop()),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let Some((url, from)) = self.links.pop() else { return };
                let shown: String = self.line.iter().skip(from).map(|(text, _)| text.as_str()).collect();
                // A link whose text is its address is not shown twice.
                if shown.trim() != url.trim_start_matches("mailto:") && !url.is_empty() {
                    self.push(&format!(" ({url})"), self.theme.dim);
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.line);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::TableHead => drop(self.styles.pop()),
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let rows = table.draw(self.width, self.theme);
                    self.rows.extend(rows);
                    self.gap();
                }
            }
            _ => {}
        }
    }
}

impl Table {
    /// Gives columns the width that they need, or, on a narrow screen, a proportional part of it. Cells are wrapped. Where there are
    /// more columns than fit, each cell has a line with its header.
    fn draw(&self, width: usize, theme: &Theme) -> Vec<Line<'static>> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell_width = |pieces: &Pieces| pieces.iter().map(|(text, _)| columns(text)).sum::<usize>();
        let mut widths: Vec<usize> = (0..count)
            .map(|at| {
                self.rows
                    .iter()
                    .filter_map(|row| row.get(at))
                    .map(cell_width)
                    .max()
                    .unwrap_or(0)
                    .max(3)
            })
            .collect();
        let room = width.saturating_sub(count.saturating_sub(1) * 3);
        while widths.iter().sum::<usize>() > room {
            match widths.iter_mut().max() {
                Some(widest) if *widest > 4 => *widest -= 1,
                _ => return self.list(width),
            }
        }
        let mut drawn = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<Vec<Line>> = (0..count)
                .map(|at| wrap::words(row.get(at).unwrap_or(&Vec::new()), widths[at], &Margin::default()))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for at in 0..height {
                let mut line = Line::default();
                for (column, cell) in cells.iter().enumerate() {
                    if column > 0 {
                        line.push_span((" │ ").to_owned());
                        if let Some(bar) = line.spans.last_mut() {
                            bar.style = theme.dim;
                        }
                    }
                    let part = cell.get(at).cloned().unwrap_or_default();
                    let blank = widths[column].saturating_sub(part.width());
                    let left = match self.alignments.get(column) {
                        Some(Alignment::Right) => blank,
                        Some(Alignment::Center) => blank / 2,
                        _ => 0,
                    };
                    line.push_span(" ".repeat(left));
                    line.spans.extend(part.spans);
                    if column + 1 < count {
                        line.push_span(" ".repeat(blank - left));
                    }
                }
                drawn.push(line);
            }
            if number == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                drawn.push(Line::styled(rule.join("─┼─"), theme.dim));
            }
        }
        drawn
    }

    /// Every cell as a line: its header, and what it says.
    fn list(&self, width: usize) -> Vec<Line<'static>> {
        let Some((headers, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        let margin = Margin {
            first: Vec::new(),
            rest: vec![("  ".to_owned(), Style::new())],
        };
        let mut drawn = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                drawn.push(Line::default());
            }
            for (at, cell) in row.iter().enumerate() {
                let mut line = headers.get(at).cloned().unwrap_or_default();
                line.push((": ".to_owned(), Style::new()));
                line.extend(cell.iter().cloned());
                drawn.extend(wrap::words(&line, width, &margin));
            }
        }
        if rows.is_empty() {
            drawn.extend(headers.iter().flat_map(|header| wrap::words(header, width, &margin)));
        }
        drawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::Scheme;

    fn shown(text: &str, width: usize) -> String {
        let rows = prose(text, width, &Theme::new(Scheme::Dark));
        rows.iter()
            .map(|row| row.to_string().trim_end().to_owned() + "\n")
            .collect()
    }

    #[test]
    fn markdown_reads_as_a_page() {
        for (text, width, expected) in [
            (
                "# Title\n\nSome *words* and `code`.",
                40,
                "Title\n\nSome words and code.\n",
            ),
            ("- one\n- two\n  - three\n\nend", 40, "• one\n• two\n  • three\n\nend\n"),
            ("9. nine\n10. ten and more", 12, "9. nine\n10. ten and\n    more\n"),
            ("> quoted\n> twice", 40, "▎ quoted\n▎ twice\n"),
            (
                "[here](https://x.example) <https://y.example>",
                60,
                "here (https://x.example) https://y.example\n",
            ),
            ("- [x] done\n- [ ] open", 40, "• ☑ done\n• ☐ open\n"),
            (
                "| a | b |\n|---|--:|\n| one | 2 |",
                40,
                "a   │   b\n────┼────\none │   2\n",
            ),
            ("a\n\n---\n\nb", 10, "a\n\n──────────\n\nb\n"),
            ("1. x\n\n   ```\n   y\n   ```", 40, "1. x\n     y\n"),
            (
                "| long header | b |\n|---|---|\n| some more words | x |",
                16,
                "long       │ b\nheader     │\n───────────┼────\nsome more  │ x\nwords      │\n",
            ),
            (
                "| a | b | c | d |\n|---|---|---|---|\n| one two | 2 | 3 | 4 |\n| 5 | 6 | 7 | 8 |",
                20,
                "a: one two\nb: 2\nc: 3\nd: 4\n\na: 5\nb: 6\nc: 7\nd: 8\n",
            ),
            (
                "one\n\n<div>\n  <p>two</p>\n</div>\n\nthree <b>four</b>",
                40,
                "one\n\n<div>\n  <p>two</p>\n</div>\n\nthree <b>four</b>\n",
            ),
        ] {
            assert_eq!(shown(text, width), expected, "{text:?}");
        }
    }

    #[test]
    fn no_row_is_wider_than_the_screen() {
        let text = "# A long title that wraps\n\n- item with `some long code in it` and more\n> quote quote quote quote\n\n\
                    | a | b | c |\n|---|---|---|\n| wide wide | wide | w |\n\nabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
        let columns = (1..=12).map(|n| format!("| c{n} ")).collect::<String>();
        let wide = format!("{columns}|\n{}|\n{columns}|", "|---".repeat(12));
        let text = format!("{text}\n\n{wide}");
        for width in [20, 33, 60] {
            let rows = prose(&text, width, &Theme::new(Scheme::Light));
            assert!(rows.iter().all(|row| row.width() <= width), "{width}: {rows:#?}");
        }
    }
}
