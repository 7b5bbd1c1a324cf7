//! Files over the AHP face: long lists, large files, completions in a large tree.

use std::{fs, path::Path};

use anyhow::Result;
use serde_json::json;

use super::{
    ahp::{House, ROOT},
    client::{median, percentile, timed},
    measures::{Given, Numbers},
    process,
};

/// A directory of so many files.
fn fill(directory: &Path, files: usize) -> Result<()> {
    fs::create_dir_all(directory)?;
    for number in 0..files {
        fs::write(directory.join(format!("file_{number:05}.rs")), "")?;
    }
    Ok(())
}

/// Lists, reads and completes.
pub(super) fn measure(given: &Given<'_>) -> Result<Numbers> {
    let work = tempfile::Builder::new().prefix("lodge-bench-work-").tempdir()?;
    let work = work.path().canonicalize()?;
    let (directories, rounds) = if given.quick { (10, 5) } else { (100, 50) };
    fill(&work.join("many"), 10_000)?;
    for number in 0..directories {
        fill(&work.join(format!("src/module_{number:03}/parts")), 1000)?;
    }
    let large = if given.quick { 10 << 20 } else { 100 << 20 };
    fs::write(work.join("large.txt"), "0123456789abcde\n".repeat(large / 16))?;
    let house = House::start(given.program, given.home, &work)?;
    let mut client = house.connect()?;
    let uri = |name: &str| format!("file://{}", work.join(name).display());
    let mut numbers = Numbers::new();

    let list = json!({ "channel": ROOT, "uri": uri("many") });
    let mut times = Vec::new();
    for _ in 0..rounds {
        times.push(timed(|| client.raw("resourceList", &list))?.1);
    }
    numbers.push(("list_10000_entries_ms", median(times)));

    process::forget_peak(house.pid());
    let before = process::memory(house.pid());
    let read = json!({ "channel": ROOT, "uri": uri("large.txt") });
    let (bytes, took) = timed(|| client.raw("resourceRead", &read))?;
    numbers.push(("read_100mb_mb_per_s", bytes.len() as f64 / 1e6 / (took / 1e3)));
    let extra = process::peak(house.pid()).saturating_sub(before);
    numbers.push(("read_100mb_extra_mb", extra as f64 / 1e6));

    let session = "lodge:/00000000-0000-4000-8000-000000000001";
    client.call("createSession", &json!({ "channel": session }))?;
    let complete =
        |text: &str| json!({ "channel": session, "kind": "userMessage", "text": text, "offset": text.len() });
    let (_, first) = timed(|| client.call("completions", &complete("@mod")))?;
    numbers.push(("completions_100000_first_ms", first));
    let mut times = Vec::new();
    for round in 0..rounds {
        let word = ["@mod", "@m42fi", "@file_00777", "@src/module_0", "@prts9", "@zzz"][round % 6];
        times.push(timed(|| client.call("completions", &complete(word)))?.1);
    }
    numbers.push(("completions_100000_ms", percentile(times, 90)));
    Ok(numbers)
}
