//! `grep`: searches the contents of files.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock},
};

use futures_util::future::BoxFuture;
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use serde::Deserialize;
use serde_json::{Value, json};

use super::search::Search;
use crate::{Need, Tool, ToolCx, ToolError, ToolOutput, cx::arguments, spill};

/// Searches the contents of files.
pub(super) struct Grep;

/// Longer lines (of generated files) are cut.
const MAX_LINE: usize = 2000;
/// More than this is not collected: nobody reads it, and a file with it is of little use.
const MAX_TEXT: usize = 4 << 20;
/// A file with a longer line, or a longer one that is searched as a whole, is left out.
const MAX_HEAP: usize = 64 << 20;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    output_mode: OutputMode,
    glob: Option<String>,
    #[serde(rename = "type")]
    file_type: Option<String>,
    #[serde(default, rename = "-i")]
    ignore_case: bool,
    #[serde(rename = "-n")]
    numbers: Option<bool>,
    #[serde(default, rename = "-A")]
    after: usize,
    #[serde(default, rename = "-B")]
    before: usize,
    #[serde(default, rename = "-C")]
    around: usize,
    head_limit: Option<usize>,
    #[serde(default)]
    multiline: bool,
}

#[derive(Deserialize, Default, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum OutputMode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

static PARAMETERS: LazyLock<Arc<Value>> = LazyLock::new(|| {
    Arc::new(json!({
        "type": "object",
        "properties": {
            "pattern": { "type": "string", "description": "Regular expression in ripgrep's syntax." },
            "path": { "type": "string", "description": "File or directory to search. Default: the working directory." },
            "output_mode": { "type": "string", "enum": ["content", "files_with_matches", "count"], "description": "content: matching lines. files_with_matches (default): paths. count: matches per file." },
            "glob": { "type": "string", "description": "Only files that match, such as *.rs or src/**/*.{ts,tsx}." },
            "type": { "type": "string", "description": "Only files of this type, such as rust, py, js." },
            "-i": { "type": "boolean", "description": "Ignore case." },
            "-n": { "type": "boolean", "description": "Line numbers in content mode. Default true." },
            "-A": { "type": "integer", "description": "Lines to show after each match." },
            "-B": { "type": "integer", "description": "Lines to show before each match." },
            "-C": { "type": "integer", "description": "Lines to show before and after each match." },
            "head_limit": { "type": "integer", "description": "Show at most this many lines or files." },
            "multiline": { "type": "boolean", "description": "Let the pattern span lines." }
        },
        "required": ["pattern"]
    }))
});

impl Tool for Grep {
    fn name(&self) -> &'static str {
        "grep"
    }

    fn description(&self) -> &'static str {
        "Searches the contents of files with a regular expression. Skips binary files, hidden files and files that .gitignore excludes."
    }

    fn parameters(&self) -> Arc<Value> {
        PARAMETERS.clone()
    }

    fn parallel(&self) -> bool {
        true
    }

    fn need(&self, value: &Value, cx: &ToolCx) -> Result<Need, ToolError> {
        let args: Arguments = arguments(self.name(), value)?;
        let path = args.path.as_deref().unwrap_or(".");
        cx.need_read(path, format!("Search {path} for {}", args.pattern))
    }

    fn run(&self, value: Value, cx: ToolCx) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let stop = cx.cancel.child_token();
            let _stop_on_drop = stop.clone().drop_guard();
            super::blocking(move || {
                let args: Arguments = arguments("grep", &value)?;
                let search = Search::new(&cx, args.path.as_deref())?
                    .matching(args.glob.as_deref())?
                    .of_type(args.file_type.as_deref())?;
                let mut found = Found::new(&args)?;
                for (place, name) in search.files(|| stop.is_cancelled()) {
                    if found.full() {
                        break;
                    }
                    // What cannot be read (any more) has no matches.
                    let Ok(file) = place.open() else { continue };
                    found.search(&file, &name);
                }
                if stop.is_cancelled() {
                    return Err(ToolError(super::bash::INTERRUPTED.to_owned()));
                }
                let content = spill::bound(found.text(), cx.state.temp(), cx.max_output_bytes);
                Ok(ToolOutput {
                    content,
                    ..ToolOutput::default()
                })
            })
            .await
        })
    }
}

