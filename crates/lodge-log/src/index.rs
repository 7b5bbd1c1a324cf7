//! The side file `events.idx`: what opening a log needs to know without reading it.
//!
//! It says up to where the log was found good, how many events that is, which was the last, and for each block of about
//! 64 KB where it begins, with which event, and its CRC-32. A slot holds the agent's own snapshot. It is derived: a
//! missing, damaged or unfitting one is rebuilt from the log. It is written after the log's bytes were synced (unless the
//! policy is `never`), so that after a power cut it does not vouch for bytes that never reached the disk.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use lodge_events::Event;
use uuid::Uuid;

use crate::disk::{Disk, DiskFile, Stat, put, read_full, read_whole, retry};
use crate::file_store::missing;
use crate::rewinds::first_hidden;
use crate::store::{Position, Snapshot};

/// The side file's name.
pub(crate) const INDEX_FILE: &str = "events.idx";

const MAGIC: &[u8; 8] = b"LODGEIX1";
/// A block is closed once it is this long.
const BLOCK: u64 = 64 * 1024;

/// A stretch of whole lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    /// Its first byte.
    at: u64,
    /// How many events come before it.
    first: u64,
    /// CRC-32 of its bytes.
    crc: u32,
}

/// What is known of the first `len` bytes of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) len: u64,
    pub(crate) events: u64,
    pub(crate) last_id: Option<Uuid>,
    blocks: Vec<Block>,
}

impl Index {
    /// Takes in the next bytes of the log: whole lines, with or without an event, and which event is the last of the chain
    /// from then on, if that is another.
    pub(crate) fn advance<'a>(
        &mut self,
        parts: impl IntoIterator<Item = &'a [u8]>,
        events: u64,
        last: Option<Option<Uuid>>,
    ) {
        let block = match self.blocks.last_mut() {
            Some(block) if self.len - block.at < BLOCK => block,
            _ => self.blocks.push_mut(Block {
                at: self.len,
                first: self.events,
                crc: 0,
            }),
        };
        let mut crc = crc32fast::Hasher::new_with_initial(block.crc);
        for part in parts {
            crc.update(part);
            self.len += part.len() as u64;
        }
        block.crc = crc.finalize();
        self.events += events;
        self.last_id = last.unwrap_or(self.last_id);
    }

    /// Takes in the next event of the log.
    pub(crate) fn add(&mut self, event: &Event) {
        let last = match first_hidden(event) {
            Some(_) => Some(event.parent_id()),
            None => (!event.is_beside()).then(|| Some(event.id())),
        };
        self.advance([&event.json()[..], b"\n"], 1, last);
    }

    /// Whether this can be an index of the same log as an older one: the blocks that were complete then are the same.
    fn extends(&self, older: &Index) -> bool {
        let complete = older.blocks.len().saturating_sub(1);
        self.len >= older.len && self.blocks.starts_with(&older.blocks[..complete])
    }

    /// A block start at or before the event number `nth`, and how many events come before it.
    pub(crate) fn near(&self, nth: u64) -> (u64, u64) {
        let after = self.blocks.partition_point(|block| block.first <= nth);
        self.blocks[..after]
            .last()
            .map_or((0, 0), |block| (block.at, block.first))
    }

    /// Whether the log still begins with what this index was made from. Reads the last two blocks; all of them if
    /// something wrote to the log without making it longer.
    pub(crate) fn fits(&self, file: &dyn DiskFile, stat: Stat, modified: u128) -> io::Result<bool> {
        if stat.len < self.len {
            return Ok(false);
        }
        let touched = stat.len == self.len && stat.modified != modified;
        let from = if touched {
            0
        } else {
            self.blocks.len().saturating_sub(2)
        };
        Ok(self.changed_block(file, from)?.is_none())
    }

    /// The first byte of the first block, from block number `from` on, whose checksum is not as it was.
    pub(crate) fn changed_block(&self, file: &dyn DiskFile, from: usize) -> io::Result<Option<u64>> {
        let mut buf = vec![0; BLOCK as usize];
        for (n, block) in self.blocks.iter().enumerate().skip(from) {
            let end = self.blocks.get(n + 1).map_or(self.len, |next| next.at);
            let mut crc = crc32fast::Hasher::new();
            let mut at = block.at;
            while at < end {
                let want = buf.len().min((end - at) as usize);
                match read_full(file, &mut buf[..want], at)? {
                    0 => break,
                    read => {
                        crc.update(&buf[..read]);
                        at += read as u64;
                    }
                }
            }
            if at < end || crc.finalize() != block.crc {
                return Ok(Some(block.at));
            }
        }
        Ok(None)
    }

    fn encode(&self, modified: u128, snapshot: Option<&Snapshot>) -> Vec<u8> {
        let room = snapshot.map_or(0, |s| s.bytes.len()) + self.blocks.len() * 20 + 100;
        let mut out = Vec::with_capacity(room);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.events.to_le_bytes());
        out.extend_from_slice(self.last_id.unwrap_or_default().as_bytes());
        out.extend_from_slice(&modified.to_le_bytes());
        out.extend_from_slice(&(self.blocks.len() as u64).to_le_bytes());
        for block in &self.blocks {
            out.extend_from_slice(&block.at.to_le_bytes());
            out.extend_from_slice(&block.first.to_le_bytes());
            out.extend_from_slice(&block.crc.to_le_bytes());
        }
        if let Some(snapshot) = snapshot {
            out.extend_from_slice(&snapshot.at.0.to_le_bytes());
            out.extend_from_slice(&snapshot.bytes);
        }
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }
}

