//! `docs/ahp.md` says what is: the methods, and a test for every obligation.

use lodge_ahp::methods::{METHODS, Order, Served};

const DOCS: &str = include_str!("../../../../docs/ahp.md");

#[test]
fn the_methods_are_those_of_the_table() {
    let expected: Vec<String> = METHODS
        .iter()
        .map(|method| {
            let served = match method.served {
                Served::Everywhere => "1.0, 0.9, 0.1",
                Served::Modern => "1.0, 0.9",
            };
            let order = match method.order {
                Order::InTurn => "in turn",
                Order::Beside => "in parallel",
            };
            format!("| `{}` | {served} | {order} | {} |", method.name, method.role)
        })
        .collect();
    let begin = DOCS.find("| method |").unwrap();
    let written: Vec<&str> = DOCS[begin..]
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert_eq!(written, expected);
}

#[test]
fn every_obligation_names_tests_that_exist() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = [
        "tests/it",
        "tests/it/automations",
        "tests/it/obligations",
        "tests/it/sync",
        "tests/it/terminals",
        "src",
        "../lodge-host/src/automations",
        "../lodge-host/src/schedules",
        "../lodge-files/src",
        "../lodge-files/src/names",
        "../lodge-files/src/reach",
        "../lodge-files/src/watch",
    ]
    .map(|dir| std::fs::read_dir(here.join(dir)).unwrap());
    let paths = files.into_iter().flatten().map(|file| file.unwrap().path());
    let sources: Vec<String> = paths
        .filter(|path| path.is_file())
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let begin = DOCS.find("| number |").unwrap();
    let mut next = 1u32;
    for line in DOCS[begin..].lines().skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let (first, last) = cells[1].split_once('–').unwrap_or((cells[1], cells[1]));
        assert_eq!(first.parse::<u32>().unwrap(), next, "{line}");
        next = last.parse::<u32>().unwrap() + 1;
        for test in cells[3].split(", ") {
            let name = test.trim_matches('`');
            let declared = match name.strip_suffix("::*") {
                Some(module) => format!("\nmod {module};"),
                None => format!("fn {name}("),
            };
            assert!(
                sources.iter().any(|source| source.contains(&declared)),
                "{name} is no test"
            );
        }
    }
    assert_eq!(next, 100);
}
