//! The Copilot SDK face: JSON-RPC in `Content-Length` frames over standard input and output and over TCP, protocol
//! version 3, so that apps on the official Copilot SDKs work with Lodge unmodified.
//!
//! This room knows the SDKs' wire: frames, requests, notifications, their spelling and their quirks. It may not know the
//! other faces, nor how models are reached over HTTP. Every method does its work through `lodge-host`. A method that is not
//! served is absent from the dispatch table and answers `-32601`.

mod accounts;
mod args;
mod beneath;
mod board;
mod calls;
mod canvas;
mod canvas_tools;
mod config;
mod connection;
mod decisions;
pub mod docs;
mod extensions;
mod factory;
pub mod frame;
mod generation;
mod github;
mod inference;
mod lifecycle_notifications;
mod methods;
mod opening;
mod outbox;
mod peer;
mod policy;
mod providers;
mod relay;
mod roles;
pub mod rpc;
mod rules;
mod server;
mod session;
mod stdio;
mod storage;
mod telemetry;
mod traces;
mod user_settings;

pub use args::{ServerArgs, Transport, parse_cli_args};
pub use server::{Exposed, Server, ServerOptions, announcement, serve_connection, serve_stdio, serve_tcp};
pub use stdio::{hear_out_client, open as open_stdio};
