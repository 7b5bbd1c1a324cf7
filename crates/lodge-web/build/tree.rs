//! Files of a directory, and what they hold.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
};

/// What the page is made of. Other things in `web/`, such as installed packages, are not.
pub(crate) const SOURCES: [&str; 8] = [
    "index.html",
    "package.json",
    "package-lock.json",
    "public",
    "scripts",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];

/// All files beneath a place, in order.
pub(crate) fn files(at: &Path) -> io::Result<Vec<PathBuf>> {
    if at.is_file() {
        return Ok(vec![at.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(at)? {
        found.extend(files(&entry?.path())?);
    }
    found.sort();
    Ok(found)
}

/// A name for what files hold.
pub(crate) fn hash<P: AsRef<Path>>(files: &[P]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.as_ref().file_name().hash(&mut hasher);
        fs::read(file)?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}

/// Copies the sources of the page to where it is built. What was there before goes.
pub(crate) fn copy_sources(web: &Path, to: &Path) -> io::Result<()> {
    for name in SOURCES {
        let old = to.join(name);
        if old.is_dir() {
            fs::remove_dir_all(&old)?;
        }
        for file in files(&web.join(name))? {
            let copy = to.join(file.strip_prefix(web).map_err(io::Error::other)?);
            fs::create_dir_all(copy.parent().unwrap_or(to))?;
            fs::copy(&file, &copy)?;
        }
    }
    Ok(())
}
