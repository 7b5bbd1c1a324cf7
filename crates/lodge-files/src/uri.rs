//! File URIs.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// `file:` of an absolute path, spelt as editors spell it: everything but letters, digits and `-._~/` as bytes in hex.
pub fn file(path: impl AsRef<Path>) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_ref().as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

/// `file:` of an absolute path, and which of its lines are meant: the first and the last, from 1.
pub fn file_lines(path: impl AsRef<Path>, lines: Option<(u64, u64)>) -> String {
    let part = lines.map(|(first, last)| format!("#L{first}:{last}"));
    file(path) + &part.unwrap_or_default()
}

/// Which lines a URI means, from 1: `#L3:9`, `#L3-9`, `#L3-L9` or `#L3`.
pub fn lines(uri: &str) -> Option<(u64, u64)> {
    let (_, part) = uri.split_once('#')?;
    let part = part.strip_prefix('L')?;
    let (first, last) = part.split_once([':', '-']).unwrap_or((part, part));
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let (first, last) = (number(first)?, number(last.strip_prefix('L').unwrap_or(last))?);
    Some((first.min(last), first.max(last)))
}

/// The absolute path in a `file:` URI of this host; none for other schemes, other hosts, or bytes that make no path.
pub fn path(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file:")?;
    let rest = match rest.strip_prefix("//") {
        Some(rest) => {
            let slash = rest.find('/')?;
            (slash == 0 || rest[..slash].eq_ignore_ascii_case("localhost")).then(|| &rest[slash..])?
        }
        None => rest,
    };
    let rest = rest.split(['?', '#']).next()?;
    let bytes = unescape(rest)?;
    if !bytes.starts_with(b"/") || bytes.contains(&0) {
        return None;
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// The address of something beneath what has an address, in the words that were used for that.
pub fn child(parent: &str, below: &Path) -> String {
    let end = parent.find(['?', '#']).unwrap_or(parent.len());
    let below = file(below);
    format!("{}/{}", parent[..end].trim_end_matches('/'), &below["file://".len()..])
}

/// The bytes of a text in which some are spelt in hex.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut input = text.bytes();
    while let Some(byte) = input.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(input.next()?)?, digit(input.next()?)?);
            bytes.push((high * 16 + low) as u8);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_are_read_in_every_spelling_of_editors() {
        for (part, expected) in [
            ("#L3:9", Some((3, 9))),
            ("#L3-9", Some((3, 9))),
            ("#L3-L9", Some((3, 9))),
            ("#L9:3", Some((3, 9))),
            ("#L10", Some((10, 10))),
            ("#L0", None),
            ("#L", None),
            ("#Lx:1", None),
            ("#heading", None),
            ("", None),
        ] {
            assert_eq!(lines(&format!("file:///a{part}")), expected, "{part}");
        }
        assert_eq!(lines(&file_lines("/a#b", Some((3, 9)))), Some((3, 9)));
    }

    #[test]
    fn file_uris_survive_strange_names_and_refuse_strange_uris() {
        for name in ["/a/b.txt", "/with space/ä", "/100%/#hash?", "/"] {
            assert_eq!(path(&file(name)).as_deref(), Some(Path::new(name)), "{name}");
        }
        let bytes = PathBuf::from(OsString::from_vec(b"/caf\xe9/%".to_vec()));
        assert_eq!(file(&bytes), "file:///caf%E9/%25");
        assert_eq!(path("file:///caf%E9/%25"), Some(bytes));
        assert_eq!(child("file:///a%40b/", Path::new("c d/e")), "file:///a%40b/c%20d/e");
        assert_eq!(path("file:///a%20b"), Some(PathBuf::from("/a b")));
        assert_eq!(path("file://localhost/a"), Some(PathBuf::from("/a")));
        assert_eq!(path("file:/a"), Some(PathBuf::from("/a")));
        for bad in [
            "http://x/a",
            "file://other/a",
            "file:a",
            "file:///a%00b",
            "file:///%zz",
            "/a",
            "",
        ] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
