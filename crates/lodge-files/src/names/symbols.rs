//! Finds symbols that source files define by how lines with definitions begin. This is not a parser: it is fast, needs
//! nothing installed, and is right often enough to complete a word.

use std::{
    collections::HashMap,
    fs::File,
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::fs::OFlags;

use super::{
    fuzzy::{Word, letters},
    index::Indexes,
};

/// Limits of a search: files, bytes of each, names, time.
const MOST_FILES: usize = 3_000;
const FILE_BYTES: u64 = 256 << 10;
const MOST_NAMES: usize = 50_000;
const LONGEST: Duration = Duration::from_millis(500);
/// Trees that are remembered, and for how long.
const MOST_TREES: usize = 4;
const FRESH: Duration = Duration::from_secs(3);

/// Words that may stand before the word that says what is defined.
const BEFORE: [&str; 24] = [
    "pub",
    "export",
    "default",
    "async",
    "unsafe",
    "static",
    "public",
    "private",
    "protected",
    "internal",
    "abstract",
    "final",
    "sealed",
    "data",
    "open",
    "override",
    "extern",
    "inline",
    "virtual",
    "const",
    "partial",
    "readonly",
    "declare",
    "suspend",
];
/// Words that say what is defined, and the endings of files in which they do.
const DEFINING: [(&str, &[&str]); 17] = [
    ("fn", &["rs", "zig"]),
    ("struct", &["rs", "c", "h", "cpp", "hpp", "cc", "cs", "swift", "go"]),
    (
        "enum",
        &[
            "rs", "c", "h", "cpp", "hpp", "cc", "cs", "java", "kt", "swift", "ts", "tsx",
        ],
    ),
    ("trait", &["rs", "scala", "php"]),
    ("mod", &["rs"]),
    ("type", &["rs", "go", "ts", "tsx"]),
    ("const", &["rs", "ts", "tsx", "js", "jsx", "go"]),
    ("static", &["rs"]),
    ("def", &["py", "rb", "scala"]),
    (
        "class",
        &[
            "py", "rb", "js", "jsx", "ts", "tsx", "java", "kt", "cs", "cpp", "hpp", "cc", "swift", "php", "scala",
        ],
    ),
    ("module", &["rb"]),
    ("function", &["js", "jsx", "ts", "tsx", "php", "lua", "sh"]),
    ("interface", &["ts", "tsx", "java", "kt", "cs", "go", "php"]),
    ("func", &["go", "swift"]),
    ("fun", &["kt"]),
    ("record", &["java", "cs"]),
    ("object", &["kt", "scala"]),
];

/// A name that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// What it is called.
    pub name: String,
    /// The word that defines it.
    pub kind: &'static str,
    /// The file, seen from the directory.
    pub path: Arc<str>,
    /// Counted from 0, as editors do.
    pub line: usize,
    /// Where the name begins in its line, in UTF-16 units.
    pub column: usize,
}

struct Table {
    symbols: Vec<(Symbol, u64)>,
    made: Instant,
}

/// The trees that were asked about lately.
#[derive(Default)]
pub struct Symbols {
    trees: Mutex<HashMap<PathBuf, Arc<Table>>>,
    /// One at a time reads files.
    reading: Mutex<()>,
}

impl Symbols {
    /// The names in a directory's files that fit a word best. Reads files.
    pub fn find(&self, files: &Arc<Indexes>, root: &Path, word: &str, most: usize) -> Vec<Symbol> {
        let table = self.table(files, root);
        let word = Word::new(word);
        let scored = table.symbols.iter().enumerate().filter_map(|(at, (symbol, known))| {
            let score = word.score(symbol.name.to_lowercase().as_bytes(), *known, 0)?;
            Some((std::cmp::Reverse(score), at))
        });
        let mut scored: Vec<_> = scored.collect();
        scored.sort_unstable();
        let best = scored.into_iter().take(most);
        best.map(|(_, at)| table.symbols[at].0.clone()).collect()
    }

    fn table(&self, files: &Arc<Indexes>, root: &Path) -> Arc<Table> {
        let known = || {
            self.trees
                .lock()
                .get(root)
                .filter(|table| table.made.elapsed() < FRESH)
                .cloned()
        };
        if let Some(table) = known() {
            return table;
        }
        let _one = self.reading.lock();
        if let Some(table) = known() {
            return table;
        }
        let table = Arc::new(Table::read(files, root));
        let mut trees = self.trees.lock();
        if trees.len() >= MOST_TREES && !trees.contains_key(root) {
            let oldest = trees
                .iter()
                .min_by_key(|(_, table)| table.made)
                .map(|(root, _)| root.clone());
            oldest.and_then(|root| trees.remove(&root));
        }
        trees.insert(root.to_owned(), table.clone());
        table
    }
}

