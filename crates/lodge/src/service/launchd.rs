//! A launchd agent, on macOS.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{Manager, call, person};
use crate::log_file;

const LABEL: &str = "lodge.host";

/// There is no journal: the host writes its log into its home, and bounds it.
const LOG_TO_HOME: &str = "--log-to-home";

/// Reads the file of variables, as systemd does for its units, and starts the host: launchd has no such setting.
const START: &str = r#"if [ -r "$1" ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in [A-Za-z_]*=*) export "$line" ;; esac
  done <"$1"
fi
shift
exec "$@""#;

pub(super) struct Launchd;

impl Manager for Launchd {
    fn file(&self) -> Result<PathBuf> {
        Ok(person()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist")))
    }

    fn describe(&self, program: &Path, arguments: &[String], home: &Path) -> Result<String> {
        let program = program.to_str().context("The program's path is not UTF-8")?;
        let home = home.to_str().context("The path of the home is not UTF-8")?;
        let variables = format!("{home}/environment");
        let words: String = ["/bin/sh", "-c", START, "lodge", &variables, program]
            .into_iter()
            .chain(arguments.iter().map(String::as_str))
            .chain([LOG_TO_HOME])
            .map(|word| format!("    <string>{}</string>\n", escape(word)))
            .collect();
        // What the host prints before it can open its log.
        let log = escape(&log_file::path(Path::new(home)).to_string_lossy());
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
             <!-- Written by `lodge service install`. -->\n\
             <plist version=\"1.0\">\n<dict>\n  \
             <key>Label</key>\n  <string>{LABEL}</string>\n  \
             <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
             <key>RunAtLoad</key>\n  <true/>\n  \
             <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  </dict>\n  \
             <key>ExitTimeOut</key>\n  <integer>60</integer>\n  \
             <key>StandardErrorPath</key>\n  <string>{log}</string>\n\
             </dict>\n</plist>\n"
        ))
    }

    fn start(&self, file: &Path) -> Result<()> {
        // A loaded agent would keep its old definition.
        let _ = call("launchctl", &["bootout", &target()?]);
        call("launchctl", &["bootstrap", &domain()?, &file.to_string_lossy()])
    }

    fn stop(&self, _: &Path) -> Result<()> {
        call("launchctl", &["bootout", &target()?])
    }

    fn state(&self) -> Result<String> {
        let output = Command::new("launchctl")
            .args(["print", &target()?])
            .stdin(Stdio::null())
            .output()
            .context("Cannot run launchctl, which the service needs")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let runs = output.status.success() && text.contains("state = running");
        Ok(if runs { "active" } else { "inactive" }.to_owned())
    }

    fn logs(&self, home: &Path, follow: bool, lines: u32) -> Result<Command> {
        let mut command = Command::new("tail");
        command.arg("-n").arg(lines.to_string());
        if follow {
            command.arg("-F");
        }
        command.arg(log_file::path(home));
        Ok(command)
    }

    fn hint(&self) -> &'static str {
        "It runs while you are logged in."
    }
}

fn domain() -> Result<String> {
    Ok(format!("gui/{}", rustix::process::getuid().as_raw()))
}

fn target() -> Result<String> {
    Ok(format!("{}/{LABEL}", domain()?))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the arguments of the property list are, read by a parser that is not ours.
    fn arguments(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("lodge.plist");
        std::fs::write(&file, text).unwrap();
        let read = "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let output = Command::new("python3").args(["-c", read]).arg(&file).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let plist: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(plist["Label"], LABEL);
        serde_json::from_value(plist["ProgramArguments"].clone()).unwrap()
    }

    #[test]
    fn an_agent_starts_the_program_with_its_arguments_and_the_variables_of_the_home() {
        let home = tempfile::tempdir().unwrap();
        let given = ["--home".to_owned(), "/x & <y>".to_owned()];
        let text = Launchd.describe(Path::new("/bin/echo"), &given, home.path()).unwrap();
        let start = |text: &str| {
            let arguments = arguments(text);
            let output = Command::new(&arguments[0]).args(&arguments[1..]).env_clear().output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!(start(&text), "--home /x & <y> --log-to-home\n");
        let variables = "# a comment\nKEY=a b & 'c'\n\nLAST=$KEY";
        std::fs::write(home.path().join("environment"), variables).unwrap();
        let text = Launchd.describe(
            Path::new("/usr/bin/env"),
            &["printenv".into(), "KEY".into(), "LAST".into()],
            home.path(),
        );
        let printed = start(&text.unwrap().replace(LOG_TO_HOME, "HOME"));
        assert_eq!(printed, "a b & 'c'\n$KEY\n");
    }
}
