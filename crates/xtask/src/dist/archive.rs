//! Archives with nothing in them but what they are about: sorted names, one date, no owner.

use std::io::Write;

use anyhow::Result;
use flate2::{Compression, GzBuilder, write::DeflateEncoder};

/// A file in a package.
#[derive(Clone)]
pub(super) struct File {
    /// Relative, with slashes.
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl File {
    pub(super) fn plain(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o644,
            bytes: bytes.into(),
        }
    }

    pub(super) fn program(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            mode: 0o755,
            ..Self::plain(path, bytes)
        }
    }

    pub(super) fn below(mut self, dir: &str) -> Self {
        self.path = format!("{dir}/{}", self.path);
        self
    }
}

/// A compressed tar archive.
pub(super) fn tar_gz(files: Vec<File>, time: u64, level: u32) -> Result<Vec<u8>> {
    gz(&tar(files, time)?, level)
}

fn tar(mut files: Vec<File>, time: u64) -> Result<Vec<u8>> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut archive = tar::Builder::new(Vec::new());
    let mut made = std::collections::BTreeSet::new();
    for file in &files {
        // dpkg wants every directory to be there before what is in it.
        for (at, _) in file.path.match_indices('/') {
            let dir = &file.path[..=at];
            if dir != "./" && made.insert(dir.to_owned()) {
                let mut header = header(0o755, 0, time);
                header.set_entry_type(tar::EntryType::Directory);
                archive.append_data(&mut header, dir, std::io::empty())?;
            }
        }
        let mut header = header(file.mode, file.bytes.len() as u64, time);
        archive.append_data(&mut header, &file.path, file.bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

fn header(mode: u32, size: u64, time: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(time);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Compressed as gzip does, without a name or a time.
pub(super) fn gz(bytes: &[u8], level: u32) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::new(level));
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// A zip archive. Its modes matter: installers take them for scripts.
pub(super) fn zip(files: &[File], time: u64, level: u32) -> Result<Vec<u8>> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let moment = dos_time(time);
    for file in files {
        let mut packed = DeflateEncoder::new(Vec::new(), Compression::new(level));
        packed.write_all(&file.bytes)?;
        let packed = packed.finish()?;
        let mut about = Vec::new();
        // Version 2.0, names in UTF-8, deflated.
        for half in [20u16, 1 << 11, 8] {
            about.extend(half.to_le_bytes());
        }
        about.extend(moment.to_le_bytes());
        about.extend(crc32fast::hash(&file.bytes).to_le_bytes());
        about.extend(u32::try_from(packed.len())?.to_le_bytes());
        about.extend(u32::try_from(file.bytes.len())?.to_le_bytes());
        about.extend(u16::try_from(file.path.len())?.to_le_bytes());
        about.extend(0u16.to_le_bytes());
        let start = u32::try_from(out.len())?;
        out.extend(b"PK\x03\x04");
        out.extend(&about);
        out.extend(file.path.as_bytes());
        out.extend(&packed);
        directory.extend(b"PK\x01\x02");
        // Made on Unix, so that the upper half of the attributes is the mode.
        directory.extend((3u16 << 8 | 20).to_le_bytes());
        directory.extend(&about);
        directory.extend([0; 6]);
        directory.extend(((0o100_000 | file.mode) << 16).to_le_bytes());
        directory.extend(start.to_le_bytes());
        directory.extend(file.path.as_bytes());
    }
    let (count, start) = (u16::try_from(files.len())?, u32::try_from(out.len())?);
    let size = u32::try_from(directory.len())?;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0; 2]);
    Ok(out)
}

/// Time, then date, as DOS keeps them.
fn dos_time(time: u64) -> u32 {
    let (days, seconds) = (time / 86_400, time % 86_400);
    let (year, month, day) = date(days);
    let clock = (seconds / 3600) << 11 | (seconds / 60 % 60) << 5 | (seconds % 60 / 2);
    let calendar = (year - 1980) << 9 | month << 5 | day;
    u32::try_from(calendar << 16 | clock).unwrap_or(0x21_0000)
}

/// Year, month and day of a day since 1970.
pub(super) fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the day that is sometimes there comes last.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// The sum as `sha256sum` prints it.
pub(super) fn sha256(bytes: &[u8]) -> String {
    let sum = ring::digest::digest(&ring::digest::SHA256, bytes);
    sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_773, (2026, 11, 16)),
        ] {
            assert_eq!(date(days), expected, "{days}");
        }
    }

    #[test]
    fn the_order_in_which_files_are_given_does_not_matter() {
        let files = [
            File::plain("b/x", "1"),
            File::program("a", "2"),
            File::plain("b/a", "3"),
        ];
        let turned: Vec<File> = files.iter().rev().cloned().collect();
        assert_eq!(tar_gz(files.to_vec(), 1, 6).unwrap(), tar_gz(turned, 1, 6).unwrap());
    }
}