impl Table {
    fn read(files: &Arc<Indexes>, root: &Path) -> Self {
        let begun = Instant::now();
        let mut symbols = Vec::new();
        let mut seen = 0;
        files.each_file(root, |path| {
            let Some(ending) = path.rsplit_once('.').map(|(_, ending)| ending) else {
                return true;
            };
            let defining: Vec<&'static str> = DEFINING
                .iter()
                .filter(|(_, endings)| endings.contains(&ending))
                .map(|(word, _)| *word)
                .collect();
            if defining.is_empty() {
                return true;
            }
            seen += 1;
            if let Some(text) = read(&root.join(path)) {
                let path: Arc<str> = path.into();
                for (line, text) in text.lines().enumerate() {
                    if let Some((kind, name, column)) = defined(text, &defining) {
                        let known = letters(name.to_lowercase().as_bytes());
                        let (name, path) = (name.to_owned(), path.clone());
                        symbols.push((
                            Symbol {
                                name,
                                kind,
                                path,
                                line,
                                column,
                            },
                            known,
                        ));
                    }
                }
            }
            seen < MOST_FILES && symbols.len() < MOST_NAMES && begun.elapsed() < LONGEST
        });
        Self {
            symbols,
            made: Instant::now(),
        }
    }
}

/// The text of a regular file, unless it is long or a link to one.
fn read(path: &Path) -> Option<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > FILE_BYTES {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// What a line defines, and where its name begins.
fn defined<'a>(line: &'a str, defining: &[&'static str]) -> Option<(&'static str, &'a str, usize)> {
    let mut rest = line.trim_start();
    for _ in 0..6 {
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if let Some(kind) = defining.iter().find(|kind| **kind == word) {
            // A receiver stands before the name in Go.
            let behind = behind.trim_start();
            let behind = match behind.strip_prefix('(') {
                Some(receiver) if word == "func" => receiver.split_once(')')?.1.trim_start(),
                _ => behind,
            };
            let behind = behind.strip_prefix("self.").unwrap_or(behind);
            let end = behind
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
                .unwrap_or(behind.len());
            let name = &behind[..end];
            if name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '$') {
                // `const fn x` defines x, not fn.
                if !defining.contains(&name) {
                    let at = line.len() - behind.len();
                    return Some((kind, name, line[..at].encode_utf16().count()));
                }
                rest = behind;
                continue;
            }
            return None;
        }
        if !BEFORE.contains(&word) {
            return None;
        }
        rest = behind.trim_start();
        // pub(crate)
        if word == "pub"
            && let Some(within) = rest.strip_prefix('(')
        {
            rest = within.split_once(')')?.1.trim_start();
        }
        // extern "C"
        if let Some(within) = rest.strip_prefix('"') {
            rest = within.split_once('"')?.1.trim_start();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_definitions_are_known_by_their_beginnings() {
        let check = |ending: &str, line: &str, expected: Option<(&str, &str, usize)>| {
            let defining: Vec<&'static str> = DEFINING
                .iter()
                .filter(|(_, endings)| endings.contains(&ending))
                .map(|(word, _)| *word)
                .collect();
            assert_eq!(defined(line, &defining), expected, "{line}");
        };
        check("rs", "pub(crate) async fn weave<T>(x: T) {", Some(("fn", "weave", 20)));
        check("rs", "    pub const fn new() -> Self {", Some(("fn", "new", 17)));
        check("rs", "const MOST: usize = 1;", Some(("const", "MOST", 6)));
        check("rs", "pub unsafe extern \"C\" fn raw() {", Some(("fn", "raw", 25)));
        check("rs", "    let fnord = 1;", None);
        check("rs", "// fn no()", None);
        check("py", "    async def knit(self):", Some(("def", "knit", 14)));
        check("py", "class Wool(Base):", Some(("class", "Wool", 6)));
        check("ts", "export default class Wool {", Some(("class", "Wool", 21)));
        check("ts", "export const spin = () => {", Some(("const", "spin", 13)));
        check("go", "func (l *Loom) Spin() {", Some(("func", "Spin", 15)));
        check("java", "public abstract class Wool {", Some(("class", "Wool", 22)));
        check("rs", "fn ünder_😀() {", Some(("fn", "ünder_", 3)));
        check("rs", "", None);
    }
}
