//! Screens of a terminal as one SVG that plays like a film, without a script: it also plays inside an `img` element.

use std::{collections::HashMap, fmt::Write, time::Duration};

const CELL_WIDTH: f64 = 8.4;
const LINE_HEIGHT: f64 = 18.0;
const MARGIN: f64 = 16.0;
const BACKGROUND: &str = "#0d1117";
const FOREGROUND: &str = "#e6edf3";
/// The sixteen named colours, as they look on a dark background.
const NAMED: [&str; 16] = [
    "#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4", "#6e7681", "#ffa198",
    "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#ffffff",
];

/// Screens in their order, each with how long it stays.
#[derive(Default)]
pub(super) struct Film {
    rows: Vec<String>,
    row_numbers: HashMap<String, usize>,
    frames: Vec<Frame>,
    size: (u16, u16),
}

struct Frame {
    rows: Vec<usize>,
    stays: Duration,
}

impl Film {
    /// Adds a screen; one that looks like the last only makes that one stay longer.
    pub(super) fn show(&mut self, screen: &vt100::Screen, stays: Duration) {
        let (height, width) = screen.size();
        self.size = (height.get(), width.get());
        let rows: Vec<usize> = (0..height.get()).map(|row| self.row(screen, row)).collect();
        match self.frames.last_mut() {
            Some(last) if last.rows == rows => last.stays += stays,
            _ => self.frames.push(Frame { rows, stays }),
        }
    }

