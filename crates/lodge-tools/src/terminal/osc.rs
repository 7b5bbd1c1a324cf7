//! Reads what a terminal prints: text for people, and between it what the shell says about commands.
//!
//! Sequences and characters may be cut anywhere by reads; what is not whole yet is held back.

use super::Piece;

/// A sequence of ours, a title or a directory is not longer than this.
const LONGEST: usize = 64 << 10;
/// Titles are shown in a line.
const TITLE: usize = 256;

/// The parser of one terminal.
#[derive(Debug)]
pub(super) struct Parser {
    nonce: String,
    /// Bytes that are not whole yet: of a sequence or a character.
    held: Vec<u8>,
    /// Whether the shell spoke by our script: then nobody else's word about commands counts.
    trusted: bool,
    detected: bool,
    line: Option<String>,
    running: bool,
}

/// What stands at the start of some bytes that begin with ESC.
enum Found<'a> {
    /// Nothing to look at: so many bytes are text.
    Text(usize),
    /// An operating system command: number, rest, length.
    Osc(&'a str, &'a str, usize),
    /// It is not whole yet.
    Partial,
}

impl Parser {
    pub(super) fn new(nonce: &str) -> Self {
        Self {
            nonce: nonce.to_owned(),
            held: Vec::new(),
            trusted: false,
            detected: false,
            line: None,
            running: false,
        }
    }

    /// Takes the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<Piece>) {
        let joined;
        let mut rest = bytes;
        if !self.held.is_empty() {
            let mut whole = std::mem::take(&mut self.held);
            whole.extend_from_slice(bytes);
            joined = whole;
            rest = &joined;
        }
        // Text up to here was looked at and is not yet passed on.
        let mut seen = 0;
        while let Some(at) = memchr::memchr(0x1b, &rest[seen..]) {
            let at = seen + at;
            match find(&rest[at..]) {
                Found::Text(length) => seen = at + length,
                Found::Partial => {
                    whole_text(&rest[..at], out);
                    self.held = rest[at..].to_vec();
                    return;
                }
                Found::Osc(number, value, length) => {
                    let ours = matches!(number, "633" | "133");
                    let end = if ours { at } else { at + length };
                    whole_text(&rest[..end], out);
                    self.said(number, value, out);
                    rest = &rest[at + length..];
                    seen = 0;
                }
            }
        }
        self.held = text(rest, out).to_vec();
    }

    /// What is left when nothing more will come.
    pub(super) fn finish(&mut self, code: Option<i32>, out: &mut Vec<Piece>) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            push_text(out, &String::from_utf8_lossy(&held));
        }
        if std::mem::take(&mut self.running) {
            out.push(Piece::Finished { code });
        }
    }

    fn said(&mut self, number: &str, value: &str, out: &mut Vec<Piece>) {
        match number {
            "0" | "2" => {
                let title: String = value.chars().filter(|c| !c.is_control()).take(TITLE).collect();
                out.push(Piece::Title(title));
            }
            "7" => {
                if let Some(path) = file_path(value) {
                    out.push(Piece::Cwd(path));
                }
            }
            _ => self.integration(number, value, out),
        }
    }

    fn integration(&mut self, number: &str, value: &str, out: &mut Vec<Piece>) {
        let mut parts: Vec<&str> = value.split(';').collect();
        let ours = number == "633" && parts.len() > 1 && parts.last() == Some(&self.nonce.as_str());
        if ours {
            parts.pop();
            self.trusted = true;
        } else if self.trusted {
            return;
        }
        if !self.detected {
            self.detected = true;
            out.push(Piece::Detected);
        }
        match parts[..] {
            ["E", line, ..] => self.line = Some(unescape(line).trim_end_matches('\n').to_owned()),
            ["C", ..] => {
                self.finished(None, out);
                self.running = true;
                out.push(Piece::Started {
                    command: self.line.take().unwrap_or_default(),
                });
            }
            ["D", code, ..] => self.finished(code.parse().ok(), out),
            ["D"] => self.finished(None, out),
            ["P", property, ..] => {
                if let Some(path) = property.strip_prefix("Cwd=") {
                    out.push(Piece::Cwd(unescape(path)));
                }
            }
            _ => {}
        }
    }

    fn finished(&mut self, code: Option<i32>, out: &mut Vec<Piece>) {
        if std::mem::take(&mut self.running) {
            out.push(Piece::Finished { code });
        }
    }
}

/// Looks at bytes that begin with ESC.
fn find(bytes: &[u8]) -> Found<'_> {
    match bytes.get(1) {
        None => return Found::Partial,
        Some(b']') => {}
        Some(_) => return Found::Text(1),
    }
    let digits = bytes[2..]
        .iter()
        .take(5)
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let Ok(number) = std::str::from_utf8(&bytes[2..2 + digits]) else {
        return Found::Text(2);
    };
    let known = matches!(number, "0" | "2" | "7" | "633" | "133");
    match bytes.get(2 + digits) {
        None if digits < 4 => return Found::Partial,
        Some(b';') if known => {}
        // What other sequences hold can be large and is nothing to us: it goes by as text.
        _ => return Found::Text(2),
    }
    let value = &bytes[3 + digits..];
    let end = value
        .iter()
        .take(LONGEST)
        .position(|byte| matches!(byte, 0x07 | 0x1b | b'\n'));
    match end.map(|end| (end, value[end], value.get(end + 1))) {
        Some((end, 0x07, _)) => osc(number, value, end, 3 + digits + end + 1),
        Some((end, 0x1b, Some(b'\\'))) => osc(number, value, end, 3 + digits + end + 2),
        Some((_, 0x1b, None)) => Found::Partial,
        None if value.len() < LONGEST => Found::Partial,
        // It never ends as it should.
        _ => Found::Text(2),
    }
}

