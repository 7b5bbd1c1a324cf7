//! Registers in a file of lines. The last line for a key counts; a file in which most lines are stale is rewritten, in the
//! background: whoever sets something may hold locks that all sessions share. Appends are single writes, so a killed host loses
//! nothing, and a line cut short by a crash is ignored. What is set together is one line.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    ops::Bound,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::{Entry, RegisterError, Registers};

/// The largest record, in bytes.
const RECORD: usize = 8 << 20;
/// A file may hold so many bytes that no longer count, beside as many as do.
const STALE: usize = 1 << 20;
/// So often a rewrite brings what was appended meanwhile to the disk before it keeps others from appending.
const ROUNDS: u32 = 16;

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: std::borrow::Cow<'a, str>,
    revision: u64,
    /// Absent: removed.
    #[serde(
        borrow,
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    value: Option<&'a RawValue>,
    /// What was set together with it. Builds that know nothing of this know only the first.
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    with: Vec<Line<'a>>,
}

/// A value of `null` is one.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(value).map(Some)
}

struct Inner {
    entries: BTreeMap<String, Entry>,
    /// The last revision that was given out.
    revision: u64,
    /// None until something is set: who only reads makes no file.
    file: Option<File>,
    /// Bytes in the file, and those of them that count.
    size: usize,
    live: usize,
    /// What was appended since a rewrite began in the background.
    since: Option<Vec<u8>>,
    /// How many rewrites there were.
    rewrites: u64,
    /// The size at which a rewrite that failed is tried again.
    retry_at: usize,
    /// The file does not say what the entries do, or ends in half a line: it must be written anew before anything is
    /// appended.
    owed: bool,
    /// The file has taken the place of another one, and the folder may not say so on the disk.
    renamed: bool,
}

pub(crate) struct FileRegisters {
    path: PathBuf,
    /// Whether others may append to the file, too. Then it is never written anew.
    shared: bool,
    inner: Arc<Mutex<Inner>>,
    rewriting: Mutex<Option<JoinHandle<()>>>,
}

impl FileRegisters {
    pub(crate) fn open(path: PathBuf, shared: bool) -> io::Result<Self> {
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
        };
        let (inner, damaged) = Inner::read(&text);
        let registers = Self {
            path,
            shared,
            inner: Arc::new(Mutex::new(inner)),
            rewriting: Mutex::new(None),
        };
        if damaged > 0 && !shared {
            registers.set_aside(&text, damaged);
        }
        Ok(registers)
    }

    /// The entries, with what others appended since.
    fn current(&self) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner.lock();
        if self.shared
            && fs::metadata(&self.path).is_ok_and(|found| found.len() != inner.size as u64)
            && let Ok(text) = fs::read(&self.path)
        {
            *inner = Inner::read(&text).0;
        }
        inner
    }

    /// Keeps a file with lines that nobody can read: what is written next leaves them out.
    fn set_aside(&self, text: &[u8], damaged: usize) {
        // Each damage is kept, also when it is not the first.
        let now = jiff::Timestamp::now().as_nanosecond();
        let aside = self.path.with_extension(format!("damaged-{now}"));
        let kept = match lodge_files::replace(&aside, text) {
            Ok(()) => format!("the file as it was is now {}", aside.display()),
            Err(error) => format!("{} cannot be written: {error}", aside.display()),
        };
        tracing::error!(
            "Lines of {} that cannot be read are left out: {damaged}; {kept}",
            self.path.display()
        );
        self.inner.lock().owed = true;
    }

    fn append(&self, inner: &mut Inner, line: &[u8]) -> io::Result<()> {
        // Somebody may have deleted the home, or parts of it.
        let is_gone = inner.size > 0 && !self.path.exists();
        if (inner.owed || is_gone) && !self.shared {
            let text = inner.text()?;
            lodge_files::replace(&self.path, &text)?;
            inner.file = Some(OpenOptions::new().append(true).open(&self.path)?);
            (inner.size, inner.live, inner.owed) = (text.len(), text.len(), false);
            inner.renamed = false;
            // A rewrite in the background is of no use any more.
            inner.since = None;
            inner.rewrites += 1;
            inner.retry_at = 0;
        }
        let file = match &mut inner.file {
            Some(file) => file,
            None => inner.file.insert(append(&self.path)?),
        };
        // A half line of somebody else's ends here.
        let line = if inner.owed {
            [b"\n", line].concat()
        } else {
            line.to_vec()
        };
        inner.owed = true;
        file.write_all(&line)?;
        inner.owed = false;
        inner.size += line.len();
        if let Some(since) = &mut inner.since {
            since.extend(&line);
        }
        Ok(())
    }

    /// Rewrites the file in the background, if most of it is stale.
    fn rewrite(&self, inner: &mut Inner) {
        let is_stale = inner.size > STALE + 2 * inner.live && inner.size >= inner.retry_at;
        if self.shared || !is_stale || inner.since.is_some() {
            return;
        }
        let mut rewriting = self.rewriting.lock();
        // The one before is over: it took what was appended since.
        if let Some(before) = rewriting.take_if(|before| before.is_finished()) {
            let _ = before.join();
        }
        if rewriting.is_some() {
            return;
        }
        // Until a rewrite succeeds.
        inner.retry_at = inner.size + STALE;
        let Ok(text) = inner.text() else { return };
        let (path, entries) = (self.path.clone(), self.inner.clone());
        let rewrite = move || {
            if let Err(error) = rewrite(&path, &entries, &text) {
                tracing::warn!("cannot rewrite {}: {error}", path.display());
                entries.lock().since = None;
            }
        };
        let thread = std::thread::Builder::new().name("registers".to_owned());
        *rewriting = thread.spawn(rewrite).ok();
        inner.since = rewriting.is_some().then(Vec::new);
    }
}

