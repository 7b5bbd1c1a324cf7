//! Converts HTML to readable text.

/// Elements whose contents are not text for people.
const SILENT: &[&str] = &["script", "style", "noscript", "svg", "template", "iframe", "head"];
/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "body",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
    "title",
];

/// Bytes that are read in search of the ends of tags that have none.
const MOST_IN_VAIN: usize = 32 << 20;

/// Text of an HTML page: headings, lists, code and links as Markdown has them, everything else plain.
pub(crate) fn text(html: &str) -> String {
    let mut page = Page::default();
    let mut rest = html;
    // What is read in search of ends that never come; without a limit a page of `<a<a<a` would take hours.
    let mut in_vain = 0;
    while !rest.is_empty() {
        let Some(start) = rest.find('<') else {
            page.text(rest);
            break;
        };
        page.text(&rest[..start]);
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((tag, after)) = tag(rest) else {
            if rest[1..].starts_with(|c: char| c != ' ') {
                in_vain += rest.len();
            }
            if in_vain > MOST_IN_VAIN {
                page.text(rest);
                break;
            }
            // A lone `<` is text.
            page.text("<");
            rest = &rest[1..];
            continue;
        };
        rest = after;
        let name = tag.name.as_str();
        if SILENT.contains(&name) && !tag.closing && !tag.empty {
            rest = skip(rest, name, &mut page);
        } else {
            page.tag(&tag);
        }
    }
    page.finish()
}

struct Tag {
    name: String,
    closing: bool,
    empty: bool,
    href: Option<String>,
}

/// Reads a tag and returns what comes after it.
fn tag(text: &str) -> Option<(Tag, &str)> {
    let inner = &text[1..];
    let (closing, inner) = inner.strip_prefix('/').map_or((false, inner), |rest| (true, rest));
    if !inner.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
        return None;
    }
    // `>` inside quotes does not end it.
    let mut quote = None;
    let end = inner.char_indices().find_map(|(at, c)| {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '>') => return Some(at),
            _ => {}
        }
        None
    })?;
    let (body, after) = (&inner[..end], &inner[end + 1..]);
    let name: String = body
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric())
        .collect::<String>()
        .to_ascii_lowercase();
    let href = (name == "a" && !closing).then(|| attribute(body, "href")).flatten();
    Some((
        Tag {
            closing,
            empty: body.ends_with('/'),
            href,
            name,
        },
        after,
    ))
}

fn attribute(body: &str, name: &str) -> Option<String> {
    let lower = body.to_ascii_lowercase();
    let at = lower.find(&format!("{name}="))?;
    let value = &body[at + name.len() + 1..];
    let value = match value.chars().next()? {
        quote @ ('"' | '\'') => value[1..].split(quote).next()?,
        _ => value.split_whitespace().next()?,
    };
    Some(entities(value))
}

/// Passes over the contents of an element; of a head the title is kept.
fn skip<'a>(rest: &'a str, name: &str, page: &mut Page) -> &'a str {
    let closes = |at: &usize| {
        let found = rest.as_bytes()[at + 2..].get(..name.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
    };
    let end = rest
        .match_indices("</")
        .map(|(at, _)| at)
        .find(closes)
        .unwrap_or(rest.len());
    // Only what is passed over: a page may have a great many of these.
    let lower = match name {
        "head" => rest[..end].to_ascii_lowercase(),
        _ => String::new(),
    };
    if name == "head"
        && let Some(start) = lower.find("<title")
        && let Some(open) = lower[start..].find('>')
    {
        let title = &rest[start + open + 1..end];
        let title = title.split("</").next().unwrap_or_default();
        page.text(title);
        page.line(2);
    }
    rest[end..].split_once('>').map_or("", |(_, after)| after)
}

#[derive(Default)]
struct Page {
    out: String,
    /// Depth of `<pre>`, in which spaces count.
    pre: usize,
    link: Option<(usize, String)>,
}

