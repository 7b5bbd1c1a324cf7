//! Files read and written through an editor: it may have unsaved changes, and its user sees what the agent changes.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::{runtime::Handle, time::timeout};

use crate::{Tool, ToolCx, paths::Located};

/// An editor that does not answer for so long is not waited for: the file on the disk counts.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that shows files to a person.
pub trait Editor: Send + Sync {
    /// The text of a file as the person sees it in the editor; nothing if the editor cannot say.
    fn read(&self, path: PathBuf) -> BoxFuture<'static, Option<String>>;
    /// Gives a file a text, on the disk too. False where the editor did not.
    fn write(&self, path: PathBuf, text: String) -> BoxFuture<'static, bool>;
}

/// A file as an editor shows it.
#[derive(Clone)]
pub struct Shown {
    path: PathBuf,
    text: Arc<str>,
}

impl ToolCx {
    /// Asks the editor for the text of the file that a call is about. Only files of the session's directories are asked for.
    pub async fn ask_editor(&mut self, tool: &dyn Tool, arguments: &Value) {
        self.shown = None;
        let Some(editor) = &self.editor else { return };
        let Some(place) = tool.text_file(arguments, self).filter(|place| place.root.is_some()) else {
            return;
        };
        let read = timeout(PATIENCE, editor.read(place.path.clone())).await;
        self.shown = read.ok().flatten().map(|text| Shown {
            path: place.path,
            text: text.into(),
        });
    }

    /// Reads a file of at most `limit` bytes: as the editor shows it, or from the disk.
    pub(crate) fn read_file(&self, place: &Located, limit: u64) -> io::Result<Vec<u8>> {
        match &self.shown {
            Some(shown) if shown.path == place.path && shown.text.len() as u64 <= limit => {
                Ok(shown.text.as_bytes().into())
            }
            _ => place.read(limit),
        }
    }

    /// Makes a new file, through the editor where there is one. Blocks.
    pub(crate) fn create_file(&self, place: &Located, text: &str) -> io::Result<()> {
        let is_new = matches!(place.open(), Err(error) if error.kind() == io::ErrorKind::NotFound);
        match is_new && self.written_by_editor(place, text) {
            true => Ok(()),
            false => place.create(text.as_bytes()),
        }
    }

    /// Gives a file another text, through the editor where there is one. Blocks.
    pub(crate) fn replace_file(&self, place: &Located, text: &str) -> io::Result<()> {
        match self.written_by_editor(place, text) {
            true => Ok(()),
            false => place.replace(text.as_bytes()),
        }
    }

    fn written_by_editor(&self, place: &Located, text: &str) -> bool {
        let Some(editor) = self.editor.as_ref().filter(|_| place.root.is_some()) else {
            return false;
        };
        let write = editor.write(place.path.clone(), text.to_owned());
        Handle::current().block_on(async { timeout(PATIENCE, write).await.unwrap_or(false) })
    }
}
