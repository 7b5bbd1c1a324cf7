//! Session ids are free strings; directory names are not.
//!
//! Plain ids are their own directory, as the Copilot CLI has it. All others become `<readable part>~<digest>`: the `~`
//! never occurs in a plain id, so the two kinds cannot meet. The original id lies in the directory in the file
//! [`ID_FILE`] whenever the directory's name does not say it, or not reliably (capital letters on a disk that ignores
//! case).

use uuid::Uuid;

/// The file that holds the session's id, where the directory's name is not enough.
pub(crate) const ID_FILE: &str = "session.id";

/// Longest id that is its own directory name.
const PLAIN_MAX: usize = 100;
/// Length of the readable part of an escaped name.
const READABLE_MAX: usize = 40;
/// Any fixed value will do; changing it loses all escaped names.
const NAMESPACE: Uuid = Uuid::from_u128(0x6c6f_6467_652d_6c6f_672d_6964_732d_7631);

/// The directory name for an id: its own, or an escaped one.
pub(crate) fn dir_name(id: &str) -> String {
    if is_plain(id) { id.to_owned() } else { escaped(id) }
}

/// Whether the id can be a directory name as it is.
pub(crate) fn is_plain(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=PLAIN_MAX).contains(&id.len())
        && id.bytes().all(plain)
        && !id.starts_with('.')
        && !id.ends_with('.')
        && !is_device(id)
}

/// Whether a disk that ignores case could take this id for another one.
pub(crate) fn needs_id_file(id: &str) -> bool {
    !is_plain(id) || id.bytes().any(|b| b.is_ascii_uppercase())
}

/// A name made of a readable part and a digest of the whole id; bounded, lower case, never a plain id.
pub(crate) fn escaped(id: &str) -> String {
    let mut readable = String::new();
    for c in id.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => readable.push(c),
            _ if !readable.is_empty() && !readable.ends_with('-') => readable.push('-'),
            _ => {}
        }
        if readable.len() == READABLE_MAX {
            break;
        }
    }
    let readable = match readable.trim_end_matches('-') {
        "" => "id",
        readable => readable,
    };
    format!("{readable}~{}", Uuid::new_v5(&NAMESPACE, id.as_bytes()).simple())
}

/// Names that Windows keeps for devices, also with an extension.
fn is_device(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or(id).to_ascii_lowercase();
    match stem.strip_suffix(|c: char| c.is_ascii_digit()) {
        Some(base) => matches!(base, "com" | "lpt"),
        None => matches!(stem.as_str(), "con" | "prn" | "aux" | "nul"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_ids_are_their_own_directory() {
        let uuid = "d969f743-809e-4545-8e67-20bc9c222587";
        for id in [
            uuid,
            "probe-session-1",
            "a",
            "v1.2_x",
            "Test",
            "common",
            "con2",
            "x".repeat(100).as_str(),
        ] {
            assert_eq!(dir_name(id), id);
        }
    }

    #[test]
    fn other_ids_get_a_safe_bounded_name_of_their_own() {
        let long = "x".repeat(101);
        let huge = "ß/".repeat(100_000);
        let ids = [
            "",
            ".",
            "..",
            "../../etc/passwd",
            "a/b",
            "a\\b",
            "a b",
            "a\0b",
            "a\nb",
            ".hidden",
            "end.",
            "con",
            "NUL.txt",
            "com1",
            "lpt9.x",
            "grüße",
            "a~b",
            "🦀",
            "a:b",
            "~",
            &long,
            &huge,
        ];
        let mut names: Vec<String> = ids.iter().map(|id| dir_name(id)).collect();
        for (id, name) in ids.iter().zip(&names) {
            assert!(name.len() <= READABLE_MAX + 33, "{id:?} -> {name}");
            assert!(
                name.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-~".contains(&b)),
                "{name}"
            );
            assert!(name.contains('~') && !is_plain(name), "{name} could be a plain id");
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ids.len());
    }
}
