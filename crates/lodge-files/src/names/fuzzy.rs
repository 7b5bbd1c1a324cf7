//! Fuzzy matching: how well a path matches what somebody typed. The letters must appear in the path in order; whole
//! words, file names and beginnings count most. Case does not matter.

use memchr::memmem::Finder;

/// A word to look for.
pub(super) struct Word {
    text: Vec<u8>,
    finder: Finder<'static>,
    letters: u64,
}

impl Word {
    pub(super) fn new(word: &str) -> Self {
        let text = word.to_lowercase().into_bytes();
        Self {
            finder: Finder::new(&text).into_owned(),
            letters: letters(&text),
            text,
        }
    }

    /// How well a path fits, in lower case; none when it does not. `name` is where its last part begins.
    pub(super) fn score(&self, path: &[u8], known: u64, name: usize) -> Option<i32> {
        if self.text.is_empty() {
            return Some(0);
        }
        if known & self.letters != self.letters {
            return None;
        }
        let file = &path[name..];
        let short = i32::try_from(path.len().min(1000)).unwrap_or(0);
        let begins = |at: usize| at == 0 || matches!(path[at - 1], b'/' | b'_' | b'-' | b'.' | b' ');
        if let Some(at) = self.finder.find(file) {
            let rank = match at {
                0 if file.len() == self.text.len() => 9000,
                0 => 8000,
                _ if begins(name + at) => 7000,
                _ => 6000,
            };
            return Some(rank - short);
        }
        if let Some(at) = self.finder.find(path) {
            return Some(if begins(at) { 5500 } else { 5000 } - short);
        }
        let gaps = scattered(&self.text, file).map(|gaps| 4000 - gaps * 10);
        let gaps = gaps.or_else(|| scattered(&self.text, path).map(|gaps| 3000 - gaps * 10));
        gaps.map(|rank| rank - short)
    }
}

/// How many letters lie between those of the word, where it ends first; none when they are not all there in order.
fn scattered(word: &[u8], path: &[u8]) -> Option<i32> {
    let mut from = 0;
    let mut first = None;
    for letter in word {
        let at = from + memchr::memchr(*letter, &path[from..])?;
        first.get_or_insert(at);
        from = at + 1;
    }
    let length = from - first?;
    i32::try_from((length - word.len()).min(200)).ok()
}

/// Which letters are in a text: most paths are ruled out by one comparison.
pub(super) fn letters(text: &[u8]) -> u64 {
    text.iter().fold(0, |seen, byte| seen | 1 << (byte % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_fit_is_first() {
        let check = |word: &str, paths: &[&str], none: &[&str]| {
            let score = |path: &str| {
                let lower = path.to_lowercase();
                let name = lower.rfind('/').map_or(0, |at| at + 1);
                Word::new(word).score(lower.as_bytes(), letters(lower.as_bytes()), name)
            };
            let scores: Vec<Option<i32>> = paths.iter().map(|path| score(path)).collect();
            assert!(scores.iter().all(Option::is_some), "{word} {scores:?}");
            assert!(
                scores.windows(2).all(|two| two[0] > two[1]),
                "{word} {paths:?} {scores:?}"
            );
            assert!(none.iter().all(|path| score(path).is_none()), "{word}");
        };
        check(
            "main",
            &[
                "main",
                "src/main",
                "main.rs",
                "src/main.rs",
                "src/the_main.rs",
                "src/domain.rs",
                "main/x.rs",
                "m/a/i/n",
            ],
            &["src/man.rs", "niam"],
        );
        check(
            "SRC/MA",
            &["src/main.rs", "old_src/ma/x", "src/deep/ma.rs"],
            &["ma/src.rs"],
        );
        check("lrs", &["lib.rs", "src/lib.rs", "l/r/s"], &["rsl"]);
        check("größe", &["Größe.txt"], &["grosse.txt"]);
    }
}
