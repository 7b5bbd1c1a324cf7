//! `lodge bridge`: the far end of `lodge attach ssh://…`. It carries bytes between its standard streams and the host of the
//! home, and starts a host if none runs.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use tokio::{io::AsyncWriteExt, net::UnixStream};

use crate::{host_file, join, launch};

/// The line with which the bridge begins.
pub(super) const GREETING: &str = "lodge-bridge 1";

/// Runs `lodge bridge`.
pub(crate) async fn bridge(home: &Path) -> Result<ExitCode> {
    launch::ensure(home).await?;
    let note = host_file::find(home)?.context("The host has just stopped")?;
    let socket = note.socket.with_context(|| {
        format!(
            "The host on {} (process {}) has no local socket, so it cannot be reached by ssh. Restart it",
            home.display(),
            note.pid
        )
    })?;
    let stream = UnixStream::connect(&socket)
        .await
        .context("The host has just stopped")?;
    let (input, mut output) = lodge_copilot::open_stdio()?;
    output.write_all(format!("{GREETING}\n").as_bytes()).await?;
    output.flush().await?;
    join::hand_on(stream, input, output).await;
    Ok(ExitCode::SUCCESS)
}
