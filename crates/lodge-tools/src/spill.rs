//! Large results: the full text goes to a file, and the model gets the file's path and a preview.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

/// A program that never stops printing must not fill the disk.
const MAX_FILE: u64 = 64 << 20;
const PREVIEW_CHARS: usize = 500;
/// How much of a large result people see of its beginning and of its end, in bytes each.
const SHOWN: usize = 32 << 10;

const TOO_LARGE: &str = "Output too large to read at once (";
const SAVED: &str = "). Saved to: ";

/// A directory for large results, and the name that models know it by: a client that keeps the session's files has a name of
/// its own for it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// Its name for models.
    pub shown: PathBuf,
}

impl<P: Into<PathBuf>> From<P> for Place {
    fn from(dir: P) -> Self {
        let dir = dir.into();
        Self {
            shown: dir.clone(),
            dir,
        }
    }
}

/// Collects output: in memory up to a limit, then in a file.
#[derive(Debug)]
pub struct Collected {
    place: Place,
    limit: usize,
    text: String,
    file: Option<Spilled>,
}

#[derive(Debug)]
struct Spilled {
    /// As models know it.
    path: PathBuf,
    /// `None` when it could not be made or written: the beginning is all there is then.
    file: Option<File>,
    total: u64,
    /// The beginning, and what was printed last after it: what people see.
    head: String,
    tail: String,
}

/// What was collected.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// For the model.
    pub text: String,
    /// For people, where the model gets a pointer to a file: beginning and end.
    pub shown: Option<String>,
}

impl Collected {
    /// Collects at most `limit` bytes in memory; more goes to a file in `place`, which is made when needed.
    pub fn new(place: impl Into<Place>, limit: usize) -> Self {
        Self {
            place: place.into(),
            limit: limit.max(1),
            text: String::new(),
            file: None,
        }
    }

    /// Adds output.
    pub fn push(&mut self, text: &str) {
        if self.file.is_none() && self.text.len() + text.len() <= self.limit {
            self.text.push_str(text);
            return;
        }
        let spilled = self.file.get_or_insert_with(|| {
            let so_far = std::mem::take(&mut self.text);
            let mut spilled = Spilled::open(&self.place);
            spilled.write(&so_far);
            spilled
        });
        spilled.write(text);
    }

    /// Whether nothing was collected since the last `take`.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.file.is_none()
    }

    /// Everything since the last `take`.
    pub fn take(&mut self) -> Taken {
        match self.file.take() {
            None => Taken {
                text: std::mem::take(&mut self.text),
                shown: None,
            },
            Some(spilled) => Taken {
                shown: Some(spilled.shown()),
                text: spilled.pointer(),
            },
        }
    }
}

/// What the model is given in place of a large result, as those read it who can show the result itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Pointer<'a> {
    /// Where the result is.
    pub path: &'a Path,
    /// Its beginning.
    pub preview: &'a str,
}

impl<'a> Pointer<'a> {
    /// Reads what [`Collected::take`] gives for a large result that was saved.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (_, saved) = text.strip_prefix(TOO_LARGE)?.split_once(SAVED)?;
        let (path, rest) = saved.split_once('\n')?;
        let (_, preview) = rest.split_once(":\n")?;
        let path = Path::new(path);
        path.is_absolute().then_some(Self { path, preview })
    }
}

