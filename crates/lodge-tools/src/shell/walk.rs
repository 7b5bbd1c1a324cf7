//! Walks the syntax tree of a command.

use std::collections::BTreeSet;

use lodge_events::{CommandSegment, ShellCommand};
use tree_sitter::{Node, Parser};

use super::{
    Analysis, danger, programs, scripts, variables,
    word::{Word, text_of, word},
    wrappers::{Wrapped, is_assignment, unwrap},
};

/// Longer commands are not looked at.
const MAX_LENGTH: usize = 64 << 10;
/// Deeper nesting is not looked at.
const MAX_DEPTH: usize = 100;
/// Scripts in scripts in scripts.
const MAX_SCRIPTS: usize = 5;
/// Directories a command may be in at the same time before they count as unknown.
const MAX_DIRS: usize = 8;
/// A directory that is only known when the command runs.
const UNKNOWN_DIR: &str = "$PWD";

/// Where the shell may be, and after success or failure of what was run.
type Dirs = BTreeSet<String>;

struct Outcome {
    success: Dirs,
    failure: Dirs,
}

impl Outcome {
    fn same(dirs: Dirs) -> Self {
        Self {
            success: dirs.clone(),
            failure: dirs,
        }
    }

    fn either(self) -> Dirs {
        &self.success | &self.failure
    }
}

#[derive(Default)]
struct Walk {
    found: Analysis,
    functions: BTreeSet<String>,
    /// Something was not understood.
    lost: bool,
    /// Something makes names mean something else than they say (aliases, `PATH`).
    tainted: bool,
    scripts: usize,
    /// Programs that print what they download, and shells that read scripts from their input.
    downloads: bool,
    shell_reads: bool,
}

pub(super) fn analyse(command: &str) -> Analysis {
    let mut walk = Walk {
        found: Analysis {
            rememberable: true,
            ..Analysis::default()
        },
        ..Walk::default()
    };
    walk.script(command, Dirs::from([String::new()]));
    let Walk {
        mut found,
        lost,
        tainted,
        downloads,
        shell_reads,
        ..
    } = walk;
    found.understood = !lost;
    if (lost || tainted) && found.commands.is_empty() {
        let first = command.split_whitespace().next().unwrap_or_default();
        found.commands.push(ShellCommand {
            identifier: first.to_owned(),
            read_only: false,
        });
    }
    if lost || tainted {
        found.commands.iter_mut().for_each(|command| command.read_only = false);
    }
    if tainted {
        found.rememberable = false;
    }
    if downloads && shell_reads {
        found.warning = Some(danger::RUNS_DOWNLOAD.to_owned());
    }
    found
}

impl Walk {
    /// Looks at a whole script.
    fn script(&mut self, source: &str, dirs: Dirs) -> Dirs {
        let Some(source) = joined_lines(source) else {
            self.lost = true;
            return dirs;
        };
        let mut parser = Parser::new();
        let known = parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_ok();
        let Some(tree) = known.then(|| parser.parse(source.as_str(), None)).flatten() else {
            self.lost = true;
            return dirs;
        };
        let root = tree.root_node();
        self.lost |= root.has_error();
        self.collect_functions(root, &source, 0);
        self.tainted |= variables::evaluates_data(root, &source);
        self.visit(root, &source, dirs, 0, &[]).either()
    }

    fn collect_functions(&mut self, node: Node<'_>, source: &str, depth: usize) {
        if depth > MAX_DEPTH {
            self.lost = true;
            return;
        }
        if node.kind() == "function_definition"
            && let Some(name) = node.child_by_field_name("name")
        {
            let (name, body) = (text_of(name, source), text_of(node, source));
            if body.contains(&format!("{name}|{name}")) || body.contains(&format!("{name} | {name}")) {
                self.warn(danger::FORK_BOMB);
                self.tainted = true;
            }
            self.functions.insert(name.to_owned());
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.collect_functions(child, source, depth + 1);
        }
    }

