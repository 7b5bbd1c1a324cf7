//! Patterns in rules.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::home::Home;

/// Files that no tool may see.
#[derive(Debug, Clone, Default)]
pub struct Exclusions {
    patterns: Vec<(String, GlobMatcher)>,
    home: Option<Home>,
}

impl Exclusions {
    /// Adds a pattern; one with a slash counts from `base`.
    pub fn add(&mut self, glob: &str, base: &Path) -> Result<(), String> {
        // What hides files does not care about case, as some file systems do not.
        let matcher = path_matcher(glob, base, true)?;
        self.patterns.push((glob.to_owned(), matcher));
        Ok(())
    }

    pub(super) fn hide_home(&mut self, home: Option<Home>) {
        self.home = home;
    }

    /// Whether searches of a session that works in these directories leave a path out.
    pub(crate) fn hides<'a>(&self, path: &Path, roots: impl IntoIterator<Item = &'a PathBuf>) -> bool {
        self.matching(path).is_some() || self.home.as_ref().is_some_and(|home| home.hides(path, roots))
    }

    /// The pattern that hides a path.
    pub fn matching(&self, path: &Path) -> Option<&str> {
        self.patterns
            .iter()
            .find(|(_, matcher)| covers(matcher, path))
            .map(|(glob, _)| glob.as_str())
    }

    /// The patterns.
    pub(super) fn globs(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|(glob, _)| glob.as_str())
    }

    /// Whether there is no pattern.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}

/// Reads a path pattern as `.gitignore` does: without a slash it matches at any depth.
pub(super) fn path_matcher(glob: &str, base: &Path, any_case: bool) -> Result<GlobMatcher, String> {
    let built = GlobBuilder::new(&whole(glob, base))
        .literal_separator(true)
        .case_insensitive(any_case)
        .build();
    built
        .map(|glob| glob.compile_matcher())
        .map_err(|error| error.to_string())
}

/// The directory that everything lies in that fits a path pattern; an empty path for any.
pub(super) fn beginning(glob: &str, base: &Path) -> PathBuf {
    let whole = whole(glob, base);
    let literal = whole
        .split('/')
        .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']));
    PathBuf::from(literal.collect::<Vec<_>>().join("/"))
}

/// A path pattern as a glob of absolute paths.
fn whole(glob: &str, base: &Path) -> String {
    let bare = glob.trim_end_matches('/');
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    match bare.strip_prefix("~/") {
        Some(rest) => format!("{}/{rest}", globset::escape(&home().display().to_string())),
        None if bare.starts_with('/') => bare.to_owned(),
        None if bare.contains('/') => format!(
            "{}/{}",
            globset::escape(&base.display().to_string()),
            bare.trim_start_matches("./")
        ),
        None => format!("**/{bare}"),
    }
}

/// Whether the path matches, or a directory it is in does.
pub(super) fn covers(matcher: &GlobMatcher, path: &Path) -> bool {
    path.ancestors().any(|part| matcher.is_match(part))
}

/// Whether words begin with those of a command rule.
pub(super) fn begins_with<'a>(words: impl IntoIterator<Item = &'a str>, rule: &str) -> bool {
    let mut words = words.into_iter();
    let mut any = false;
    for wanted in rule.split_whitespace() {
        let wanted = wanted.trim_end_matches(":*");
        if wanted == "*" {
            return true;
        }
        any = true;
        let fits = words.next().is_some_and(|word| match wanted.strip_suffix('*') {
            Some(beginning) => word.starts_with(beginning),
            None => word == wanted,
        });
        if !fits {
            return false;
        }
    }
    any
}

/// Whether every program reads an address alike: it is written as whoever reads it would write it, and says nothing before `@`.
pub(super) fn is_spelt(url: &str) -> bool {
    let Ok(read) = reqwest::Url::parse(url) else {
        return false;
    };
    let is_bare = read.username().is_empty() && read.password().is_none();
    // `curl` makes several addresses of what stands in brackets.
    let is_same = read.as_str() == url || read.as_str().strip_suffix('/') == Some(url);
    is_bare && is_same && !url.contains(['[', ']', '{', '}'])
}

/// Whether an address, as it is written, is one of those that a rule allows.
pub(super) fn url_fits(url: &str, rule: &str) -> bool {
    is_spelt(url) && url_matches(url, rule)
}

/// Whether an address is one of those a rule means.
pub(super) fn url_matches(url: &str, rule: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(url) else {
        return false;
    };
    let Some(host) = url.host_str() else { return false };
    let (scheme, rest) = match rule.split_once("://") {
        Some((scheme, rest)) => (Some(scheme), rest),
        None => (None, rule),
    };
    let (place, path) = rest
        .split_once('/')
        .map_or((rest, None), |(place, path)| (place, Some(path)));
    let (wanted, port) = match place.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => (host, port.parse::<u16>().ok()),
        _ => (place, None),
    };
    let wanted = wanted.to_ascii_lowercase();
    let host_fits = match wanted.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|sub| sub.ends_with('.')),
        None => wanted == "*" || wanted == host,
    };
    let port_fits = match port {
        Some(port) => url.port_or_known_default() == Some(port),
        // Without a port only the usual one is meant.
        None => url.port().is_none(),
    };
    let path_fits = path.is_none_or(|path| {
        let whole = format!(
            "{}{}",
            url.path().trim_start_matches('/'),
            url.query().map(|q| format!("?{q}")).unwrap_or_default()
        );
        match path.strip_suffix('*') {
            Some(begin) => whole.starts_with(begin),
            None => whole == path || path.is_empty(),
        }
    });
    scheme.is_none_or(|scheme| scheme == url.scheme()) && host_fits && port_fits && path_fits
}

/// Whether a name is one of those a tool rule means.
pub(super) fn name_matches(name: &str, rule: &str) -> bool {
    GlobBuilder::new(rule)
        .build()
        .is_ok_and(|glob| glob.compile_matcher().is_match(name))
}
