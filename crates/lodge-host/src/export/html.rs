//! A session as one page of HTML: no script, nothing loaded from elsewhere, everything that was said escaped.

use std::fmt::Write as _;

use super::{Export, Part, arguments_text};

const STYLE: &str = include_str!("page.css");

pub(super) fn render(export: &Export) -> String {
    let title = escaped(&export.title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<header>\n<h1>{title}</h1>\n<p>"
    );
    let about: Vec<String> = export
        .about
        .iter()
        .map(|(what, value)| format!("<span>{what}: {}</span>", escaped(value)))
        .collect();
    out.push_str(&about.join(" · "));
    out.push_str("</p>\n</header>\n<main>\n");
    for part in &export.parts {
        // Writing to a string cannot fail.
        let _ = match part {
            Part::Person(text) => writeln!(out, "<section class=\"person\">{}</section>", prose(text)),
            Part::Agent(text) => writeln!(out, "<section class=\"agent\">{}</section>", prose(text)),
            Part::Thought(text) => writeln!(
                out,
                "<details class=\"thought\"><summary>Thought</summary>{}</details>",
                prose(text)
            ),
            Part::Tool {
                name,
                arguments,
                result,
                failed,
            } => tool(&mut out, name, arguments.as_ref(), result, *failed),
            Part::Note(text) => writeln!(out, "<p class=\"note\">{}</p>", escaped(text)),
            Part::Error(text) => writeln!(out, "<p class=\"error\">{}</p>", escaped(text)),
        };
    }
    out.push_str("</main>\n<footer>Exported from Lodge</footer>\n</body>\n</html>\n");
    out
}

fn tool(
    out: &mut String,
    name: &str,
    arguments: Option<&serde_json::Value>,
    result: &str,
    failed: bool,
) -> std::fmt::Result {
    let (short, all) = arguments_text(arguments);
    let (class, mark) = if failed {
        ("tool failed", "✗")
    } else {
        ("tool", "✓")
    };
    write!(
        out,
        "<details class=\"{class}\"><summary>{mark} <b>{}</b> <code>{}</code></summary>",
        escaped(name),
        escaped(&short)
    )?;
    for text in [all.as_str(), result.trim_end()]
        .into_iter()
        .filter(|text| !text.is_empty())
    {
        write!(out, "<pre>{}</pre>", escaped(text))?;
    }
    out.write_str("</details>\n")
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What a terminal would obey has no place on a page.
            c if c.is_control() && !matches!(c, '\n' | '\t') => {}
            c => out.push(c),
        }
    }
    out
}

/// Words with the little Markdown that answers have: blocks of code, headings, lists, emphasis and code in lines. Everything
/// else stays as it was typed.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.trim().lines().peekable();
    let mut paragraph: Vec<String> = Vec::new();
    let flush = |paragraph: &mut Vec<String>, out: &mut String| {
        if !paragraph.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", paragraph.join("<br>\n"));
            paragraph.clear();
        }
    };
    while let Some(line) = lines.next() {
        let bare = line.trim_start();
        let ticks = bare.len() - bare.trim_start_matches('`').len();
        if ticks >= 3 {
            flush(&mut paragraph, &mut out);
            let fence = "`".repeat(ticks);
            let mut code = String::new();
            for line in lines.by_ref() {
                if line.trim() == fence {
                    break;
                }
                code.push_str(line);
                code.push('\n');
            }
            let _ = writeln!(out, "<pre>{}</pre>", escaped(code.trim_end()));
        } else if let Some(item) = item(bare) {
            flush(&mut paragraph, &mut out);
            let _ = write!(out, "<ul><li>{}</li>", inline(item));
            while let Some(next) = lines.next_if(|line| item_of(line).is_some()) {
                let _ = write!(out, "<li>{}</li>", inline(item_of(next).unwrap_or_default()));
            }
            out.push_str("</ul>\n");
        } else if bare.starts_with('#') && bare.trim_start_matches('#').starts_with(' ') {
            flush(&mut paragraph, &mut out);
            let _ = writeln!(out, "<h3>{}</h3>", inline(bare.trim_start_matches('#').trim()));
        } else if bare.is_empty() {
            flush(&mut paragraph, &mut out);
        } else {
            paragraph.push(inline(line));
        }
    }
    flush(&mut paragraph, &mut out);
    out
}

fn item(line: &str) -> Option<&str> {
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* "))
}

fn item_of(line: &str) -> Option<&str> {
    item(line.trim_start())
}

/// Code in backticks and words between double stars.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (number, piece) in text.split('`').enumerate() {
        let closed = number < text.matches('`').count() || text.matches('`').count().is_multiple_of(2);
        match (number % 2, closed) {
            (1, true) => {
                let _ = write!(out, "<code>{}</code>", escaped(piece));
            }
            (1, false) => {
                out.push('`');
                out.push_str(&escaped(piece));
            }
            _ => out.push_str(&strong(&escaped(piece))),
        }
    }
    out
}

fn strong(text: &str) -> String {
    let pieces: Vec<&str> = text.split("**").collect();
    if pieces.len() < 3 || pieces.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let tagged = pieces.iter().enumerate().map(|(number, piece)| match number % 2 {
        1 => format!("<strong>{piece}</strong>"),
        _ => (*piece).to_owned(),
    });
    tagged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_becomes_markup() {
        for (text, expected) in [
            (
                "<script>alert(1)</script>",
                "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n",
            ),
            (
                "a `<b>` **bold** & \"q\"",
                "<p>a <code>&lt;b&gt;</code> <strong>bold</strong> &amp; &quot;q&quot;</p>\n",
            ),
            ("one ` tick", "<p>one ` tick</p>\n"),
            ("```html\n<i>x</i>\n```", "<pre>&lt;i&gt;x&lt;/i&gt;</pre>\n"),
            ("```\nno end", "<pre>no end</pre>\n"),
            ("- a\n- b\nc", "<ul><li>a</li><li>b</li></ul>\n<p>c</p>\n"),
            ("# Title\ntext\nmore", "<h3>Title</h3>\n<p>text<br>\nmore</p>\n"),
            ("\u{1b}[31mred\u{7}", "<p>[31mred</p>\n"),
        ] {
            assert_eq!(prose(text), expected, "{text:?}");
        }
    }
}