    /// Rows repeat from frame to frame: each is in the file once.
    fn row(&mut self, screen: &vt100::Screen, row: u16) -> usize {
        let drawn = draw_row(screen, row);
        if let Some(number) = self.row_numbers.get(&drawn) {
            return *number;
        }
        self.rows.push(drawn.clone());
        self.row_numbers.insert(drawn, self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// The rows of the last screen, as they are drawn.
    pub(super) fn last_rows(&self) -> impl Iterator<Item = &str> {
        let rows = self.frames.last().map_or(&[][..], |frame| &frame.rows);
        rows.iter().map(|number| self.rows[*number].as_str())
    }

    /// The whole file.
    pub(super) fn render(&self, title: &str) -> String {
        let (height, width) = (
            f64::from(self.size.0) * LINE_HEIGHT,
            f64::from(self.size.1) * CELL_WIDTH,
        );
        let (full_height, full_width) = (height + 2.0 * MARGIN, width + 2.0 * MARGIN);
        let total: Duration = self.frames.iter().map(|frame| frame.stays).sum();
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {full_width:.0} {full_height:.0}\" role=\"img\">\n\
             <title>{title}</title>\n<style>\n\
             text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;white-space:pre;fill:{FOREGROUND}}}\n\
             .f{{visibility:hidden;animation:{:.2}s step-end infinite}}\n",
            total.as_secs_f64(),
        );
        let mut begins = Duration::ZERO;
        for (number, frame) in self.frames.iter().enumerate() {
            let percent = |time: Duration| 100.0 * time.as_secs_f64() / total.as_secs_f64();
            let (from, to) = (percent(begins), percent(begins + frame.stays));
            begins += frame.stays;
            let before = if number == 0 {
                String::new()
            } else {
                "0%{visibility:hidden}".to_owned()
            };
            let after = if number + 1 == self.frames.len() {
                String::new()
            } else {
                format!("{to:.3}%{{visibility:hidden}}")
            };
            let _ = writeln!(
                svg,
                "@keyframes k{number}{{{before}{from:.3}%{{visibility:visible}}{after}}}\n#f{number}{{animation-name:k{number}}}",
            );
        }
        svg.push_str("</style>\n<defs>\n");
        for (number, row) in self.rows.iter().enumerate().filter(|(_, row)| !row.is_empty()) {
            let _ = writeln!(svg, "<g id=\"r{number}\">{row}</g>");
        }
        let _ = writeln!(
            svg,
            "</defs>\n<rect width=\"{full_width:.0}\" height=\"{full_height:.0}\" rx=\"10\" fill=\"{BACKGROUND}\"/>\n<g transform=\"translate({MARGIN:.0} {MARGIN:.0})\">"
        );
        for (number, frame) in self.frames.iter().enumerate() {
            let _ = write!(svg, "<g class=\"f\" id=\"f{number}\">");
            for (line, row) in frame
                .rows
                .iter()
                .enumerate()
                .filter(|(_, row)| !self.rows[**row].is_empty())
            {
                let _ = write!(svg, "<use href=\"#r{row}\" y=\"{:.0}\"/>", line as f64 * LINE_HEIGHT);
            }
            svg.push_str("</g>\n");
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

/// One row: backgrounds first, then runs of text in one style. Every run has its width, so columns stay columns
/// whichever font the reader has.
fn draw_row(screen: &vt100::Screen, row: u16) -> String {
    let mut runs: Vec<(u16, u16, Style, String)> = Vec::new();
    for column in 0..screen.size().1.get() {
        let Some(cell) = screen.cell(row, column).filter(|cell| !cell.is_wide_continuation()) else {
            continue;
        };
        let style = Style::of_cell(cell);
        let text = if cell.has_contents() { cell.contents() } else { " " };
        let width = if cell.is_wide() { 2 } else { 1 };
        match runs.last_mut() {
            Some((_, wide, last, run)) if *last == style => {
                run.push_str(text);
                *wide += width;
            }
            _ => runs.push((column, width, style, text.to_owned())),
        }
    }
    let mut drawn = String::new();
    for (column, wide, style, _) in &runs {
        if let Some(colour) = &style.background {
            let (x, width) = (f64::from(*column) * CELL_WIDTH, f64::from(*wide) * CELL_WIDTH);
            let _ = write!(
                drawn,
                "<rect x=\"{x:.1}\" width=\"{width:.1}\" height=\"{LINE_HEIGHT:.0}\" fill=\"{colour}\"/>"
            );
        }
    }
    for (column, _, style, text) in &runs {
        let trimmed = text.trim_end();
        if trimmed.is_empty() {
            continue;
        }
        let spaces = trimmed.len() - trimmed.trim_start().len();
        let words = trimmed.trim_start();
        let x = f64::from(*column) * CELL_WIDTH + spaces as f64 * CELL_WIDTH;
        let width = words.chars().count() as f64 * CELL_WIDTH;
        let _ = write!(
            drawn,
            "<text x=\"{x:.1}\" y=\"14\" textLength=\"{width:.1}\"{}>{}</text>",
            style.attributes(),
            words.replace('&', "&amp;").replace('<', "&lt;")
        );
    }
    drawn
}

#[derive(PartialEq)]
struct Style {
    foreground: Option<String>,
    background: Option<String>,
    bold: bool,
    dim: bool,
    italic: bool,
}

impl Style {
    fn of_cell(cell: &vt100::Cell) -> Self {
        let (mut foreground, mut background) = (colour(cell.fgcolor()), colour(cell.bgcolor()));
        if cell.inverse() {
            (foreground, background) = (
                background.or_else(|| Some(BACKGROUND.to_owned())),
                foreground.or_else(|| Some(FOREGROUND.to_owned())),
            );
        }
        Self {
            foreground,
            background,
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
        }
    }

    fn attributes(&self) -> String {
        let mut rules = Vec::new();
        if let Some(colour) = &self.foreground {
            rules.push(format!("fill:{colour}"));
        }
        for (is_so, rule) in [
            (self.bold, "font-weight:bold"),
            (self.dim, "opacity:.6"),
            (self.italic, "font-style:italic"),
        ] {
            if is_so {
                rules.push(rule.to_owned());
            }
        }
        if rules.is_empty() {
            String::new()
        } else {
            format!(" style=\"{}\"", rules.join(";"))
        }
    }
}

fn colour(colour: vt100::Color) -> Option<String> {
    match colour {
        vt100::Color::Default => None,
        vt100::Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        vt100::Color::Idx(index @ 0..16) => Some(NAMED[usize::from(index)].to_owned()),
        vt100::Color::Idx(index @ 16..232) => {
            let level = |step: u8| if step == 0 { 0 } else { 55 + 40 * step };
            let cube = index - 16;
            Some(format!(
                "#{:02x}{:02x}{:02x}",
                level(cube / 36),
                level(cube / 6 % 6),
                level(cube % 6)
            ))
        }
        vt100::Color::Idx(index) => {
            let grey = 8 + 10 * (index - 232);
            Some(format!("#{grey:02x}{grey:02x}{grey:02x}"))
        }
    }
}
