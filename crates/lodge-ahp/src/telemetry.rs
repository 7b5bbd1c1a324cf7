//! Telemetry for clients that subscribe to it: OTLP logs, spans and metrics of the open sessions. Nothing is recorded while
//! nobody is subscribed. It never contains texts of people, models or tools. Error messages are part of it, with secrets
//! redacted.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Duration,
};

use ahp_types::state::TelemetryCapabilities;
use lodge_events::Event;
use lodge_telemetry::{
    METRICS, Noted, Notes, Secrets, TRACES, Taken,
    otlp::{self, LEVELS, now},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    face::Face,
    state::{Core, Service, Uri},
    wire::{Frame, notification},
};

/// How often to send new records.
const EVERY: Duration = Duration::from_millis(250);
/// Metrics are sent when they change, and at least every so many rounds.
const METRICS_EVERY: u32 = 40;
/// A connection with more unread bytes gets no more telemetry.
const UNREAD: usize = 1 << 20;

/// A telemetry channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Logs of at least this OTLP severity.
    Logs(u8),
    Traces,
    Metrics,
}

impl Signal {
    /// The channel with this address. Case does not matter in the level.
    pub(crate) fn parse(uri: &str) -> Option<Self> {
        let name = uri.strip_prefix("ahp-otlp:")?.trim_start_matches('/');
        match name.split_once('/') {
            Some(("logs", level)) => level_of(level).map(Self::Logs),
            None if name == "traces" => Some(Self::Traces),
            None if name == "metrics" => Some(Self::Metrics),
            _ => None,
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Logs(_) => "otlp/exportLogs",
            Self::Traces => "otlp/exportTraces",
            Self::Metrics => "otlp/exportMetrics",
        }
    }
}

fn level_of(name: &str) -> Option<u8> {
    let named = LEVELS.iter().find(|(level, _)| level.eq_ignore_ascii_case(name));
    named.map(|(_, number)| *number)
}

/// The capabilities that `initialize` returns.
pub(crate) fn capabilities() -> TelemetryCapabilities {
    TelemetryCapabilities {
        logs: Some("ahp-otlp:/logs/{level}".to_owned()),
        traces: Some("ahp-otlp:/traces".to_owned()),
        metrics: Some("ahp-otlp:/metrics".to_owned()),
    }
}

/// Records while somebody is subscribed.
pub(crate) struct Telemetry {
    /// The lowest wanted severity, and bits for spans and metrics. 0 when nobody is subscribed.
    wanted: AtomicU8,
    notes: Mutex<Notes>,
    sending: AtomicBool,
    secrets: Secrets,
}

impl Telemetry {
    /// Telemetry that redacts these secrets.
    pub(crate) fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        Self {
            wanted: AtomicU8::new(0),
            notes: Mutex::default(),
            sending: AtomicBool::new(false),
            secrets: Secrets::new(secrets),
        }
    }

    /// Records events of a session.
    pub(crate) fn events(&self, session: &Uri, events: &[Event]) {
        let wanted = self.wanted.load(Ordering::Relaxed);
        if wanted == 0 {
            return;
        }
        // All sessions share the notes: what takes time is done before, and deltas do not come here.
        let noted: Vec<_> = events.iter().filter_map(Noted::read).collect();
        if noted.is_empty() {
            return;
        }
        let mut notes = self.notes.lock();
        for noted in &noted {
            notes.event(session, noted, wanted, &self.secrets);
        }
    }
}

/// The payload for a channel, if there is one.
fn payload(signal: Signal, taken: &Taken, gauges: &[(&str, &str, u64)], metrics: bool) -> Option<Value> {
    match signal {
        Signal::Logs(least) => {
            let fits = |log: &&lodge_telemetry::Log| log.severity >= least;
            let records: Vec<&Value> = taken.logs.iter().filter(fits).map(|log| &log.record).collect();
            (!records.is_empty()).then(|| otlp::logs(&records))
        }
        Signal::Traces => (!taken.spans.is_empty()).then(|| otlp::traces("lodge", &taken.spans)),
        Signal::Metrics => (metrics || !taken.counts.is_empty()).then(|| otlp::metrics(taken, gauges)),
    }
}

impl Core {
    /// The telemetry channels with subscribers.
    fn heard_signals(&self) -> Vec<(Uri, Signal)> {
        let signals = self.services.iter().filter_map(|(uri, entry)| match entry.service {
            Service::Telemetry(signal) => Some((uri.clone(), signal)),
            _ => None,
        });
        signals.filter(|(uri, _)| self.is_heard(uri)).collect()
    }
}

