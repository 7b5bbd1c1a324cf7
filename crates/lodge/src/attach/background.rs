//! Whether the terminal's background is light: most terminals say so only when they are asked.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use crossterm::{
    event::{KeyCode, KeyEvent, KeyModifiers},
    terminal::{disable_raw_mode, enable_raw_mode},
};
use lodge_terminal::Scheme;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Asks for the background (OSC 11), then for what every terminal answers (DA1), so that the end of the answers is known.
const QUESTION: &[u8] = b"\x1b]11;?\x1b\\\x1b[c";
const BACKGROUND: &[u8] = b"\x1b]11;";
/// What the answer begins with behind the escape sequence, and how long it can be.
const COLOUR: &str = "11;";
const LONGEST: usize = 40;
const ATTRIBUTES: &[u8] = b"\x1b[?";
/// For terminals that answer nothing, or are far away.
const PATIENCE: Duration = Duration::from_millis(500);

/// What came from the terminal.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Nothing where it does not say.
    pub(super) scheme: Option<Scheme>,
    /// What somebody typed meanwhile.
    pub(super) typed: String,
    /// Whether every answer came in time.
    pub(super) whole: bool,
}

/// Asks the terminal.
pub(super) fn ask() -> io::Result<Answers> {
    enable_raw_mode()?;
    let heard = hear();
    disable_raw_mode()?;
    Ok(read(&heard?))
}

fn hear() -> io::Result<Vec<u8>> {
    let mut out = io::stdout();
    out.write_all(QUESTION)?;
    out.flush()?;
    let stdin = rustix::stdio::stdin();
    let (mut heard, mut buffer) = (Vec::new(), [0; 1024]);
    let patience = Instant::now() + PATIENCE;
    while !read(&heard).whole {
        let left = patience.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        let mut input = [PollFd::new(&stdin, PollFlags::IN)];
        if poll(&mut input, Some(&left))? == 0 {
            break;
        }
        match rustix::io::read(stdin, &mut buffer)? {
            0 => break,
            count => heard.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(heard)
}

/// Takes the answers out of what came; the rest was typed.
fn read(heard: &[u8]) -> Answers {
    let mut answers = Answers::default();
    let (mut rest, mut typed) = (heard, Vec::new());
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(body) = rest.strip_prefix(BACKGROUND)
            && let Some(end) = body.iter().position(|byte| matches!(byte, 0x07 | 0x1b))
        {
            answers.scheme = std::str::from_utf8(&body[..end]).ok().and_then(scheme);
            rest = body[end..].strip_prefix(b"\x1b\\").unwrap_or(&body[end + 1..]);
        } else if let Some(body) = rest.strip_prefix(ATTRIBUTES)
            && let Some(end) = body.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b';'))
            && body[end] == b'c'
        {
            answers.whole = true;
            rest = &body[end + 1..];
        } else {
            typed.push(first);
            rest = tail;
        }
    }
    let typed = String::from_utf8_lossy(&typed).replace('\r', "\n");
    answers.typed = typed.chars().filter(|c| *c == '\n' || !c.is_control()).collect();
    answers
}

/// An answer of a terminal that is far away: it comes when keys are read already, and looks like them.
#[derive(Default)]
pub(super) struct Late {
    /// What may be its beginning.
    held: Vec<KeyEvent>,
    said: String,
}

/// What a key is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// These keys were pressed.
    Keys(Vec<KeyEvent>),
    /// It may be a part of the answer.
    Part,
    /// It is the end of the answer, with the scheme, if that can be understood.
    Answer(Option<Scheme>),
}