    /// Looks at a node. `extra` are words that the grammar put behind a redirection but that belong to the last command.
    fn visit(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        if depth > MAX_DEPTH {
            self.lost = true;
            return Outcome::same(dirs);
        }
        let next = depth + 1;
        match node.kind() {
            "command" => self.command(node, source, dirs, next, extra),
            "redirected_statement" => self.redirected(node, source, dirs, next, extra),
            "list" => self.list(node, source, dirs, next, extra),
            "negated_command" => {
                let inner = self.children(node, source, dirs, next, extra);
                Outcome {
                    success: inner.failure,
                    failure: inner.success,
                }
            }
            // What runs in a process of its own does not move the shell.
            "pipeline" | "subshell" | "command_substitution" | "process_substitution" => {
                self.check_substitution(node, source);
                let before = dirs.clone();
                if node.kind() == "pipeline" {
                    self.each_from(node, source, &dirs, next, extra);
                } else {
                    self.children(node, source, dirs, next, &[]);
                }
                Outcome::same(before)
            }
            "while_statement" | "for_statement" | "c_style_for_statement" | "function_definition" => {
                if let Some(variable) = node.child_by_field_name("variable") {
                    self.sets(text_of(variable, source));
                }
                let before = dirs.clone();
                let after = self.children(node, source, dirs, next, &[]).either();
                // A loop or function that moves may do so any number of times.
                Outcome::same(if after == before {
                    before
                } else {
                    with(before, UNKNOWN_DIR)
                })
            }
            "if_statement" | "case_statement" => {
                // Whichever branch is taken, all others are possible before what follows.
                let before = dirs.clone();
                let after = self.children(node, source, dirs, next, &[]).either();
                Outcome::same(&before | &after)
            }
            "variable_assignment" => {
                if let Some(name) = node.child_by_field_name("name") {
                    self.sets(text_of(name, source).split('[').next().unwrap_or_default());
                }
                self.children(node, source, dirs, next, &[])
            }
            "declaration_command" | "unset_command" => self.declaration(node, source, dirs, next),
            "heredoc_redirect" => {
                let start = (0..node.named_child_count()).filter_map(|at| node.named_child(u32::try_from(at).ok()?));
                let odd = |text: &str| {
                    !text
                        .trim_matches(['\'', '"'])
                        .trim_start_matches('\\')
                        .chars()
                        .all(|c| c.is_alphanumeric() || c == '_')
                };
                if start
                    .into_iter()
                    .any(|child| child.kind() == "heredoc_start" && odd(text_of(child, source)))
                {
                    self.lost = true;
                }
                self.children(node, source, dirs, next, &[])
            }
            "file_redirect" => {
                let before = dirs.clone();
                self.redirect(node, source, &dirs);
                self.children(node, source, dirs, next, &[]);
                Outcome::same(before)
            }
            "expansion" => {
                // `${x@P}` runs commands that are hidden in the value.
                self.tainted |= text_of(node, source).contains("@P");
                self.children(node, source, dirs, next, &[])
            }
            "raw_string" | "ansi_c_string" | "string" => {
                let text = word(node, source);
                self.tainted |= hides_substitution(text.shown());
                self.children(node, source, dirs, next, &[])
            }
            _ => self.children(node, source, dirs, next, extra),
        }
    }

    /// One child after the other, as `;` does.
    fn children(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let mut outcome = Outcome::same(dirs);
        let count = children.len();
        for (index, child) in children.into_iter().enumerate() {
            let last: &[Word] = if index + 1 == count { extra } else { &[] };
            let dirs = outcome.either();
            outcome = self.visit(child, source, dirs, depth, last);
        }
        outcome
    }

    /// Every child from the same start, as `|` does.
    fn each_from(&mut self, node: Node<'_>, source: &str, dirs: &Dirs, depth: usize, extra: &[Word]) {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let count = children.len();
        for (index, child) in children.into_iter().enumerate() {
            self.visit(
                child,
                source,
                dirs.clone(),
                depth,
                if index + 1 == count { extra } else { &[] },
            );
        }
    }

