//! What a person at a terminal sees of a session and types into it. This crate knows sessions only as mirrored AHP state. It draws on
//! terminals, and knows nothing about connections or where the host is.

mod app;
mod chunks;
pub mod client;
mod composer;
mod edits;
mod feed;
mod highlight;
mod keys;
mod markdown;
mod paint;
mod panel;
mod plain;
mod theme;
mod transcript;
mod vim;
mod wrap;

pub use app::{App, COMMANDS, Cell, Effect, HostName, Price, Prices, Sent, Setting, Setup, Work, is_long};
pub use feed::{Body, Feed};
pub use keys::{EDITOR_KEYS, KEYS, Keymap};
pub use paint::Painter;
pub use plain::{plain, plain_line, shorten, shown_path};
pub use theme::{Scheme, Theme};
pub use transcript::{failed_command, is_command};
