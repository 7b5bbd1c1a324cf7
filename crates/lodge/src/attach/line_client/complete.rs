//! Completion of typed text: the terminal's own commands, and completions from the host.

use std::time::Duration;

use ahp::ahp_types::{
    commands::{CompletionItem, CompletionItemKind, CompletionsParams, CompletionsResult},
    state::MessageAttachment,
};
use anyhow::Result;
use lodge_ahp::uri;

use super::LineClient;
use crate::attach::typed::NAMES;

/// How long Tab waits for the host.
const PATIENCE: Duration = Duration::from_secs(3);
/// Number of completions shown.
const SHOWN: usize = 40;

/// A completion: where it begins, in characters, and its text.
type Fit = (usize, String);

impl LineClient {
    /// Tab was pressed.
    pub(super) async fn complete(&mut self) -> Result<()> {
        let Some(text) = self.input.editor().map(|editor| editor.before_cursor()) else {
            return Ok(());
        };
        let mut fits = own(&text);
        for item in self.completions(text.clone()).await {
            let from = characters(&text, item.range_start.unwrap_or_default());
            let insert = self.inserted(item);
            if !fits.iter().any(|(_, known)| *known == insert) {
                fits.push((from, insert));
            }
        }
        // Completions that do not begin with the typed text are of no use here.
        let begins = |(from, insert): &Fit| {
            let typed: String = text.chars().skip(*from).collect();
            insert.to_lowercase().starts_with(&typed.to_lowercase())
        };
        if fits.iter().any(begins) {
            fits.retain(begins);
        }
        fits.sort();
        let Some((from, common)) = common(&fits) else {
            return Ok(());
        };
        let grows = common.chars().count() > text.chars().count() - from;
        if let Some(editor) = self.input.editor().filter(|_| grows || fits.len() == 1) {
            editor.replace(from, &common);
        } else {
            let names: Vec<&str> = fits.iter().take(SHOWN).map(|(_, insert)| insert.trim_end()).collect();
            self.screen.lines(&names.join("  "))?;
        }
        Ok(self.screen.typing(self.input.editor())?)
    }

    /// The text that an item inserts. For a file it is the path, because the agent gets only the typed text.
    fn inserted(&self, item: CompletionItem) -> String {
        let MessageAttachment::Resource(file) = &item.attachment else {
            return item.insert_text;
        };
        let (true, Some(path)) = (file.display_kind.as_deref() == Some("document"), uri::path(&file.uri)) else {
            return item.insert_text;
        };
        let mut directories = self.mirror.session.state.working_directories.iter().flatten();
        let sign: String = item.insert_text.chars().take(1).collect();
        let below = directories.find_map(|directory| Some(path.strip_prefix(uri::path(directory)?).ok()?.to_owned()));
        format!("{sign}{} ", below.unwrap_or(path).display())
    }

    /// The host's completions; none while it is away.
    pub(super) async fn completions(&mut self, text: String) -> Vec<CompletionItem> {
        let params = CompletionsParams {
            channel: self.mirror.chat.uri.clone(),
            meta: None,
            kind: CompletionItemKind::UserMessage,
            offset: text.encode_utf16().count() as i64,
            text,
        };
        let Some(link) = self.wire.link() else {
            return Vec::new();
        };
        let asked = link.client.request("completions", params);
        let found: Result<Result<CompletionsResult, _>, _> = tokio::time::timeout(PATIENCE, asked).await;
        found
            .ok()
            .and_then(Result::ok)
            .map(|found| found.items)
            .unwrap_or_default()
    }
}

/// The terminal's own commands that begin with this text.
fn own(text: &str) -> Vec<Fit> {
    let Some(word) = text.strip_prefix('/') else {
        return Vec::new();
    };
    let names = NAMES.iter().filter(|name| name.starts_with(word));
    names.map(|name| (0, format!("/{name} "))).collect()
}

/// Converts a position from UTF-16 units to characters.
fn characters(text: &str, place: i64) -> usize {
    let mut units = 0;
    text.chars()
        .take_while(|c| {
            let before = units < place;
            units += c.len_utf16() as i64;
            before
        })
        .count()
}

/// The common prefix of all completions, if they begin at the same position.
fn common(fits: &[Fit]) -> Option<Fit> {
    let ((from, first), rest) = fits.split_first()?;
    if rest.iter().any(|(other, _)| other != from) {
        return Some((*from, String::new()));
    }
    let shared = |a: &str, b: &str| a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let length = rest.iter().map(|(_, insert)| shared(first, insert)).min();
    Some((*from, first.chars().take(length.unwrap_or(usize::MAX)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_common_is_put_in() {
        let fits = |all: &[&str]| all.iter().map(|text| (0, (*text).to_owned())).collect::<Vec<Fit>>();
        for (all, expected) in [
            (&["/help "][..], Some("/help ")),
            (&["/model ", "/mode "], Some("/mode")),
            (&["/a ", "/b "], Some("/")),
            (&[], None),
        ] {
            let found = common(&fits(all)).map(|(_, text)| text);
            assert_eq!(found.as_deref(), expected, "{all:?}");
        }
        assert_eq!(own("/qu"), [(0, "/quit ".to_owned())]);
        assert_eq!(own("hello"), []);
        assert_eq!(characters("a🦀b@x", 4), 3);
    }
}