    /// `a && b`, `a || b`.
    fn list(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.children(&mut cursor).collect();
        let mut outcome: Option<Outcome> = None;
        let mut operator = ";";
        let last = children.iter().rposition(|child| child.is_named());
        for (index, child) in children.into_iter().enumerate() {
            if !child.is_named() {
                operator = text_of(child, source);
                continue;
            }
            let words: &[Word] = if Some(index) == last { extra } else { &[] };
            outcome = Some(match outcome {
                None => self.visit(child, source, dirs.clone(), depth, words),
                Some(left) => {
                    let from = match operator {
                        "&&" => left.success.clone(),
                        "||" => left.failure.clone(),
                        _ => &left.success | &left.failure,
                    };
                    let right = self.visit(child, source, from, depth, words);
                    match operator {
                        "&&" => Outcome {
                            success: right.success,
                            failure: &left.failure | &right.failure,
                        },
                        "||" => Outcome {
                            success: &left.success | &right.success,
                            failure: right.failure,
                        },
                        _ => right,
                    }
                }
            });
        }
        outcome.unwrap_or_else(|| Outcome::same(dirs))
    }

    /// A statement with redirections. They are looked at from where it starts and from where it ends, because the
    /// grammar hangs those of the last command of a list on the whole list.
    fn redirected(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
        let body = node.child_by_field_name("body");
        let mut words = extra.to_vec();
        for child in &children {
            words.extend(self.after_destination(*child, source));
        }
        let before = dirs.clone();
        let outcome = match body {
            Some(body) => self.visit(body, source, dirs, depth, &words),
            None => Outcome::same(dirs),
        };
        let mut everywhere = &outcome.success | &outcome.failure;
        everywhere.extend(before);
        for child in children {
            if Some(child) != body {
                self.visit(child, source, everywhere.clone(), depth, &[]);
            }
        }
        outcome
    }

    /// `> file word`: the word belongs to the command.
    fn after_destination(&mut self, node: Node<'_>, source: &str) -> Vec<Word> {
        let mut cursor = node.walk();
        if node.kind() != "file_redirect" {
            // A redirection inside a here-document's line.
            return node
                .named_children(&mut cursor)
                .filter(|child| child.kind() == "file_redirect")
                .flat_map(|child| {
                    let mut cursor = child.walk();
                    child
                        .children_by_field_name("destination", &mut cursor)
                        .skip(1)
                        .map(|n| word(n, source))
                        .collect::<Vec<_>>()
                })
                .collect();
        }
        node.children_by_field_name("destination", &mut cursor)
            .skip(1)
            .map(|child| word(child, source))
            .collect()
    }

