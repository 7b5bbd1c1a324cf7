//! What is too large for one message of a log: kept beside it under its hash, in parts, and gone with the session.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, sleep};

use crate::{FleetError, FleetLog, jetstream::Stored, reader::COPIES, record::hex};

/// The most that one append may hold.
pub(crate) const MOST: usize = 256 << 20;
/// How long a part is tried.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stores a body; answers with the name that it is found by.
pub(crate) async fn put(log: &FleetLog, body: &Bytes) -> Result<String, FleetError> {
    put_named(log, name(log, body), body).await
}

/// Stores a body under a name of its own, so that it can be removed although others may hold the same.
pub(crate) async fn put_as(log: &FleetLog, own: &str, body: &Bytes) -> Result<String, FleetError> {
    put_named(log, format!("{own}_{}", name(log, body)), body).await
}

fn name(log: &FleetLog, body: &Bytes) -> String {
    let hash = hex(digest(&SHA256, body).as_ref());
    format!("{hash}-{}", body.len().div_ceil(log.inline()))
}

/// The hash in a body's name.
pub(crate) fn hash_in(name: &str) -> Option<&str> {
    name.rsplit_once('-')?.0.rsplit('_').next()
}

/// Removes a body that nothing speaks of any more.
pub(crate) async fn remove(log: &FleetLog, name: &str) -> Result<(), FleetError> {
    let subjects = format!("{}.{name}.*", log.place().bodies);
    let purged = log
        .jetstream()
        .purge(&log.place().stream, &subjects, None, PATIENCE)
        .await;
    purged.map_err(|failure| failure.into_error("remove a body", PATIENCE))
}

async fn put_named(log: &FleetLog, name: String, body: &Bytes) -> Result<String, FleetError> {
    for (number, part) in body.chunks(log.inline()).enumerate() {
        let subject = format!("{}.{name}.{number}", log.place().bodies);
        put_part(log, &subject, body.slice_ref(part)).await?;
    }
    Ok(name)
}

/// A part is written once. Whoever finds it there already need not write it: its name says what it holds.
async fn put_part(log: &FleetLog, subject: &str, part: Bytes) -> Result<(), FleetError> {
    let js = log.jetstream();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let Err(failure) = js.publish(subject, 0, HeaderMap::new(), part.clone()).await else {
            return Ok(());
        };
        // A refusal may come from a part that is only on its way: it counts when it can be read.
        if failure.is_wrong_last_sequence()
            && let Ok(Some(found)) = js.last(&log.place().stream, subject).await
            && found.payload == part
        {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(failure.into_error("store a large body", PATIENCE));
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Reads a body; `Err` with what is wrong when it is on no server what its name says.
pub(crate) async fn get(log: &FleetLog, name: &str) -> Result<Result<Bytes, String>, FleetError> {
    let parts = name.rsplit_once('-').and_then(|(_, parts)| parts.parse::<usize>().ok());
    let (Some(hash), Some(parts)) = (hash_in(name), parts) else {
        return Ok(Err(format!("{name:?} does not name a body")));
    };
    let mut body = assemble(log, name, hash, parts, Source::Leader).await?;
    for _ in 0..COPIES {
        if body.is_ok() {
            break;
        }
        body = assemble(log, name, hash, parts, Source::Any).await?;
    }
    Ok(body)
}

/// Which server a part comes from.
#[derive(Clone, Copy)]
enum Source {
    Leader,
    /// Whichever answers: where several asked one after the other, one that has it.
    Any,
}

async fn assemble(
    log: &FleetLog,
    name: &str,
    hash: &str,
    parts: usize,
    from: Source,
) -> Result<Result<Bytes, String>, FleetError> {
    let mut body = BytesMut::new();
    for number in 0..parts {
        let Some(part) = part(log, &format!("{}.{name}.{number}", log.place().bodies), from).await? else {
            return Ok(Err(format!("part {number} of its body is missing")));
        };
        if body.len() + part.payload.len() > MOST {
            return Ok(Err(format!("its body is longer than {MOST} bytes")));
        }
        body.extend_from_slice(&part.payload);
    }
    if hex(digest(&SHA256, &body).as_ref()) != hash {
        return Ok(Err("its body is not what was stored".into()));
    }
    Ok(Ok(body.freeze()))
}

async fn part(log: &FleetLog, subject: &str, from: Source) -> Result<Option<Stored>, FleetError> {
    let (js, stream) = (log.jetstream(), &log.place().stream);
    let deadline = Instant::now() + PATIENCE;
    let mut tries = 0;
    loop {
        tries += 1;
        let part = match from {
            Source::Leader => js.last(stream, subject).await,
            Source::Any => js.last_of_any(stream, subject).await,
        };
        match part {
            Ok(None) if matches!(from, Source::Any) && tries < COPIES => {}
            Ok(part) => return Ok(part),
            Err(failure) if Instant::now() >= deadline => {
                return Err(failure.into_error("read a large body", PATIENCE));
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}
