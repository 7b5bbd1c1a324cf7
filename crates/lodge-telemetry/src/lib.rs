//! Telemetry: spans, log records and metrics made from the events of sessions and from lines of the host's own log, in the
//! shapes of OTLP, and the exporter that brings spans and metrics to a file or a collector.
//!
//! This room knows events and OTLP, and no other wire. Nothing here makes a session wait: events are taken in when they are
//! published and looked at later.

mod collector;
mod export;
mod lines;
mod meter;
mod notes;
pub mod otlp;
mod process;
mod protobuf;
mod secrets;
mod spans;
mod traces;

pub use collector::{CREDENTIAL_VARIABLES, Collector, Protocol, Signal};
pub use lines::Lines;
pub use notes::{Counts, Log, METRICS, Notes, TRACES, Taken};
pub use process::resident_memory;
pub use secrets::Secrets;
pub use traces::{Exporter, Follower, TraceOptions, Traces};
