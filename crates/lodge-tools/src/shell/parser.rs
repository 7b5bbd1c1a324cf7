//! A parser for the predictable part of bash: simple commands of literal words, joined by `|`, `&&`, `||`, `;` and line
//! ends, with a few redirections. Everything else is rejected, so nothing needs to be known about it.
//!
//! One pass over the bytes, no recursion: the work is bounded by the length, and the length by [`MAX_BYTES`].

/// Longer text is not read at all.
pub(super) const MAX_BYTES: usize = 16 * 1024;
/// More words than this in one text are refused: each may cost whoever decides about it a look at the disk.
const MAX_WORDS: usize = 512;

/// A word after quotes are removed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Word {
    pub(super) text: String,
    /// Whether it holds `*` or `?` that the shell replaces by names of files.
    pub(super) glob: bool,
    /// Whether the `~` it begins with is the home directory.
    pub(super) home: bool,
    /// Whether quotes keep a character from its meaning that matters in patterns of files.
    pub(super) quoted_pattern: bool,
    /// How many of its first bytes stand there without quotes.
    pub(super) bare: usize,
}

impl Word {
    /// The name of the variable that it sets when it stands before a command.
    fn assigned(&self) -> Option<&str> {
        let (name, _) = self.text.split_once('=').filter(|(name, _)| name.len() < self.bare)?;
        is_name(name.strip_suffix('+').unwrap_or(name)).then_some(name)
    }
}

/// Whether a variable can have this name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How a command is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Join {
    /// `;`, a line end, or nothing stands before it.
    Then,
    And,
    Or,
    Pipe,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Simple {
    pub(super) join: Join,
    /// Variables that are set for it.
    pub(super) assignments: Vec<Word>,
    /// The program and its arguments; never empty.
    pub(super) words: Vec<Word>,
    pub(super) redirections: Vec<Redirection>,
}

/// A redirection: its sign, as in `2>>` and `2>&1`, and the file that it names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Redirection {
    pub(super) sign: String,
    pub(super) file: Option<Word>,
}

impl Simple {
    /// Files that redirections read, `/dev/null` left out.
    pub(super) fn reads(&self) -> impl Iterator<Item = &Word> {
        self.redirected(false)
    }

    /// Files that redirections write, `/dev/null` left out.
    pub(super) fn writes(&self) -> impl Iterator<Item = &Word> {
        self.redirected(true)
    }

    fn redirected(&self, output: bool) -> impl Iterator<Item = &Word> {
        let of_kind = self
            .redirections
            .iter()
            .filter(move |one| one.sign.contains('>') == output);
        let files = of_kind.filter_map(|one| one.file.as_ref());
        files.filter(|file| file.text != "/dev/null")
    }
}

/// The commands of a text, or `None` when it holds anything but what is known.
pub(super) fn read(text: &str) -> Option<Vec<Simple>> {
    Reader::new(text).list()
}

