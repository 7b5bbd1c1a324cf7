//! The copy of a session's log in a host's home. It holds what the fleet has, from the beginning on, and is checked event by
//! event before the host goes on with it. A log that was never in the fleet is brought into it.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use lodge_events::Event;
use lodge_log::{FileStore, LogError, Position, Store as _};
use ring::digest::{SHA256, digest};

use crate::{FleetError, Host, Intent, Tip, Writer};

/// In a session's directory: its log was in the fleet as a whole. If the fleet has none, it was deleted there.
const JOINED: &str = "fleet.joined";
/// The most that is brought into the fleet at once.
const RUN: usize = 256 << 10;

type Hash = [u8; 32];

fn hash(event: &[u8]) -> Hash {
    digest(&SHA256, event)
        .as_ref()
        .try_into()
        .expect("a SHA-256 has 32 bytes")
}

/// What a home has of a log.
#[derive(Default)]
struct Copy {
    exists: bool,
    joined: bool,
    events: Vec<Hash>,
}

impl Host {
    /// Takes a session that was just made in this home and has an empty log there.
    ///
    /// # Errors
    /// As [`Host::take`].
    pub async fn create_with_copy(&self, session: &str, files: &Arc<FileStore>) -> Result<Writer, FleetError> {
        let writer = self.take(session, Intent::Create, Tip::START, |_| Ok(())).await?;
        in_home(files, session, mark_joined).await?;
        Ok(writer)
    }

    /// Takes a session, and makes the copy of its log in this home what the fleet has.
    ///
    /// # Errors
    /// [`FleetError::Diverged`] when the copy has other events, or some that the fleet has not, and nothing is changed; as
    /// [`Host::take`] otherwise.
    pub async fn open_with_copy(&self, session: &str, files: &Arc<FileStore>) -> Result<Writer, FleetError> {
        let copy = in_home(files, session, read).await?;
        let diverged = |event: u64, reason: &str| FleetError::Diverged {
            session: session.to_owned(),
            event,
            reason: reason.to_owned(),
        };
        let mut missing: Vec<Bytes> = Vec::new();
        let mut number = 0;
        let compare = |record: &crate::Record| {
            for event in &record.events {
                match copy.events.get(number) {
                    Some(ours) if *ours == hash(event) => {}
                    Some(_) => return Err(diverged(number as u64, "it is another event")),
                    None => missing.push(event.clone()),
                }
                number += 1;
            }
            Ok(())
        };
        let intent = match self.fleet().log(session)?.read(Tip::START).await {
            Err(FleetError::NotFound { .. }) if copy.exists && !copy.joined => Intent::Create,
            Err(error) => return Err(error),
            Ok(_) => Intent::Open,
        };
        let mut writer = self.take(session, intent, Tip::START, compare).await?;
        let known = writer.tip().events() as usize;
        if copy.events.len() > known {
            if copy.joined {
                self.release(writer).await?;
                return Err(diverged(known as u64, "the fleet's log ends before it"));
            }
            join(&mut writer, session, files, known).await?;
        }
        in_home(files, session, move |files, session| {
            if !missing.is_empty() || !copy.exists {
                write(files, session, &missing)?;
            }
            mark_joined(files, session)
        })
        .await?;
        Ok(writer)
    }
}

/// Brings the events from number `known` on into the fleet.
async fn join(writer: &mut Writer, session: &str, files: &Arc<FileStore>, known: usize) -> Result<(), FleetError> {
    let events = in_home(files, session, move |files, session| {
        let events = files.read(session, Position::START, Position::END)?.events();
        events
            .skip(known)
            .map(|event| Ok(event?.json().clone()))
            .collect::<Result<Vec<Bytes>, LogError>>()
    })
    .await?;
    let mut rest = events.as_slice();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest.iter().take_while(|event| {
            bytes += event.len();
            bytes <= RUN
        });
        let (run, after) = rest.split_at(fits.count().max(1));
        writer.append(run).await?;
        rest = after;
    }
    Ok(())
}

fn read(files: &FileStore, session: &str) -> Result<Copy, LogError> {
    if !files.exists(session)? {
        return Ok(Copy::default());
    }
    // Opening repairs it: what is damaged is set aside, and then the comparison says what is missing.
    drop(files.open(session)?);
    let events = files.read(session, Position::START, Position::END)?.events();
    Ok(Copy {
        exists: true,
        joined: marker(files, session)?.exists(),
        events: events
            .map(|event| Ok(hash(event?.json())))
            .collect::<Result<_, LogError>>()?,
    })
}

fn write(files: &FileStore, session: &str, events: &[Bytes]) -> Result<(), LogError> {
    let mut log = match files.exists(session)? {
        true => files.open(session)?.log,
        false => files.create(session)?,
    };
    let events = events.iter().map(|event| {
        Event::parse(event.clone()).map_err(|error| LogError::Uncommitted {
            reason: format!("an event of the fleet cannot be read: {error}"),
        })
    });
    let events: Vec<Event> = events.collect::<Result<_, _>>()?;
    for run in events.chunks(256) {
        log.append_all(run)?;
    }
    log.sync()
}

fn marker(files: &FileStore, session: &str) -> Result<PathBuf, LogError> {
    Ok(files.dir(session)?.join(JOINED))
}

fn mark_joined(files: &FileStore, session: &str) -> Result<(), LogError> {
    let path = marker(files, session)?;
    if path.exists() {
        return Ok(());
    }
    std::fs::write(&path, "").map_err(|source| LogError::Io {
        op: "write",
        path,
        source,
    })
}

/// Does something with files where nobody waits for them.
async fn in_home<T: Send + 'static>(
    files: &Arc<FileStore>,
    session: &str,
    run: impl FnOnce(&FileStore, &str) -> Result<T, LogError> + Send + 'static,
) -> Result<T, FleetError> {
    let (files, session) = (files.clone(), session.to_owned());
    let done = tokio::task::spawn_blocking(move || run(&files, &session)).await;
    Ok(done.expect("reading and writing a log does not panic")?)
}
