//! Tests of the port, with a real host behind it.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{path::Path, time::Duration};

use lodge_host::{Clock, Home, HomeOptions, Host, HostConfig};

mod listening;
mod push;

/// A host on a home.
fn host(home: &Path) -> Host {
    let models = lodge_models::Catalogue::from(lodge_models::ModelsConfig::default(), |_| None).unwrap();
    let host = Host::new(HostConfig {
        home: Home::open(home, HomeOptions::default()).unwrap(),
        models,
        sandbox: None,
        idle_after: Duration::from_secs(600),
        version: "test".into(),
        clock: Clock::default(),
    });
    host.unwrap()
}
