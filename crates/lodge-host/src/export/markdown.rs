//! A session in Markdown: readable as text, with its tool calls folded where HTML is shown.

use std::fmt::Write as _;

use super::{Export, Part, arguments_text};

pub(super) fn render(export: &Export) -> String {
    let mut out = format!("# {}\n\n", one_line(&export.title));
    for (what, value) in &export.about {
        let _ = writeln!(out, "- {what}: {}", one_line(value));
    }
    for part in &export.parts {
        out.push('\n');
        // Writing to a string cannot fail.
        let _ = match part {
            Part::Person(text) => writeln!(out, "## You\n\n{}", text.trim()),
            Part::Agent(text) => writeln!(out, "{}", text.trim()),
            Part::Thought(text) => writeln!(
                out,
                "<details><summary>Thought</summary>\n\n{}\n\n</details>",
                quoted(text)
            ),
            Part::Tool {
                name,
                arguments,
                result,
                failed,
            } => {
                let (short, all) = arguments_text(arguments.as_ref());
                let mark = if *failed { "✗" } else { "✓" };
                let title = format!("{mark} {} {}", html(name), html(&short));
                let mut inside = String::new();
                if !all.is_empty() {
                    let _ = write!(inside, "{}\n\n", fenced(&all, "json"));
                }
                if !result.trim().is_empty() {
                    let _ = write!(inside, "{}\n\n", fenced(result, ""));
                }
                writeln!(
                    out,
                    "<details><summary>{}</summary>\n\n{inside}</details>",
                    title.trim()
                )
            }
            Part::Note(text) => writeln!(out, "*{}*", one_line(text)),
            Part::Error(text) => writeln!(out, "**Error:** {}", one_line(text)),
        };
    }
    out
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    text.trim()
        .lines()
        .map(|line| format!("> {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A block whose fence is longer than any in the text.
pub(crate) fn fenced(text: &str, language: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end())
}
