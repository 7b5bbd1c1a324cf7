//! Which changes a watch reports.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// So many patterns are enough for anybody.
const MOST_PATTERNS: usize = 1000;

/// What is reported about a tree.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(super) recursive: bool,
    excludes: Option<GlobSet>,
    includes: Option<GlobSet>,
}

impl Filter {
    /// By patterns: matches of `excludes` are not reported, and only matches of `includes`, if there are any.
    pub fn new(recursive: bool, excludes: Option<&[String]>, includes: Option<&[String]>) -> Result<Self, String> {
        Ok(Self {
            recursive,
            excludes: excludes.map(patterns).transpose()?,
            includes: includes.map(patterns).transpose()?,
        })
    }

    /// Whether a change of this path, relative to the root, is reported.
    pub(super) fn tells(&self, below: &Path) -> bool {
        let excluded = self.excludes.as_ref().is_some_and(|set| set.is_match(below));
        !excluded && self.includes.as_ref().is_none_or(|set| set.is_match(below))
    }

    /// Whether nothing in this directory can be reported, so that it need not be watched.
    pub(super) fn skips(&self, directory: &Path) -> bool {
        let anything = directory.join("\u{1}");
        self.excludes.as_ref().is_some_and(|set| {
            set.is_match(directory) || (set.is_match(&anything) && set.is_match(anything.join("\u{1}")))
        })
    }
}

/// A pattern is for what it matches and for everything beneath that.
fn patterns(items: &[String]) -> Result<GlobSet, String> {
    if items.len() > MOST_PATTERNS {
        return Err(format!("more than {MOST_PATTERNS} patterns"));
    }
    let mut set = GlobSetBuilder::new();
    for text in items {
        let text = text.strip_prefix("./").unwrap_or(text).trim_matches('/');
        for pattern in [text.to_owned(), format!("{text}/**")] {
            let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
            set.add(glob.map_err(|error| format!("invalid pattern {text:?}: {}", error.kind()))?);
        }
    }
    set.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(patterns: &[&str]) -> Vec<String> {
        patterns.iter().map(|pattern| (*pattern).to_owned()).collect()
    }

    #[test]
    fn patterns_are_globs_or_paths_and_hold_for_what_is_beneath() {
        let check = |excludes: &[&str], includes: Option<&[&str]>, path: &str, told: bool| {
            let filter = Filter::new(true, Some(&texts(excludes)), includes.map(texts).as_deref()).unwrap();
            assert_eq!(filter.tells(Path::new(path)), told, "{excludes:?} {includes:?} {path}");
        };
        check(&["**/.git/**"], None, ".git/index", false);
        check(&["**/.git/**"], None, "a/.git/index", false);
        check(&["**/.git/**"], None, ".gitignore", true);
        check(&["node_modules"], None, "node_modules/a/b.js", false);
        check(&["./out/"], None, "out/x", false);
        check(&["*.log"], None, "a.log", false);
        check(&["*.log"], None, "dir/a.log", true);
        check(&[], Some(&["**/*.ts"]), "src/a.ts", true);
        check(&[], Some(&["**/*.ts"]), "a.ts", true);
        check(&[], Some(&["**/*.ts"]), "src/a.js", false);
        check(&["src/gen/**"], Some(&["src"]), "src/gen/a", false);
        check(&["src/gen/**"], Some(&["src"]), "src/a", true);
        assert!(Filter::new(true, Some(&texts(&["[a"])), None).is_err());
        assert!(Filter::new(true, None, Some(&vec!["a".to_owned(); MOST_PATTERNS + 1])).is_err());
    }

    #[test]
    fn directories_that_are_excluded_whole_are_not_watched() {
        let check = |excludes: &str, path: &str, skipped: bool| {
            let filter = Filter::new(true, Some(&texts(&[excludes])), None).unwrap();
            assert_eq!(filter.skips(Path::new(path)), skipped, "{excludes} {path}");
        };
        check("**/.git/**", "a/.git", true);
        check("**/.git/**", "a", false);
        check("target", "target", true);
        check("**/*.lock", "a", false);
        check("a/*", "a", true);
    }
}
