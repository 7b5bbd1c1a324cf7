//! The host's HTTP port, shared by every face that listens.
//!
//! This room accepts connections, with or without TLS, and checks every request. A request that becomes a WebSocket goes to a
//! face, with the identity and role of its client. It also serves pairing, the page, health and metrics, and sends web push to
//! browsers. It knows no protocol that is spoken over WebSockets.

mod config;
mod gate;
mod health;
mod listener;
mod local;
mod metrics;
mod pairing;
mod push;
mod routes;
mod server;
mod tls;
mod upgrade;

pub use config::{HttpConfig, Listen, Pages, TlsFiles};
pub use push::{Outcome, Push, PushError};
pub use server::{ServeError, Server, SocketFace, serve};
pub use tls::TlsError;
pub use upgrade::{Socket, socket_config};
