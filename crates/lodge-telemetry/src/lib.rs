//! Telemetry: spans, log records and metrics made from session events and from the host's own log, in the shapes of
//! OTLP, and the exporter that sends spans and metrics to a file or a collector.
//!
//! This crate knows events and OTLP, and no other wire. Nothing here makes a session wait: events are queued when they
//! are published and processed later.

mod collector;
mod export;
mod host_log;
mod meter;
pub mod otlp;
mod process;
mod protobuf;
mod records;
mod redact;
mod spans;
mod traces;

pub use collector::{CREDENTIAL_VARIABLES, Collector, Protocol, Signal};
pub use host_log::Lines;
pub use process::resident_memory;
pub use records::{Counts, Log, METRICS, Noted, Notes, TRACES, Taken};
pub use redact::Secrets;
pub use traces::{Exporter, Follower, TraceOptions, Traces};
