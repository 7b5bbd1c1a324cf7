//! A parser for server-sent events, as the WHATWG specifies them, from chunks cut anywhere.

/// No line of an event stream may be longer.
pub(super) const MOST_LINE: usize = 16 << 20;

/// A line was longer than [`MOST_LINE`].
#[derive(Debug, PartialEq)]
pub(super) struct LineTooLong;

/// Reads an event stream. Bytes go in as they arrive, events come out as they are whole.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// The beginning of a line whose end is still to come.
    line: Vec<u8>,
    /// The last byte was a carriage return, so a line feed that follows belongs to it.
    after_return: bool,
    begun: bool,
    name: String,
    data: Vec<u8>,
    has_data: bool,
}

impl Parser {
    /// Adds bytes and reports the events that they complete: name (empty if none was given) and data.
    pub(super) fn push(&mut self, mut bytes: &[u8], on_event: &mut impl FnMut(&str, &str)) -> Result<(), LineTooLong> {
        if bytes.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
            bytes = &bytes[1..];
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            if self.line.len() + end > MOST_LINE {
                return Err(LineTooLong);
            }
            if self.line.is_empty() {
                self.take_line(&bytes[..end], on_event);
            } else {
                self.line.extend_from_slice(&bytes[..end]);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, on_event);
                self.line = line;
                self.line.clear();
            }
            let returned = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            match bytes.first() {
                Some(b'\n') if returned => bytes = &bytes[1..],
                None => self.after_return = returned,
                Some(_) => {}
            }
        }
        self.line.extend_from_slice(bytes);
        if self.line.len() > MOST_LINE {
            Err(LineTooLong)
        } else {
            Ok(())
        }
    }

    /// The stream is at its end. An event without its final empty line is told all the same, since some servers leave
    /// that line out.
    pub(super) fn finish(&mut self, on_event: &mut impl FnMut(&str, &str)) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, on_event);
        }
        self.take_line(b"", on_event);
    }

    fn take_line(&mut self, line: &[u8], on_event: &mut impl FnMut(&str, &str)) {
        let line = if self.begun {
            line
        } else {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        };
        self.begun = true;
        if line.is_empty() {
            if self.has_data {
                on_event(&self.name, &String::from_utf8_lossy(&self.data));
            }
            self.has_data = false;
            self.data.clear();
            self.name.clear();
            return;
        }
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => {
                self.name.clear();
                self.name.push_str(&String::from_utf8_lossy(value));
            }
            // Comments, ids and retry times: no model wire uses them.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineTooLong, MOST_LINE, Parser};
    use proptest::prelude::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut parser = Parser::default();
        let mut keep = |name: &str, data: &str| events.push((name.to_owned(), data.to_owned()));
        for piece in pieces {
            parser.push(piece, &mut keep).unwrap();
        }
        parser.finish(&mut keep);
        events
    }

    #[test]
    fn events_are_read_as_the_standard_says() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("data: a\n\n", &[("", "a")]),
            ("data:a\r\rdata:  b\r\r", &[("", "a"), ("", " b")]),
            ("event: x\r\ndata: 1\r\ndata: 2\r\n\r\n", &[("x", "1\n2")]),
            (": comment\nid: 7\nretry: 1\ndata\n\n", &[("", "")]),
            ("event: lost\n\ndata: b\n\n", &[("", "b")]),
            ("\u{feff}data: é\n\n", &[("", "é")]),
            ("data: no end", &[("", "no end")]),
            ("data: 1\n\n\n\ndata: 2\n", &[("", "1"), ("", "2")]),
        ];
        for (text, expected) in cases {
            let found = events([text.as_bytes()]);
            let found: Vec<(&str, &str)> = found.iter().map(|(name, data)| (&**name, &**data)).collect();
            assert_eq!(&found, expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_an_error_before_it_fills_the_memory() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; 1 << 20];
        let pushed = (0..20)
            .map(|_| parser.push(&piece, &mut |_, _| {}))
            .collect::<Result<Vec<()>, _>>();
        assert_eq!(pushed, Err(LineTooLong));
        assert!(parser.line.len() <= MOST_LINE + piece.len());
    }

    proptest! {
        #[test]
        fn it_does_not_matter_where_the_bytes_are_cut(
            lines in proptest::collection::vec(("(data|event|id|)(:|: |)[aé€🦀: ]{0,6}", "(\n|\r\n|\r)", any::<bool>()), 0..12),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
        ) {
            let mut text = String::new();
            for (line, end, twice) in lines {
                text.push_str(&line);
                text.push_str(&end);
                if twice {
                    text.push_str(&end);
                }
            }
            let bytes = text.as_bytes();
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces = places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(events(pieces), events([bytes]));
            let single = bytes.chunks(1);
            prop_assert_eq!(events(single), events([bytes]));
        }
    }

    const SAMPLES: &[&str] = &[
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"hé\"}}]}\r\n\r\ndata: [DONE]\r\n\r\n",
        ": comment\rid: 7\rretry: 1\rdata\rdata: two\r\r",
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_stream_does_harm_wherever_it_is_cut(pieces in testkit::fuzz::pieces(SAMPLES)) {
            let whole = pieces.concat();
            prop_assert_eq!(events(pieces.iter().map(Vec::as_slice)), events([whole.as_slice()]));
        }
    }
}