    fn redirect(&mut self, node: Node<'_>, source: &str, dirs: &Dirs) {
        let Some(destination) = node.child_by_field_name("destination") else {
            return;
        };
        let mut cursor = node.walk();
        let operator = node
            .children(&mut cursor)
            .find(|child| !child.is_named())
            .map_or("", |child| text_of(child, source));
        let target = word(destination, source);
        let text = target.shown();
        let descriptor = operator.ends_with('&') && text.chars().all(|c| c.is_ascii_digit() || c == '-');
        let device = matches!(
            text,
            "/dev/null" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin" | "/dev/tty"
        );
        if target.process || descriptor || device || text.is_empty() {
            return;
        }
        if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
            self.found.urls.push(
                text.replacen("/dev/tcp/", "tcp://", 1)
                    .replacen("/dev/udp/", "udp://", 1),
            );
            self.lost = true;
            return;
        }
        let write = operator.contains('>');
        self.found.writes_by_redirection |= write;
        self.path(text, write, dirs);
    }

    /// Backslashes in backquotes are undone once more by the shell; that is not followed.
    fn check_substitution(&mut self, node: Node<'_>, source: &str) {
        let text = text_of(node, source);
        if node.kind() == "command_substitution" && text.starts_with('`') && text.contains('\\') {
            self.lost = true;
        }
    }

    fn declaration(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize) -> Outcome {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => {
                    if let Some(name) = child.child_by_field_name("name") {
                        self.sets(text_of(name, source));
                    }
                }
                "variable_name" => self.sets(text_of(child, source)),
                _ => match word(child, source).text {
                    // `export "PATH=…"`; `declare -i` computes what is assigned.
                    Some(text) => {
                        self.sets(is_assignment(&text).unwrap_or(&text));
                        self.tainted |= text.starts_with('-') && text.contains(['i', 'n']);
                    }
                    None => self.tainted = true,
                },
            }
        }
        self.children(node, source, dirs, depth, &[])
    }

    /// A variable is set that programs may see.
    fn sets(&mut self, name: &str) {
        self.tainted |= variables::changes_programs(name);
    }

    fn command(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        let mut words = Vec::new();
        let mut inner_extra = Vec::new();
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                // Words that the grammar takes for signs, such as a lone `-`.
                _ if !child.is_named() => words.push(Word::literal(text_of(child, source))),
                "variable_assignment" => {
                    if let Some(name) = child.child_by_field_name("name") {
                        self.sets(text_of(name, source));
                    }
                    self.visit(child, source, dirs.clone(), depth, &[]);
                }
                "file_redirect" | "herestring_redirect" | "heredoc_redirect" => {
                    inner_extra.extend(self.after_destination(child, source));
                    self.visit(child, source, dirs.clone(), depth, &[]);
                }
                _ => {
                    // What is substituted inside a word runs too.
                    self.visit(child, source, dirs.clone(), depth, &[]);
                    words.push(word(child, source));
                }
            }
        }
        words.extend(inner_extra);
        words.extend(extra.iter().cloned());
        self.simple(words, dirs, 0)
    }

    /// A program with its arguments.
    fn simple(&mut self, words: Vec<Word>, dirs: Dirs, depth: usize) -> Outcome {
        let mut expanded = Vec::with_capacity(words.len());
        for word in words {
            let raw = word.raw.clone();
            match word.expand() {
                Some(words) => expanded.extend(words),
                None => {
                    self.lost = true;
                    expanded.push(Word::unknown(raw));
                }
            }
        }
        let words = expanded;
        let Some(first) = words.first() else {
            return Outcome::same(dirs);
        };
        let name = match &first.text {
            Some(text) if !first.glob && !text.is_empty() && depth < MAX_DEPTH => programs::name_of(text).to_owned(),
            _ => {
                if !first.raw.is_empty() {
                    self.add(first.raw.clone(), false, &words);
                }
                self.lost = true;
                return Outcome::same(dirs);
            }
        };
        if let Some(warning) = danger::of_call(&words) {
            self.warn(warning);
        }
        if self.functions.contains(&name) {
            return Outcome::same(dirs);
        }
        match name.as_str() {
            "cd" | "pushd" | "popd" => return self.change_directory(&name, &words[1..], dirs),
            "alias" | "unalias" | "enable" => self.tainted = true,
            "read" | "mapfile" | "readarray" | "getopts" | "unset" => {
                for word in &words[1..] {
                    self.sets(word.shown());
                }
            }
            _ => {}
        }
        match unwrap(&words) {
            Wrapped::No => {}
            Wrapped::Nothing => {
                self.add(name, true, &words);
                return Outcome::same(dirs);
            }
            Wrapped::Words {
                words: inner,
                assignments,
                directory,
                more_args,
            } => {
                return self.wrapped(&name, inner, &assignments, directory, more_args, dirs, depth);
            }
            Wrapped::AsOther(inner) => {
                self.warn(danger::AS_ADMINISTRATOR);
                let outer = std::mem::replace(
                    &mut self.found,
                    Analysis {
                        rememberable: true,
                        ..Analysis::default()
                    },
                );
                self.simple(inner, dirs.clone(), depth + 1);
                let inner = std::mem::replace(&mut self.found, outer);
                if inner.commands.is_empty() {
                    self.found.rememberable = false;
                    self.add(name, false, &words);
                } else {
                    self.merge_as(&name, inner);
                }
                return Outcome::same(dirs);
            }
            Wrapped::Script(script) => {
                self.scripts += 1;
                match script.text {
                    Some(text) if self.scripts <= MAX_SCRIPTS => {
                        let after = self.script(&text, dirs.clone());
                        // Only `eval` runs in this very shell.
                        return Outcome::same(if name == "eval" { after } else { dirs });
                    }
                    _ => {
                        self.add(name, false, &words);
                        self.found.rememberable = false;
                        self.lost = true;
                        return Outcome::same(dirs);
                    }
                }
            }
            Wrapped::Unknown => {
                self.add(name, false, &words);
                self.found.rememberable = false;
                self.lost = true;
                return Outcome::same(dirs);
            }
        }
        if matches!(name.as_str(), "find" | "gfind") {
            for run in scripts::find_runs(&words[1..]) {
                self.simple(run, dirs.clone(), depth + 1);
            }
        }
        let call = programs::call(&words);
        self.downloads |= matches!(name.as_str(), "curl" | "wget");
        self.shell_reads |= programs::is_shell(&name);
        self.add(call.identifier, call.read_only, &words);
        self.found.rememberable &= call.rememberable;
        self.found.urls.extend(call.urls);
        for (path, write) in call.paths {
            self.path(&path, write, &dirs);
        }
        Outcome::same(dirs)
    }

    /// What a wrapper runs.
    #[expect(clippy::too_many_arguments, reason = "they are the parts of one wrapped call")]
    fn wrapped(
        &mut self,
        name: &str,
        mut inner: Vec<Word>,
        assignments: &[String],
        directory: Option<Word>,
        more_args: bool,
        dirs: Dirs,
        depth: usize,
    ) -> Outcome {
        for name in assignments {
            self.sets(name);
        }
        if more_args {
            // Arguments from the input: paths nobody knows yet, or options.
            inner.push(Word::unknown("$(xargs)"));
        }
        let from = match directory {
            Some(directory) => moved(&dirs, directory.text.as_deref()),
            None => dirs.clone(),
        };
        if inner.is_empty() {
            // `exec > file` only redirects.
            if name != "exec" {
                self.add(
                    name.to_owned(),
                    name == "time" || name == "command",
                    &[Word::literal(name)],
                );
            }
            return Outcome::same(dirs);
        }
        let outcome = self.simple(inner, from, depth + 1);
        // These run what they are given in this very shell.
        if matches!(name, "command" | "builtin" | "time") {
            outcome
        } else {
            Outcome::same(dirs)
        }
    }

    fn change_directory(&mut self, name: &str, args: &[Word], dirs: Dirs) -> Outcome {
        self.add(name.to_owned(), true, &[]);
        let target: Vec<&Word> = args
            .iter()
            .filter(|word| {
                word.text
                    .as_deref()
                    .is_none_or(|text| text == "-" || !text.starts_with('-'))
            })
            .collect();
        let success = match (name, target.as_slice()) {
            ("popd", _) | (_, [_, _, ..]) => with(Dirs::new(), UNKNOWN_DIR),
            ("pushd", []) => with(Dirs::new(), UNKNOWN_DIR),
            (_, []) => moved(&dirs, Some("~")),
            (_, [word]) => {
                let known = word
                    .text
                    .as_deref()
                    .filter(|text| *text != "-" && !text.is_empty() && !word.glob);
                moved(&dirs, known)
            }
        };
        // Going somewhere is looking there.
        for dir in &success {
            self.note(dir.clone(), false);
        }
        Outcome { success, failure: dirs }
    }

    /// Notes a path as seen from every directory the shell may be in.
    fn path(&mut self, text: &str, write: bool, dirs: &Dirs) {
        if text.is_empty() {
            return;
        }
        for dir in dirs {
            self.note(join(dir, text), write);
        }
    }

    fn note(&mut self, path: String, write: bool) {
        if write && !self.found.writes.contains(&path) {
            self.found.writes.push(path.clone());
        }
        if !path.is_empty() && !self.found.paths.contains(&path) {
            self.found.paths.push(path);
        }
    }

    fn add(&mut self, identifier: String, read_only: bool, words: &[Word]) {
        if !words.is_empty() {
            let name = programs::name_of(words[0].shown());
            let text = [name]
                .into_iter()
                .chain(words[1..].iter().map(Word::shown))
                .collect::<Vec<_>>()
                .join(" ");
            let segment = CommandSegment {
                identifier: identifier.clone(),
                full_command_text: text,
            };
            if !self.found.segments.contains(&segment) {
                self.found.segments.push(segment);
            }
        }
        match self
            .found
            .commands
            .iter_mut()
            .find(|command| command.identifier == identifier)
        {
            Some(command) => command.read_only &= read_only,
            None => self.found.commands.push(ShellCommand { identifier, read_only }),
        }
    }

    /// Takes over what runs under another name, such as `sudo`.
    fn merge_as(&mut self, prefix: &str, inner: Analysis) {
        for command in inner.commands {
            self.add(format!("{prefix} {}", command.identifier), false, &[]);
        }
        self.found
            .segments
            .extend(inner.segments.into_iter().map(|segment| CommandSegment {
                identifier: format!("{prefix} {}", segment.identifier),
                full_command_text: format!("{prefix} {}", segment.full_command_text),
            }));
        for path in inner.paths {
            let write = inner.writes.contains(&path);
            self.note(path, write);
        }
        self.found.urls.extend(inner.urls);
        self.found.writes_by_redirection |= inner.writes_by_redirection;
        self.found.rememberable &= inner.rememberable;
    }

    fn warn(&mut self, warning: &str) {
        self.found.warning.get_or_insert_with(|| warning.to_owned());
    }
}

