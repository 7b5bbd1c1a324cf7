//! The log and the catalogue from outside.

#![allow(clippy::unwrap_used, reason = "helpers of tests, not only the tests, may panic")]

mod catalogue;
mod damage;
mod faults;
mod fuzz;
mod home;
mod index;
mod log;
mod random;
mod rewinds;
mod support;
mod test_disk;