impl Late {
    /// Takes a key.
    pub(super) fn take(&mut self, key: KeyEvent) -> Heard {
        let (alt, control) = (KeyModifiers::ALT, KeyModifiers::CONTROL);
        let begins = key.code == KeyCode::Char(']') && key.modifiers == alt;
        if self.held.is_empty() && !begins {
            return Heard::Keys(vec![key]);
        }
        let is_end = (key.code == KeyCode::Char('\\') && key.modifiers == alt)
            || (key.code == KeyCode::Char('g') && key.modifiers == control);
        if is_end && self.said.starts_with(COLOUR) {
            let colour = scheme(&self.said[COLOUR.len()..]);
            *self = Self::default();
            return Heard::Answer(colour);
        }
        self.held.push(key);
        if begins && self.held.len() == 1 {
            return Heard::Part;
        }
        if let KeyCode::Char(letter) = key.code
            && key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
            && self.said.len() < LONGEST
        {
            self.said.push(letter);
            if COLOUR.starts_with(&self.said) || self.said.starts_with(COLOUR) {
                return Heard::Part;
            }
        }
        self.said.clear();
        Heard::Keys(std::mem::take(&mut self.held))
    }
}

/// The scheme for a colour such as `rgb:ffff/ffff/e0e0`.
fn scheme(colour: &str) -> Option<Scheme> {
    let (_, colour) = colour.split_once(':')?;
    let mut parts = colour.split('/').map(|part| {
        let most = 16_u32.checked_pow(u32::try_from(part.len()).ok()?)?.checked_sub(1)?;
        Some(f64::from(u32::from_str_radix(part, 16).ok()?) / f64::from(most))
    });
    let mut next = || parts.next().flatten().filter(|share| share.is_finite());
    let (red, green, blue) = (next()?, next()?, next()?);
    // As bright as eyes find it.
    match 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 {
        true => Some(Scheme::Light),
        false => Some(Scheme::Dark),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_what_is_typed() {
        for (heard, scheme, typed, whole) in [
            (
                "\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c",
                Some(Scheme::Light),
                "",
                true,
            ),
            ("\x1b]11;rgb:1e/1e/2e\x07\x1b[?6c", Some(Scheme::Dark), "", true),
            (
                "hé\x1b]11;rgba:f/f/a/f\x07l\x1b[?6clo\r",
                Some(Scheme::Light),
                "héllo\n",
                true,
            ),
            ("\x1b[?1;2c", None, "", true),
            ("\x1b]11;rgb:ff", None, "]11;rgb:ff", false),
            ("\x1b]11;blue\x07", None, "", false),
            ("\x1b]11;rgb://\x07", None, "", false),
            ("\x1b[?1", None, "[?1", false),
            ("typed", None, "typed", false),
            ("", None, "", false),
        ] {
            let typed = typed.to_owned();
            assert_eq!(read(heard.as_bytes()), Answers { scheme, typed, whole }, "{heard:?}");
        }
    }

    #[test]
    fn an_answer_that_comes_among_keys_is_not_typed() {
        let alt = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::ALT);
        let keys = |text: &str| {
            text.chars()
                .map(|letter| KeyCode::Char(letter).into())
                .collect::<Vec<KeyEvent>>()
        };
        let bell = KeyEvent::new(KeyCode::Char('g'), KeyModifiers::CONTROL);
        let heard = |events: &[KeyEvent]| {
            let (mut late, mut typed, mut answers) = (Late::default(), Vec::new(), Vec::new());
            for event in events {
                match late.take(*event) {
                    Heard::Keys(keys) => typed.extend(keys),
                    Heard::Part => {}
                    Heard::Answer(scheme) => answers.push(scheme),
                }
            }
            (typed, answers)
        };
        for end in [alt('\\'), bell] {
            let answer = [vec![alt(']')], keys("11;rgb:ffff/ffff/ffff"), vec![end]].concat();
            let all = [keys("he"), answer, keys("llo")].concat();
            assert_eq!(heard(&all), (keys("hello"), vec![Some(Scheme::Light)]));
        }
        let other = [vec![alt(']')], keys("12 apples"), vec![bell]].concat();
        assert_eq!(heard(&other), (other.clone(), Vec::new()));
    }
}
