//! The host's registers: last-value records with revisions, for host state that is not part of a conversation. Here they are
//! one file in the home; a fleet can keep them in a key-value bucket behind the same trait.

mod file;

use std::{io, marker::PhantomData, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

pub(crate) use self::file::FileRegisters;

/// The file in the home.
pub(crate) const FILE: &str = "registers.jsonl";

/// A value, and the number of the write that made it so. Numbers of a register only go up.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) revision: u64,
    pub(crate) value: Arc<RawValue>,
}

/// Why a record was not written.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// It is larger than a record may be.
    #[error("the record {key:?} has {size} bytes; the limit is {most}")]
    TooLarge {
        /// The record.
        key: String,
        /// Its size in bytes.
        size: usize,
        /// What fits.
        most: usize,
    },
    /// It cannot be written as JSON.
    #[error("the record cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The file system refused.
    #[error("the host's registers cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Last-value records by their keys.
pub(crate) trait Registers: Send + Sync {
    fn get(&self, key: &str) -> Option<Entry>;

    /// All records whose key begins so, in the order of their keys.
    fn list(&self, prefix: &str) -> Vec<(String, Entry)>;

    /// Sets records, or removes them: all of them or, if it fails or the host dies meanwhile, none. Once this returns, a host
    /// that is killed has them.
    fn set_all(&self, records: Vec<(String, Option<Box<RawValue>>)>) -> Result<u64, RegisterError>;

    /// Sets a record, or removes it.
    fn set(&self, key: &str, value: Option<Box<RawValue>>) -> Result<u64, RegisterError> {
        self.set_all(vec![(key.to_owned(), value)])
    }

    /// The last revision that was given out; 0 where nothing was ever set, as far as anybody can tell.
    fn revision(&self) -> u64;

    /// Blocks until a machine that loses power has everything that was set before.
    fn sync(&self) -> io::Result<()>;
}

/// The records of one kind.
pub(crate) struct Register<T> {
    all: Arc<dyn Registers>,
    kind: &'static str,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned> Register<T> {
    pub(crate) fn new(all: &Arc<dyn Registers>, kind: &'static str) -> Self {
        Self {
            all: all.clone(),
            kind,
            of: PhantomData,
        }
    }

    fn key(&self, id: &str) -> String {
        format!("{}/{id}", self.kind)
    }

    pub(crate) fn get(&self, id: &str) -> Option<T> {
        let key = self.key(id);
        self.read(&key, &self.all.get(&key)?)
    }

    /// All of them by their ids.
    pub(crate) fn list(&self) -> Vec<(String, T)> {
        let prefix = self.key("");
        let found = self.all.list(&prefix).into_iter();
        found
            .filter_map(|(key, entry)| Some((key.get(prefix.len()..)?.to_owned(), self.read(&key, &entry)?)))
            .collect()
    }

    /// The ids of all records, in the order in which they were set.
    pub(crate) fn ids_by_age(&self) -> Vec<String> {
        let prefix = self.key("");
        let mut found = self.all.list(&prefix);
        found.sort_by_key(|(_, entry)| entry.revision);
        let ids = found.into_iter().map(|(key, _)| key);
        ids.filter_map(|key| Some(key.get(prefix.len()..)?.to_owned()))
            .collect()
    }

    pub(crate) fn set(&self, id: &str, record: &T) -> Result<(), RegisterError> {
        let value = serde_json::value::to_raw_value(record)?;
        self.all.set(&self.key(id), Some(value)).map(drop)
    }

    /// Sets records, or removes them: all or none.
    pub(crate) fn set_all<'a>(
        &self,
        records: impl IntoIterator<Item = (&'a str, Option<&'a T>)>,
    ) -> Result<(), RegisterError>
    where
        T: 'a,
    {
        let records = records.into_iter().map(|(id, record)| {
            let value = record.map(serde_json::value::to_raw_value).transpose()?;
            Ok::<_, RegisterError>((self.key(id), value))
        });
        self.all.set_all(records.collect::<Result<_, _>>()?).map(drop)
    }

    pub(crate) fn remove(&self, id: &str) -> Result<(), RegisterError> {
        self.all.set(&self.key(id), None).map(drop)
    }

    /// Blocks until a machine that loses power has them.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.all.sync()
    }

    /// One that cannot be read stays in the file, and the rest goes on without it.
    fn read(&self, key: &str, entry: &Entry) -> Option<T> {
        let read = serde_json::from_str(entry.value.get());
        read.inspect_err(|error| {
            tracing::error!(key, revision = entry.revision, %error, "a record of the registers cannot be read and is left out");
        })
        .ok()
    }
}
