//! Connecting over ssh. On the other machine, `lodge bridge` joins the host or starts one; the host opens no port for it.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::AsyncReadExt,
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::{bridge::GREETING, forward::Way};

/// A person may have to type a password first.
const PATIENCE: Duration = Duration::from_secs(120);
/// Limit for output of the login before the bridge begins.
const MOST_CHATTER: usize = 64 << 10;

/// A shell without a login lacks the directories where people put programs.
const REMOTE: &str =
    "command -v lodge >/dev/null 2>&1 || PATH=$HOME/.local/bin:$HOME/.cargo/bin:$PATH; exec lodge bridge";

/// Whether ssh may ask the person for a password and print errors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    Allowed,
    Never,
}

/// The destination of ssh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SshTarget {
    /// `user@machine` or `machine`.
    destination: String,
    port: Option<u16>,
}

impl SshTarget {
    /// Parses the part after `ssh://`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let place = text.trim_end_matches('/');
        let wrong =
            || format!("ssh://{text} is not an address; it looks like ssh://user@machine or ssh://machine:2222");
        ensure!(!place.contains(['/', '?', '#', ' ']), wrong());
        let (destination, port) = match place.rsplit_once(':') {
            // An IPv6 address is in brackets.
            Some((before, port)) if !port.contains(']') => (before, Some(port.parse().with_context(wrong)?)),
            _ => (place, None),
        };
        let machine = destination.rsplit('@').next().unwrap_or_default();
        // A name that begins with a dash would be an option of ssh.
        ensure!(
            !machine.is_empty() && !destination.starts_with('-') && !machine.starts_with('-'),
            wrong()
        );
        Ok(Self {
            destination: destination.replace(['[', ']'], ""),
            port,
        })
    }

    fn command(&self, asking: Asking) -> Command {
        // As in git: a command with its own options.
        let own = std::env::var("LODGE_SSH_COMMAND")
            .ok()
            .filter(|own| !own.trim().is_empty());
        let own = own.unwrap_or_else(|| "ssh".to_owned());
        let mut words = own.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("ssh"));
        command.args(words).args(["-T", "-e", "none"]);
        if asking == Asking::Never {
            command.args(["-o", "BatchMode=yes"]);
        }
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        command
            .arg("--")
            .arg(&self.destination)
            .arg(format!("sh -c '{REMOTE}'"));
        command
    }

    pub(super) async fn connect(&self, asking: Asking) -> Result<Way> {
        let mut command = self.command(asking);
        if asking == Asking::Never {
            command.stderr(Stdio::null());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("Cannot run ssh; is it installed?")?;
        let stdin = child.stdin.take().context("standard input is piped")?;
        let mut stdout = child.stdout.take().context("standard output is piped")?;
        match timeout(PATIENCE, greeting(&mut stdout)).await {
            Ok(Ok(())) => Ok(Way {
                from_host: Box::new(stdout),
                to_host: Box::new(stdin),
                carrier: Some(child),
            }),
            Ok(Err(error)) => Err(error.context(self.failure(child).await)),
            Err(_) => bail!("{} does not answer over ssh.", self.destination),
        }
    }

    /// Says why there was no answer; ssh and the remote shell have printed their errors.
    async fn failure(&self, mut child: Child) -> String {
        let code = timeout(Duration::from_secs(5), child.wait()).await;
        match code.ok().and_then(Result::ok).and_then(|status| status.code()) {
            Some(255) => format!("ssh cannot reach {}", self.destination),
            Some(127) => format!(
                "Lodge is not installed on {}, or is not in PATH there",
                self.destination
            ),
            Some(code) => format!("Lodge on {} ended with {code}", self.destination),
            None => format!("ssh to {} ended", self.destination),
        }
    }
}

/// Reads up to the line with which the bridge begins. Some logins print a greeting before it.
async fn greeting(out: &mut ChildStdout) -> Result<()> {
    let mut line = Vec::new();
    for _ in 0..MOST_CHATTER {
        match out.read_u8().await {
            Ok(b'\n') if line == GREETING.as_bytes() => return Ok(()),
            Ok(b'\n') => line.clear(),
            Ok(byte) => line.push(byte),
            Err(_) => bail!("it sent no answer"),
        }
    }
    bail!("the program that answers there is not Lodge")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_machine_and_perhaps_a_user_and_a_port() {
        for (text, destination, port) in [
            ("machine", "machine", None),
            ("me@machine/", "me@machine", None),
            ("me@machine:2222", "me@machine", Some(2222)),
            ("me@[::1]:22", "me@::1", Some(22)),
            ("[fe80::1]", "fe80::1", None),
        ] {
            let found = SshTarget::parse(text).unwrap();
            assert_eq!((found.destination.as_str(), found.port), (destination, port), "{text}");
        }
        for wrong in [
            "",
            "me@",
            "machine:x",
            "machine:99999",
            "-oProxyCommand=evil",
            "me@-x",
            "a b",
            "machine/path",
        ] {
            assert!(SshTarget::parse(wrong).is_err(), "{wrong}");
        }
    }
}
