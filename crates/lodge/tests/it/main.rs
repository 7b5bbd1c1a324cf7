//! The binary from outside: what a person at a terminal and a crash see.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod accepted;
mod accepted_acp;
mod accepted_sdk;
mod accepted_settings;
mod accepted_terminal;
mod acp;
mod architecture;
mod attach;
mod automations;
mod backup;
mod beside;
mod chat;
mod cli;
mod crash;
mod docs;
mod doctor;
mod door;
mod external;
mod external_lies;
mod external_limits;
mod external_requests;
mod external_sign_in;
mod external_talk;
#[cfg(feature = "fleet")]
mod fleet;
mod full_disk;
mod grants;
mod habits;
mod hands;
mod health;
mod history;
mod install;
mod jail;
mod join;
mod kept;
mod ledger;
mod mcp;
mod models;
mod neighbours;
mod one_truth;
mod orphans;
mod pictures;
mod proxy;
mod remote;
mod sandbox;
mod screens;
mod service;
#[cfg(target_os = "linux")]
mod strangers;
mod terminal;
mod vscode;
