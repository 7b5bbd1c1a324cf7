//! A launchd agent, on macOS.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result};

use super::{Manager, call, person};

const LABEL: &str = "lodge.host";

pub(super) struct Launchd;

impl Manager for Launchd {
    fn file(&self) -> Result<PathBuf> {
        Ok(person()?.join("Library/LaunchAgents").join(format!("{LABEL}.plist")))
    }

    fn describe(&self, program: &Path, arguments: &[String], _: &Path) -> Result<String> {
        let program = program.to_str().context("The program's path is not UTF-8")?;
        let words: String = std::iter::once(program)
            .chain(arguments.iter().map(String::as_str))
            .map(|word| format!("    <string>{}</string>\n", escape(word)))
            .collect();
        let log = escape(&log()?.to_string_lossy());
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

    fn logs(&self, follow: bool, lines: u32) -> Result<Command> {
        let mut command = Command::new("tail");
        command.arg("-n").arg(lines.to_string());
        if follow {
            command.arg("-F");
        }
        command.arg(log()?);
        Ok(command)
    }

    fn hint(&self) -> &'static str {
        "It runs while you are logged in."
    }
}

fn log() -> Result<PathBuf> {
    Ok(person()?.join("Library/Logs/lodge.log"))
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

    #[test]
    fn arguments_become_strings_of_a_property_list() {
        let text = Launchd
            .describe(
                Path::new("/a/lodge"),
                &["--home".into(), "/x & <y>".into()],
                Path::new("/x"),
            )
            .unwrap();
        assert!(
            text.contains("<string>/a/lodge</string>\n    <string>--home</string>"),
            "{text}"
        );
        assert!(text.contains("<string>/x &amp; &lt;y&gt;</string>"), "{text}");
    }
}
