//! The generated pages in `docs/`.

use std::fs;

use anyhow::{Result, bail};

use crate::{bench, sh};

/// Every generated page and its text.
fn pages() -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("docs/events.md", lodge_events::docs::render()),
        ("docs/sdk.md", printed("lodge-copilot")?),
        ("docs/pictures/bench.svg", bench::chart::render(&bench::recorded()?)),
        ("docs/bench.md", bench_page()?),
    ])
}

/// The page about measurements, with the numbers of the last recorded run.
fn bench_page() -> Result<String> {
    let page = fs::read_to_string(sh::root().join("docs/bench.md"))?;
    bench::page::render(&page, &bench::recorded()?)
}

/// What the example `page` of a crate prints. So xtask itself stays small, and builds also when a face does not.
fn printed(package: &str) -> Result<String> {
    sh::read(sh::cargo().args(["run", "--quiet", "--locked", "--package", package, "--example", "page"]))
}

/// Writes the pages.
pub(crate) fn write() -> Result<()> {
    for (path, text) in pages()? {
        let path = sh::root().join(path);
        if fs::read_to_string(&path).is_ok_and(|found| found == text) {
            continue;
        }
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir)?;
        }
        println!("wrote {}", path.display());
        fs::write(path, text)?;
    }
    Ok(())
}

/// Says which pages are stale.
pub(crate) fn check() -> Result<()> {
    let stale = pages()?
        .into_iter()
        .filter(|(path, text)| !fs::read_to_string(sh::root().join(path)).is_ok_and(|found| found == *text))
        .map(|(path, _)| path)
        .collect::<Vec<_>>();
    if stale.is_empty() {
        Ok(())
    } else {
        bail!("stale: {} (run `cargo xtask docs`)", stale.join(", "))
    }
}
