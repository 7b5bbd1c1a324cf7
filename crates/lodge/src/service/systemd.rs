//! A systemd user unit.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use super::{Manager, call, person};

const UNIT: &str = "lodge.service";

pub(super) struct Systemd;

impl Manager for Systemd {
    fn file(&self) -> Result<PathBuf> {
        let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = match config.filter(|dir| dir.is_absolute()) {
            Some(config) => config,
            None => person()?.join(".config"),
        };
        Ok(config.join("systemd/user").join(UNIT))
    }

    fn describe(&self, program: &Path, arguments: &[String], home: &Path) -> Result<String> {
        let program = program.to_str().context("The program's path is not UTF-8")?;
        let mut command = quote(program)?;
        for argument in arguments {
            command = format!("{command} {}", quote(argument)?);
        }
        let variables = quote_path(&home.join("environment"))?;
        let executable = quote_path(Path::new(program))?;
        // Options that need a mount namespace are left out: agents work in the person's files, with the person's tools.
        // The sandbox limits approved commands.
        Ok(format!(
            "# Written by `lodge service install`.\n\
             [Unit]\n\
             Description=Lodge, an agent host\n\
             Documentation=man:lodge(1)\n\
             # If the program is removed without `lodge service uninstall`, the unit is skipped.\n\
             ConditionFileIsExecutable={executable}\n\
             StartLimitIntervalSec=60\n\
             StartLimitBurst=5\n\
             \n\
             [Service]\n\
             Type=notify\n\
             NotifyAccess=main\n\
             ExecStart={command}\n\
             # Variables of the host, such as keys for models: one NAME=VALUE a line.\n\
             EnvironmentFile=-{variables}\n\
             WorkingDirectory=%h\n\
             Restart=on-failure\n\
             RestartSec=2\n\
             TimeoutStopSec=60\n\
             KillMode=mixed\n\
             LockPersonality=yes\n\
             NoNewPrivileges=yes\n\
             RestrictRealtime=yes\n\
             RestrictSUIDSGID=yes\n\
             SystemCallArchitectures=native\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n"
        ))
    }

    fn start(&self, _: &Path) -> Result<()> {
        call("systemctl", &["--user", "daemon-reload"])?;
        call("systemctl", &["--user", "enable", UNIT])?;
        call("systemctl", &["--user", "restart", UNIT]).context("The service did not start. See `lodge service logs`")
    }

    fn stop(&self, _: &Path) -> Result<()> {
        call("systemctl", &["--user", "disable", "--now", UNIT])
    }

    fn state(&self) -> Result<String> {
        let output = Command::new("systemctl")
            .args(["--user", "is-active", UNIT])
            .stdin(Stdio::null())
            .output()
            .context("Cannot run systemctl, which the service needs")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn logs(&self, _: &Path, follow: bool, lines: u32) -> Result<Command> {
        let mut command = Command::new("journalctl");
        command
            .args(["--user", "--unit", UNIT, "--lines"])
            .arg(lines.to_string());
        if follow {
            command.arg("--follow");
        }
        Ok(command)
    }

    fn hint(&self) -> &'static str {
        "It runs while you are logged in. To run it from boot, use `loginctl enable-linger`."
    }
}

/// Quotes a word of a command line for a unit.
fn quote(word: &str) -> Result<String> {
    ensure!(
        !word.contains(['\n', '\r']),
        "A service cannot contain a line break: {word:?}"
    );
    let escaped = word
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    Ok(format!("\"{escaped}\""))
}

/// Quotes a path that is a whole setting: units allow no quotation marks there.
fn quote_path(path: &Path) -> Result<String> {
    let path = path.to_str().context("The path of the home is not UTF-8")?;
    ensure!(
        !path.contains(['\n', '\r']),
        "A service cannot contain a line break: {path:?}"
    );
    Ok(path.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_units_have_them() {
        assert_eq!(quote("/a b/c").unwrap(), "\"/a b/c\"");
        assert_eq!(quote(r#"100% "$HOME" \"#).unwrap(), r#""100%% \"$$HOME\" \\""#);
        assert!(quote("a\nExecStartPre=/bin/evil").is_err());
    }
}
