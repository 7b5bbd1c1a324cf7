//! Tests of the event vocabulary, through its public face.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod beside;
mod built;
mod catalogue;
mod envelope;
mod examples;
mod python;
mod reading;
mod reference;
mod schema;
