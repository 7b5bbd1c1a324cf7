//! Numbers of a fleet: tests start servers and hosts, and say what they measure.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};

use super::{Results, report};
use crate::{clients, sh};

/// `cargo xtask bench fleet`.
pub(super) fn run(args: &[&str]) -> Result<()> {
    let quick = match args {
        [] => false,
        ["--quick"] => true,
        _ => bail!("usage: cargo xtask bench fleet [--quick]"),
    };
    clients::install_nats()?;
    let mut test = sh::cargo();
    test.args([
        "test",
        "--locked",
        "--quiet",
        "--package",
        "lodge",
        "--features",
        "fleet",
    ]);
    test.args(["--test", "it"]);
    // To see that it works, what is built for tests will do.
    if !quick {
        test.arg("--release").env("LODGE_FLEET_MEASURED", "1");
    }
    test.args(["--", "fleet::measured::", "--nocapture", "--test-threads=1"]);
    let numbers = numbers(&sh::read(test.env("LODGE_REQUIRE_CLIENTS", "1"))?)?;
    let results = Results::from([("lodge".to_owned(), numbers)]);
    println!("{}", serde_json::to_string_pretty(&report(&results))?);
    Ok(())
}

/// The numbers among what tests print.
fn numbers(printed: &str) -> Result<BTreeMap<&'static str, f64>> {
    let mut numbers = BTreeMap::new();
    for line in printed.lines() {
        // What the test runner prints may be in front of it.
        let Some((_, number)) = line.split_once("number fleet_") else {
            continue;
        };
        let (name, value) = number.split_once(' ').unwrap_or((number, ""));
        // The names live as long as the program; there are a handful.
        numbers.insert(&*format!("fleet_{name}").leak(), value.trim().parse()?);
    }
    ensure!(!numbers.is_empty(), "the tests said no number: {printed}");
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_among_what_the_test_runner_prints() {
        let printed =
            "\nrunning 2 tests\nnumber fleet_append_p50_ms 1.2500\n.number fleet_takeover_s 11.0\n.\ntest result: ok";
        let found = numbers(printed).unwrap();
        assert_eq!(
            found,
            [("fleet_append_p50_ms", 1.25), ("fleet_takeover_s", 11.0)].into()
        );
        assert!(numbers("test result: ok").is_err());
        assert!(numbers("number fleet_x").is_err());
    }
}
