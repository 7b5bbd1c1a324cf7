//! Prints `docs/sdk.md`, for `cargo xtask docs`.
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

fn main() {
    print!("{}", lodge_copilot::docs::render());
}
