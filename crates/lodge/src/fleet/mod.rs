//! A host of a fleet: its sessions are kept on NATS JetStream, every host lists them, and another host can go on with them.

mod commands;
mod keeper;
mod lists;
mod member;

use clap::Args;
use lodge_fleet::{Options, SyncCheck};

pub(crate) use self::{
    commands::{FleetCommand, run},
    member::Member,
};

/// How a fleet is reached.
#[derive(Args, Clone)]
pub(crate) struct FleetArgs {
    /// NATS servers of a fleet, separated by commas: sessions are kept there, and other hosts can go on with them
    #[arg(long, env = "LODGE_FLEET", value_name = "URL", value_delimiter = ',')]
    pub(crate) fleet: Vec<String>,
    /// The same with a user of the system account, to check that the servers sync what they acknowledge
    #[arg(
        long,
        env = "LODGE_FLEET_SYSTEM",
        value_name = "URL",
        value_delimiter = ',',
        requires = "fleet"
    )]
    pub(crate) fleet_system: Vec<String>,
    /// Do not check whether the servers sync: a power cut may then lose accepted messages
    #[arg(long, requires = "fleet")]
    pub(crate) fleet_unchecked_sync: bool,
    /// Keep one copy of everything, on one server: whoever loses that server loses the sessions
    #[arg(long, requires = "fleet")]
    pub(crate) fleet_single_copy: bool,
    /// Name of this host in the fleet [default: the machine's name]
    #[arg(long, env = "LODGE_FLEET_NAME", value_name = "NAME", requires = "fleet")]
    pub(crate) fleet_name: Option<String>,
}

impl FleetArgs {
    fn options(&self) -> Options {
        let mut options = Options::new(self.fleet.clone());
        options.system.clone_from(&self.fleet_system);
        if self.fleet_unchecked_sync {
            options.sync = SyncCheck::Skipped;
        }
        if self.fleet_single_copy {
            options.replicas = 1;
        }
        options
    }

    fn name(&self) -> String {
        let machine = || {
            let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
            let name = files.iter().find_map(|file| std::fs::read_to_string(file).ok());
            name.map_or_else(|| "host".to_owned(), |name| name.trim().to_owned())
        };
        self.fleet_name.clone().unwrap_or_else(machine)
    }
}
