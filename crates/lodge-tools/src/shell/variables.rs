//! Variables that change what programs do, and places where the shell runs what a variable holds.

use std::collections::BTreeSet;

use tree_sitter::Node;

use super::word::text_of;

/// Variables that are harmless although they look like ones that are not.
const HARMLESS: &[&str] = &[
    "NODE_ENV",
    "PYTHONUNBUFFERED",
    "CARGO_TERM_COLOR",
    "PYTHONDONTWRITEBYTECODE",
];

/// Variables that name programs, libraries or configuration, or that the shell itself goes by.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "PATH", "IFS", "ENV", "HOME", "PWD", "OLDPWD", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "SHELL", "PAGER", "EDITOR",
    "VISUAL", "TMPDIR", "ZDOTDIR", "CC", "CXX", "POSIXLY_CORRECT", "MORE", "WGETRC",
];
#[rustfmt::skip]
const BEGINNINGS: &[&str] = &[
    "BASH", "LD_", "DYLD_", "GIT_", "LESS", "PYTHON", "NODE_", "NPM_", "npm_", "PERL", "RUBY", "GREP_", "RIPGREP_",
    "TAR_", "DOCKER_", "PIP_", "XDG_", "SSH_", "GLIBC_", "MALLOC_", "JAVA_", "CARGO", "RUSTC", "RUSTFLAGS", "MAKE",
    "OPENSSL_", "CURL_", "SYSTEMD_",
];
const ENDS: &[&str] = &[
    "PATH", "_OPTIONS", "_OPTS", "_PRELOAD", "PAGER", "EDITOR", "_COMMAND", "_proxy", "_PROXY",
];

/// Whether setting a variable may make programs do something else than their names say.
pub(super) fn changes_programs(name: &str) -> bool {
    !HARMLESS.contains(&name)
        && (NAMES.contains(&name)
            || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
            || ENDS.iter().any(|end| name.ends_with(end)))
}

/// Whether the script computes with something it has read: the shell runs substitutions in the values of variables
/// when it computes (`read x < file; echo $((x))`).
pub(super) fn evaluates_data(root: Node<'_>, source: &str) -> bool {
    let mut variables = BTreeSet::new();
    each(root, &mut |node| match node.kind() {
        "variable_assignment" => {
            let value = node.child_by_field_name("value");
            if value.is_none_or(|value| !matches!(value.kind(), "number" | "arithmetic_expansion"))
                && let Some(name) = node.child_by_field_name("name")
            {
                variables.insert(text_of(name, source).split('[').next().unwrap_or_default().to_owned());
            }
        }
        "for_statement" => {
            variables.extend(
                node.child_by_field_name("variable")
                    .map(|name| text_of(name, source).to_owned()),
            );
        }
        "command" => {
            let mut words = text_of(node, source).split_whitespace();
            if matches!(
                words.next(),
                Some("read" | "mapfile" | "readarray" | "getopts" | "printf")
            ) {
                variables.extend(words.map(str::to_owned));
                // What these set when nothing is named.
                variables.extend(["REPLY", "MAPFILE", "OPTARG"].map(str::to_owned));
            }
        }
        _ => {}
    });
    let mut found = false;
    each(root, &mut |node| {
        let text = text_of(node, source);
        let computes = match node.kind() {
            "arithmetic_expansion" | "subscript" => true,
            "compound_statement" | "c_style_for_statement" => text.contains("(("),
            "binary_expression" => ["-eq", "-ne", "-lt", "-gt", "-le", "-ge"]
                .iter()
                .any(|sign| text.contains(sign)),
            // `${x:offset}`
            // `${!x}`, whose value is a name
            "expansion" => {
                text.starts_with("${!")
                    || text
                        .split_once(':')
                        .is_some_and(|(_, rest)| !rest.starts_with(['-', '=', '+', '?']))
            }
            "test_command" => names_or_splits(node, source),
            "command" => text.starts_with("let ") || text.starts_with("test ") && names_or_splits(node, source),
            _ => false,
        };
        if computes {
            each(node, &mut |part| {
                found |= match part.kind() {
                    "command_substitution" => true,
                    "simple_expansion" => matches!(text_of(part, source), "$1" | "$2" | "$3" | "$@" | "$*" | "$_"),
                    "variable_name" | "word" => {
                        let names = text_of(part, source).split(|c: char| !c.is_alphanumeric() && c != '_');
                        names.into_iter().any(|name| variables.contains(name))
                    }
                    _ => false,
                };
            });
        }
    });
    found
}

/// Whether a test asks for a variable by a name that may hold an index (`-v`), or may turn out to: what is not quoted
/// becomes several words.
fn names_or_splits(node: Node<'_>, source: &str) -> bool {
    let text = text_of(node, source);
    let mut bare = false;
    each(node, &mut |part| {
        let quoted = part.parent().is_some_and(|parent| parent.kind() == "string");
        bare |= matches!(part.kind(), "simple_expansion" | "expansion") && !quoted;
    });
    bare && !text.starts_with("[[") || text.split_whitespace().any(|word| matches!(word, "-v" | "-R"))
}

/// Calls `look` with a node and everything in it.
pub(super) fn each(node: Node<'_>, look: &mut dyn FnMut(Node<'_>)) {
    let mut cursor = node.walk();
    loop {
        look(cursor.node());
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}