impl Spilled {
    fn open(place: &Place) -> Self {
        let millis = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_millis());
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("{millis}-copilot-tool-output-{}.txt", &id[..6]);
        let path = place.dir.join(&name);
        let file = make_private_dir(&place.dir).and_then(|()| private_file().open(&path));
        if let Err(error) = &file {
            tracing::warn!(%error, path = %path.display(), "cannot create a file for large tool output");
        }
        Self {
            path: place.shown.join(name),
            file: file.ok(),
            total: 0,
            head: String::new(),
            tail: String::new(),
        }
    }

    fn write(&mut self, text: &str) {
        let room = MAX_FILE.saturating_sub(self.total);
        self.total += text.len() as u64;
        self.keep_ends(text);
        let Some(file) = &mut self.file else { return };
        let part = &text.as_bytes()[..text.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        if let Err(error) = file.write_all(part) {
            tracing::warn!(%error, path = %self.path.display(), "cannot write large tool output");
            self.file = None;
        }
    }

    fn keep_ends(&mut self, text: &str) {
        let room = if self.tail.is_empty() {
            SHOWN - self.head.len()
        } else {
            0
        };
        let (head, rest) = text.split_at(text.floor_char_boundary(room));
        self.head.push_str(head);
        self.tail.push_str(rest);
        if self.tail.len() > 2 * SHOWN {
            self.tail.drain(..self.tail.ceil_char_boundary(self.tail.len() - SHOWN));
        }
    }

    /// The beginning and the end, and between them what is left out.
    fn shown(&self) -> String {
        let tail = &self.tail[self.tail.ceil_char_boundary(self.tail.len().saturating_sub(SHOWN))..];
        let left_out = self.total - (self.head.len() + tail.len()) as u64;
        let gap = match (left_out, &self.file) {
            (0, _) => String::new(),
            (_, Some(_)) => format!(
                "\n… {} left out; saved to: {} …\n",
                kilobytes(left_out),
                self.path.display()
            ),
            (_, None) => format!("\n… {} left out …\n", kilobytes(left_out)),
        };
        format!("{}{gap}{tail}", self.head)
    }

    fn pointer(self) -> String {
        let size = kilobytes(self.total);
        let preview: String = self.head.chars().take(PREVIEW_CHARS).collect();
        if self.file.is_none() {
            return format!(
                "{TOO_LARGE}{size}). It could not be saved to a file.\n\nPreview (first {PREVIEW_CHARS} chars):\n{preview}"
            );
        }
        let cut = match self.total > MAX_FILE {
            true => format!("Only the first {} were kept.\n", kilobytes(MAX_FILE)),
            false => String::new(),
        };
        format!(
            "{TOO_LARGE}{size}{SAVED}{}\n{cut}Consider using tools like grep (for searching), head/tail (for viewing start/end), view with view_range (for specific sections), or jq (for JSON) to examine portions of the output.\n\nPreview (first {PREVIEW_CHARS} chars):\n{preview}",
            self.path.display(),
        )
    }
}

/// `text`, or when it is longer than `limit` bytes the pointer to a new file in `place` that holds it.
pub fn bound(text: String, place: impl Into<Place>, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let mut collected = Collected::new(place, limit);
    collected.push(&text);
    collected.take().text
}

/// A size for people: `97.7 KB`.
pub(crate) fn kilobytes(bytes: u64) -> String {
    format!("{:.1} KB", bytes as f64 / 1024.0)
}

pub(crate) fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_output_stays_in_memory_and_large_output_goes_to_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let temp = dir.path().join("temp");
        let mut collected = Collected::new(&temp, 10);
        collected.push("12345");
        collected.push("67890");
        let taken = collected.take();
        assert_eq!((taken.text.as_str(), taken.shown), ("1234567890", None));
        assert!(collected.is_empty() && !temp.exists());

        collected.push(&"x".repeat(8));
        collected.push(&"y".repeat(100_000 - 8));
        let Taken { text, shown } = collected.take();
        let path = text
            .lines()
            .next()
            .unwrap()
            .strip_prefix("Output too large to read at once (97.7 KB). Saved to: ");
        let kept = std::fs::read_to_string(path.unwrap()).unwrap();
        let pointer = Pointer::parse(&text).unwrap();
        assert_eq!((pointer.path, pointer.preview.len()), (Path::new(path.unwrap()), 500));
        assert_eq!(Pointer::parse(pointer.preview), None);
        assert_eq!(kept, format!("{}{}", "x".repeat(8), "y".repeat(99_992)));
        assert!(
            text.ends_with(&format!(
                "Preview (first 500 chars):\n{}{}",
                "x".repeat(8),
                "y".repeat(492)
            )),
            "{text}"
        );
        assert!(collected.is_empty());
        let ends = format!("{}{}", "x".repeat(8), "y".repeat(SHOWN - 8));
        let gap = format!("\n… 33.7 KB left out; saved to: {} …\n", path.unwrap());
        assert_eq!(shown.unwrap(), format!("{ends}{gap}{}", "y".repeat(SHOWN)));
    }

    #[test]
    fn people_see_the_ends_of_a_large_result_in_whole_characters_and_all_of_one_that_has_no_middle() {
        let dir = tempfile::tempdir().unwrap();
        for (pieces, whole) in [(15_000, true), (100_000, false)] {
            let mut collected = Collected::new(dir.path(), 10);
            let text = "aé".repeat(pieces);
            for piece in text.chars() {
                collected.push(piece.encode_utf8(&mut [0; 4]));
            }
            let shown = collected.take().shown.unwrap();
            assert_eq!(shown == text, whole);
            assert!(shown.starts_with("aéa") && shown.ends_with("aé") && shown.len() < 3 * SHOWN);
        }
    }

    #[test]
    fn a_file_that_cannot_be_made_still_leaves_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let not_a_dir = dir.path().join("file");
        std::fs::write(&not_a_dir, "").unwrap();
        let text = bound("z".repeat(2048), &not_a_dir, 10);
        assert!(
            text.starts_with("Output too large to read at once (2.0 KB). It could not be saved"),
            "{text}"
        );
    }
}