fn with(mut dirs: Dirs, dir: &str) -> Dirs {
    dirs.insert(dir.to_owned());
    dirs
}

/// The directories after `cd`, or the unknown one.
fn moved(dirs: &Dirs, to: Option<&str>) -> Dirs {
    match to {
        Some(to) if dirs.len() <= MAX_DIRS => dirs.iter().map(|dir| join(dir, to)).collect(),
        _ => with(Dirs::new(), UNKNOWN_DIR),
    }
}

/// A path as seen from a directory; `..` stays, because a link may stand before it.
fn join(dir: &str, path: &str) -> String {
    if dir.is_empty() || path.starts_with('/') || path.starts_with('~') {
        return path.to_owned();
    }
    format!("{}/{path}", dir.trim_end_matches('/'))
}

/// Text that the shell would run although it is quoted: substitutions in the index of an array.
fn hides_substitution(text: &str) -> bool {
    text.split_once('[')
        .is_some_and(|(_, rest)| rest.contains("$(") || rest.contains('`'))
}

/// The command with continued lines joined as the shell joins them; `None` when the shell may read it differently than
/// the grammar does.
fn joined_lines(source: &str) -> Option<String> {
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\t')) || (!c.is_ascii() && c.is_whitespace());
    if source.len() > MAX_LENGTH || source.contains(odd) {
        return None;
    }
    if !source.contains("\\\n") {
        return Some(source.to_owned());
    }
    // In comments, here-documents and quotes a backslash at the line's end means something else.
    if source.contains(['#', '\'']) || source.contains("<<") {
        return None;
    }
    Some(source.replace("\\\n", ""))
}
