//! A terminal over the AHP face: how fast its output reaches a client.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    ahp::House,
    client::timed,
    measures::{Given, Numbers},
    process,
};

const TERMINAL: &str = "ahp-terminal:/bench";

/// Prints a large file in a terminal, and takes everything as fast as it comes.
pub(super) fn measure(given: &Given<'_>) -> Result<Numbers> {
    let work = tempfile::Builder::new().prefix("lodge-bench-work-").tempdir()?;
    let size = if given.quick { 20 << 20 } else { 200 << 20 };
    fs::write(work.path().join("large.txt"), "0123456789abcde".repeat(size / 15))?;
    let house = House::start(given.program, given.home, work.path())?;
    let mut client = house.connect()?;
    let claim = json!({ "kind": "client", "clientId": "bench" });
    client.call("createTerminal", &json!({ "channel": TERMINAL, "claim": claim }))?;
    client.call("subscribe", &json!({ "channel": TERMINAL }))?;
    process::forget_peak(house.pid());
    let before = process::memory(house.pid());
    // The last word is put together, so that the line itself does not end it.
    client.dispatch(
        TERMINAL,
        &json!({ "type": "terminal/input", "data": "cat large.txt; echo do''ne\r" }),
    )?;
    let mut bytes = 0;
    let (_, took) = timed(|| {
        loop {
            let text = client.receive()?;
            bytes += text.len();
            // Only the last frames are worth a look: everything else is the file.
            if text.len() < (64 << 10) && is_last(&text)? {
                return Ok(());
            }
        }
    })?;
    let extra = process::peak(house.pid()).saturating_sub(before);
    Ok(vec![
        ("terminal_mb_per_s", bytes as f64 / 1e6 / (took / 1e3)),
        ("terminal_extra_mb", extra as f64 / 1e6),
    ])
}

fn is_last(text: &[u8]) -> Result<bool> {
    let message: Value = serde_json::from_slice(text).context("a frame is not JSON")?;
    let data = message["params"]["action"]["data"].as_str();
    Ok(data.is_some_and(|data| data.contains("done\r\n")))
}
