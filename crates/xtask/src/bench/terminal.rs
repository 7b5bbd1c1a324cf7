//! A terminal over the AHP face: how fast its output reaches a client.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::{
    ahp::House,
    client::timed,
    measures::{Given, Numbers},
    process,
};

const TERMINAL: &str = "ahp-terminal:/bench";
/// The last word, as JSON has it.
const WORD: &[u8] = br"done\r\n";
/// More than a shell prints after it.
const LAST: usize = 4096;

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
    let cpu = process::cpu(house.pid());
    // The last word is put together, so that the line itself does not end it; and it is said twice, since the first may be
    // cut in two where frames meet.
    client.dispatch(
        TERMINAL,
        &json!({ "type": "terminal/input", "data": "cat large.txt; echo do''ne; sleep 1; echo do''ne\r" }),
    )?;
    let mut bytes = 0;
    let (_, took) = timed(|| {
        loop {
            let text = client.receive()?;
            bytes += text.len();
            // Only the end of a frame is worth a look: everything else is the file.
            let end = &text[text.len().saturating_sub(LAST)..];
            if end.windows(WORD.len()).any(|window| window == WORD) {
                return Ok(());
            }
        }
    })?;
    let cpu = process::cpu(house.pid()).saturating_sub(cpu).as_secs_f64() * 1e3;
    let extra = process::peak(house.pid()).saturating_sub(before);
    Ok(vec![
        ("terminal_mb_per_s", bytes as f64 / 1e6 / (took / 1e3)),
        ("terminal_cpu_ms_per_mb", cpu / (bytes as f64 / 1e6)),
        ("terminal_extra_mb", extra as f64 / 1e6),
    ])
}