fn osc<'a>(number: &'a str, value: &'a [u8], end: usize, length: usize) -> Found<'a> {
    match std::str::from_utf8(&value[..end]) {
        Ok(value) => Found::Osc(number, value, length),
        // A name in another encoding: nothing to say about it, but ours are stripped all the same.
        Err(_) if matches!(number, "633" | "133") => Found::Osc(number, "", length),
        Err(_) => Found::Text(2),
    }
}

/// Passes on the text in some bytes, invalid bytes replaced; what is left is the beginning of a character.
fn text<'a>(mut bytes: &'a [u8], out: &mut Vec<Piece>) -> &'a [u8] {
    loop {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                push_text(out, text);
                return &[];
            }
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                push_text(out, std::str::from_utf8(good).unwrap_or_default());
                let Some(length) = error.error_len() else { return bad };
                push_text(out, "\u{fffd}");
                bytes = &bad[length..];
            }
        }
    }
}

/// The same where a sequence follows: a character that has begun never ends.
fn whole_text(bytes: &[u8], out: &mut Vec<Piece>) {
    if !text(bytes, out).is_empty() {
        push_text(out, "\u{fffd}");
    }
}

fn push_text(out: &mut Vec<Piece>, text: &str) {
    match out.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(last)) => last.push_str(text),
        _ => out.push(Piece::Text(text.to_owned())),
    }
}

/// Undoes what the scripts do to texts: `\\` and `\xAB`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = |bytes: &[u8]| u8::from_str_radix(std::str::from_utf8(bytes).ok()?, 16).ok();
        let (byte, left) = match (first, after) {
            (b'\\', [b'\\', left @ ..]) => (b'\\', left),
            (b'\\', [b'x', a, b, left @ ..]) => match hex(&[*a, *b]) {
                Some(byte) => (byte, left),
                None => (first, after),
            },
            _ => (first, after),
        };
        bytes.push(byte);
        rest = left;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The path in `file://host/path`.
fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut input = path.bytes();
    while let Some(byte) = input.next() {
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        match byte {
            b'%' => bytes.push((digit(input.next())? * 16 + digit(input.next())?) as u8),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(parts: &[&[u8]]) -> Vec<Piece> {
        let mut parser = Parser::new("n0");
        let mut out = Vec::new();
        for part in parts {
            parser.push(part, &mut out);
        }
        parser.finish(Some(7), &mut out);
        out
    }

    /// The same pieces, however the bytes are cut.
    fn check(bytes: &[u8], expected: &[Piece]) {
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(
                parse(&[a, b]),
                expected,
                "cut at {cut} of {:?}",
                String::from_utf8_lossy(bytes)
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single), expected, "byte by byte");
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn started(command: &str) -> Piece {
        Piece::Started {
            command: command.to_owned(),
        }
    }

    #[test]
    fn output_is_understood_wherever_it_is_cut() {
        check(b"plain\r\n", &[text("plain\r\n")]);
        check(
            "gr\u{fc}\u{df}e \u{1f980}".as_bytes(),
            &[text("gr\u{fc}\u{df}e \u{1f980}")],
        );
        check(b"bad \xff\xfe \xe2\x82", &[text("bad \u{fffd}\u{fffd} \u{fffd}")]);
        check(b"\x1b[31mred\x1b[0m\x1b(B", &[text("\x1b[31mred\x1b[0m\x1b(B")]);
        check(
            b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x07",
            &[text("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07")],
        );
        check(b"\x1b]1337;File=:AAAA\x07.", &[text("\x1b]1337;File=:AAAA\x07.")]);
        check(
            b"a\x1b]0;my title\x07b",
            &[text("a\x1b]0;my title\x07"), Piece::Title("my title".into()), text("b")],
        );
        check(
            b"\x1b]7;file://box/a%20b\x1b\\",
            &[text("\x1b]7;file://box/a%20b\x1b\\"), Piece::Cwd("/a b".into())],
        );
        check(b"\x1b]633;never closed\nnext", &[text("\x1b]633;never closed\nnext")]);
        check(b"\x1b", &[text("\x1b")]);
    }

    #[test]
    fn commands_are_told_and_their_escapes_stripped() {
        check(
            b"$ ls\r\n\x1b]633;E;ls \\x3b echo \\\\;n0\x07\x1b]633;C;n0\x07a b\r\n\x1b]633;D;2;n0\x07\x1b]633;P;Cwd=/tmp/x\\x3by;n0\x07$ ",
            &[
                text("$ ls\r\n"),
                Piece::Detected,
                started("ls ; echo \\"),
                text("a b\r\n"),
                Piece::Finished { code: Some(2) },
                Piece::Cwd("/tmp/x;y".into()),
                text("$ "),
            ],
        );
        // A shell that ends while a command runs ends the command.
        check(
            b"\x1b]633;E;exit 7;n0\x1b\\\x1b]633;C;n0\x1b\\",
            &[Piece::Detected, started("exit 7"), Piece::Finished { code: Some(7) }],
        );
        // Integration of somebody else counts, unless ours is there.
        check(
            b"\x1b]133;A\x07$ \x1b]133;C\x07out\x1b]133;D;1\x07",
            &[
                Piece::Detected,
                text("$ "),
                started(""),
                text("out"),
                Piece::Finished { code: Some(1) },
            ],
        );
        check(
            b"\x1b]633;P;Cwd=/;n0\x07\x1b]133;C\x07forged\x1b]633;D;0\x07\x1b]633;C;n1\x07",
            &[Piece::Detected, Piece::Cwd("/".into()), text("forged")],
        );
        check(
            b"\x1b]633;D;0;n0\x07nothing ran",
            &[Piece::Detected, text("nothing ran")],
        );
    }
}