impl Drop for FileRegisters {
    /// Whoever opens the file next must find it in its place.
    fn drop(&mut self) {
        if let Some(rewriting) = self.rewriting.lock().take() {
            let _ = rewriting.join();
        }
    }
}

impl Registers for FileRegisters {
    fn get(&self, key: &str) -> Option<Entry> {
        self.current().entries.get(key).cloned()
    }

    fn list(&self, prefix: &str) -> Vec<(String, Entry)> {
        let inner = self.current();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found = inner.entries.range::<str, _>(from);
        let found = found.take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, entry)| (key.clone(), entry.clone())).collect()
    }

    fn set_all(&self, records: Vec<(String, Option<Box<RawValue>>)>) -> Result<u64, RegisterError> {
        for (key, value) in &records {
            let size = value.as_ref().map_or(0, |value| value.get().len());
            if size > RECORD {
                return Err(RegisterError::TooLarge {
                    key: key.clone(),
                    size,
                    most: RECORD,
                });
            }
        }
        let mut inner = self.current();
        let is_news = |(key, value): &&(String, Option<Box<RawValue>>)| {
            let known = inner.entries.get(key).map(|known| known.value.get());
            known != value.as_ref().map(|value| value.get())
        };
        let news = records.iter().filter(is_news).zip(inner.revision + 1..);
        let mut lines = news.map(|((key, value), revision)| Line {
            key: key.into(),
            revision,
            value: value.as_deref(),
            with: Vec::new(),
        });
        let Some(mut line) = lines.next() else {
            return Ok(inner.revision);
        };
        line.with = lines.collect();
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        self.append(&mut inner, &text)?;
        inner.take(&line);
        self.rewrite(&mut inner);
        Ok(inner.revision)
    }

    fn revision(&self) -> u64 {
        self.current().revision
    }

    fn sync(&self) -> io::Result<()> {
        loop {
            let (file, rewrites, renamed) = {
                let inner = self.inner.lock();
                let file = inner.file.as_ref().map(File::try_clone).transpose()?;
                (file, inner.rewrites, inner.renamed)
            };
            file.map_or(Ok(()), |file| file.sync_data())?;
            if renamed {
                sync_folder(&self.path)?;
            }
            // What was set before may be in another file by now.
            let mut inner = self.inner.lock();
            if inner.rewrites == rewrites {
                inner.renamed &= !renamed;
                return Ok(());
            }
        }
    }
}

