//! Starting the host and its faces; and the small commands that look at the machine.

use std::{ffi::OsString, path::Path, process::ExitCode};

use anyhow::Result;

use crate::{
    cli::{Global, ServeArgs},
    setup,
};

pub(crate) enum Never {}

pub(crate) fn sdk_arguments(_: &[OsString]) -> Result<Option<Never>, String> {
    Ok(None)
}

pub(crate) async fn for_sdk(args: Never) -> Result<ExitCode> {
    match args {}
}

pub(crate) async fn host(home: &Path, global: &Global, _: &ServeArgs) -> Result<ExitCode> {
    let host = setup::host(home, global.sync, None)?;
    let _ = tokio::signal::ctrl_c().await;
    host.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn models(_: &Path) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn doctor(_: &Path) -> Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn sandbox_exec(_: &str, _: &[OsString]) -> Result<ExitCode> {
    Ok(ExitCode::FAILURE)
}
