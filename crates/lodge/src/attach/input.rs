//! A person's input: lines from a program or a plain terminal, or keys from a capable terminal.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

use super::editor::{Editor, Key};

pub(super) enum Input {
    /// Whole lines.
    Lines(mpsc::UnboundedReceiver<String>),
    /// Keys, edited into lines.
    Keys(Box<Keys>),
}

/// Keys as they are pressed.
pub(super) struct Keys {
    bytes: mpsc::UnboundedReceiver<Vec<u8>>,
    pub(super) editor: Editor,
    _raw: Raw,
}

impl Input {
    /// Opens standard input; `drawn` if the line editor draws the line.
    pub(super) fn open(drawn: bool) -> Self {
        match drawn.then(Raw::enter).transpose() {
            Ok(Some(raw)) => Self::Keys(Box::new(Keys {
                bytes: bytes(),
                editor: Editor::default(),
                _raw: raw,
            })),
            _ => Self::Lines(super::typed::lines()),
        }
    }

    /// The next input; `None` at the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Key> {
        match self {
            Self::Lines(lines) => lines.recv().await.map(Key::Line),
            Self::Keys(keys) => loop {
                match keys.editor.next() {
                    Some(Key::End) => return None,
                    Some(key) => return Some(key),
                    None => keys.editor.push(&keys.bytes.recv().await?),
                }
            },
        }
    }

    /// The line editor, if it draws the line.
    pub(super) fn editor(&mut self) -> Option<&mut Editor> {
        match self {
            Self::Lines(_) => None,
            Self::Keys(keys) => Some(&mut keys.editor),
        }
    }
}

/// Width of the terminal, in columns.
pub(super) fn columns() -> usize {
    let size = tcgetwinsize(io::stdout());
    size.map_or(80, |size| usize::from(size.ws_col)).max(20)
}

/// A terminal in raw mode, until this is dropped. Ctrl-C still interrupts.
struct Raw(Termios);

impl Raw {
    fn enter() -> rustix::io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN;
        // After a suspend, the terminal would be in the state that the shell left.
        raw.special_codes[SpecialCodeIndex::VSUSP] = 0;
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        // Turns on bracketed paste.
        tell(b"\x1b[?2004h");
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        tell(b"\x1b[?2004l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// Writes an escape sequence. A terminal that does not know it ignores it.
fn tell(what: &[u8]) {
    let mut out = io::stdout();
    let _ = out.write_all(what).and_then(|()| out.flush());
}

/// Bytes of standard input. The channel closes when the input ends.
fn bytes() -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (bytes, receiver) = mpsc::unbounded_channel();
    // A separate thread: reading from a terminal cannot be cancelled, and must not keep the runtime from ending.
    std::thread::spawn(move || {
        let mut chunk = [0; 1024];
        loop {
            match io::stdin().lock().read(&mut chunk) {
                Ok(read @ 1..) if bytes.send(chunk[..read].to_vec()).is_ok() => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    });
    receiver
}
