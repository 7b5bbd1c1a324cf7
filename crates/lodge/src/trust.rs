//! `lodge trust`: folders whose hooks and MCP servers may run, and what they contain.

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, Result};
use lodge_host::{Brought, Standing, Trust};

use crate::sessions::println_quietly;

/// Lists the trusted folders, shows what one brings, or changes whether it is trusted.
pub(crate) fn run(home: &Path, folder: Option<&Path>, show: bool, remove: bool) -> Result<ExitCode> {
    let trust = Trust::at(home);
    let Some(folder) = folder else {
        for folder in trust.folders() {
            println_quietly(&folder.display().to_string());
            let waiting = trust.review(&folder).into_iter();
            print(waiting.filter(|file| file.standing != Standing::Accepted), true);
        }
        return Ok(ExitCode::SUCCESS);
    };
    let real = folder
        .canonicalize()
        .with_context(|| format!("Cannot trust {}", folder.display()));
    if remove {
        let real = real.unwrap_or_else(|_| folder.to_owned());
        trust
            .set(&real, false)
            .with_context(|| format!("Cannot untrust {}", real.display()))?;
        println_quietly(&format!(
            "{} is no longer trusted: its hooks and MCP servers do not run.",
            real.display()
        ));
        return Ok(ExitCode::SUCCESS);
    }
    let real = real?;
    if show {
        let brought = trust.review(&real);
        println_quietly(&match (trust.covers(&real), brought.is_empty()) {
            (_, true) => format!("{} contains no hooks and no MCP servers.", real.display()),
            (true, _) => format!("{} is trusted. It contains:", real.display()),
            (false, _) => format!("{} is not trusted. None of this runs:", real.display()),
        });
        print(brought, true);
        return Ok(ExitCode::SUCCESS);
    }
    let accepted = trust
        .set(&real, true)
        .with_context(|| format!("Cannot trust {}", real.display()))?;
    println_quietly(&match accepted.is_empty() {
        true => format!(
            "{} is trusted. It contains no hooks and no MCP servers yet; new ones need `lodge trust` again.",
            real.display()
        ),
        false => format!("{} is trusted. These run from now on, as they are:", real.display()),
    });
    print(accepted, false);
    Ok(ExitCode::SUCCESS)
}

/// Prints files and what they start. `now` says whether their current or their earlier state is shown.
fn print(files: impl IntoIterator<Item = Brought>, now: bool) {
    for file in files {
        let standing = match (file.standing, now) {
            (Standing::Accepted, true) => " (accepted)",
            (Standing::Accepted, false) => "",
            (Standing::New, true) => " (new: does not run until you accept it)",
            (Standing::New, false) => " (new)",
            (Standing::Changed, true) => " (changed: does not run until you accept it)",
            (Standing::Changed, false) => " (changed)",
        };
        println_quietly(&format!("  {}{standing}", file.path.display()));
        for line in &file.starts {
            // Text from files is printed as text, so that it cannot control the terminal.
            let line: String = line.chars().flat_map(shown).collect();
            println_quietly(&format!("    {line}"));
        }
    }
}

fn shown(letter: char) -> Vec<char> {
    // Control characters, and characters that change the direction of text or hide in it.
    let hides =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    match letter.is_control() || hides {
        true => letter.escape_default().collect(),
        false => vec![letter],
    }
}
