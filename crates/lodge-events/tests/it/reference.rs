//! `docs/events.md`.

use std::path::Path;

#[test]
fn the_reference_in_docs_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/events.md");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let made = lodge_events::docs::render();
    let differs = made.lines().zip(found.lines()).position(|(made, found)| made != found);
    let line = differs.unwrap_or_else(|| made.lines().count().min(found.lines().count())) + 1;
    assert!(
        found == made,
        "docs/events.md is stale from line {line} on: run `cargo xtask docs`"
    );
}

#[test]
fn links_in_the_reference_lead_somewhere() {
    let page = lodge_events::docs::render();
    let anchors: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with("##"))
        .map(|line| {
            line.trim_start_matches(['#', ' '])
                .to_lowercase()
                .replace(['`', '.', ','], "")
                .replace(' ', "-")
        })
        .collect();
    let links: Vec<&str> = page
        .split("](#")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .collect();
    assert!(links.len() > 100);
    for link in links {
        assert_eq!(anchors.iter().filter(|anchor| *anchor == link).count(), 1, "#{link}");
    }
}
