//! What a binary runs on, and what it needs there.

use anyhow::{Result, bail};

use super::elf;
use crate::sh;

/// A system and a kind of processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Platform {
    os: Os,
    arm: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Os {
    Linux(elf::Needs),
    MacOs,
}

impl Platform {
    /// The platform of a program, from its bytes.
    pub(super) fn of(program: &[u8]) -> Result<Self> {
        match program {
            [0x7f, b'E', b'L', b'F', ..] => {
                let (machine, needs) = elf::read(program)?;
                let arm = match machine {
                    elf::X86_64 => false,
                    elf::AARCH64 => true,
                    other => bail!("nothing is packaged for processors of the kind {other}"),
                };
                Ok(Self {
                    os: Os::Linux(needs),
                    arm,
                })
            }
            // The magic number of 64 bits, then the processor.
            [0xcf, 0xfa, 0xed, 0xfe, cpu, 0, 0, 1, ..] => Ok(Self {
                os: Os::MacOs,
                arm: *cpu == 12,
            }),
            _ => bail!("this is no program of Linux or macOS, for which packages are made"),
        }
    }

    pub(super) fn is_linux(&self) -> bool {
        matches!(self.os, Os::Linux(_))
    }

    /// As the install script puts it together from `uname`.
    pub(super) fn name(&self) -> String {
        format!(
            "{}-{}",
            self.processor(),
            if self.is_linux() { "linux" } else { "macos" }
        )
    }

    fn processor(&self) -> &'static str {
        if self.arm { "aarch64" } else { "x86_64" }
    }

    pub(super) fn triple(&self) -> String {
        let rest = if self.is_linux() {
            "unknown-linux-gnu"
        } else {
            "apple-darwin"
        };
        format!("{}-{rest}", self.processor())
    }

    /// The version of the GNU C library that the program needs.
    pub(super) fn glibc(&self) -> Option<(u32, u32)> {
        match &self.os {
            Os::Linux(needs) => needs.glibc.as_ref().map(|(version, _)| *version),
            Os::MacOs => None,
        }
    }

    /// Whether the program asks for a library, by the name of its file.
    pub(super) fn links(&self, library: &str) -> bool {
        matches!(&self.os, Os::Linux(needs) if needs.libraries.iter().any(|name| name == library))
    }

    pub(super) fn needs(&self) -> String {
        match &self.os {
            Os::Linux(needs) => match &needs.glibc {
                Some(((major, minor), symbol)) => format!(
                    "needs the GNU C library {major}.{minor} ({symbol}) and {}",
                    needs.libraries.join(", ")
                ),
                None => "needs no library".to_owned(),
            },
            Os::MacOs => "needs macOS 11".to_owned(),
        }
    }

    /// What Debian calls the processor.
    pub(super) fn debian(&self) -> &'static str {
        if self.arm { "arm64" } else { "amd64" }
    }

    /// What Node.js calls system and processor.
    pub(super) fn node(&self) -> (&'static str, &'static str) {
        let os = if self.is_linux() { "linux" } else { "darwin" };
        (os, if self.arm { "arm64" } else { "x64" })
    }

    /// What Python calls it in the names of wheels.
    pub(super) fn wheel(&self) -> String {
        match (&self.os, self.glibc()) {
            (Os::Linux(_), Some((major, minor))) => {
                format!("manylinux_{major}_{minor}_{}", self.processor())
            }
            (Os::Linux(_), None) => format!("linux_{}", self.processor()),
            (Os::MacOs, _) => format!("macosx_11_0_{}", if self.arm { "arm64" } else { "x86_64" }),
        }
    }
}

/// The triple that cargo builds for here.
pub(super) fn host_triple() -> Result<String> {
    let printed = sh::read(sh::command("rustc").arg("-vV"))?;
    match printed.lines().find_map(|line| line.strip_prefix("host: ")) {
        Some(triple) => Ok(triple.to_owned()),
        None => bail!("rustc does not say what it builds for"),
    }
}
