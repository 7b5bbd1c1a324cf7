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

/// Whether a whole screen can be drawn: somebody sits there, and the terminal is none of the dumb ones.
pub(super) fn can_draw() -> bool {
    use std::io::IsTerminal;
    let able = std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb");
    able && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// The wheel, buttons and being dragged with a button down, told in the form that has no limit to columns.
const MOUSE: (&str, &str) = ("\x1b[?1000h\x1b[?1002h\x1b[?1006h", "\x1b[?1006l\x1b[?1002l\x1b[?1000l");

/// A terminal that is taken over.
pub(super) struct Hardware {
    /// Whether the mouse is ours too.
    mouse: bool,
}

impl Hardware {
    pub(super) fn take(mouse: bool) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        // What a panic says is read by nobody on a screen that goes away.
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                print(panic);
            }));
        });
        enable_raw_mode()?;
        let taken = Self { mouse };
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            EnableBracketedPaste,
            EnableFocusChange,
            // Tells Shift-Enter from Enter, where the terminal can.
            PushKeyboardEnhancementFlags(KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES),
            Print(if mouse { MOUSE.0 } else { "" })
        )?;
        Ok(taken)
    }

    /// Gives the terminal back while something else uses it.
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
        SetTitle("")
    );
    let _ = disable_raw_mode();
}

/// Calls somebody who looks elsewhere: a bell, and the two ways in which terminals show notifications.
pub(super) fn notify(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\x07\x1b]9;{text}\x07\x1b]777;notify;Lodge;{text}\x07")?;
    out.flush()
}

pub(super) fn set_title(title: &str) -> io::Result<()> {
    execute!(io::stdout(), SetTitle(title))
}
