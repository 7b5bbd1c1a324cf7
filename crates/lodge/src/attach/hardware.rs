//! The terminal device: set up for the conversation and restored afterwards, whatever happens.

use std::{
    io::{self, Write},
    sync::Once,
};

use crossterm::{
    cursor::Show,
    event::{
        DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange, KeyboardEnhancementFlags,
        PopKeyboardEnhancementFlags, PushKeyboardEnhancementFlags,
    },
    execute,
    style::Print,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, SetTitle, disable_raw_mode, enable_raw_mode},
};

/// Whether the whole screen can be used: it is a terminal, and not a dumb one.
pub(super) fn can_draw() -> bool {
    use std::io::IsTerminal;
    let able = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    able && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Reports of the wheel, of buttons, and of dragging, in the format without a limit to columns.
const MOUSE: (&str, &str) = ("\x1b[?1000h\x1b[?1002h\x1b[?1006h", "\x1b[?1006l\x1b[?1002l\x1b[?1000l");

/// Keeps the window's title, and restores it. Terminals that keep no titles show their own after an empty one.
const TITLE: (&str, &str) = ("\x1b[22;0t", "\x1b[23;0t");

/// The terminal while the conversation uses it.
pub(super) struct Hardware {
    /// Whether mouse reports are on.
    mouse: bool,
}

impl Hardware {
    pub(super) fn take(mouse: bool) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        // On a screen that disappears, nobody could read a panic's message. After a panic in another thread, the conversation goes on.
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            let conversation = std::thread::current().id();
            std::panic::set_hook(Box::new(move |panic| {
                if std::thread::current().id() == conversation {
                    give_back();
                    return print(panic);
                }
                tracing::error!("{panic}");
            }));
        });
        enable_raw_mode()?;
        let taken = Self { mouse };
        execute!(
            io::stdout(),
            Print(TITLE.0),
            EnterAlternateScreen,
            EnableBracketedPaste,
            EnableFocusChange,
            // Tells Shift-Enter from Enter, if the terminal can.
            PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES),
            Print(if mouse { MOUSE.0 } else { "" })
        )?;
        Ok(taken)
    }

    /// Restores the terminal while another program uses it.
    pub(super) fn lend<T>(&self, what: impl FnOnce() -> T) -> io::Result<T> {
        give_back();
        let done = what();
        std::mem::forget(Self::take(self.mouse)?);
        Ok(done)
    }
}

impl Drop for Hardware {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // A terminal that is gone needs nothing any more.
    let _ = execute!(
        io::stdout(),
        Print(MOUSE.1),
        PopKeyboardEnhancementFlags,
        DisableFocusChange,
        DisableBracketedPaste,
        LeaveAlternateScreen,
        Show,
        SetTitle(""),
        Print(TITLE.1)
    );
    let _ = disable_raw_mode();
}

/// Notifies a person who looks elsewhere: a bell, and both common sequences for notifications.
pub(super) fn notify(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    out.write_all(notification(text).as_bytes())?;
    out.flush()
}

pub(super) fn notification(text: &str) -> String {
    format!("\x07\x1b]9;{text}\x07\x1b]777;notify;Lodge;{text}\x07")
}

pub(super) fn set_title(title: &str) -> io::Result<()> {
    execute!(io::stdout(), SetTitle(title))
}
