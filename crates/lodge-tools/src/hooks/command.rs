//! Runs a hook's command: JSON in, bounded output, with a time limit.

use std::{io, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::Command,
};

use super::FileHook;
use crate::Environment;

/// So much of what a hook prints is read.
const MOST_OUTPUT: usize = 1 << 20;
/// So much of its errors.
const MOST_ERRORS: usize = 16 << 10;
/// So long its output is read on when it has ended.
const GRACE: Duration = Duration::from_millis(300);

/// How a command ended.
pub(super) struct Ended {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// Ends the command's process group when the hook is dropped before its end.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
    }
}

pub(super) async fn run(hook: &FileHook, input: String, environment: &Environment) -> Result<Ended, String> {
    let limit = hook.timeout;
    match tokio::time::timeout(limit, go(hook, input, environment)).await {
        Ok(ended) => ended.map_err(|error| format!("cannot run the command in {}: {error}", hook.cwd.display())),
        Err(_) => Err(format!(
            "the command exceeded its time limit of {} s and was stopped",
            limit.as_secs_f64()
        )),
    }
}

async fn go(hook: &FileHook, input: String, environment: &Environment) -> io::Result<Ended> {
    let mut command = Command::new("bash");
    command
        .args(["--noprofile", "--norc", "-c", "--", &hook.command])
        .current_dir(&hook.cwd)
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    environment.hand_on(&mut command);
    // So that a host that was killed leaves none behind.
    command.envs([crate::process::mark("hook.0")?]);
    command.envs(
        hook.env
            .iter()
            .map(|(name, value)| (name, expanded(value, environment))),
    );
    let mut child = command.spawn()?;
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A hook need not read what it is given.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let status = {
        let reading = async {
            tokio::join!(
                write,
                read(stdout, &mut out, MOST_OUTPUT),
                read(stderr, &mut errors, MOST_ERRORS)
            );
        };
        let mut reading = std::pin::pin!(reading);
        tokio::select! {
            () = &mut reading => child.wait().await,
            // Something that it left in the background may hold its output open; nobody waits for that.
            status = child.wait() => {
                let _ = tokio::time::timeout(GRACE, reading).await;
                status
            }
        }
    };
    group.0 = None;
    Ok(Ended {
        code: status?.code(),
        stdout: String::from_utf8_lossy(&out).into_owned(),
        stderr: String::from_utf8_lossy(&errors).into_owned(),
    })
}

/// Reads the beginning of what is printed; the rest is forgotten, so that nobody waits to be read.
async fn read(from: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>, most: usize) {
    let Some(mut from) = from else { return };
    let mut chunk = vec![0; 8192];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        let room = most.saturating_sub(into.len());
        into.extend_from_slice(&chunk[..count.min(room)]);
    }
}

/// With `$NAME` and `${NAME}` replaced by what the environment says.
fn expanded(value: &str, environment: &Environment) -> String {
    let mut out = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let braced = rest.strip_prefix('{');
        let text = braced.unwrap_or(rest);
        let end = text
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(text.len());
        let (name, after) = text.split_at(end);
        let closed = after.strip_prefix('}');
        match (name.is_empty(), braced.is_some(), closed) {
            (false, false, _) => {
                out.push_str(&environment.text(name).unwrap_or_default());
                rest = after;
            }
            (false, true, Some(after)) => {
                out.push_str(&environment.text(name).unwrap_or_default());
                rest = after;
            }
            _ => out.push('$'),
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_the_rest_stays() {
        let path = std::env::var("PATH").unwrap_or_default();
        for (value, expected) in [
            ("plain", "plain".to_owned()),
            ("$PATH", path.clone()),
            ("a:${PATH}:b", format!("a:{path}:b")),
            ("$NO_SUCH_VARIABLE_HERE!", "!".to_owned()),
            ("100$", "100$".to_owned()),
            ("${PATH", "${PATH".to_owned()),
            ("$$PATH", format!("${path}")),
        ] {
            assert_eq!(expanded(value, &Environment::default()), expected, "{value}");
        }
    }
}
