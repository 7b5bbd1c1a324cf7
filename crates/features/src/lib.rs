//! Holds no code. Every crate of the workspace depends on it, so that third-party crates are built with the same features
//! whichever of our crates is being built: `cargo build`, `cargo test --workspace` and `cargo test -p X` share artefacts.
