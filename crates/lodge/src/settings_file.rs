//! Changes one setting in `lodge.toml` and leaves the rest as somebody wrote it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use lodge_files::replace;

/// Sets a key in a table of the configuration of a home.
pub(crate) fn set(home: &Path, table: &str, key: &str, value: toml::Value) -> Result<()> {
    let path = home.join("lodge.toml");
    let before = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.with_context(|| format!("Cannot read {}", path.display()))?,
    };
    write(home, &with(&before, table, key, value)?)
}

/// Writes the configuration of a home. If it is a link, the file behind it is written: people keep their configurations together.
pub(crate) fn write(home: &Path, text: &str) -> Result<()> {
    let path = home.join("lodge.toml");
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    replace(&path, text.as_bytes()).with_context(|| format!("Cannot write {}", path.display()))
}

/// A configuration with this setting.
fn with(before: &str, table: &str, key: &str, value: toml::Value) -> Result<String> {
    let setting = format!("{key} = {value}");
    let (mut lines, mut inside, mut done) = (Vec::new(), false, false);
    let is_key = |line: &str| {
        let rest = line.trim_start().strip_prefix(key).map(str::trim_start);
        rest.is_some_and(|rest| rest.starts_with('='))
    };
    for line in before.lines() {
        let bare = line.split('#').next().unwrap_or_default().trim();
        if bare.starts_with('[') {
            inside = bare
                .strip_prefix('[')
                .and_then(|bare| bare.strip_suffix(']'))
                .map(str::trim)
                == Some(table);
            lines.push(line.to_owned());
            if inside && !done {
                lines.push(setting.clone());
                done = true;
            }
        } else if inside && is_key(line) {
            // What is said behind the value stays.
            let comment = line.find(" #").map_or("", |at| &line[at..]);
            lines.retain(|line| *line != setting);
            lines.push(format!("{setting}{comment}"));
        } else {
            lines.push(line.to_owned());
        }
    }
    if !done {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend([format!("[{table}]"), setting]);
    }
    let end = if before.contains("\r\n") { "\r\n" } else { "\n" };
    let after = lines.join(end) + end;
    let read: Result<toml::Table, _> = toml::from_str(&after);
    let is_set = read.is_ok_and(|read| read.get(table).and_then(|table| table.get(key)) == Some(&value));
    ensure!(
        is_set,
        "lodge.toml is not written in a way that Lodge can change; set `{key} = {value}` below [{table}] yourself"
    );
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_setting_changes_and_everything_else_stays() {
        for (before, expected) in [
            ("", "[terminal]\ntheme = \"light\"\n"),
            (
                "default_model = \"a/b\"\n",
                "default_model = \"a/b\"\n\n[terminal]\ntheme = \"light\"\n",
            ),
            (
                "[terminal] # mine\nmouse = false\n\n[prices]\ndate = \"d\"\n",
                "[terminal] # mine\ntheme = \"light\"\nmouse = false\n\n[prices]\ndate = \"d\"\n",
            ),
            (
                "[terminal]\nmouse = false\n  theme = \"dark\"  # at night\n[other]\ntheme = 1\n",
                "[terminal]\nmouse = false\ntheme = \"light\" # at night\n[other]\ntheme = 1\n",
            ),
            (
                "[terminal.keys]\nctrl-t = \"tasks\"\n",
                "[terminal.keys]\nctrl-t = \"tasks\"\n\n[terminal]\ntheme = \"light\"\n",
            ),
            (
                "[terminal]\r\ntheme = \"dark\"\r\n",
                "[terminal]\r\ntheme = \"light\"\r\n",
            ),
        ] {
            let after = with(before, "terminal", "theme", "light".into());
            assert_eq!(after.unwrap(), expected, "{before:?}");
        }
        for before in [
            "terminal = { theme = \"dark\" }\n",
            "terminal.theme = \"dark\"\n",
            "[terminal\n",
        ] {
            let error = with(before, "terminal", "theme", "light".into()).unwrap_err();
            assert!(error.to_string().contains("theme = \"light\""), "{error}");
        }
    }

    #[test]
    fn a_link_to_a_configuration_stays_one() {
        let home = tempfile::tempdir().unwrap();
        let (link, file) = (home.path().join("lodge.toml"), home.path().join("dotfiles.toml"));
        std::fs::write(&file, "memory = true\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        set(home.path(), "terminal", "theme", "light".into()).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), file);
        let written = std::fs::read_to_string(&file).unwrap();
        assert_eq!(written, "memory = true\n\n[terminal]\ntheme = \"light\"\n");
    }
}
