//! What a program for Linux asks of the machine that starts it, read from its dynamic section.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

pub(super) const X86_64: u16 = 62;
pub(super) const AARCH64: u16 = 183;

const DYNAMIC: u32 = 2;
const LOAD: u32 = 1;
const NO_BITS: u32 = 8;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const VERSIONS: u64 = 0x6fff_fffe;
const VERSION_COUNT: u64 = 0x6fff_ffff;

/// What has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Needs {
    /// The newest version of the GNU C library that is asked for, and by what name.
    pub(super) glibc: Option<((u32, u32), String)>,
    pub(super) libraries: Vec<String>,
}

/// The processor and the needs of a program of 64 bits.
pub(super) fn read(program: &[u8]) -> Result<(u16, Needs)> {
    let elf = Elf(program);
    ensure!(
        elf.bytes(4, 2)? == [2, 1],
        "this is no little-endian program of 64 bits"
    );
    let machine = elf.half(18)?;
    let (headers, size, count) = (elf.word(32)?, elf.half(54)?, elf.half(56)?);
    let segments: Vec<Segment> = (0..u64::from(count))
        .map(|index| elf.segment(headers + index * u64::from(size)))
        .collect::<Result<_>>()?;
    let mut needs = Needs {
        glibc: None,
        libraries: Vec::new(),
    };
    let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) else {
        return Ok((machine, needs));
    };
    let entries: Vec<(u64, u64)> = (0..dynamic.size / 16)
        .map(|index| {
            let at = dynamic.offset + index * 16;
            Ok((elf.word(at)?, elf.word(at + 8)?))
        })
        .collect::<Result<_>>()?;
    let place = |tag: u64| -> Result<Option<u64>> {
        let Some((_, address)) = entries.iter().find(|(found, _)| *found == tag) else {
            return Ok(None);
        };
        let holds = |segment: &&Segment| {
            segment.kind == LOAD && (segment.address..segment.address + segment.size).contains(address)
        };
        let segment = segments.iter().find(holds).context("an address is in no segment")?;
        Ok(Some(address - segment.address + segment.offset))
    };
    let strings = place(STRINGS)?.context("the program has no names")?;
    for (_, name) in entries.iter().filter(|(tag, _)| *tag == NEEDED) {
        needs.libraries.push(elf.text(strings + name)?);
    }
    let count = entries.iter().find(|(tag, _)| *tag == VERSION_COUNT);
    let (Some(mut library), Some((_, count))) = (place(VERSIONS)?, count) else {
        return Ok((machine, needs));
    };
    for _ in 0..*count {
        let mut version = library + u64::from(elf.long(library + 8)?);
        for _ in 0..elf.half(library + 2)? {
            let name = elf.text(strings + u64::from(elf.long(version + 8)?))?;
            if let Some(wanted) = glibc(&name)
                && needs.glibc.as_ref().is_none_or(|(most, _)| wanted > *most)
            {
                needs.glibc = Some((wanted, name));
            }
            version += u64::from(elf.long(version + 12)?);
        }
        library += u64::from(elf.long(library + 12)?);
    }
    Ok((machine, needs))
}

/// The sections of a program of 64 bits that have bytes in its file, by name.
pub(super) fn sections(program: &[u8]) -> Result<BTreeMap<String, &[u8]>> {
    let elf = Elf(program);
    let (size, count) = (elf.half(58)?, elf.half(60)?);
    let headers = Elf(elf.bytes(elf.word(40)?, usize::from(size) * usize::from(count))?);
    let header = |index: u16| u64::from(index) * u64::from(size);
    let names = headers.word(header(elf.half(62)?) + 24)?;
    let mut sections = BTreeMap::new();
    for at in (1..count).map(header) {
        if headers.long(at + 4)? != NO_BITS {
            let name = elf.text(names.saturating_add(headers.long(at)?.into()))?;
            let bytes = elf.bytes(headers.word(at + 24)?, usize::try_from(headers.word(at + 32)?)?)?;
            sections.insert(name, bytes);
        }
    }
    Ok(sections)
}

/// The version that a name of versions stands for.
fn glibc(name: &str) -> Option<(u32, u32)> {
    // Relocations are packed in a way that this version reads first.
    if name == "GLIBC_ABI_DT_RELR" {
        return Some((2, 36));
    }
    let mut parts = name.strip_prefix("GLIBC_")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

struct Elf<'a>(&'a [u8]);

impl<'a> Elf<'a> {
    fn bytes(&self, at: u64, count: usize) -> Result<&'a [u8]> {
        let at = usize::try_from(at)?;
        let found = at.checked_add(count).and_then(|end| self.0.get(at..end));
        found.context("the program ends too early")
    }

    fn half(&self, at: u64) -> Result<u16> {
        Ok(u16::from_le_bytes(self.bytes(at, 2)?.try_into()?))
    }

    fn long(&self, at: u64) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(at, 4)?.try_into()?))
    }

    fn word(&self, at: u64) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes(at, 8)?.try_into()?))
    }

    fn text(&self, at: u64) -> Result<String> {
        let rest = self
            .0
            .get(usize::try_from(at)?..)
            .context("the program ends too early")?;
        let end = rest.iter().position(|byte| *byte == 0).context("a name has no end")?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn segment(&self, at: u64) -> Result<Segment> {
        Ok(Segment {
            kind: self.long(at)?,
            offset: self.word(at + 8)?,
            address: self.word(at + 16)?,
            size: self.word(at + 32)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn a_test_needs_the_c_library_that_it_was_built_with() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let (_, needs) = read(&own).unwrap();
        assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "{needs:?}");
        assert!(needs.glibc.unwrap().0 >= (2, 17));
        let sections = sections(&own).unwrap();
        assert!(sections[".comment"].windows(5).any(|word| word == b"rustc"));
        assert!(sections.contains_key(".symtab") && !sections.contains_key(".bss"));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(glibc("GLIBC_2.9") < glibc("GLIBC_2.31"));
        assert_eq!(glibc("GLIBC_2.3.4"), Some((2, 3)));
        assert_eq!(glibc("GLIBC_ABI_DT_RELR"), Some((2, 36)));
        assert_eq!(glibc("GCC_3.0"), None);
    }

    #[test]
    fn a_program_that_is_cut_off_is_refused() {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        assert!(read(&bytes).is_err() && sections(&bytes).is_err());
        bytes.resize(64, 0xff);
        assert!(read(&bytes).is_err() && sections(&bytes).is_err());
    }
}
