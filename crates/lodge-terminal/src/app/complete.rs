//! The completion menu above the editor: commands after `/`, files after `@`.

use ahp::ahp_types::{commands::CompletionItem, state::MessageAttachment};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, COMMANDS, Effect, Wire};

/// A completion.
pub(super) struct Item {
    pub(super) label: String,
    pub(super) detail: String,
    insert: String,
    attachment: Option<MessageAttachment>,
}

pub(super) struct Menu {
    /// The byte offset of the word in the editor.
    from: usize,
    /// The word that the items complete. The person may have typed more before the host answered.
    word: String,
    pub(super) items: Vec<Item>,
    pub(super) selected: usize,
    /// Whether the person selected an item, so that Enter takes it.
    chosen: bool,
}

/// The word at the cursor and its offset, if it can be completed.
fn word(before: &str) -> Option<(usize, &str)> {
    if let Some(rest) = before.strip_prefix('/') {
        return (!rest.contains(char::is_whitespace)).then_some((0, before));
    }
    let from = before
        .rfind(char::is_whitespace)
        .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
    before[from..].starts_with('@').then_some((from, &before[from..]))
}

impl App {
    /// Updates the menu after the text has changed.
    pub(super) fn typed(&mut self) {
        let before = self.composer.before_cursor().to_owned();
        self.completion += 1;
        let Some((from, word)) = word(&before) else {
            self.menu = None;
            return;
        };
        let old = self.menu.take().filter(|menu| menu.from == from);
        self.menu = match (word.strip_prefix('/'), old) {
            // Items for fewer letters stay until the host answers, so that the menu does not flicker.
            (None, Some(old)) => Some(old),
            (None, None) => None,
            (Some(letters), old) => {
                let own = COMMANDS.iter().filter(|(name, ..)| name.starts_with(letters));
                let mut items: Vec<Item> = own
                    .map(|(name, argument, what)| Item {
                        label: format!("/{name} {argument}").trim_end().to_owned(),
                        detail: (*what).to_owned(),
                        insert: format!("/{name} "),
                        attachment: None,
                    })
                    .collect();
                // Commands that no longer fit are removed.
                for item in old.into_iter().flat_map(|menu| menu.items) {
                    if item.insert.starts_with(word) && !items.iter().any(|known| known.insert == item.insert) {
                        items.push(item);
                    }
                }
                Some(Menu {
                    from,
                    word: word.to_owned(),
                    items,
                    selected: 0,
                    chosen: false,
                })
            }
        };
        if self.wire == Wire::Up {
            self.effects.push(Effect::Complete(before, self.completion));
        }
    }

    pub(super) fn complete_with(&mut self, found: Vec<CompletionItem>) {
        let before = self.composer.before_cursor().to_owned();
        let Some((from, word)) = word(&before) else { return };
        let is_command = word.starts_with('/');
        let mut items: Vec<Item> = match self.menu.take() {
            Some(menu) if is_command => menu.items,
            _ => Vec::new(),
        };
        for item in found {
            let item = self.item(item);
            if !items.iter().any(|known| known.insert == item.insert) {
                items.push(item);
            }
        }
        self.menu = (!items.is_empty()).then(|| Menu {
            from,
            word: word.to_owned(),
            items,
            selected: 0,
            chosen: false,
        });
    }

    fn item(&self, item: CompletionItem) -> Item {
        match &item.attachment {
            MessageAttachment::Simple(simple) => {
                let text = |key: &str| Some(simple.meta.as_ref()?.get(key)?.as_str()?.to_owned());
                let hint = text("hint").unwrap_or_default();
                Item {
                    label: format!("{}{hint}", item.insert_text).trim_end().to_owned(),
                    detail: text("description").unwrap_or_default(),
                    insert: format!("{} ", item.insert_text.trim_end()),
                    attachment: None,
                }
            }
            MessageAttachment::Resource(file) => {
                let path = self.below(&file.uri);
                let sign: String = item.insert_text.chars().take(1).collect();
                Item {
                    label: format!("{sign}{path}"),
                    detail: String::new(),
                    insert: format!("{sign}{path} "),
                    attachment: Some(item.attachment.clone()),
                }
            }
            other => Item {
                label: item.insert_text.trim_end().to_owned(),
                detail: String::new(),
                insert: format!("{} ", item.insert_text.trim_end()),
                attachment: Some(other.clone()),
            },
        }
    }

    /// The path of a file, relative to the session's directory.
    pub(super) fn below(&self, uri: &str) -> String {
        let path = crate::shown_path(uri);
        let directories = self.mirror.session.state.working_directories.iter().flatten();
        let mut below = directories.filter_map(|directory| {
            let directory = crate::shown_path(directory);
            path.strip_prefix(&directory)?.strip_prefix('/').map(str::to_owned)
        });
        below.next().unwrap_or(path)
    }

    /// Handles a key while the menu is open. False if the menu does not use it.
    pub(super) fn menu_key(&mut self, key: &KeyEvent) -> bool {
        let Some(menu) = &mut self.menu else { return false };
        if key.modifiers != KeyModifiers::NONE {
            return false;
        }
        let count = menu.items.len();
        match key.code {
            KeyCode::Up if count > 0 => (menu.selected, menu.chosen) = ((menu.selected + count - 1) % count, true),
            KeyCode::Down if count > 0 => (menu.selected, menu.chosen) = ((menu.selected + 1) % count, true),
            KeyCode::Esc => self.menu = None,
            KeyCode::Tab => self.take_item(),
            KeyCode::Enter if count > 0 => {
                let typed = self.composer.before_cursor()[menu.from..].to_owned();
                let whole = menu.items[menu.selected].insert.trim_end() == typed;
                let is_command = typed.starts_with('/');
                let is_behind = menu.word != typed && !menu.chosen;
                if whole
                    || is_behind
                    || (is_command && !menu.chosen && COMMANDS.iter().any(|(name, ..)| typed == format!("/{name}")))
                {
                    self.menu = None;
                    return false;
                }
                self.take_item();
            }
            _ => return false,
        }
        true
    }

    fn take_item(&mut self) {
        let Some(mut menu) = self.menu.take() else { return };
        if menu.selected >= menu.items.len() {
            return;
        }
        let item = menu.items.swap_remove(menu.selected);
        self.composer.replace_from(menu.from, &item.insert);
        if let Some(attachment) = item.attachment {
            self.tokens.name(item.insert.trim_end(), attachment);
        }
        self.completion += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn words_that_can_be_completed_are_found() {
        for (before, expected) in [
            ("/mo", Some((0, "/mo"))),
            ("/model x", None),
            ("look at @src/li", Some((8, "@src/li"))),
            ("@", Some((0, "@"))),
            ("a@b", None),
            ("hello", None),
        ] {
            assert_eq!(word(before), expected, "{before:?}");
        }
    }
}
