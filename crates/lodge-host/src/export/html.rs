//! A session as one HTML page: no script, nothing loaded from elsewhere, all text escaped.

use std::fmt::Write as _;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

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
            Part::Person(text) => writeln!(out, "<section class=\"person\"><h2>You</h2>\n{}</section>", prose(text)),
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
        "<details class=\"{class}\"><summary>{mark} <b>{}</b>",
        escaped(name)
    )?;
    if !short.is_empty() {
        write!(out, " <code>{}</code>", escaped(&short))?;
    }
    out.write_str("</summary>")?;
    if !all.is_empty() {
        write!(out, "<pre>{}</pre>", escaped(&all))?;
    }
    if !result.trim().is_empty() {
        write!(out, "<pre>{}</pre>", result_text(result.trim_end()))?;
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

/// What was said, as Markdown. Markup in it is shown, not obeyed; nothing is loaded, and links lead to pages only.
fn prose(text: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect();
    let mut dropped = 0;
    let shown = Parser::new_ext(text.trim(), options).filter_map(|event| match event {
        Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(html)),
        Event::SoftBreak => Some(Event::HardBreak),
        Event::Start(Tag::Link { dest_url, .. }) if !is_page(&dest_url) => {
            dropped += 1;
            None
        }
        Event::End(TagEnd::Link) if dropped > 0 => {
            dropped -= 1;
            None
        }
        Event::Start(Tag::Image { .. }) => Some(Event::Text("🖼 ".into())),
        Event::End(TagEnd::Image) => None,
        // Titles of the page's own stand above those of answers.
        Event::Start(Tag::Heading { level, .. }) => Some(Event::Html(format!("<h{}>", below(level)).into())),
        Event::End(TagEnd::Heading(level)) => Some(Event::Html(format!("</h{}>\n", below(level)).into())),
        other => Some(other),
    });
    let mut out = String::new();
    html::push_html(&mut out, shown);
    out
}

fn is_page(url: &str) -> bool {
    ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| url.to_lowercase().starts_with(scheme))
}

fn below(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}

/// What a tool gave back; changes of files with their lines in colour.
fn result_text(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let line_text = escaped(line);
        match line.as_bytes().first() {
            _ if line.starts_with("+++") || line.starts_with("---") => line_text,
            Some(b'+') => format!("<ins>{line_text}</ins>"),
            Some(b'-') => format!("<del>{line_text}</del>"),
            _ => line_text,
        }
    });
    match text.starts_with("diff --git ") {
        true => lines.collect::<Vec<_>>().join("\n"),
        false => escaped(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_becomes_markup() {
        for (text, expected) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            (
                "a `<b>` **bold** <i>x</i> & \"q\"",
                "<p>a <code>&lt;b&gt;</code> <strong>bold</strong> &lt;i&gt;x&lt;/i&gt; &amp; \"q\"</p>\n",
            ),
            ("one ` tick", "<p>one ` tick</p>\n"),
            (
                "```html\n<i>x</i>\n```",
                "<pre><code class=\"language-html\">&lt;i&gt;x&lt;/i&gt;\n</code></pre>\n",
            ),
            ("- a\n- b\n\nc", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>\n<p>c</p>\n"),
            ("# Title\ntext\nmore", "<h3>Title</h3>\n<p>text<br />\nmore</p>\n"),
            (
                "[a](https://x.y) [b](javascript:alert(1)) ![c](http://x/y.png)",
                "<p><a href=\"https://x.y\">a</a> b 🖼 c</p>\n",
            ),
            ("\u{1b}[31mred\u{7}", "<p>[31mred</p>\n"),
        ] {
            assert_eq!(prose(text), expected, "{text:?}");
        }
    }
}
