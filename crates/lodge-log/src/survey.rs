//! Reads through a log and classifies every part of it: whole events and damage.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;

use uuid::Uuid;

use crate::damage::{Damage, Findings};
use crate::disk::DiskFile;
use crate::index::Index;
use crate::salvage::{Mark, Place, is_blank, salvage, trim, whole};
use crate::scan::{Ending, Raw, Scanner};

/// One stretch of a log and the verdict on it.
#[derive(Debug)]
pub(crate) enum Part<'a> {
    /// An event that stays. `raw` are its bytes in the file (without line feed), `json` what is to be kept of them;
    /// `ended` says that a line feed follows.
    Event {
        at: u64,
        raw: &'a [u8],
        json: &'a [u8],
        mark: Mark,
        ended: bool,
        note: Option<Damage>,
    },
    /// An empty line.
    Blank { raw: &'a [u8], ended: bool },
    /// Bytes that cannot stay.
    Bad { at: u64, raw: &'a [u8], damage: Damage },
    /// Zero bytes.
    Zeros { at: u64, len: u64 },
}

/// Which events were seen, and which was the last of the chain.
#[derive(Debug, Default)]
struct Chain {
    last: Option<Uuid>,
    /// Half of each id, which is enough to distinguish them.
    seen: HashSet<u64>,
    /// A missing event that was reported already, because events beside the chain name it as their parent.
    missing: Option<Uuid>,
}

impl Chain {
    fn judge(&mut self, mark: &Mark) -> Option<Damage> {
        let fits = mark.parent == self.last;
        match mark.place {
            Place::OnChain => {
                let fresh = self.seen.insert(half(mark.id));
                if !fresh && !fits {
                    return Some(Damage::Duplicate);
                }
                self.last = Some(mark.id);
                let reported = self.missing.is_some() && mark.parent == self.missing;
                (!fits && !reported).then_some(Damage::Gap)
            }
            Place::Beside => {
                if !self.seen.insert(half(mark.id)) {
                    return Some(Damage::Duplicate);
                }
                // Its parent was written before it, so it must be there; it need not be the last.
                let parent = mark
                    .parent
                    .filter(|parent| !fits && !self.seen.contains(&half(*parent)))?;
                let reported = self.missing.replace(parent) == Some(parent);
                (!reported).then_some(Damage::Gap)
            }
            Place::Rewind => {
                if !self.seen.insert(half(mark.id)) {
                    return Some(Damage::Duplicate);
                }
                self.last = mark.parent;
                let parent = mark
                    .parent
                    .filter(|parent| !fits && !self.seen.contains(&half(*parent)))?;
                let reported = self.missing.replace(parent) == Some(parent);
                (!reported).then_some(Damage::Gap)
            }
            // They carry a parent and are nobody's parent.
            Place::Ephemeral => None,
        }
    }
}

fn half(id: Uuid) -> u64 {
    let (high, low) = id.as_u64_pair();
    high ^ low
}

/// Gives every stretch of the log to `sink`, in order.
pub(crate) fn walk(
    mut scanner: Scanner,
    last: Option<Uuid>,
    sink: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut chain = Chain {
        last,
        ..Chain::default()
    };
    while let Some(raw) = scanner.next()? {
        let (at, line, ending) = match &raw {
            Raw::Line { at, range, ending } => (*at, scanner.bytes(range), *ending),
            Raw::Rest { at, range } => {
                sink(Part::Bad {
                    at: *at,
                    raw: scanner.bytes(range),
                    damage: Damage::TooLong,
                })?;
                continue;
            }
            Raw::Zeros { at, len } => {
                sink(Part::Zeros { at: *at, len: *len })?;
                continue;
            }
        };
        let ended = ending == Ending::Newline;
        if let Some(mark) = whole(line) {
            sink(match chain.judge(&mark) {
                Some(Damage::Duplicate) => Part::Bad {
                    at,
                    raw: line,
                    damage: Damage::Duplicate,
                },
                note => Part::Event {
                    at,
                    raw: line,
                    json: trim(line),
                    mark,
                    ended,
                    note,
                },
            })?;
        } else if is_blank(line) {
            sink(Part::Blank { raw: line, ended })?;
        } else {
            walk_damaged(at, line, ending, &mut chain, sink)?;
        }
    }
    Ok(())
}

/// The same for a line that is not an event.
fn walk_damaged(
    at: u64,
    line: &[u8],
    ending: Ending,
    chain: &mut Chain,
    sink: &mut dyn FnMut(Part<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let ended = ending == Ending::Newline;
    let damage = match ending {
        Ending::Newline | Ending::Zero => Damage::Garbage,
        Ending::Eof => Damage::TornEnd,
        Ending::TooLong => Damage::TooLong,
    };
    let bad = |from: usize, to: usize, sink: &mut dyn FnMut(Part<'_>) -> io::Result<()>| {
        if is_blank(&line[from..to]) {
            return Ok(());
        }
        sink(Part::Bad {
            at: at + from as u64,
            raw: &line[from..to],
            damage,
        })
    };
    let mut from = 0;
    for found in salvage(line, ended) {
        bad(from, found.range.start, sink)?;
        from = found.range.end;
        let (at, raw) = (at + found.range.start as u64, &line[found.range.clone()]);
        let verdict = chain.judge(&found.mark);
        if verdict == Some(Damage::Duplicate) {
            sink(Part::Bad {
                at,
                raw,
                damage: Damage::Duplicate,
            })?;
            continue;
        }
        let note = if found.repaired_json.is_some() {
            Some(Damage::NotUtf8)
        } else {
            verdict
        };
        let json = found.repaired_json.as_deref().map_or(raw, str::as_bytes);
        let ended = ended && found.range.end == line.len();
        sink(Part::Event {
            at,
            raw,
            json,
            mark: found.mark,
            ended,
            note,
        })?;
    }
    bad(from, line.len(), sink)
}

/// How a log is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fix {
    /// It is right.
    Nothing,
    /// Everything from `keep` on is cut off; a line feed is written if it is missing.
    Tail { keep: u64, newline: bool },
    /// There are whole events behind damage: they are copied to a new file.
    Rewrite,
}

/// What is known of a log after going through it.
#[derive(Debug)]
pub(crate) struct Survey {
    /// For the log as it will be after the fix, unless that is [`Fix::Rewrite`].
    pub(crate) index: Index,
    /// How many whole events there are.
    pub(crate) events: u64,
    pub(crate) findings: Findings,
    pub(crate) fix: Fix,
    /// Whether the log contains a rewind.
    pub(crate) rewound: bool,
}

/// Goes through the log from where `index` ends.
pub(crate) fn survey(file: &Arc<dyn DiskFile>, index: Index, end: u64, longest: usize) -> io::Result<Survey> {
    let scanner = Scanner::new(file.clone(), index.len, end, longest);
    let last = index.last_id;
    let mut found = Survey {
        events: index.events,
        index,
        findings: Findings::default(),
        fix: Fix::Nothing,
        rewound: false,
    };
    walk(scanner, last, &mut |part| {
        found.judge_part(part);
        Ok(())
    })?;
    if matches!(found.fix, Fix::Tail { newline: true, .. }) && !found.findings.is_loss() {
        found.findings.add(Damage::NoNewline, found.index.len - 1, 0);
    }
    Ok(found)
}

impl Survey {
    fn judge_part(&mut self, part: Part<'_>) {
        match part {
            Part::Event {
                at,
                raw,
                mark,
                ended,
                note,
                ..
            } => {
                self.events += 1;
                self.rewound |= mark.place == Place::Rewind;
                if let Some(damage) = note {
                    self.findings.add(damage, at, raw.len() as u64);
                }
                if self.fix != Fix::Nothing || note == Some(Damage::NotUtf8) {
                    self.fix = Fix::Rewrite;
                    return;
                }
                self.index.advance([raw, b"\n"], 1, mark.new_last());
                if !ended {
                    self.fix = Fix::Tail {
                        keep: self.index.len - 1,
                        newline: true,
                    };
                }
            }
            Part::Blank { raw, ended } => match self.fix {
                Fix::Nothing if ended => self.index.advance([raw, b"\n"], 0, None),
                Fix::Nothing => {
                    self.fix = Fix::Tail {
                        keep: self.index.len,
                        newline: false,
                    }
                }
                Fix::Tail { .. } | Fix::Rewrite => {}
            },
            Part::Bad { at, raw, damage } => {
                self.findings.add(damage, at, raw.len() as u64);
                self.cut();
            }
            Part::Zeros { at, len } => {
                self.findings.add(Damage::Zeros, at, len);
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        if self.fix == Fix::Nothing {
            self.fix = Fix::Tail {
                keep: self.index.len,
                newline: false,
            };
        }
    }
}