impl Page {
    fn text(&mut self, raw: &str) {
        let text = entities(raw);
        if self.pre > 0 {
            self.out.push_str(&text);
            return;
        }
        for c in text.chars() {
            if !c.is_whitespace() {
                self.out.push(c);
            } else if !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
                self.out.push(' ');
            }
        }
    }

    /// Ends the line, leaving at least `count - 1` empty ones.
    fn line(&mut self, count: usize) {
        let kept = self.out.trim_end_matches([' ', '\n']).len();
        let ends = self.out[kept..].matches('\n').count();
        self.out.truncate(kept);
        if !self.out.is_empty() {
            self.out.push_str(&"\n".repeat(count.max(ends.min(2))));
        }
    }

    fn tag(&mut self, tag: &Tag) {
        let name = tag.name.as_str();
        match (name, tag.closing) {
            ("br", _) => self.out.push('\n'),
            ("a", false) => self.link = tag.href.clone().map(|href| (self.out.len(), href)),
            ("a", true) => self.end_link(),
            ("pre", false) => {
                self.line(2);
                self.pre += 1;
                self.out.push_str("```\n");
            }
            ("pre", true) if self.pre > 0 => {
                self.pre -= 1;
                self.line(1);
                self.out.push_str("```\n\n");
            }
            ("li", false) => {
                self.line(1);
                self.out.push_str("- ");
            }
            ("td" | "th", true) => self.out.push_str(" | "),
            ("hr", _) => {
                self.line(2);
                self.out.push_str("---\n\n");
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.line(2);
                self.out.push_str(&"#".repeat(usize::from(name.as_bytes()[1] - b'0')));
                self.out.push(' ');
            }
            ("li" | "tr" | "dt" | "dd" | "div", _) => self.line(1),
            _ if BLOCKS.contains(&name) => self.line(2),
            _ => {}
        }
    }

    /// Puts the link's address behind its text.
    fn end_link(&mut self) {
        let Some((start, href)) = self.link.take() else { return };
        let text = self.out.get(start..).unwrap_or_default().trim().to_owned();
        if !text.is_empty() && !text.contains('\n') && !href.starts_with('#') && !href.starts_with("javascript:") {
            self.out.truncate(start);
            self.out.push_str(&format!("[{text}]({href})"));
        }
    }

    fn finish(mut self) -> String {
        self.line(1);
        self.out.trim().to_owned()
    }
}

/// Characters for their names.
fn entities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = rest[1..]
            .char_indices()
            .take(10)
            .find(|(_, c)| *c == ';')
            .and_then(|(end, _)| {
                let name = &rest[1..=end];
                Some((entity(name)?, end + 2))
            });
        match known {
            Some((c, length)) => {
                out.push(c);
                rest = &rest[length..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

fn entity(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code).filter(|c| !c.is_control() || *c == '\n');
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        "laquo" => '«',
        "raquo" => '»',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "bull" => '•',
        "middot" => '·',
        "rarr" => '→',
        "larr" => '←',
        "times" => '×',
        "euro" => '€',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::text;
    use proptest::prelude::*;

    #[test]
    fn pages_become_readable_text() {
        for (html, expected) in [
            ("<p>one</p><p>two</p>", "one\n\ntwo"),
            (
                "<html><head><title>T</title><style>p{}</style></head><body>b</body></html>",
                "T\n\nb",
            ),
            ("a<script>if (a < b) x('</p>')</script>b", "ab"),
            ("<h2>Head</h2><ul><li>x</li><li>y</li></ul>", "## Head\n\n- x\n- y"),
            (
                "see <a href=\"https://e.org/?a=1&amp;b\">the <b>page</b></a>.",
                "see [the page](https://e.org/?a=1&b).",
            ),
            ("<a href='#top'>up</a>", "up"),
            ("<pre>a\n  b</pre>after", "```\na\n  b\n```\n\nafter"),
            (
                "1 &lt; 2 &amp;&amp; &#65;&#x42; &unknown; & x",
                "1 < 2 && AB &unknown; & x",
            ),
            ("a < b > c", "a < b > c"),
            ("<!-- no --> yes <!-- open", "yes"),
            ("<table><tr><td>1</td><td>2</td></tr></table>", "1 | 2 |"),
            ("  lots \n of \t space ", "lots of space"),
            ("<p title=\"a>b\">x", "x"),
            ("<", "<"),
            ("grün<br>blau", "grün\nblau"),
            ("<SCRIPT>x</SCRIPT>y", "y"),
            ("<script>never closed", ""),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    const SAMPLES: &[&str] = &[
        "<html><head><title>T</title><style>a{}</style></head><body><h1>H</h1><p>a &amp; b <a href=\"x\">l</a></p></body></html>",
        "<ul><li>1<ol><li>2</li></ol></li></ul><pre>a\n b</pre><table><tr><td>x</td></tr></table><!-- c --><script>x</script>",
        "<p>&#x41;&#65;&nbsp;&#xffffffff;&unknown;</p><br/><img alt='i' src=\"y\"><b><i>n</b></i>",
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_page_does_harm(page in testkit::fuzz::text(SAMPLES)) {
            super::text(&page);
        }
    }

    #[test]
    fn a_large_page_takes_no_longer_than_it_is_long() {
        // Each took hours when it was looked through again from every tag.
        for part in [
            "<a",
            "<a '",
            "</b",
            "<svg></svg>",
            "<script>x</SCRIPT>",
            "<head><title>t</title></head>",
            "<!--",
            "&amp",
            "<b><i>",
        ] {
            let page = part.repeat((2 << 20) / part.len());
            super::text(&page);
        }
    }
}
