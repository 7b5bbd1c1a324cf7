//! Tests of the tools through their public face.

mod bench;
mod files;
mod processes;
mod scratch;
mod search;
