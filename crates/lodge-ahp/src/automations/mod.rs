//! Automations in the words of AHP. What they are, when they run and what became of their runs is the host's to know; here
//! their definitions are read and shown, and their sessions are made.

mod definition;
mod requests;
mod runs;
mod shown;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use ahp_types::{
    commands::{
        AutomationCapabilities, AutomationCreateCapability, AutomationRunCancellationCapability,
        AutomationScheduleCapabilities,
    },
    state::AutomationState,
};
use lodge_host::{AutomationError, HostError};
use parking_lot::Mutex;

use self::shown::Pages;
use crate::{
    face::Face,
    rpc::{RpcError, code},
    state::Service,
    wire::Origin,
};

/// The channel of all automations.
pub(crate) const CHANNEL: &str = "ahp-automations://";
/// What the channels of runs begin with.
pub(crate) const RUN: &str = "ahp-automation-run:/";
/// What the addresses of automations begin with.
const ADDRESS: &str = "ahp-automation:";

/// What clients are told of when they come.
pub(crate) fn capabilities() -> AutomationCapabilities {
    AutomationCapabilities {
        create: Some(AutomationCreateCapability {}),
        schedules: Some(AutomationScheduleCapabilities::default()),
        run_cancellation: Some(AutomationRunCancellationCapability {}),
        run_history_limit: Some(lodge_host::RUN_HISTORY as i64),
        customizations: None,
    }
}

/// The channel that is meant: editors spell the one of all automations in several ways.
pub(crate) fn meant(channel: &str) -> &str {
    if channel.starts_with("ahp-automations:") {
        CHANNEL
    } else {
        channel
    }
}

/// Whether a channel is about automations.
pub(crate) fn is_channel(channel: &str) -> bool {
    channel == CHANNEL || channel.starts_with(RUN)
}

/// What this face knows of automations beside the host.
#[derive(Default)]
pub(crate) struct Shown {
    /// How many of its past runs clients see of each automation.
    pages: Mutex<Pages>,
    /// Who is removing which automation.
    removing: Mutex<HashMap<String, Origin>>,
}

impl Face {
    /// Makes the sessions of runs from now on, and tells what becomes of automations.
    pub(crate) fn begin_automations(self: &Arc<Self>) {
        let face: Weak<Self> = Arc::downgrade(self);
        self.host.automations().serve(face);
    }

    /// The state of the channel of all automations.
    pub(crate) fn automations_state(host: &lodge_host::Host) -> AutomationState {
        let (all, allowed) = (host.automations().list(), host.automations().are_allowed());
        let pages = Pages::default();
        AutomationState {
            entries: all.iter().map(|one| pages.entry(one, allowed)).collect(),
            meta: None,
        }
    }

    /// Opens the channel of a run that is remembered.
    pub(crate) async fn open_run(&self, uri: &str) -> Result<(), HostError> {
        let missing = || HostError::NotFound(uri.to_owned());
        let id = uri.strip_prefix(RUN).ok_or_else(missing)?;
        let opened = self.host.automations().look(|all| {
            let of = all.iter().find_map(|one| Some((one, one.run(id)?)));
            let (automation, run) = of.ok_or_else(missing)?;
            let mut inner = self.inner.lock();
            if inner.core.service(uri).is_none() {
                let service = Service::AutomationRun(Box::new(shown::run_state(automation, run)));
                inner.core.insert_service(uri.into(), None, service);
            }
            Ok(())
        });
        opened.await
    }

    /// Automations may have been turned off as a whole.
    pub(crate) fn check_allowed(&self) -> Result<(), RpcError> {
        if self.host.automations().are_allowed() {
            return Ok(());
        }
        Err(rpc_error(AutomationError::Disabled))
    }
}

/// The host's name for the automation at an address. One that is none is the name of nothing.
fn id_at(address: &str) -> &str {
    address.strip_prefix(ADDRESS).unwrap_or_default()
}

pub(crate) fn address(id: &str) -> String {
    format!("{ADDRESS}{id}")
}

/// Why something was not done, in the protocol's words.
fn reason(error: &AutomationError) -> String {
    match error {
        AutomationError::NotFound(id) => format!("Automation not found: {}", address(id)),
        AutomationError::Exists(id) => format!("Automation already exists: {}", address(id)),
        AutomationError::Active(id) => {
            let address = address(id);
            format!("Automation has an active run and cannot be removed: {address}")
        }
        other => other.to_string(),
    }
}

fn rpc_error(error: AutomationError) -> RpcError {
    let code = match &error {
        AutomationError::Invalid(_) => return RpcError::params(error.to_string()),
        AutomationError::Kept(_) => return RpcError::failed(error),
        AutomationError::NotFound(_) | AutomationError::NoRun(_) => code::NOT_FOUND,
        AutomationError::TooMany(_) => code::TOO_BUSY,
        AutomationError::Disabled
        | AutomationError::Exists(_)
        | AutomationError::Active(_)
        | AutomationError::Over(_) => code::INVALID_REQUEST,
    };
    RpcError::new(code, reason(&error))
}
