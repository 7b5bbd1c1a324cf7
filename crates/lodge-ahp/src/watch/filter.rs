//! Which changes are told.

use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

/// So many patterns are enough for anybody.
const MOST_PATTERNS: usize = 1000;

/// What is told of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) recursive: bool,
    excludes: Option<GlobSet>,
    includes: Option<GlobSet>,
}

impl Filter {
    /// Reads the patterns: `{ "items": […] }`, or the bare list.
    pub(crate) fn new(recursive: bool, excludes: Option<&Value>, includes: Option<&Value>) -> Result<Self, String> {
        Ok(Self {
            recursive,
            excludes: excludes.map(patterns).transpose()?,
            includes: includes.map(patterns).transpose()?,
        })
    }

    /// Whether a change of this path, seen from the root, is told.
    pub(super) fn tells(&self, below: &Path) -> bool {
        let excluded = self.excludes.as_ref().is_some_and(|set| set.is_match(below));
        !excluded && self.includes.as_ref().is_none_or(|set| set.is_match(below))
    }

    /// Whether nothing in this directory can be told, so that it need not be watched.
    pub(super) fn skips(&self, directory: &Path) -> bool {
        let anything = directory.join("\u{1}");
        self.excludes.as_ref().is_some_and(|set| {
            set.is_match(directory) || (set.is_match(&anything) && set.is_match(anything.join("\u{1}")))
        })
    }
}

/// A pattern is for what it matches and for everything beneath that.
fn patterns(value: &Value) -> Result<GlobSet, String> {
    let items = value.get("items").unwrap_or(value).as_array();
    let items = items.ok_or("patterns are a list of texts")?;
    if items.len() > MOST_PATTERNS {
        return Err(format!("more than {MOST_PATTERNS} patterns"));
    }
    let mut set = GlobSetBuilder::new();
    for item in items {
        let text = item.as_str().ok_or("a pattern is a text")?;
        let text = text.strip_prefix("./").unwrap_or(text).trim_matches('/');
        for pattern in [text.to_owned(), format!("{text}/**")] {
            let glob = GlobBuilder::new(&pattern).literal_separator(true).build();
            set.add(glob.map_err(|error| format!("{text:?} is no pattern: {}", error.kind()))?);
        }
    }
    set.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patterns_are_globs_or_paths_and_hold_for_what_is_beneath() {
        let check = |excludes: Value, includes: Option<Value>, path: &str, told: bool| {
            let filter = Filter::new(true, Some(&json!({ "items": excludes })), includes.as_ref()).unwrap();
            assert_eq!(filter.tells(Path::new(path)), told, "{excludes} {includes:?} {path}");
        };
        check(json!(["**/.git/**"]), None, ".git/index", false);
        check(json!(["**/.git/**"]), None, "a/.git/index", false);
        check(json!(["**/.git/**"]), None, ".gitignore", true);
        check(json!(["node_modules"]), None, "node_modules/a/b.js", false);
        check(json!(["./out/"]), None, "out/x", false);
        check(json!(["*.log"]), None, "a.log", false);
        check(json!(["*.log"]), None, "dir/a.log", true);
        check(json!([]), Some(json!({ "items": ["**/*.ts"] })), "src/a.ts", true);
        check(json!([]), Some(json!({ "items": ["**/*.ts"] })), "a.ts", true);
        check(json!([]), Some(json!(["**/*.ts"])), "src/a.js", false);
        check(json!(["src/gen/**"]), Some(json!(["src"])), "src/gen/a", false);
        check(json!(["src/gen/**"]), Some(json!(["src"])), "src/a", true);
        for bad in [json!(["[a"]), json!("x"), json!([1]), json!({ "items": {} })] {
            assert!(Filter::new(true, Some(&bad), None).is_err(), "{bad}");
        }
    }

    #[test]
    fn directories_that_are_excluded_whole_are_not_watched() {
        let check = |excludes: Value, path: &str, skipped: bool| {
            let filter = Filter::new(true, Some(&excludes), None).unwrap();
            assert_eq!(filter.skips(Path::new(path)), skipped, "{excludes} {path}");
        };
        check(json!(["**/.git/**"]), "a/.git", true);
        check(json!(["**/.git/**"]), "a", false);
        check(json!(["target"]), "target", true);
        check(json!(["**/*.lock"]), "a", false);
        check(json!(["a/*"]), "a", true);
    }
}