impl Face {
    /// Opens a telemetry channel. It has no state.
    pub(crate) fn open_signal(&self, uri: &str, signal: Signal) {
        let core = &mut self.inner.lock().core;
        if core.service(uri).is_none() {
            core.insert_service(uri.into(), None, Service::Telemetry(signal));
        }
    }

    /// Subscribers came or went: records from now on what the current ones want.
    pub(crate) fn telemetry_changed(self: &Arc<Self>) {
        let heard = self.inner.lock().core.heard_signals();
        let mut wanted = 0;
        for (_, signal) in &heard {
            wanted = match signal {
                Signal::Traces => wanted | TRACES,
                Signal::Metrics => wanted | METRICS,
                Signal::Logs(least) => match wanted & 63 {
                    0 => wanted | least,
                    known => (wanted & !63) | known.min(*least),
                },
            };
        }
        self.telemetry.wanted.store(wanted, Ordering::Relaxed);
        self.config.lines.want(wanted & 63);
        if wanted != 0 && !self.telemetry.sending.swap(true, Ordering::AcqRel) {
            self.tasks.spawn(self.clone().send_telemetry());
        }
    }

    /// Sends records until nobody is subscribed any more.
    async fn send_telemetry(self: Arc<Self>) {
        let mut unheard: HashMap<u64, usize> = HashMap::new();
        let mut rounds = 0;
        loop {
            let heard = self.inner.lock().core.heard_signals();
            if heard.is_empty() {
                *self.telemetry.notes.lock() = Notes::default();
                self.telemetry.sending.store(false, Ordering::Release);
                // Whoever came just now found this at work.
                if self.inner.lock().core.heard_signals().is_empty()
                    || self.telemetry.sending.swap(true, Ordering::AcqRel)
                {
                    return;
                }
            }
            let mut taken = self.telemetry.notes.lock().take();
            taken.logs.extend(self.config.lines.take(&self.telemetry.secrets));
            let metrics = rounds % METRICS_EVERY == 0;
            rounds += 1;
            let gauges = self.gauges();
            for (uri, signal) in heard {
                if let Some(payload) = payload(signal, &taken, &gauges, metrics) {
                    let params = json!({ "channel": &*uri, "payload": payload });
                    let frame = notification(signal.method(), &params);
                    self.send_signal(&uri, signal, &frame, taken.logs.len(), &mut unheard);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Sends a frame to the subscribers that keep up. The others learn how much they missed when they read again.
    fn send_signal(&self, uri: &Uri, signal: Signal, frame: &Frame, logs: usize, unheard: &mut HashMap<u64, usize>) {
        let inner = self.inner.lock();
        let Some(channel) = inner.core.channel(uri) else {
            return;
        };
        for listener in &channel.subscribers {
            let conn = &listener.conn;
            if conn.unsent() > UNREAD {
                *unheard.entry(conn.id).or_default() += logs.max(1);
                continue;
            }
            if let (Signal::Logs(_), Some(missed)) = (signal, unheard.remove(&conn.id)) {
                let text = format!("{missed} records were left out, because this client reads too slowly");
                let record = otlp::log(now(), 13, &text, &[]);
                let params = json!({ "channel": &**uri, "payload": otlp::logs(&[&record]) });
                conn.push(notification(signal.method(), &params));
            }
            conn.push(frame.clone());
        }
    }

    fn gauges(&self) -> [(&'static str, &'static str, u64); 3] {
        let (sessions, connections) = {
            let core = &self.inner.lock().core;
            (core.sessions.len() as u64, core.conns.len() as u64)
        };
        let bytes = lodge_telemetry::resident_memory().unwrap_or_default();
        [
            ("ahp.sessions", "{session}", sessions),
            ("ahp.connections", "{connection}", connections),
            ("process.memory.usage", "By", bytes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_known_by_their_addresses() {
        for (uri, expected) in [
            ("ahp-otlp:/logs/warn", Some(Signal::Logs(13))),
            ("ahp-otlp:/logs/TRACE", Some(Signal::Logs(1))),
            ("ahp-otlp:/traces", Some(Signal::Traces)),
            ("ahp-otlp:/metrics", Some(Signal::Metrics)),
            ("ahp-otlp:/logs", None),
            ("ahp-otlp:/logs/loud", None),
            ("ahp-otlp:/logs/{level}", None),
            ("ahp-root://", None),
        ] {
            assert_eq!(Signal::parse(uri), expected, "{uri}");
        }
    }
}
