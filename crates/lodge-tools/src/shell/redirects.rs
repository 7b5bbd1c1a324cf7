//! Redirections.

use tree_sitter::Node;

use super::{
    dirs::{Dirs, Outcome},
    walk::Walk,
    word::{Word, text_of, word},
};

impl Walk {
    /// A statement with redirections. They are looked at from where it starts and from where it ends, because the
    /// grammar hangs those of the last command of a list on the whole list.
    pub(super) fn redirected(
        &mut self,
        node: Node<'_>,
        source: &str,
        dirs: Dirs,
        depth: usize,
        extra: &[Word],
    ) -> Outcome {
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
    pub(super) fn after_destination(&mut self, node: Node<'_>, source: &str) -> Vec<Word> {
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

    pub(super) fn redirect(&mut self, node: Node<'_>, source: &str, dirs: &Dirs) {
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
}
