//! Lines of the host's own log, for clients that listen to logs.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use tracing::Level;

use crate::{
    Log, Secrets,
    otlp::{self, now},
};

/// At most so many lines are queued; dropped ones are counted.
const MOST: usize = 1_000;
/// Longer lines are cut.
const LONGEST: usize = 2_000;

/// Lines of the host's own log for clients that listen. While nobody listens, none are collected.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lowest OTLP severity that is wanted. 0: nobody listens.
    least: AtomicU8,
    waiting: Mutex<(Vec<Line>, usize)>,
}

#[derive(Debug)]
struct Line {
    at: u128,
    severity: u8,
    target: String,
    text: String,
}

fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 17,
        Level::WARN => 13,
        Level::INFO => 9,
        Level::DEBUG => 5,
        Level::TRACE => 1,
    }
}

impl Lines {
    /// Whether anybody listens to this level.
    pub fn are_heard(&self, level: Level) -> bool {
        let least = self.least.load(Ordering::Relaxed);
        least != 0 && severity(level) >= least
    }

    /// Takes a line. Nothing that happens here says anything itself.
    pub fn add(&self, level: Level, target: &str, text: &str) {
        let line = Line {
            at: now(),
            severity: severity(level),
            target: target.to_owned(),
            text: text.chars().take(LONGEST).collect(),
        };
        let (lines, left_out) = &mut *self.waiting.lock();
        match lines.len() < MOST {
            true => lines.push(line),
            false => *left_out += 1,
        }
    }

    /// Collects lines of this severity from now on.
    pub fn want(&self, least: u8) {
        self.least.store(least, Ordering::Relaxed);
        if least == 0 {
            *self.waiting.lock() = Default::default();
        }
    }

    /// What waits, without secrets.
    pub fn take(&self, secrets: &Secrets) -> Vec<Log> {
        let (lines, left_out) = std::mem::take(&mut *self.waiting.lock());
        let told = lines.into_iter().map(|line| {
            let about = [("code.namespace", json!(line.target))];
            Log {
                severity: line.severity,
                record: otlp::log(line.at, line.severity, &secrets.redact(&line.text), &about),
            }
        });
        let mut told: Vec<Log> = told.collect();
        if left_out > 0 {
            let text = match left_out {
                1 => "1 line was left out".to_owned(),
                many => format!("{many} lines were left out"),
            };
            let record = otlp::log(now(), 13, &text, &[]);
            told.push(Log { severity: 13, record });
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_within_bounds_and_without_secrets_while_somebody_listens() {
        let lines = Lines::default();
        assert!(!lines.are_heard(Level::ERROR));
        lines.want(13);
        assert!(lines.are_heard(Level::WARN) && !lines.are_heard(Level::INFO));
        for _ in 0..MOST + 5 {
            lines.add(Level::WARN, "lodge", "token=hunter2 is wrong");
        }
        let told = lines.take(&Secrets::new([]));
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told[0].record["body"]["stringValue"], "token=*** is wrong");
        assert_eq!(told[MOST].record["body"]["stringValue"], "5 lines were left out");
        lines.add(Level::WARN, "lodge", "x");
        lines.want(0);
        assert!(lines.take(&Secrets::new([])).is_empty() && !lines.are_heard(Level::ERROR));
    }
}