/// A side file as it was read.
#[derive(Debug)]
pub(crate) struct Saved {
    pub(crate) index: Index,
    /// The log's time of modification when this was written.
    pub(crate) modified: u128,
    pub(crate) snapshot: Option<Snapshot>,
}

impl Saved {
    /// Reads the side file of a session; `None` if it is missing or not whole.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path) -> Option<Saved> {
        let bytes = read_whole(disk, &dir.join(INDEX_FILE)).ok()?;
        Saved::decode(bytes.into())
    }

    fn decode(mut bytes: Bytes) -> Option<Saved> {
        let crc = bytes.split_off(bytes.len().checked_sub(4)?);
        if crc32fast::hash(&bytes).to_le_bytes() != *crc || read_array::<8>(&mut bytes)? != *MAGIC {
            return None;
        }
        let len = u64::from_le_bytes(read_array(&mut bytes)?);
        let events = u64::from_le_bytes(read_array(&mut bytes)?);
        let last_id = Uuid::from_bytes(read_array(&mut bytes)?);
        let modified = u128::from_le_bytes(read_array(&mut bytes)?);
        let count = u64::from_le_bytes(read_array(&mut bytes)?);
        let mut blocks = Vec::with_capacity(usize::try_from(count).ok()?.min(bytes.len() / 20));
        for _ in 0..count {
            blocks.push(Block {
                at: u64::from_le_bytes(read_array(&mut bytes)?),
                first: u64::from_le_bytes(read_array(&mut bytes)?),
                crc: u32::from_le_bytes(read_array(&mut bytes)?),
            });
        }
        let at = read_array(&mut bytes).map(u64::from_le_bytes);
        let snapshot = at.map(|at| Snapshot {
            at: Position(at),
            bytes,
        });
        let last_id = (!last_id.is_nil()).then_some(last_id);
        Some(Saved {
            index: Index {
                len,
                events,
                last_id,
                blocks,
            },
            modified,
            snapshot,
        })
    }
}

fn read_array<const N: usize>(bytes: &mut Bytes) -> Option<[u8; N]> {
    (bytes.len() >= N).then(|| bytes.split_to(N))?.as_ref().try_into().ok()
}

/// Removes the side file, before another log takes the place of the one that it speaks of: as soon as that log is as long,
/// it would pass for one that changed after it was written.
pub(crate) fn remove_side_file(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    match retry(|| disk.remove_file(&dir.join(INDEX_FILE))) {
        Err(error) if missing(&error) => Ok(()),
        removed => removed,
    }
}

/// A side file to be written.
#[derive(Debug)]
pub(crate) struct IndexSave {
    pub(crate) dir: PathBuf,
    pub(crate) index: Index,
    pub(crate) modified: u128,
    /// A new snapshot.
    pub(crate) snapshot: Option<Snapshot>,
    /// Without a new one, whether the stored one stays.
    pub(crate) keep_snapshot: bool,
}

impl IndexSave {
    /// Writes it. A failure costs only time at the next opening, so it is told to nobody but the trace.
    pub(crate) fn save(self, disk: &dyn Disk) {
        let IndexSave {
            dir,
            index,
            modified,
            snapshot,
            keep_snapshot,
        } = self;
        let stored = || {
            let saved = Saved::load(disk, &dir).filter(|saved| keep_snapshot && index.extends(&saved.index))?;
            saved.snapshot
        };
        let snapshot = snapshot.or_else(stored).filter(|snapshot| snapshot.at.0 <= index.len);
        let bytes = index.encode(modified, snapshot.as_ref());
        if let Err(error) = put(disk, &dir.join(INDEX_FILE), &bytes, false) {
            tracing::debug!(dir = %dir.display(), %error, "cannot write the log's index");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Index {
        let mut index = Index::default();
        for n in 0..5000u64 {
            index.advance([&[b'x'; 99][..], b"\n"], 1, Some(Some(Uuid::from_u128(n.into()))));
        }
        index
    }

    #[test]
    fn a_side_file_reads_back_as_it_was_written() {
        let index = sample();
        for snapshot in [
            None,
            Some(Snapshot {
                at: Position(7),
                bytes: Bytes::from_static(b"state"),
            }),
        ] {
            let saved = Saved::decode(index.encode(42, snapshot.as_ref()).into()).unwrap();
            assert_eq!(
                (saved.index, saved.modified, saved.snapshot),
                (index.clone(), 42, snapshot)
            );
        }
    }

    #[test]
    fn a_side_file_with_any_byte_changed_or_cut_is_refused() {
        let bytes = sample().encode(42, None);
        for n in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[n] ^= 1;
            assert!(Saved::decode(bad.into()).is_none(), "byte {n} changed");
            assert!(Saved::decode(bytes[..n].to_vec().into()).is_none(), "cut at {n}");
        }
    }

    #[test]
    fn near_finds_the_block_of_an_event() {
        let index = sample();
        for nth in [0, 1, 655, 656, 657, 4999, 5000, 9999] {
            let (at, first) = index.near(nth);
            assert!(first <= nth && nth.min(4999) - first < 660, "{nth} -> {first}");
            assert_eq!(at, first * 100);
        }
    }
}
