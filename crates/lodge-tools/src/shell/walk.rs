//! Walks the syntax tree of a command.

use lodge_events::ShellCommand;
use tree_sitter::{Node, Parser};

use super::{
    Analysis, danger,
    dirs::{Dirs, Outcome, UNKNOWN_DIR, with},
    variables,
    word::{Word, text_of, word},
    wrappers::is_assignment,
};

/// Longer commands are not looked at.
const MAX_LENGTH: usize = 64 << 10;
/// Deeper nesting is not looked at.
pub(super) const MAX_DEPTH: usize = 100;
#[derive(Default)]
pub(super) struct Walk {
    pub(super) found: Analysis,
    /// Something was not understood.
    pub(super) lost: bool,
    /// Something makes names mean something else than they say (aliases, `PATH`).
    pub(super) tainted: bool,
    pub(super) scripts: usize,
    /// Programs that print what they download, and shells that read scripts from their input.
    pub(super) downloads: bool,
    pub(super) shell_reads: bool,
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
    pub(super) fn script(&mut self, source: &str, dirs: Dirs) -> Dirs {
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
        self.functions(root, &source, 0);
        self.tainted |= variables::evaluates_data(root, &source);
        self.lost |= hides_unparsed(root, &source);
        self.visit(root, &source, dirs, 0, &[]).either()
    }

    /// What a function does is looked at where it is defined. Its name is no more than that of an unknown program: nobody
    /// can tell whether it is defined when it is called.
    fn functions(&mut self, node: Node<'_>, source: &str, depth: usize) {
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
            // What its name stands for depends on where and when it is called.
            self.found.rememberable = false;
        }
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.functions(child, source, depth + 1);
        }
    }

    /// Looks at a node. `extra` are words that the grammar put behind a redirection but that belong to the last command.
    pub(super) fn visit(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
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
            "declaration_command" | "unset_command" => {
                self.lost |= splits_word(node);
                self.declaration(node, source, dirs, next)
            }
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

    /// Backslashes in backquotes are undone once more by the shell; that is not followed.
    pub(super) fn check_substitution(&mut self, node: Node<'_>, source: &str) {
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
                        self.tainted |= hides_substitution(&text);
                        self.tainted |= text.starts_with('-') && text.contains(['i', 'n']);
                    }
                    None => self.tainted = true,
                },
            }
        }
        self.children(node, source, dirs, depth, &[])
    }

    /// A variable is set that programs may see.
    pub(super) fn sets(&mut self, name: &str) {
        self.tainted |= variables::changes_programs(name);
    }

    fn command(&mut self, node: Node<'_>, source: &str, dirs: Dirs, depth: usize, extra: &[Word]) -> Outcome {
        self.lost |= splits_word(node);
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
}

/// Whether the grammar makes two words of what is one to the shell: nothing stands between them.
fn splits_word(node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    let words: Vec<Node<'_>> = node
        .children(&mut cursor)
        .filter(|child| !child.kind().ends_with("redirect"))
        .collect();
    words.windows(2).any(|pair| pair[0].end_byte() == pair[1].start_byte())
}

/// Text that the shell would run although it is quoted: substitutions in the index of an array.
pub(super) fn hides_substitution(text: &str) -> bool {
    text.split_once('[')
        .is_some_and(|(_, rest)| rest.contains("$(") || rest.contains('`'))
}

/// Whether a substitution stands where the grammar sees only text, such as in `${x/$(cmd)/}`.
fn hides_unparsed(root: Node<'_>, source: &str) -> bool {
    let mut found = false;
    variables::each(root, &mut |node| {
        // What is quoted is text to the shell too; a here-document's text is looked at piece by piece.
        let text = matches!(
            node.kind(),
            "raw_string"
                | "ansi_c_string"
                | "comment"
                | "heredoc_body"
                | "$("
                | "`"
                | "${"
                | "<("
                | ">("
                | "$(("
                | "$["
        );
        if !text && node.child_count() == 0 {
            let text = text_of(node, source).replace("\\$", "").replace("\\`", "");
            found |= text.contains("$(") || text.contains('`') || text.contains("${") || text.contains("$[");
        }
    });
    found
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
