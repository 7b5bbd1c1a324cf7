//! Web push: tells the browsers of paired devices, even closed ones, that a session waits, failed or is done. A message names
//! only the session and the event, encrypted for the browser, and nothing of the conversation.

mod message;

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use lodge_door::Door;
use lodge_host::{PushSubscription, PushSubscriptions, RegisterError};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::mpsc;

/// Bytes of an address at most: those of the push services have a few hundred.
const LONGEST: usize = 2048;
/// How long a push service may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What became of a session that worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It waits for a person.
    Waiting,
    /// Its turn failed.
    Failed,
    /// Its turn is over.
    Done,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }
}

/// What a browser is told.
#[derive(Serialize)]
struct Told<'a> {
    kind: &'static str,
    session: &'a str,
}

/// Why somebody cannot be told.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PushError {
    #[error("the address of a push service begins with https://")]
    Insecure,
    #[error("the subscription cannot be read: {0}")]
    Unreadable(&'static str),
    #[error("cannot create or read the key for web push")]
    Key,
    #[error("cannot save the subscription: {0}")]
    Storage(#[from] RegisterError),
}

/// Who wants to be told, and how.
pub struct Push {
    kept: Arc<PushSubscriptions>,
    door: Arc<Door>,
    /// Held while a key is made: there is only one.
    making: Mutex<()>,
}

impl Push {
    /// Tells those who are kept and may still come in by this door.
    pub fn new(kept: Arc<PushSubscriptions>, door: Arc<Door>) -> Self {
        Self {
            kept,
            door,
            making: Mutex::default(),
        }
    }

    /// The public half of the host's key, which browsers give to their push service.
    pub fn public_key(&self) -> Result<String, PushError> {
        let _making = self.making.lock();
        if let Some(public) = self.kept.key().as_deref().and_then(message::public_key) {
            return Ok(public);
        }
        let key = message::new_key().ok_or(PushError::Key)?;
        self.kept.set_key(&key)?;
        message::public_key(&key).ok_or(PushError::Key)
    }

    /// Tells a device from now on; one that may do everything also by plain HTTP on this machine.
    pub fn subscribe(&self, device: &str, wanted: PushSubscription, trusted: bool) -> Result<(), PushError> {
        let Some(host) = message::origin(&wanted.endpoint) else {
            return Err(PushError::Unreadable("its endpoint is not a valid address"));
        };
        let local = trusted && host.starts_with("http://127.0.0.1:");
        if !(host.starts_with("https://") || local) {
            return Err(PushError::Insecure);
        }
        if !local && !is_service(&wanted.endpoint) {
            return Err(PushError::Unreadable(
                "its endpoint is not the address of a push service",
            ));
        }
        if wanted.endpoint.len() > LONGEST {
            return Err(PushError::Unreadable("its endpoint is too long"));
        }
        let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default();
        if bytes(&wanted.keys.p256dh).len() != 65 || bytes(&wanted.keys.auth).len() != 16 {
            return Err(PushError::Unreadable("its keys have the wrong length"));
        }
        Ok(self.kept.set(device, &wanted)?)
    }

    /// Tells a device no longer.
    pub fn unsubscribe(&self, device: &str) -> Result<(), PushError> {
        Ok(self.kept.remove(device)?)
    }

    /// Whom to tell: devices that are still paired. The others are forgotten.
    fn listeners(&self) -> Vec<(String, PushSubscription)> {
        let mut listeners = self.kept.all();
        let paired = self.door.devices();
        listeners.retain(|(device, _)| {
            let is_paired = paired.iter().any(|known| known.id == *device);
            if !is_paired {
                self.forget(device);
            }
            is_paired
        });
        listeners
    }

    fn forget(&self, device: &str) {
        if let Err(error) = self.unsubscribe(device) {
            tracing::warn!("{error}");
        }
    }

    /// Tells of sessions as they are heard of. What comes while a session is told of is told after that, and only the newest of it.
    pub async fn tell_all(self: Arc<Self>, mut heard: mpsc::UnboundedReceiver<(Arc<str>, Outcome)>) {
        let mut telling = FuturesUnordered::new();
        let mut next: HashMap<Arc<str>, Option<Outcome>> = HashMap::new();
        loop {
            let (session, outcome) = tokio::select! {
                news = heard.recv() => match news {
                    Some(news) => news,
                    None => return,
                },
                Some(told) = telling.next() => match next.remove(&told).flatten() {
                    Some(outcome) => (told, outcome),
                    None => continue,
                },
            };
            match next.entry(session) {
                Entry::Occupied(mut waiting) => drop(waiting.insert(Some(outcome))),
                Entry::Vacant(free) => {
                    let (push, session) = (&self, free.key().clone());
                    telling.push(async move {
                        push.tell(&session, outcome).await;
                        session
                    });
                    free.insert(None);
                }
            }
        }
    }

    /// Tells all who want it. A push service that no longer knows a browser is not asked again.
    async fn tell(&self, session: &str, outcome: Outcome) {
        let (listeners, Some(key)) = (self.listeners(), self.kept.key()) else {
            return;
        };
        let told = Told {
            kind: outcome.name(),
            session,
        };
        let Ok(payload) = serde_json::to_string(&told) else {
            return;
        };
        // Side by side: a push service that hangs makes nobody else wait.
        let sending =
            listeners.iter().map(
                async |(device, to)| match send(&key, to, &payload, session, outcome).await {
                    Ok(true) => {}
                    Ok(false) => self.forget(device),
                    Err(why) => tracing::warn!(device, "web push failed: {why}"),
                },
            );
        join_all(sending).await;
    }
}

/// Whether an endpoint can be a push service: a named machine, and no credentials in the address. An address of this
/// machine or its network by number would let a device that may only watch make the host send requests there.
fn is_service(endpoint: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(endpoint) else {
        return false;
    };
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    let is_number = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    let is_here = host == "localhost" || host.ends_with(".localhost") || host.ends_with(".local");
    host.contains('.') && !is_number && !is_here && url.username().is_empty() && url.password().is_none()
}

/// Sends one message. False when the push service no longer knows the browser.
async fn send(
    key: &str,
    to: &PushSubscription,
    payload: &str,
    session: &str,
    outcome: Outcome,
) -> Result<bool, &'static str> {
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).unwrap_or_default();
    let (theirs, secret) = (bytes(&to.keys.p256dh), bytes(&to.keys.auth));
    let body = message::encrypt(payload.as_bytes(), &theirs, &secret).ok_or("its keys are invalid")?;
    let authorization = message::authorization(key, &to.endpoint).ok_or("the host's own key cannot be used")?;
    let urgency = match outcome {
        Outcome::Waiting => "high",
        Outcome::Failed | Outcome::Done => "normal",
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(PATIENCE)
        .build()
        .map_err(|_| "no request can be made")?;
    let sent = client
        .post(&to.endpoint)
        .header("authorization", authorization)
        .header("content-encoding", "aes128gcm")
        .header("content-type", "application/octet-stream")
        .header("ttl", "86400")
        .header("urgency", urgency)
        // The newest of a session takes the place of those that were not delivered yet.
        .header("topic", message::topic(session))
        .body(body)
        .send()
        .await
        .map_err(|_| "its push service does not answer")?;
    match sent.status().as_u16() {
        200..300 => Ok(true),
        404 | 410 => Ok(false),
        _ => Err("its push service refused it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_machines_are_push_services() {
        for (endpoint, fits) in [
            ("https://push.example.com/send/abc", true),
            ("https://push.example.com:8443/send/abc?x=1", true),
            ("https://127.0.0.1:8443/x", false),
            ("https://2130706433/x", false),
            ("https://0x7f.1/x", false),
            ("https://10.0.0.7/x", false),
            ("https://[::1]/x", false),
            ("https://[fd00::1]/x", false),
            ("https://localhost/x", false),
            ("https://localhost./x", false),
            ("https://intranet/x", false),
            ("https://printer.local/x", false),
            ("https://user:key@push.example.com/x", false),
            ("https:///x", false),
        ] {
            assert_eq!(is_service(endpoint), fits, "{endpoint}");
        }
    }
}
