//! A host of a fleet: its sessions are kept on NATS JetStream, every host lists them, and another host can go on with them.

mod commands;
mod counters;
mod doctor;
mod held;
mod keeper;
mod lists;
mod member;
mod writer;

use std::path::PathBuf;

use clap::Args;
use lodge_fleet::{Access, MovingFiles, Options, SyncCheck};

pub(crate) use self::{
    commands::{FleetCommand, run},
    doctor::doctor,
    member::Member,
};

/// What of a session's directory moves with the session.
const MOVING: MovingFiles = MovingFiles {
    list: lodge_host::moving_files,
    list_telling: lodge_host::telling_files,
    belongs: lodge_host::is_moving_file,
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
    /// NATS credentials of this host: a .creds file, or the seed of an nkey
    #[arg(long, env = "LODGE_FLEET_CREDS", value_name = "FILE", requires = "fleet")]
    pub(crate) fleet_creds: Option<PathBuf>,
    /// NATS credentials of a user of the system account
    #[arg(long, env = "LODGE_FLEET_SYSTEM_CREDS", value_name = "FILE", requires = "fleet")]
    pub(crate) fleet_system_creds: Option<PathBuf>,
    /// Certificates of the authorities that the servers' certificates come from (PEM). Connections then need TLS
    #[arg(long, env = "LODGE_FLEET_CA", value_name = "FILE", requires = "fleet")]
    pub(crate) fleet_ca: Option<PathBuf>,
    /// Certificate that this host shows the servers (PEM)
    #[arg(long, env = "LODGE_FLEET_CERT", value_name = "FILE", requires_all = ["fleet", "fleet_key"])]
    pub(crate) fleet_cert: Option<PathBuf>,
    /// Key of that certificate (PEM)
    #[arg(long, env = "LODGE_FLEET_KEY", value_name = "FILE", requires = "fleet_cert")]
    pub(crate) fleet_key: Option<PathBuf>,
    /// Do not check whether the servers sync: a power cut may then lose accepted messages
    #[arg(long, requires = "fleet")]
    pub(crate) fleet_unchecked_sync: bool,
    /// Keep one copy of everything, on one server: whoever loses that server loses the sessions
    #[arg(long, requires = "fleet")]
    pub(crate) fleet_single_copy: bool,
    /// Bring all sessions of this home into the fleet before the host serves anybody
    #[arg(long, requires = "fleet")]
    pub(crate) fleet_import: bool,
    /// Name of this host in the fleet [default: the machine's name]
    #[arg(long, env = "LODGE_FLEET_NAME", value_name = "NAME", requires = "fleet")]
    pub(crate) fleet_name: Option<String>,
}

impl FleetArgs {
    fn options(&self) -> Options {
        let access = |servers: &[String], credentials: &Option<PathBuf>| Access {
            servers: servers.to_vec(),
            credentials: credentials.clone(),
            authorities: self.fleet_ca.clone(),
            certificate: self.fleet_cert.clone().zip(self.fleet_key.clone()),
        };
        let mut options = Options::new(Vec::<String>::new());
        options.access = access(&self.fleet, &self.fleet_creds);
        // With credentials of their own, users of the system account come by the same addresses.
        let system = match (&self.fleet_system_creds, self.fleet_system.is_empty()) {
            (Some(_), true) => &self.fleet,
            _ => &self.fleet_system,
        };
        options.system = access(system, &self.fleet_system_creds);
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
