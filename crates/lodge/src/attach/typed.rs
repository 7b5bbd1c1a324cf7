//! Parses a typed line: a message, or a command that begins with a slash.

use tokio::sync::mpsc;

/// A parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Nothing,
    Say(String),
    Steer(String),
    Approve {
        always: bool,
    },
    Deny(Option<String>),
    Cancel,
    Retry,
    Approvals(Option<String>),
    Sessions(Option<String>),
    New,
    Title(Option<String>),
    Model(Option<String>),
    Login,
    Help,
    Quit,
    /// A slash followed by no known command.
    Unknown(String),
}

pub(super) const HELP: &str = "\
Type to send a message; while the agent works, it waits in the queue. End a line with \\ to continue on the next.
  y, n, a                 answer a question: yes, no (add a reason), always
  /approve, /deny [WHY]   the same
  /cancel                 stop the running turn (or Ctrl-C)
  /retry                  try the failed turn again
  /steer TEXT             send a message into the running turn
  !COMMAND                run a command in the session's shell
  /sessions [N|ID]        list sessions, or go to one
  /new                    start a new session
  /rename [TITLE]         show or change the title
  /model [ID]             list the models, or choose one
  /approvals [MODE]       show or choose what runs without approval: ask, safe, edits, all or none
  /login                  say how to set up a model
  /quit                   leave; the session keeps running (or Ctrl-D)
  //TEXT                  send TEXT with its slash
  Tab                     complete a command or an @file; arrows recall earlier lines";

/// Commands of the line client, whatever the host offers.
pub(super) const NAMES: [&str; 13] = [
    "approvals",
    "approve",
    "cancel",
    "deny",
    "help",
    "login",
    "model",
    "new",
    "quit",
    "rename",
    "retry",
    "sessions",
    "steer",
];

impl Typed {
    pub(super) fn read(line: &str) -> Self {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return match line {
                "" => Self::Nothing,
                text => Self::Say(text.to_owned()),
            };
        };
        if command.starts_with('/') {
            return Self::Say(command.to_owned());
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        match (name, rest) {
            ("approve", None) => Self::Approve { always: false },
            ("approve", Some(word)) if word == "always" => Self::Approve { always: true },
            ("deny", why) => Self::Deny(why),
            ("cancel", None) => Self::Cancel,
            ("retry", None) => Self::Retry,
            ("approvals", mode) => Self::Approvals(mode),
            ("steer", Some(text)) => Self::Steer(text),
            ("sessions", which) => Self::Sessions(which),
            ("new", None) => Self::New,
            ("rename" | "title", title) => Self::Title(title),
            ("model", model) => Self::Model(model),
            ("login", None) => Self::Login,
            ("help" | "?", None) => Self::Help,
            ("quit" | "exit" | "q", None) => Self::Quit,
            _ => Self::Unknown(name.to_owned()),
        }
    }

    /// Whether a script's line waits for the answer to the one before.
    pub(super) fn waits(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Steer(_) | Self::Cancel)
    }
}

/// Lines of standard input. The channel closes when the input ends.
pub(super) fn lines() -> mpsc::UnboundedReceiver<String> {
    let (lines, receiver) = mpsc::unbounded_channel();
    // A separate thread: reading from a terminal cannot be cancelled, and must not keep the runtime from ending.
    std::thread::spawn(move || {
        use std::io::BufRead;
        let mut input = std::io::stdin().lock();
        let mut whole = String::new();
        loop {
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if let Some(begun) = line.strip_suffix('\\') {
                whole.push_str(begun);
                whole.push('\n');
                continue;
            }
            whole.push_str(line);
            if lines.send(std::mem::take(&mut whole)).is_err() {
                return;
            }
        }
        if !whole.is_empty() {
            // At the end, it does not matter whether anybody still listens.
            let _ = lines.send(whole);
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        let say = |text: &str| Typed::Say(text.to_owned());
        for (line, expected) in [
            ("", Typed::Nothing),
            ("  hello there ", say("hello there")),
            ("//etc/hosts is odd", say("/etc/hosts is odd")),
            ("/deny too slow", Typed::Deny(Some("too slow".into()))),
            ("/approve", Typed::Approve { always: false }),
            ("/approve always", Typed::Approve { always: true }),
            ("/sessions 2", Typed::Sessions(Some("2".into()))),
            ("/title", Typed::Title(None)),
            ("/title  My work ", Typed::Title(Some("My work".into()))),
            ("/steer", Typed::Unknown("steer".into())),
            ("/etc/hosts is odd", Typed::Unknown("etc/hosts".into())),
            ("/quit", Typed::Quit),
        ] {
            assert_eq!(Typed::read(line), expected, "{line:?}");
        }
    }
}
