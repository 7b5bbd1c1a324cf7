//! The frames of the wire: `Content-Length: N`, a blank line, N bytes of JSON.
//!
//! Reading is tolerant, because a client that sends one bad frame has other sessions on the same connection. Writing is
//! strict, because the SDKs' readers accept exactly one header in exactly this spelling.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The largest body that is read. A bigger one is skipped and refused.
pub const MAX_BODY: u64 = 64 * 1024 * 1024;

/// Limit for a header line; the rest of a longer one is skipped.
const MAX_HEADER_LINE: usize = 8 * 1024;

const NAME: &[u8] = b"content-length:";

/// Input from the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Inbound {
    /// The body of a whole frame.
    Body(Vec<u8>),
    /// A frame that is too large; its body is skipped.
    TooLarge(u64),
    /// Bytes that are not a frame; they were skipped up to the next header.
    Malformed(&'static str),
    /// More than is allowed before the token; nothing more is read.
    OverAllowance,
}

/// Reads frames from a byte stream.
#[derive(Debug)]
pub struct FrameReader<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    max_body: u64,
    /// How much of an oversized body is still to be skipped.
    skip: u64,
    /// How many more bytes are allowed, if that is limited.
    allowance: Option<u64>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader that refuses bodies over [`MAX_BODY`].
    pub fn new(input: R) -> Self {
        Self::with_limit(input, MAX_BODY)
    }

    /// A reader that refuses bodies over `max_body` bytes.
    pub fn with_limit(input: R, max_body: u64) -> Self {
        Self {
            input: BufReader::with_capacity(32 * 1024, input),
            line: Vec::new(),
            max_body,
            skip: 0,
            allowance: None,
        }
    }

    /// Limits how many more bytes are read; `None` lifts the limit.
    pub fn allow(&mut self, bytes: Option<u64>) {
        self.allowance = bytes;
    }

    /// Counts bytes. Returns whether they were within the limit.
    fn spend(&mut self, bytes: u64) -> bool {
        let Some(left) = &mut self.allowance else { return true };
        let enough = *left >= bytes;
        *left = left.saturating_sub(bytes);
        enough
    }

    /// The next frame; `None` at the end of the stream. A stream that ends inside a frame is an error.
    pub async fn next(&mut self) -> io::Result<Option<Inbound>> {
        let mut length = None;
        let mut junk = false;
        self.skip_rest().await?;
        loop {
            let most = self.allowance.unwrap_or(u64::MAX);
            let Some((whole, read)) = read_line(&mut self.input, &mut self.line, most).await? else {
                return if junk || length.is_some() {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(None)
                };
            };
            if !self.spend(read) {
                return Ok(Some(Inbound::OverAllowance));
            }
            let line = self.line.trim_ascii();
            if line.is_empty() && whole {
                match length {
                    Some(Ok(n)) => return self.body(n).await.map(Some),
                    Some(Err(())) => return Ok(Some(Inbound::Malformed("Content-Length is not a number"))),
                    None if junk => return Ok(Some(Inbound::Malformed("frame without Content-Length"))),
                    // Blank lines between frames are ignored.
                    None => continue,
                }
            }
            match content_length(line) {
                Some(found) => length = Some(found),
                // A web page can make a browser post to any local port, and HTTP headers would be accepted as ours.
                None if line.windows(7).any(|part| part == b" HTTP/1") => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "this port does not speak HTTP",
                    ));
                }
                // Other headers (Content-Type) are allowed and ignored.
                None => junk = true,
            }
        }
    }

    /// Skips the rest of an oversized body. Cancel-safe.
    async fn skip_rest(&mut self) -> io::Result<()> {
        while self.skip > 0 {
            let available = self.input.fill_buf().await?.len();
            if available == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let used = usize::try_from(self.skip).unwrap_or(usize::MAX).min(available);
            self.input.consume(used);
            self.skip -= used as u64;
        }
        Ok(())
    }

    async fn body(&mut self, length: u64) -> io::Result<Inbound> {
        if length > self.max_body && self.allowance.is_none() {
            // Reported at once: a sender that claims a huge length would otherwise never hear of it.
            self.skip = length;
            return Ok(Inbound::TooLarge(length));
        }
        if !self.spend(length) {
            return Ok(Inbound::OverAllowance);
        }
        // The buffer grows with the received bytes, not with the claimed length.
        let mut body = Vec::with_capacity(length.min(64 * 1024) as usize);
        (&mut self.input).take(length).read_to_end(&mut body).await?;
        if body.len() as u64 == length {
            Ok(Inbound::Body(body))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

/// Reads up to and including `\n`, keeping at most [`MAX_HEADER_LINE`] bytes (the last ones, where a header after
/// skipped bytes would be). `None` at the end of the stream; otherwise whether no bytes were dropped, and how many were
/// read. Stops early after more than `most` bytes.
async fn read_line<R: AsyncBufRead + Unpin>(
    input: &mut R,
    line: &mut Vec<u8>,
    most: u64,
) -> io::Result<Option<(bool, u64)>> {
    line.clear();
    let (mut whole, mut read) = (true, 0);
    loop {
        let available = input.fill_buf().await?;
        if available.is_empty() {
            return Ok(if line.is_empty() { None } else { Some((whole, read)) });
        }
        let end = available.iter().position(|&b| b == b'\n');
        let used = end.map_or(available.len(), |at| at + 1);
        line.extend_from_slice(&available[..used]);
        input.consume(used);
        read += used as u64;
        if line.len() > MAX_HEADER_LINE {
            line.drain(..line.len() - MAX_HEADER_LINE / 2);
            whole = false;
        }
        if end.is_some() || read > most {
            return Ok(Some((whole, read)));
        }
    }
}

/// The length in a header line. The name is searched anywhere in the line: after a body whose header could not be read,
/// the next header is at the end of that body's last line, and from there the stream is in step again.
fn content_length(line: &[u8]) -> Option<Result<u64, ()>> {
    let at = line
        .windows(NAME.len())
        .rposition(|window| window.eq_ignore_ascii_case(NAME))?;
    let value = line[at + NAME.len()..].trim_ascii();
    Some(
        std::str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(()),
    )
}

/// An outgoing frame: a header and up to three pieces of JSON, which are shared, not copied.
#[derive(Debug, Clone)]
pub struct Frame {
    pieces: [Bytes; 3],
}

impl Frame {
    /// A frame of one piece.
    pub fn whole(body: impl Into<Bytes>) -> Self {
        Self {
            pieces: [body.into(), Bytes::new(), Bytes::new()],
        }
    }

    /// A frame whose JSON is the three pieces, one after the other.
    pub fn of(pieces: [Bytes; 3]) -> Self {
        Self { pieces }
    }

    /// The number of bytes in the body.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// Whether the body is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The header that goes before the body.
    pub fn header(&self) -> String {
        format!("Content-Length: {}\r\n\r\n", self.len())
    }

    /// The pieces of the body.
    pub fn pieces(&self) -> &[Bytes; 3] {
        &self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(input: &[u8], expected: &[Inbound]) {
        let mut reader = FrameReader::with_limit(input, 100);
        let mut seen = Vec::new();
        while let Ok(Some(inbound)) = reader.next().await {
            seen.push(inbound);
        }
        assert_eq!(seen, expected, "{}", String::from_utf8_lossy(input));
    }

    fn body(text: &str) -> Inbound {
        Inbound::Body(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn frames_are_read_and_bad_ones_do_not_end_the_stream() {
        check(b"", &[]).await;
        check(b"Content-Length: 2\r\n\r\n{}", &[body("{}")]).await;
        check(
            b"content-length:2\n\n{}Content-Length: 4\r\n\r\nnull",
            &[body("{}"), body("null")],
        )
        .await;
        check(b"Content-Type: x\r\nContent-Length: 2\r\n\r\n{}", &[body("{}")]).await;
        check(b"\r\n\r\nContent-Length: 2\r\n\r\n{}", &[body("{}")]).await;
        check(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", &[]).await;
        check(
            b"Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}",
            &[body(""), body("{}")],
        )
        .await;
        // A body without a usable header is skipped, and the header glued to its end is found.
        check(
            b"Content-Length: abc\r\n\r\n{\"a\":1}Content-Length: 2\r\n\r\n{}",
            &[Inbound::Malformed("Content-Length is not a number"), body("{}")],
        )
        .await;
        check(
            b"Content-Length: -5\r\n\r\nContent-Length: 2\r\n\r\n{}",
            &[Inbound::Malformed("Content-Length is not a number"), body("{}")],
        )
        .await;
        check(
            b"hello\r\n\r\nContent-Length: 2\r\n\r\n{}",
            &[Inbound::Malformed("frame without Content-Length"), body("{}")],
        )
        .await;
        let mut large = b"Content-Length: 101\r\n\r\n".to_vec();
        large.extend([b'x'; 101]);
        large.extend(b"Content-Length: 2\r\n\r\n{}");
        check(&large, &[Inbound::TooLarge(101), body("{}")]).await;
        let mut endless = vec![b'x'; 3 * MAX_HEADER_LINE];
        endless.extend(b"Content-Length: 2\r\n\r\n{}");
        check(&endless, &[body("{}")]).await;
        // A truncated frame gives nothing.
        check(b"Content-Length: 10\r\n\r\n{}", &[]).await;
    }

    #[tokio::test]
    async fn no_more_is_read_than_is_allowed_until_the_limit_is_lifted() {
        let frame = b"Content-Length: 2\r\n\r\n{}";
        let check = async |input: &[u8], expected: &[Inbound]| {
            let mut reader = FrameReader::new(input);
            reader.allow(Some(2 * frame.len() as u64));
            for expected in expected {
                assert_eq!(reader.next().await.unwrap().as_ref(), Some(expected));
            }
        };
        check(&frame.repeat(3), &[body("{}"), body("{}"), Inbound::OverAllowance]).await;
        check(b"Content-Length: 100\r\n\r\n", &[Inbound::OverAllowance]).await;
        check(b"Content-Length: 99999999999\r\n\r\n", &[Inbound::OverAllowance]).await;
        check(&[b'x'; 1000], &[Inbound::OverAllowance]).await;
        check(&b"\r\n".repeat(100), &[Inbound::OverAllowance]).await;
        let input = frame.repeat(3);
        let mut reader = FrameReader::new(&input[..]);
        reader.allow(Some(frame.len() as u64));
        assert_eq!(reader.next().await.unwrap(), Some(body("{}")));
        reader.allow(None);
        assert_eq!(reader.next().await.unwrap(), Some(body("{}")));
    }

    #[test]
    fn a_frame_has_exactly_one_header_in_the_spelling_the_sdks_read() {
        let frame = Frame::of([
            Bytes::from_static(b"{\"a\":"),
            Bytes::from_static(b"1"),
            Bytes::from_static(b"}"),
        ]);
        assert_eq!(frame.header(), "Content-Length: 7\r\n\r\n");
    }
}

#[cfg(test)]
mod fuzz {
    use proptest::prelude::*;

    use super::*;

    const SAMPLES: &[&str] = &[
        "Content-Length: 2\r\n\r\n{}Content-Length: 4\r\nContent-Type: x\r\n\r\nnull",
        "content-length:17\n\n{\"jsonrpc\":\"2.0\"}",
        "Content-Length: 99999999999999999999\r\n\r\nContent-Length: 1000\r\n\r\n",
    ];

    proptest! {
        #![proptest_config(testkit::fuzz::config())]
        #[test]
        fn no_bytes_do_harm(bytes in testkit::fuzz::bytes(SAMPLES)) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut reader = FrameReader::with_limit(&bytes[..], 256);
                let mut read = 0;
                // Every call consumes at least a byte, so this ends.
                for _ in 0..=bytes.len() + 1 {
                    match reader.next().await {
                        Ok(Some(Inbound::Body(body))) => {
                            assert!(body.len() <= 256);
                            read += body.len();
                        }
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => {
                            assert!(read <= bytes.len());
                            return;
                        }
                    }
                }
                panic!("it does not end");
            });
        }
    }
}