/// A text as one word that the shell, and [`read`], take as it is.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    words: usize,
    /// How often a byte was looked at.
    pub(super) steps: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
            words: 0,
            steps: 0,
        }
    }

    pub(super) fn list(&mut self) -> Option<Vec<Simple>> {
        if self.bytes.len() > MAX_BYTES || self.bytes.contains(&0) {
            return None;
        }
        let mut commands = Vec::new();
        let mut join = Join::Then;
        loop {
            self.blanks();
            while self.eat(b'\n') {
                self.blanks();
            }
            if self.peek().is_none() {
                // What ends with `&&` or `|` goes on somewhere else.
                return (join == Join::Then).then_some(commands);
            }
            commands.push(self.simple(join)?);
            join = match self.next() {
                None | Some(b'\n' | b';') => Join::Then,
                Some(b'&') if self.eat(b'&') => Join::And,
                Some(b'|') if self.eat(b'|') => Join::Or,
                Some(b'|') => Join::Pipe,
                Some(_) => return None,
            };
        }
    }

    fn simple(&mut self, join: Join) -> Option<Simple> {
        let mut simple = Simple {
            join,
            assignments: Vec::new(),
            words: Vec::new(),
            redirections: Vec::new(),
        };
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b'&') => break,
                Some(b'<' | b'>') => self.redirection(None, &mut simple)?,
                Some(_) => {
                    let from = self.at;
                    let word = self.word()?;
                    if self.is_descriptor(&word) {
                        // Only a number without quotes is surely that of a file descriptor.
                        let plain = self.bytes[from..self.at] == *word.text.as_bytes();
                        self.redirection(Some(plain.then_some(word.text)?), &mut simple)?;
                    } else if simple.words.is_empty() && word.assigned().is_some() {
                        simple.assignments.push((!word.glob).then_some(word)?);
                    } else {
                        simple.words.push(word);
                    }
                }
            }
        }
        (!simple.words.is_empty()).then_some(simple)
    }

    fn redirection(&mut self, descriptor: Option<String>, simple: &mut Simple) -> Option<()> {
        let output = self.next() == Some(b'>');
        let from = match (descriptor.as_deref(), output) {
            (None, _) | (Some("1"), true) | (Some("0"), false) => "",
            (Some("2"), true) => "2",
            _ => return None,
        };
        if output && self.eat(b'&') {
            let to = char::from(self.next().filter(|to| matches!(to, b'1' | b'2'))?);
            simple.redirections.push(Redirection {
                sign: format!("{from}>&{to}"),
                file: None,
            });
            return self.at_end_of_word().then_some(());
        }
        let sign = match (output, output && self.eat(b'>')) {
            (false, _) => "<",
            (true, false) => ">",
            (true, true) => ">>",
        };
        self.blanks();
        let file = self.word()?;
        // Of the names in /dev some are connections to other machines.
        let device = file.text.starts_with("/dev/") && file.text != "/dev/null";
        if file.glob || file.text.is_empty() || device || self.is_descriptor(&file) {
            return None;
        }
        simple.redirections.push(Redirection {
            sign: format!("{from}{sign}"),
            file: Some(file),
        });
        Some(())
    }

    /// Whether a word that was just read is a number right before a redirection.
    fn is_descriptor(&mut self, word: &Word) -> bool {
        matches!(self.peek(), Some(b'<' | b'>')) && word.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    fn word(&mut self) -> Option<Word> {
        self.words += 1;
        let mut word = Word::default();
        let mut text = Vec::new();
        let mut quoted = false;
        if self.words > MAX_WORDS || self.at_end_of_word() {
            return None;
        }
        while !self.at_end_of_word() {
            let first = text.is_empty() && !quoted;
            let byte = self.next()?;
            match byte {
                b'\'' => loop {
                    match self.next()? {
                        b'\'' => break,
                        byte => word.quote(&mut text, byte)?,
                    }
                },
                b'"' => self.double_quoted(&mut word, &mut text)?,
                b'\\' => match self.next()? {
                    b'\n' => {}
                    // Bytes of one character must not be torn apart.
                    byte if byte.is_ascii() => word.quote(&mut text, byte)?,
                    _ => return None,
                },
                b'~' if first => {
                    word.home = matches!(self.peek(), Some(b'/')) || self.at_end_of_word();
                    text.push(word.home.then_some(byte)?);
                }
                // After these the shell looks for a home directory, too.
                b'~' if matches!(text.last(), None | Some(b'=' | b':')) => return None,
                b'*' | b'?' => {
                    word.glob = true;
                    text.push(byte);
                }
                b'!' | b'[' if first && self.at_end_of_word() => text.push(byte),
                b'#' if !first => text.push(byte),
                b'_' | b'-' | b'.' | b'/' | b',' | b':' | b'+' | b'@' | b'%' | b'=' | b'^' | b']' | b'~' => {
                    text.push(byte);
                }
                _ if byte.is_ascii_alphanumeric() => text.push(byte),
                _ => return None,
            }
            quoted |= matches!(byte, b'\'' | b'"' | b'\\');
            if !quoted {
                word.bare = text.len();
            }
        }
        word.text = String::from_utf8(text).ok()?;
        Some(word)
    }

    fn double_quoted(&mut self, word: &mut Word, text: &mut Vec<u8>) -> Option<()> {
        loop {
            match self.next()? {
                b'"' => return Some(()),
                b'$' | b'`' => return None,
                // In some encodings the byte of a backslash can be the second half of a character.
                b'\\' if text.last().is_some_and(|byte| !byte.is_ascii()) => return None,
                b'\\' => match self.next()? {
                    b'\n' => {}
                    byte @ (b'$' | b'`' | b'"' | b'\\') => word.quote(text, byte)?,
                    byte => {
                        word.quote(text, b'\\')?;
                        word.quote(text, byte)?;
                    }
                },
                byte => word.quote(text, byte)?,
            }
        }
    }

    /// Passes over blanks, a comment and joined lines.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.bytes.get(self.at + 1) == Some(&b'\n') => self.at += 2,
                Some(b'#') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn at_end_of_word(&mut self) -> bool {
        matches!(
            self.peek(),
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>')
        )
    }

    fn peek(&mut self) -> Option<u8> {
        self.steps += 1;
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn eat(&mut self, wanted: u8) -> bool {
        let eaten = self.peek() == Some(wanted);
        self.at += usize::from(eaten);
        eaten
    }
}

impl Word {
    /// Takes a byte as it is. Bash uses some control characters as marks of its own.
    fn quote(&mut self, text: &mut Vec<u8>, byte: u8) -> Option<()> {
        self.quoted_pattern |= matches!(byte, b'*' | b'?' | b'[' | b'\\' | b'$' | b'`');
        text.push((byte == b'\t' || byte == b'\n' || !byte.is_ascii_control()).then_some(byte)?);
        Some(())
    }
}