impl Inner {
    /// What the lines of a file say, and how many of them cannot be read.
    fn read(text: &[u8]) -> (Self, usize) {
        let mut inner = Self {
            entries: BTreeMap::new(),
            revision: 0,
            file: None,
            size: text.len(),
            live: 0,
            since: None,
            rewrites: 0,
            retry_at: 0,
            owed: text.last().is_some_and(|byte| *byte != b'\n'),
            renamed: false,
        };
        let mut damaged = 0;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match serde_json::from_slice::<Line<'_>>(line) {
                Ok(line) => inner.take(&line),
                // What a crash cut short was never told to anybody. Any other was a revision.
                Err(_) if line.ends_with(b"\n") => {
                    inner.revision += 1;
                    damaged += 1;
                }
                Err(_) => {}
            }
        }
        (inner, damaged)
    }

    fn take(&mut self, line: &Line<'_>) {
        self.revision = self.revision.max(line.revision);
        let weight = |key: &str, value: &RawValue| key.len() + value.get().len() + 40;
        let before = match line.value {
            Some(value) => {
                self.live += weight(&line.key, value);
                let entry = Entry {
                    revision: line.revision,
                    value: value.to_owned().into(),
                };
                self.entries.insert(line.key.to_string(), entry)
            }
            None => self.entries.remove(&*line.key),
        };
        if let Some(before) = before {
            self.live = self.live.saturating_sub(weight(&line.key, &before.value));
        }
        line.with.iter().for_each(|line| self.take(line));
    }

    /// Everything that counts, as lines.
    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(self.live);
        for (key, entry) in &self.entries {
            let line = Line {
                key: key.into(),
                revision: entry.revision,
                value: Some(&entry.value),
                with: Vec::new(),
            };
            serde_json::to_writer(&mut text, &line)?;
            text.push(b'\n');
        }
        Ok(text)
    }
}

/// Writes what counts to a new file, and puts that in the place of the old one with what was appended meanwhile. Whoever reads
/// the file, also after a crash, finds the old one or the new one. What was appended may have been synced in the old file: it
/// is synced in the new one before that takes the old one's place. That is done in rounds while others append, so that they
/// hardly ever wait for the disk. Until the folder says on the disk which file it is, whoever syncs makes sure of that.
fn rewrite(path: &Path, entries: &Mutex<Inner>, text: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    lodge_files::replace(&new, text)?;
    let mut file = OpenOptions::new().append(true).open(&new)?;
    let (mut size, mut rounds) = (text.len(), 0);
    let mut inner = loop {
        let mut inner = entries.lock();
        let Some(since) = inner.since.as_mut().map(std::mem::take) else {
            return fs::remove_file(&new);
        };
        rounds += 1;
        let waiting = match since.is_empty() || rounds > ROUNDS {
            true => Some(inner),
            false => {
                drop(inner);
                None
            }
        };
        if !since.is_empty() {
            file.write_all(&since)?;
            file.sync_data()?;
            size += since.len();
        }
        if let Some(inner) = waiting {
            break inner;
        }
    };
    inner.since = None;
    fs::rename(&new, path)?;
    inner.file = Some(file);
    inner.size = size;
    inner.rewrites += 1;
    inner.retry_at = 0;
    inner.renamed = true;
    let rewrites = inner.rewrites;
    drop(inner);
    let synced = sync_folder(path);
    let mut inner = entries.lock();
    if inner.rewrites == rewrites {
        inner.renamed &= synced.is_err();
        inner.owed |= synced.is_err();
    }
    synced
}

fn append(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    sync_folder(path)?;
    Ok(file)
}

