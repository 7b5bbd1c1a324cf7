//! Lists everything beneath a directory except one place. Landlock can allow everything beneath a directory, but cannot
//! exclude part of it; so the siblings of the hidden place are allowed one by one.

use std::path::{Path, PathBuf};

/// More siblings than this are not examined.
const MOST: usize = 4_096;

/// The places that together make up `root` without `hidden`; `root` itself where the hidden place is not in it. `None` when
/// there are too many, or a directory on the way cannot be read.
pub(super) fn all_except(root: &Path, hidden: &Path) -> Option<Vec<PathBuf>> {
    if !hidden.starts_with(root) {
        return Some(vec![root.to_owned()]);
    }
    let mut places = Vec::new();
    let way = hidden.ancestors().skip(1).take_while(|dir| dir.starts_with(root));
    for dir in way {
        for entry in std::fs::read_dir(dir).ok()? {
            let entry = entry.ok()?;
            let path = entry.path();
            // A link could lead to the hidden place. What it leads to is allowed by its own name, or not at all.
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !link && !hidden.starts_with(&path) {
                places.push(path);
            }
        }
        if places.len() > MOST {
            return None;
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_named_but_the_hidden_place_and_links_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        for path in ["a/b/hidden/x", "a/b/c", "a/d", "e"] {
            std::fs::create_dir_all(at(path)).unwrap();
        }
        std::fs::write(at("a/file"), "").unwrap();
        std::os::unix::fs::symlink(at("a/b/hidden"), at("way")).unwrap();
        let hidden = at("a/b/hidden");
        for (root, expected) in [
            ("", vec!["a/b/c", "a/d", "a/file", "e"]),
            ("a", vec!["a/b/c", "a/d", "a/file"]),
            ("a/b", vec!["a/b/c"]),
            ("a/b/hidden", vec![]),
            ("e", vec!["e"]),
            ("a/b/hidden/x", vec!["a/b/hidden/x"]),
        ] {
            let root = if root.is_empty() {
                dir.path().to_owned()
            } else {
                at(root)
            };
            let mut found = all_except(&root, &hidden).unwrap();
            found.sort();
            let expected: Vec<PathBuf> = expected.into_iter().map(at).collect();
            assert_eq!(found, expected, "{}", root.display());
        }
    }

    #[test]
    fn too_many_neighbours_are_an_answer_too() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..=MOST {
            std::fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        assert_eq!(all_except(dir.path(), &dir.path().join("hidden")), None);
    }
}
