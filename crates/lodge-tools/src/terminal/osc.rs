//! Parses terminal output: text, and the escape sequences with which the shell reports commands.
//!
//! Reads may cut sequences and characters anywhere; incomplete ones are held back.

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

/// What programs ask their terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Whether it is well.
    Status,
    /// Where the cursor is.
    Cursor,
    /// The same in DEC's way.
    DecCursor,
    /// What it can do.
    Attributes,
    /// Which one it is.
    Kind,
    /// What it is called.
    Name,
    /// The colour of text.
    Foreground,
    /// The colour behind text.
    Background,
}

impl Query {
    fn parse(sequence: &[u8]) -> Option<Self> {
        Some(match sequence {
            b"5n" => Self::Status,
            b"6n" => Self::Cursor,
            b"?6n" => Self::DecCursor,
            b"c" | b"0c" => Self::Attributes,
            b">c" | b">0c" => Self::Kind,
            b">q" | b">0q" => Self::Name,
            _ => return None,
        })
    }

    /// The answer, given where the cursor is as row and column.
    pub fn answer(self, cursor: impl FnOnce() -> (u16, u16)) -> String {
        let at = |start: &str| {
            let (row, column) = cursor();
            format!("\x1b[{start}{row};{column}R")
        };
        match self {
            Self::Status => "\x1b[0n".to_owned(),
            Self::Cursor => at(""),
            Self::DecCursor => at("?"),
            Self::Attributes => "\x1b[?1;2c".to_owned(),
            Self::Kind => "\x1b[>0;276;0c".to_owned(),
            Self::Name => "\x1bP>|lodge\x1b\\".to_owned(),
            Self::Foreground => "\x1b]10;rgb:ffff/ffff/ffff\x1b\\".to_owned(),
            Self::Background => "\x1b]11;rgb:0000/0000/0000\x1b\\".to_owned(),
        }
    }
}

/// The escape sequence at the start of some bytes.
enum Found<'a> {
    /// Nothing to look at: so many bytes are text.
    Text(usize),
    /// An operating system command: number, rest, length.
    Osc(&'a str, &'a str, usize),
    /// A question and its length.
    Query(Query, usize),
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
                Found::Query(query, length) => {
                    whole_text(&rest[..at], out);
                    out.push(Piece::Query(query));
                    rest = &rest[at + length..];
                    seen = 0;
                }
                Found::Osc(number, value, length) => {
                    let ours = matches!((number, value), ("633" | "133", _) | ("10" | "11", "?"));
                    let end = if ours { at } else { at + length };
                    whole_text(&rest[..end], out);
                    self.on_osc(number, value, out);
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

    fn on_osc(&mut self, number: &str, value: &str, out: &mut Vec<Piece>) {
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
            "10" if value == "?" => out.push(Piece::Query(Query::Foreground)),
            "11" if value == "?" => out.push(Piece::Query(Query::Background)),
            "10" | "11" => {}
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
        Some(b'[') => return control(bytes),
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
    let known = matches!(number, "0" | "2" | "7" | "10" | "11" | "633" | "133");
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

/// Looks at a control sequence. Only questions are short and of interest.
fn control(bytes: &[u8]) -> Found<'_> {
    const LONGEST: usize = 3;
    let length = bytes[2..]
        .iter()
        .take(LONGEST)
        .take_while(|byte| (0x20..0x40).contains(*byte))
        .count();
    let end = 3 + length;
    match bytes.get(2..end) {
        None if length < LONGEST => Found::Partial,
        None => Found::Text(2),
        Some(sequence) => Query::parse(sequence).map_or(Found::Text(2), |query| Found::Query(query, end)),
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
    use proptest::prelude::*;

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
        check(
            b"a\x1b[6nb\x1b[c\x1b[>c\x1b[1;5H\x1b[0q\x1b[?25l",
            &[
                text("a"),
                Piece::Query(Query::Cursor),
                text("b"),
                Piece::Query(Query::Attributes),
                Piece::Query(Query::Kind),
                text("\x1b[1;5H\x1b[0q\x1b[?25l"),
            ],
        );
        check(
            b"\x1b]11;?\x07\x1b]10;#fff\x07",
            &[Piece::Query(Query::Background), text("\x1b]10;#fff\x07")],
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

    const SAMPLES: &[&str] = &[
        "\x1b]633;A\x07prompt\x1b]633;B\x07\x1b]633;E;ls \\x3b -l;nonce\x07\x1b]633;C\x07out\x1b]633;D;0\x07",
        "text\x1b]0;title\x1b\\\x1b]7;file://host/a%20b\x07\x1b[6n\x1b[?6n\x1b]10;?\x07\x1b[>cé🦀",
        "\x1b]133;A\x07\x1b]133;C;cmdline=ls\x07\x1b]133;D;127\x07\x1bP1$r\x1b\\\x1b]1337;CurrentDir=/x\x07",
    ];

    /// All that came of some pieces, with texts joined.
    fn read(pieces: &[Vec<u8>]) -> (Vec<String>, usize) {
        let (mut parser, mut out, mut held) = (Parser::new("nonce"), Vec::new(), 0);
        for piece in pieces {
            parser.push(piece, &mut out);
            held = held.max(parser.held.len());
        }
        parser.finish(None, &mut out);
        let mut read: Vec<String> = Vec::new();
        let mut in_text = false;
        for piece in out {
            match (piece, read.last_mut()) {
                (Piece::Text(text), Some(last)) if in_text => last.push_str(&text),
                (Piece::Text(text), _) => {
                    in_text = true;
                    read.push(text);
                }
                (other, _) => {
                    in_text = false;
                    read.push(format!("{other:?}"));
                }
            }
        }
        (read, held)
    }

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_output_does_harm_wherever_it_is_cut(pieces in testkit::fuzz::pieces(SAMPLES)) {
            let (read_in_pieces, held) = read(&pieces);
            prop_assert!(held <= LONGEST + 8);
            prop_assert_eq!(read_in_pieces, read(&[pieces.concat()]).0);
        }
    }
}
