//! Models: one trait, the wires that implement it, and the offline rehearsal model.
//!
//! This room knows how to turn a conversation into a request and a response stream into chunks. It may not know
//! sessions, events, tools' insides or who is asking.

mod base_url;
mod catalogue;
mod error;
mod network;
mod rehearsal;
mod secret;
mod tokens;
mod transport;
mod types;
mod unzip;
mod wire;

pub use base_url::BaseUrl;
pub use catalogue::{
    AzureConfig, Catalogue, CatalogueError, Discovery, ModelEntry, ModelsConfig, ProviderConfig, ProviderEntry,
};
pub use network::Network;
pub use rehearsal::Rehearsal;
pub use secret::{Secret, TokenSource};
pub use tokens::{size_of, tokens_of};
pub use transport::{HttpRequest, HttpResponse, Transport, TransportError};
pub use types::*;
pub use wire::{Auth, CopilotAccess, Endpoint, HttpModel, IDLE_TIMEOUT, ProviderType, WireApi};
