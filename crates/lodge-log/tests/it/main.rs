//! The log and the catalogue from outside.

mod catalogue;
mod damage;
mod faults;
mod home;
mod index;
mod log;
mod random;
mod support;
mod test_disk;