/// Matches collected so far.
struct Found {
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: OutputMode,
    numbers: bool,
    context: bool,
    limit: usize,
    lines: usize,
    out: String,
}

impl Found {
    fn new(args: &Arguments) -> Result<Self, ToolError> {
        let mut matcher = RegexMatcherBuilder::new();
        matcher.case_insensitive(args.ignore_case).multi_line(true);
        if args.multiline {
            matcher.dot_matches_new_line(true);
        } else {
            matcher.line_terminator(Some(b'\n'));
        }
        let matcher = matcher
            .build(&args.pattern)
            .map_err(|error| ToolError(format!("Invalid pattern {}: {error}", args.pattern)))?;
        let content = args.output_mode == OutputMode::Content;
        let (before, after) = if content {
            (args.before.max(args.around), args.after.max(args.around))
        } else {
            (0, 0)
        };
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(true)
            .heap_limit(Some(MAX_HEAP))
            .multi_line(args.multiline)
            .before_context(before)
            .after_context(after)
            .build();
        Ok(Self {
            matcher,
            searcher,
            mode: args.output_mode,
            numbers: args.numbers.unwrap_or(true),
            context: before + after > 0,
            limit: args.head_limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX),
            lines: 0,
            out: String::new(),
        })
    }

    fn full(&self) -> bool {
        self.lines >= self.limit || self.out.len() > MAX_TEXT
    }

    fn search(&mut self, file: &std::fs::File, name: &str) {
        let matcher = self.matcher.clone();
        let mut searcher = self.searcher.clone();
        let before = (self.out.len(), self.lines);
        let mut sink = Collect {
            name,
            count: 0,
            matcher: &matcher,
            binary: false,
            found: self,
        };
        let _ = searcher.search_file(&matcher, file, &mut sink);
        let (count, binary) = (sink.count, sink.binary);
        if binary {
            self.out.truncate(before.0);
            self.lines = before.1;
        } else if count > 0 && self.mode != OutputMode::Content {
            let _ = match self.mode {
                OutputMode::Count => writeln!(self.out, "{name}:{count}"),
                _ => writeln!(self.out, "{name}"),
            };
            self.lines += 1;
        }
    }

    fn line(&mut self, name: &str, sign: char, number: Option<u64>, bytes: &[u8]) {
        for (index, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
            if self.full() {
                return;
            }
            let _ = write!(self.out, "{name}{sign}");
            if let (true, Some(number)) = (self.numbers, number) {
                let _ = write!(self.out, "{}{sign}", number + index as u64);
            }
            match line.char_indices().nth(MAX_LINE) {
                Some((end, _)) => self.out.extend([&line[..end], " [line cut]\n"]),
                None => self.out.extend([line, "\n"]),
            }
            self.lines += 1;
        }
    }

    fn text(mut self) -> String {
        if self.out.is_empty() {
            return "No matches found.".to_owned();
        }
        self.out.pop();
        self.out
    }
}

struct Collect<'a> {
    name: &'a str,
    count: u64,
    matcher: &'a RegexMatcher,
    binary: bool,
    found: &'a mut Found,
}

impl Sink for Collect<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        match self.found.mode {
            OutputMode::FilesWithMatches => {
                self.count = 1;
                return Ok(false);
            }
            OutputMode::Count => {
                self.matcher.find_iter(found.bytes(), |_| {
                    self.count += 1;
                    true
                })?;
            }
            OutputMode::Content => {
                self.count += 1;
                self.found.line(self.name, ':', found.line_number(), found.bytes());
            }
        }
        Ok(!self.found.full())
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, Self::Error> {
        self.found.line(self.name, '-', context.line_number(), context.bytes());
        Ok(!self.found.full())
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, Self::Error> {
        if self.found.context && !self.found.out.is_empty() {
            self.found.out.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, Self::Error> {
        self.binary = true;
        Ok(false)
    }
}
