//! Changes of one file as a unified diff.

use std::path::PathBuf;

/// A side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffSide {
    /// The removed lines.
    Before,
    /// The added lines.
    After,
}

/// A change of one file.
#[derive(Debug, Clone)]
pub struct UnifiedDiff {
    /// The file.
    pub path: PathBuf,
    /// The diff's text.
    pub text: String,
}

impl UnifiedDiff {
    /// Parses a text as a diff of one file.
    pub fn parse(text: &str) -> Option<Self> {
        let names = text.lines().next()?.strip_prefix("diff --git ")?;
        // The same name twice, after `a/` and ` b/`; it may contain spaces.
        let length = names.len().checked_sub("a/ b/".len())? / 2;
        let name = names.strip_prefix("a/")?.get(..length)?;
        (names == format!("a/{name} b/{name}")).then(|| Self {
            path: format!("/{name}").into(),
            text: text.to_owned(),
        })
    }

    /// The diffs of several files, one after the other.
    pub fn parse_all(text: &str) -> Vec<Self> {
        let mut starts: Vec<usize> = text.match_indices("\ndiff --git ").map(|(at, _)| at + 1).collect();
        starts.insert(0, 0);
        let ends = starts.iter().skip(1).copied().chain([text.len()]);
        let parts = starts.iter().zip(ends).map(|(&start, end)| &text[start..end]);
        // An empty line may stand between two of them.
        let parts = parts.map(|part| part.strip_suffix("\n\n").map_or(part, |_| &part[..part.len() - 1]));
        parts.filter_map(Self::parse).collect()
    }

    /// Whether the file is new.
    pub fn makes_the_file(&self) -> bool {
        let second = self.text.lines().nth(1);
        second.is_some_and(|line| line.starts_with("new file"))
    }

    /// Lines added and removed.
    pub fn counts(&self) -> (usize, usize) {
        let count = |sign: char| hunks(&self.text).filter(|line| line.starts_with(sign)).count();
        (count('+'), count('-'))
    }

    /// One side of the diff: the changed lines and those around them.
    pub fn excerpt(&self, side: DiffSide) -> String {
        let (before, after) = diff_sides(&self.text);
        match side {
            DiffSide::Before => before,
            DiffSide::After => after,
        }
    }
}

fn hunks(diff: &str) -> impl Iterator<Item = &str> {
    let lines = diff.split_inclusive('\n');
    lines
        .skip_while(|line| !line.starts_with("@@"))
        .filter(|line| !line.starts_with("@@"))
}

/// Both sides of a unified diff: removed and added lines, with the lines around them.
pub fn diff_sides(diff: &str) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    let mut last = ' ';
    for line in hunks(diff) {
        let sign = line.chars().next().unwrap_or(' ');
        if sign == '\\' {
            // The line before has no line end.
            if last != '+' {
                before.pop();
            }
            if last != '-' {
                after.pop();
            }
            continue;
        }
        let text = line.get(1..).unwrap_or_default();
        if sign != '+' {
            before.push_str(text);
        }
        if sign != '-' {
            after.push_str(text);
        }
        last = sign;
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_tells_its_file_its_numbers_and_both_sides() {
        let text = "diff --git a/w/a b.txt b/w/a b.txt\n--- a/w/a b.txt\n+++ b/w/a b.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n \
                    three\n@@ -9 +9 @@\n-++nine\n\\ No newline at end of file\n+--9\n";
        let diff = UnifiedDiff::parse(text).unwrap();
        assert_eq!(diff.path, PathBuf::from("/w/a b.txt"));
        assert_eq!(diff.excerpt(DiffSide::Before), "one\ntwo\nthree\n++nine");
        assert_eq!(diff.excerpt(DiffSide::After), "one\n2\nthree\n--9\n");
        assert_eq!((diff.counts(), diff.makes_the_file()), ((2, 2), false));
        let new = UnifiedDiff::parse("diff --git a/x b/x\nnew file mode 100644\n").unwrap();
        assert!(new.makes_the_file() && new.excerpt(DiffSide::After).is_empty());
        for odd in [
            "",
            "diff --git",
            "diff --git a/x b/y\n",
            "diff --git a b\n",
            "Created file x",
        ] {
            assert!(UnifiedDiff::parse(odd).is_none(), "{odd}");
        }
        let two = format!("{text}\ndiff --git a/x b/x\nnew file mode 100644\n@@ -0,0 +1 @@\n+diff --git a/no b/no\n");
        let all = UnifiedDiff::parse_all(&two);
        assert_eq!(
            all.iter().map(|diff| diff.counts()).collect::<Vec<_>>(),
            [(2, 2), (1, 0)]
        );
        assert_eq!((&*all[0].text, all[1].path.to_str()), (text, Some("/x")));
        let shared = "@@ -1 +1 @@\n-old\n+new\n same\n\\ No newline at end of file\n";
        assert_eq!(diff_sides(shared), ("old\nsame".into(), "new\nsame".into()));
    }
}
