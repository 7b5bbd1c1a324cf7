//! Input that strangers may send: bytes of any kind, and samples that were taken apart. `LODGE_FUZZ_CASES` says how many
//! cases each parser gets; a few hundred without it.

use proptest::{
    collection::vec,
    prelude::*,
    sample::{Index, select},
    test_runner::Config,
};

/// What parsers stumble over.
const ODD: [&str; 32] = [
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    "[[[[[[[[[[[[[[[[",
    "{\"a\":{\"a\":{\"a\":",
    ":",
    ": ",
    "- ",
    ",",
    "\\",
    "\\u",
    "\\ud800",
    "\n",
    "\r\n",
    "\r",
    "\0",
    "\u{feff}",
    "é",
    "🦀",
    "\x1b",
    "\x1b]",
    "\x1b\\",
    "\x07",
    "\x1b[",
    "-1",
    "0",
    "99999999999999999999",
    "1e999",
    "---\n",
];

/// How many cases, and no files about failures: a failure prints its input.
pub fn config() -> Config {
    let cases = std::env::var("LODGE_FUZZ_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    Config {
        cases: cases.unwrap_or(256),
        failure_persistence: None,
        ..Config::default()
    }
}

/// Arbitrary bytes, and samples that were changed in a few places.
pub fn bytes(samples: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let change = (
        0u8..7,
        any::<Index>(),
        any::<Index>(),
        any::<u8>(),
        select(&ODD[..]),
        select(samples),
    );
    let changed = (select(samples), vec(change, 0..8)).prop_map(|(sample, changes)| {
        let mut bytes = sample.as_bytes().to_vec();
        for (kind, from, to, byte, odd, other) in changes {
            let (from, to) = (from.index(bytes.len() + 1), to.index(bytes.len() + 1));
            let (from, to) = (from.min(to), from.max(to));
            match kind {
                0 => drop(bytes.splice(from..to.min(from + 1), [byte])),
                1 => drop(bytes.drain(from..to)),
                2 => drop(bytes.splice(from..from, odd.bytes())),
                3 => drop(bytes.splice(from..to, odd.bytes())),
                4 => {
                    let part = bytes[from..to].repeat(usize::from(byte % 4) + 1);
                    drop(bytes.splice(from..from, part));
                }
                5 => bytes.truncate(to),
                _ => drop(bytes.splice(from..from, other.bytes())),
            }
            bytes.truncate(1 << 16);
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => changed]
}

/// The same as text.
pub fn text(samples: &'static [&'static str]) -> impl Strategy<Value = String> {
    bytes(samples).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The same cut into pieces.
pub fn pieces(samples: &'static [&'static str]) -> impl Strategy<Value = Vec<Vec<u8>>> {
    (bytes(samples), vec(any::<Index>(), 0..8)).prop_map(|(bytes, cuts)| {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        places.extend([0, bytes.len()]);
        places.sort_unstable();
        places.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect()
    })
}
