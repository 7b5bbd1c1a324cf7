//! Copies text to the clipboard.

use std::{
    io::{self, Write},
    process::{Command, Stdio},
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// Copies through the terminal, which also works from another machine, and through a program of this machine if there
/// is one: not every terminal obeys.
pub(super) fn copy(text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{}\x07", STANDARD.encode(text))?;
    out.flush()?;
    let variable = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let (programs, text) = (programs(variable), text.to_owned());
    // Some of these programs run until something else is copied.
    std::thread::spawn(move || programs.iter().any(|program| hand_over(program, &text)));
    Ok(())
}

/// The available programs, the most likely first.
fn programs(has: impl Fn(&str) -> bool) -> Vec<&'static [&'static str]> {
    let mut programs: Vec<&[&str]> = Vec::new();
    if has("TMUX") {
        programs.push(&["tmux", "load-buffer", "-w", "-"]);
    }
    // A person who comes from another machine has the clipboard there.
    if has("SSH_CONNECTION") {
        return programs;
    }
    if cfg!(target_os = "macos") {
        programs.insert(0, &["pbcopy"]);
    }
    if has("WAYLAND_DISPLAY") {
        programs.insert(0, &["wl-copy"]);
    } else if has("DISPLAY") {
        programs.insert(0, &["xclip", "-selection", "clipboard"]);
        programs.insert(1, &["xsel", "--input", "--clipboard"]);
    }
    programs
}

fn hand_over(program: &[&str], text: &str) -> bool {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).stdin(Stdio::piped());
    let Ok(mut child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return false;
    };
    let written = child
        .stdin
        .take()
        .is_some_and(|mut input| input.write_all(text.as_bytes()).is_ok());
    written && child.wait().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clipboard_is_that_of_the_machine_where_somebody_sits() {
        let first = |variables: &[&str]| {
            let programs = programs(|name| variables.contains(&name));
            programs.iter().map(|program| program[0]).collect::<Vec<_>>()
        };
        let own = if cfg!(target_os = "macos") {
            vec!["pbcopy"]
        } else {
            vec![]
        };
        assert_eq!(first(&[]), own);
        assert_eq!(first(&["SSH_CONNECTION", "DISPLAY"]), [""; 0]);
        assert_eq!(first(&["SSH_CONNECTION", "TMUX"]), ["tmux"]);
        assert_eq!(first(&["WAYLAND_DISPLAY", "DISPLAY", "TMUX"])[0], "wl-copy");
        assert_eq!(first(&["DISPLAY"])[..2], ["xclip", "xsel"]);
    }
}
