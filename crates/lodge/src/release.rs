//! The version of this build, its man pages, and `lodge self check`. Lodge never checks for updates on its own.

use std::{path::Path, process::ExitCode, sync::LazyLock, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use clap::{CommandFactory, Subcommand};
use futures_util::StreamExt;
use lodge_models::{HttpRequest, HttpResponse, Network, Transport};
use serde::Deserialize;

use crate::{cli::Cli, serve::print_line};

/// What `--version` prints: the version, the commit where it is known, and the platform.
pub(crate) static VERSION: LazyLock<String> = LazyLock::new(|| {
    // `cargo xtask dist` sets the first, and knows that nothing differs from the commit; the build script sets the second.
    let commit = match (option_env!("LODGE_COMMIT"), option_env!("LODGE_SOURCE")) {
        (Some(commit), _) => commit.to_owned(),
        (None, Some(commit)) => format!("built from source at {commit}"),
        (None, None) => "built from source".to_owned(),
    };
    let debug = if cfg!(debug_assertions) { ", debug" } else { "" };
    let (processor, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("{} ({commit}, {processor}-{system}{debug})", env!("CARGO_PKG_VERSION"))
});

/// Size and time limits for reading a feed.
const LONGEST_FEED: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 5;

/// `lodge self`.
#[derive(Subcommand)]
pub(crate) enum SelfCommand {
    /// Compare this program with a release feed; exits with 0 if it is up to date, and with 3 if not
    #[command(after_help = "Examples:
  lodge self check --feed https://example.com/lodge/release.json")]
    Check {
        /// The feed: address or file of a `release.json`
        #[arg(long, env = "LODGE_FEED", value_name = "URL|FILE")]
        feed: String,
    },
}

#[derive(Deserialize)]
struct Feed {
    version: String,
    #[serde(default)]
    commit: String,
}

/// Runs `lodge self`.
pub(crate) async fn run(command: SelfCommand) -> Result<ExitCode> {
    let SelfCommand::Check { feed } = command;
    let bytes = match feed.contains("://") {
        true => tokio::time::timeout(PATIENCE, fetch(&feed))
            .await
            .with_context(|| format!("{feed} did not answer"))?
            .with_context(|| format!("The feed {feed} cannot be fetched"))?,
        false => std::fs::read(&feed).with_context(|| format!("The feed {feed} cannot be read"))?,
    };
    let found: Feed = serde_json::from_slice(&bytes).with_context(|| format!("{feed} is not a release feed"))?;
    let own = numbers(env!("CARGO_PKG_VERSION")).context("This program has no version")?;
    let offered = numbers(&found.version)
        .with_context(|| format!("The feed {feed} has an invalid version: {:?}", found.version))?;
    let name = match found.commit.as_str() {
        "" => found.version,
        commit => format!("{} ({commit})", found.version),
    };
    print_line(&format!("This is Lodge {}.", *VERSION));
    Ok(if offered > own {
        print_line(&format!("A newer release is available: {name}."));
        ExitCode::from(3)
    } else {
        print_line(&format!("This is the newest release; the feed has {name}."));
        ExitCode::SUCCESS
    })
}

/// The numbers of a version; anything after them is ignored.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let version = version.split(['-', '+']).next()?;
    let parts: Vec<u64> = version
        .split('.')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

async fn fetch(url: &str) -> Result<Vec<u8>> {
    let mut url = url.to_owned();
    for _ in 0..=REDIRECTS {
        let response = get(&url).await?;
        match (response.status, response.header("location")) {
            (200, _) => return read(response).await,
            (301 | 302 | 303 | 307 | 308, Some(place)) => {
                // A redirect from HTTPS to HTTP is refused.
                ensure!(
                    place.starts_with("https://") || (place.starts_with("http://") && url.starts_with("http://")),
                    "it leads to {place}"
                );
                url = place.to_owned();
            }
            (status, _) => bail!("it answered {status}"),
        }
    }
    bail!("it is redirected more than {REDIRECTS} times")
}

async fn get(url: &str) -> Result<HttpResponse> {
    let request = HttpRequest {
        method: "GET",
        url: url.to_owned(),
        headers: vec![("accept".to_owned(), "application/json".to_owned())],
        body: Bytes::new(),
        sub_agent: None,
    };
    Ok(Network::default().send(request).await?)
}

async fn read(mut response: HttpResponse) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.body.next().await {
        bytes.extend_from_slice(&piece?);
        ensure!(bytes.len() <= LONGEST_FEED, "it is longer than 64 KiB");
    }
    Ok(bytes)
}

/// Writes a man page for the program and for each of its commands into a directory.
pub(crate) fn man(dir: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(dir).with_context(|| format!("Cannot create {}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(|| format!("Cannot write to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.1"));
        assert_eq!(numbers("1.2.3-rc.1+5"), Some([1, 2, 3]));
        for wrong in ["", "1", "1.2", "1.2.x", "1.2.3.4", "v1.2.3"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
