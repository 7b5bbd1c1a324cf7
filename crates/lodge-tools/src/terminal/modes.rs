//! A terminal's settings: colours, modes, margins. When the beginning of a terminal's output is dropped, these are
//! written in its place, so that the rest looks the same.

use std::{collections::BTreeMap, fmt::Write as _};

/// The settings that some output leaves a terminal in.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Modes {
    /// Private modes that were set or reset, such as the cursor's visibility.
    private: BTreeMap<u16, bool>,
    style: Style,
    margins: Option<String>,
    keypad: bool,
    charset: Option<char>,
}

#[derive(Debug, Default, Clone, PartialEq)]
struct Style {
    /// Bold, italic and so on, by the number that sets them.
    flags: BTreeMap<u8, ()>,
    colour: Option<String>,
    background: Option<String>,
}

impl Modes {
    /// Follows some output. It should not end within a sequence.
    pub fn follow(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(found) = memchr::memchr(0x1b, &bytes[at..]) {
            at += found + 1;
            match bytes.get(at) {
                Some(b'[') => at = self.control(text, at + 1),
                Some(b'c') => *self = Self::default(),
                Some(b'=') => self.keypad = true,
                Some(b'>') => self.keypad = false,
                Some(b'(') => self.charset = bytes.get(at + 1).map(|set| char::from(*set)).filter(|set| *set != 'B'),
                _ => {}
            }
        }
    }

    /// The escape sequences that give a fresh terminal these settings.
    pub fn prelude(&self) -> String {
        let mut out = String::new();
        for (mode, set) in &self.private {
            let _ = write!(out, "\x1b[?{mode}{}", if *set { 'h' } else { 'l' });
        }
        if let Some(margins) = &self.margins {
            let _ = write!(out, "\x1b[{margins}r");
        }
        if self.keypad {
            out.push_str("\x1b=");
        }
        if let Some(set) = self.charset {
            let _ = write!(out, "\x1b({set}");
        }
        let flags = self.style.flags.keys().map(u8::to_string);
        let colours = [&self.style.colour, &self.style.background];
        let style: Vec<String> = flags.chain(colours.into_iter().flatten().cloned()).collect();
        if !style.is_empty() {
            let _ = write!(out, "\x1b[{}m", style.join(";"));
        }
        out
    }

    /// Whether the other screen is shown, which full-screen programs draw on.
    pub fn is_alternate(&self) -> bool {
        [47, 1047, 1049]
            .iter()
            .any(|mode| self.private.get(mode) == Some(&true))
    }

    /// One control sequence, from behind its bracket; returns where it ends.
    fn control(&mut self, text: &str, start: usize) -> usize {
        let bytes = text.as_bytes();
        let length = bytes[start..]
            .iter()
            .take(64)
            .take_while(|byte| (0x20..0x40).contains(*byte))
            .count();
        let end = start + length;
        let Some(last) = bytes.get(end) else { return end };
        let parameters = &text[start..end];
        match last {
            b'h' | b'l' => {
                for mode in parameters
                    .strip_prefix('?')
                    .into_iter()
                    .flat_map(|list| list.split(';'))
                {
                    if let Ok(mode) = mode.parse() {
                        self.private.insert(mode, *last == b'h');
                    }
                }
            }
            b'm' if !parameters.starts_with(['?', '>', '<']) => self.style.select(parameters),
            b'r' if !parameters.starts_with('?') => {
                self.margins = Some(parameters.to_owned()).filter(|margins| !margins.is_empty());
            }
            b'p' if parameters == "!" => {
                let private = std::mem::take(&mut self.private);
                let other = |(mode, _): &(u16, bool)| matches!(mode, 47 | 1047 | 1049 | 2004);
                *self = Self::default();
                self.private = private.into_iter().filter(other).collect();
            }
            _ => {}
        }
        end
    }
}

impl Style {
    fn select(&mut self, parameters: &str) {
        let mut list = parameters.split(';');
        while let Some(parameter) = list.next() {
            let number = parameter.split(':').next().unwrap_or_default();
            match number.parse::<u8>().unwrap_or(0) {
                0 => *self = Self::default(),
                flag @ 1..=9 => {
                    self.flags.insert(flag, ());
                }
                21 => self.flags.retain(|flag, ()| *flag != 1),
                22 => self.flags.retain(|flag, ()| *flag > 2),
                off @ 23..=29 => self.flags.retain(|flag, ()| flag + 20 != off),
                30..=37 | 90..=97 => self.colour = Some(parameter.to_owned()),
                39 => self.colour = None,
                40..=47 | 100..=107 => self.background = Some(parameter.to_owned()),
                49 => self.background = None,
                extended @ (38 | 48) => {
                    let mut colour = parameter.to_owned();
                    if !parameter.contains(':') {
                        let more = match list.next() {
                            Some("5") => ("5", 1),
                            Some("2") => ("2", 3),
                            _ => return,
                        };
                        let values: Vec<&str> = list.by_ref().take(more.1).collect();
                        colour = format!("{extended};{};{}", more.0, values.join(";"));
                    }
                    if extended == 38 {
                        self.colour = Some(colour);
                    } else {
                        self.background = Some(colour);
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, prelude: &str) {
        let mut modes = Modes::default();
        modes.follow(output);
        assert_eq!(modes.prelude(), prelude, "{output:?}");
        let mut again = Modes::default();
        again.follow(prelude);
        assert_eq!(again.prelude(), prelude, "what it says must mean the same");
    }

    #[test]
    fn what_a_terminal_is_set_to_can_be_said_again() {
        check("plain\r\n", "");
        check("\x1b[31mred", "\x1b[31m");
        check("\x1b[31mred\x1b[0m", "");
        check("\x1b[1;4;38;5;200;48;2;1;2;3mx", "\x1b[1;4;38;5;200;48;2;1;2;3m");
        check("\x1b[1;3;31m\x1b[22m\x1b[39m", "\x1b[3m");
        check("\x1b[?2004h\x1b[?25l$", "\x1b[?25l\x1b[?2004h");
        check("\x1b[?1049h\x1b[2;10r\x1b=\x1b(0", "\x1b[?1049h\x1b[2;10r\x1b=\x1b(0");
        check("\x1b[?1049h\x1b[?1049l\x1b[r\x1b>\x1b(B", "\x1b[?1049l");
        check("\x1b[?1;2004h\x1b[1mx\x1bcfresh", "");
        check("\x1b[2J\x1b[H\x1b]0;title\x07\x1b[K", "");
        check("\x1b[", "");
    }
}