/// A name that is new in a folder is on the disk only with the folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn all(registers: &FileRegisters) -> BTreeMap<String, (u64, Value)> {
        let each = registers.list("").into_iter();
        each.map(|(key, entry)| (key, (entry.revision, serde_json::from_str(entry.value.get()).unwrap())))
            .collect()
    }

    fn set(registers: &FileRegisters, key: &str, value: Option<Value>) -> u64 {
        let value = value.map(|value| to_raw_value(&value).unwrap());
        registers.set(key, value).unwrap()
    }

    #[test]
    fn the_last_value_of_each_key_counts_and_revisions_go_up_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let open = || FileRegisters::open(path.clone(), false).unwrap();
        let registers = open();
        assert!(!path.exists(), "who only reads makes no file");
        assert_eq!(set(&registers, "a/1", Some(json!({ "n": 1 }))), 1);
        assert_eq!(set(&registers, "a/2", Some(json!(null))), 2);
        assert_eq!(set(&registers, "b/1", Some(json!("x"))), 3);
        assert_eq!(set(&registers, "a/1", Some(json!({ "n": 2 }))), 4);
        assert_eq!(set(&registers, "a/1", Some(json!({ "n": 2 }))), 4, "nothing changed");
        set(&registers, "b/1", None);
        let expected = BTreeMap::from([
            ("a/1".to_owned(), (4, json!({ "n": 2 }))),
            ("a/2".to_owned(), (2, json!(null))),
        ]);
        assert_eq!(all(&registers), expected);
        let keys: Vec<String> = open().list("a/").into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a/1", "a/2"]);
        assert_eq!(all(&open()), expected);
        assert_eq!(set(&open(), "c", Some(json!(1))), 6, "a removal has a number, too");
    }

    #[test]
    fn damaged_lines_take_nothing_else_with_them_and_are_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let text = b"{\"key\":\"a\",\"revision\":1,\"value\":1}\n\xff\xfe\n{\"key\":\"b\",\"revision\":2,\"value\":2}\n{\"key\":\"c";
        fs::write(&path, text).unwrap();
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        let keys = |registers: &FileRegisters| all(registers).into_keys().collect::<Vec<_>>();
        assert_eq!(keys(&registers), ["a", "b"]);
        let aside = || {
            let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
            let aside = files.filter(|file| file.to_string_lossy().contains("registers.damaged-"));
            let mut aside: Vec<_> = aside.map(|file| fs::read(file).unwrap()).collect();
            aside.sort();
            aside
        };
        assert_eq!(aside(), [text]);
        set(&registers, "d", Some(json!(4)));
        drop(registers);
        assert_eq!(
            keys(&FileRegisters::open(path.clone(), false).unwrap()),
            ["a", "b", "d"]
        );
        fs::write(&path, "\n").unwrap();
        FileRegisters::open(path, false).unwrap();
        assert_eq!(aside(), [b"\n".to_vec(), text.to_vec()], "the first one stays");
    }

    #[test]
    fn a_file_that_mostly_says_what_no_longer_counts_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        set(&registers, "kept", Some(json!("kept")));
        for n in 0..400 {
            set(&registers, "changes", Some(json!(format!("{n}{}", "x".repeat(10_000)))));
        }
        let before = all(&registers);
        assert!(registers.inner.lock().rewrites > 0 || registers.rewriting.lock().is_some());
        drop(registers);
        let size = fs::metadata(&path).unwrap().len();
        assert!(size < 400 * 10_000, "{size}");
        assert!(!path.with_extension("jsonl.new").exists());
        assert_eq!(all(&FileRegisters::open(path, false).unwrap()), before);
    }

    #[test]
    fn what_is_set_while_the_file_is_written_anew_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        set(&registers, "first", Some(json!(1)));
        let text = {
            let mut inner = registers.inner.lock();
            inner.since = Some(Vec::new());
            inner.text().unwrap()
        };
        set(&registers, "second", Some(json!(2)));
        set(&registers, "first", None);
        let before = all(&registers);
        rewrite(&path, &registers.inner, &text).unwrap();
        assert_eq!(all(&FileRegisters::open(path.clone(), false).unwrap()), before);
        set(&registers, "third", Some(json!(3)));
        assert_eq!(all(&FileRegisters::open(path.clone(), false).unwrap()), all(&registers));
        // A rewrite that was overtaken changes nothing.
        let before = fs::read(&path).unwrap();
        rewrite(&path, &registers.inner, b"{}").unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn what_is_set_and_synced_beside_a_rewrite_is_in_the_file_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        for n in 0..20 {
            let text = {
                let mut inner = registers.inner.lock();
                inner.since = Some(Vec::new());
                inner.text().unwrap()
            };
            std::thread::scope(|scope| {
                let rewriting = scope.spawn(|| rewrite(&path, &registers.inner, &text));
                for m in 0..50 {
                    set(&registers, &format!("k{}", m % 7), Some(json!([n, m])));
                    registers.sync().unwrap();
                }
                rewriting.join().unwrap().unwrap();
            });
            assert_eq!(all(&FileRegisters::open(path.clone(), false).unwrap()), all(&registers));
            assert!(!registers.inner.lock().renamed);
        }
        assert_eq!(registers.inner.lock().size as u64, fs::metadata(&path).unwrap().len());
    }

    #[test]
    fn an_earlier_build_reads_the_first_of_what_was_set_together() {
        #[derive(Deserialize)]
        struct Earlier {
            key: String,
            revision: u64,
            value: Value,
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        let records = ["a", "b"].map(|key| (key.to_owned(), Some(to_raw_value(&json!(1)).unwrap())));
        assert_eq!(registers.set_all(records.into()).unwrap(), 2);
        assert_eq!(all(&FileRegisters::open(path.clone(), false).unwrap()), all(&registers));
        let line: Earlier = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!((&*line.key, line.revision, line.value), ("a", 1, json!(1)));
    }

    #[test]
    fn a_rewrite_that_failed_is_tried_again_only_when_the_file_has_grown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("registers.jsonl");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        let blocked = path.with_extension("jsonl.new");
        fs::create_dir_all(blocked.join("x")).unwrap();
        let change = |n: u32| {
            set(
                &registers,
                "changes",
                Some(json!(format!("{n}{}", "x".repeat(100_000)))),
            )
        };
        let mut n = 0;
        let until_tried = |n: &mut u32| {
            while registers.rewriting.lock().is_none() {
                change(*n);
                *n += 1;
            }
            let tried_at = registers.inner.lock().size;
            let tried = registers.rewriting.lock().take();
            tried.unwrap().join().unwrap();
            tried_at
        };
        let first = until_tried(&mut n);
        assert_eq!(registers.inner.lock().rewrites, 0);
        let second = until_tried(&mut n);
        assert!(second >= first + STALE, "{first} {second}");
        fs::remove_dir_all(&blocked).unwrap();
        until_tried(&mut n);
        assert_eq!(registers.inner.lock().rewrites, 1);
        assert_eq!(registers.inner.lock().retry_at, 0);
        let before = all(&registers);
        drop(registers);
        assert_eq!(all(&FileRegisters::open(path, false).unwrap()), before);
    }

    #[test]
    fn those_who_share_a_file_see_what_the_others_set() {
        let dir = tempfile::tempdir().unwrap();
        let open = || FileRegisters::open(dir.path().join("r"), true).unwrap();
        let (one, other) = (open(), open());
        set(&one, "a", Some(json!(1)));
        set(&other, "b", Some(json!(2)));
        set(&one, "a", None);
        for registers in [&one, &other, &open()] {
            assert_eq!(all(registers), BTreeMap::from([("b".to_owned(), (2, json!(2)))]));
        }
    }

    #[test]
    fn a_file_that_somebody_deleted_is_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r");
        let registers = FileRegisters::open(path.clone(), false).unwrap();
        set(&registers, "a", Some(json!(1)));
        fs::remove_file(&path).unwrap();
        set(&registers, "b", Some(json!(2)));
        assert_eq!(all(&FileRegisters::open(path, false).unwrap()).len(), 2);
    }

    #[test]
    fn what_is_too_large_is_refused_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let registers = FileRegisters::open(dir.path().join("r"), false).unwrap();
        let long = to_raw_value(&"x".repeat(RECORD)).unwrap();
        assert!(matches!(
            registers.set("a", Some(long)),
            Err(RegisterError::TooLarge { .. })
        ));
        assert!(registers.get("a").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_file_cut_anywhere_says_what_was_set_before_the_cut(
            steps in prop::collection::vec((0..6u8, prop::option::of(0..1000u32)), 1..40),
            cut in 0.0..1.0f64,
        ) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("registers.jsonl");
            let registers = FileRegisters::open(path.clone(), false).unwrap();
            let mut states = vec![(0, BTreeMap::new())];
            for (key, value) in steps {
                set(&registers, &format!("k{key}"), value.map(|value| json!(value)));
                let size = fs::metadata(&path).map_or(0, |found| found.len());
                states.push((size, all(&registers)));
            }
            let size = states.last().unwrap().0;
            let cut = (size as f64 * cut) as u64;
            if size > 0 {
                OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
            }
            let again = FileRegisters::open(path.clone(), false).unwrap();
            // A line is whole without its end, too.
            let expected = states.iter().rev().find(|(size, _)| *size <= cut + 1).unwrap();
            prop_assert_eq!(&all(&again), &expected.1);
            set(&again, "after", Some(json!(true)));
            let mut expected = expected.1.clone();
            expected.insert("after".into(), (again.inner.lock().revision, json!(true)));
            prop_assert_eq!(all(&FileRegisters::open(path, false).unwrap()), expected);
        }
    }
}
