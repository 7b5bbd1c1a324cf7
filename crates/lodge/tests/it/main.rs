//! The binary from outside: what a person at a terminal and a crash see.

mod cli;
mod crash;
mod terminal;
