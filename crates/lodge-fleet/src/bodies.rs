//! What is too large for one message of a log: kept beside it under its hash, in parts, and gone with the session.

use std::time::Duration;

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, sleep};

use crate::{FleetError, FleetLog, record::hex};

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

/// Reads a body; `Err` with what is wrong when it is not what its name says.
pub(crate) async fn get(log: &FleetLog, name: &str) -> Result<Result<Bytes, String>, FleetError> {
    let parts = name.rsplit_once('-').and_then(|(_, parts)| parts.parse::<usize>().ok());
    let (Some(hash), Some(parts)) = (hash_in(name), parts) else {
        return Ok(Err(format!("{name:?} does not name a body")));
    };
    let mut body = BytesMut::new();
    let js = log.jetstream();
    for number in 0..parts {
        let subject = format!("{}.{name}.{number}", log.place().bodies);
        let deadline = Instant::now() + PATIENCE;
        let part = loop {
            match js.last(&log.place().stream, &subject).await {
                Ok(part) => break part,
                Err(failure) if Instant::now() >= deadline => {
                    return Err(failure.into_error("read a large body", PATIENCE));
                }
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        };
        let Some(part) = part else {
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
