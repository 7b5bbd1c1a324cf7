//! Real NATS servers with JetStream, on this machine: started, killed, paused and parted from each other.

mod proxy;

use std::{
    collections::BTreeMap,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub use proxy::Proxy;

/// Longer than a server takes to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The usual users.
const USERS: &str = "accounts {
  LODGE { jetstream: enabled, users: [ { user: lodge, password: lodge } ] }
  $SYS { users: [ { user: system, password: system } ] }
}";

/// What a cluster is made of.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How many servers.
    pub servers: usize,
    /// Whether they bring every write to the disk before they acknowledge it.
    pub sync_always: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 3,
            sync_always: true,
        }
    }
}

/// Servers that know each other. They and their files are gone with the value.
pub struct Cluster {
    dir: TempDir,
    settings: Settings,
    /// Who may come, and over what, in the words of a server's configuration.
    users: String,
    servers: Vec<Server>,
    /// The way that each server takes to each other one.
    routes: BTreeMap<(usize, usize), Proxy>,
    _ports: Ports,
}

struct Server {
    client_port: u16,
    route_port: u16,
    process: Option<Child>,
}

/// The server that `cargo xtask clients` installed, or one that is on the path by itself.
///
/// # Panics
/// With `LODGE_REQUIRE_CLIENTS`, when there is none.
pub fn server_program() -> Option<PathBuf> {
    let name = format!("nats-server{}", std::env::consts::EXE_SUFFIX);
    let installed = crate::target().join("clients/nats/bin").join(&name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|dir| dir.join(&name));
    let found = std::iter::once(installed).chain(on_path).find(|path| path.is_file());
    if found.is_none() {
        crate::skip("nats-server is not installed; `cargo xtask clients` installs it");
    }
    found
}

impl Cluster {
    /// Three servers that sync every write; nothing, and a line that says so, where no server is installed.
    pub async fn start() -> Option<Self> {
        Self::start_with(Settings::default()).await
    }

    /// Starts servers as the settings say.
    ///
    /// # Panics
    /// When they cannot be started.
    pub async fn start_with(settings: Settings) -> Option<Self> {
        Self::start_for(settings, USERS).await
    }

    /// Starts servers for other users than the usual ones, in the words of a server's configuration.
    ///
    /// # Panics
    /// When they cannot be started.
    pub async fn start_for(settings: Settings, users: &str) -> Option<Self> {
        let program = server_program()?;
        let dir = tempfile::Builder::new()
            .prefix("lodge-nats-")
            .tempdir()
            .expect("a temporary directory");
        let mut ports = Ports::reserve();
        let servers: Vec<Server> = (0..settings.servers)
            .map(|_| Server {
                client_port: ports.next(),
                route_port: ports.next(),
                process: None,
            })
            .collect();
        let mut routes = BTreeMap::new();
        for (from, to) in pairs(settings.servers) {
            routes.insert((from, to), Proxy::to(servers[to].route_port).await);
        }
        let mut cluster = Self {
            dir,
            settings,
            users: users.to_owned(),
            servers,
            routes,
            _ports: ports,
        };
        for server in 0..settings.servers {
            fs::write(cluster.config(server), cluster.configuration(server)).expect("a configuration");
            cluster.spawn(&program, server);
        }
        for server in 0..settings.servers {
            cluster.wait_until_listening(server).await;
        }
        Some(cluster)
    }

    /// How many servers there are, running or not.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there is no server at all.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// The servers' addresses for hosts, with a user of the account that has JetStream.
    pub fn urls(&self) -> Vec<String> {
        let ports = self.servers.iter().map(|server| server.client_port);
        ports
            .map(|port| format!("nats://lodge:lodge@127.0.0.1:{port}"))
            .collect()
    }

    /// The servers' addresses, for whoever has credentials of another kind.
    pub fn plain_urls(&self, scheme: &str) -> Vec<String> {
        let ports = self.servers.iter().map(|server| server.client_port);
        ports.map(|port| format!("{scheme}://127.0.0.1:{port}")).collect()
    }

    /// The servers' addresses with a user of the system account.
    pub fn system_urls(&self) -> Vec<String> {
        let ports = self.servers.iter().map(|server| server.client_port);
        ports
            .map(|port| format!("nats://system:system@127.0.0.1:{port}"))
            .collect()
    }

    /// Ways to the servers for one host alone, in the order of the servers, with the addresses that it is given.
    pub async fn doors(&self) -> (Vec<Proxy>, Vec<String>) {
        let mut doors = Vec::new();
        for server in &self.servers {
            doors.push(Proxy::to(server.client_port).await);
        }
        let urls = doors.iter().map(Proxy::port);
        let urls = urls
            .map(|port| format!("nats://lodge:lodge@127.0.0.1:{port}"))
            .collect();
        (doors, urls)
    }

    /// Ends a server without a word (`kill -9`).
    pub fn kill(&mut self, server: usize) {
        if let Some(mut process) = self.servers[server].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops a server from running (`SIGSTOP`) until it is resumed.
    pub fn pause(&self, server: usize) {
        self.signal(server, Signal::STOP);
    }

    /// Has a paused server go on.
    pub fn resume(&self, server: usize) {
        self.signal(server, Signal::CONT);
    }

    /// Starts a server that was killed, with the files that it left.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn restart(&mut self, server: usize) {
        self.kill(server);
        let program = server_program().expect("it was there when the cluster was started");
        self.spawn(&program, server);
        self.wait_until_listening(server).await;
    }

    /// The same with another setting of whether it brings every write to the disk.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn restart_with(&mut self, server: usize, sync_always: bool) {
        self.settings.sync_always = sync_always;
        fs::write(self.config(server), self.configuration(server)).expect("a configuration");
        self.restart(server).await;
    }

    /// The same for other users, in the words of a server's configuration.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn restart_for(&mut self, server: usize, users: &str) {
        users.clone_into(&mut self.users);
        fs::write(self.config(server), self.configuration(server)).expect("a configuration");
        self.restart(server).await;
    }

    /// Stops a server in order, changes a letter wherever its files of these streams hold one of the texts, and starts it again.
    ///
    /// # Panics
    /// When the files do not hold one of them, or the server cannot be started.
    pub async fn damage(&mut self, server: usize, streams: &str, texts: &[&str]) {
        let began = Instant::now();
        while texts.iter().any(|text| !self.holds(server, streams, text)) {
            assert!(began.elapsed() < PATIENCE, "server {server} does not have {texts:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.signal(server, Signal::TERM);
        if let Some(mut process) = self.servers[server].process.take() {
            let _ = process.wait();
        }
        for text in texts {
            for (file, place) in self.places_of(server, streams, text) {
                let mut bytes = fs::read(&file).expect("a block can be read");
                bytes[place] ^= 1;
                fs::write(file, bytes).expect("a block can be written");
            }
        }
        self.restart(server).await;
    }

    /// Whether a server's files of these streams hold a text.
    pub fn holds(&self, server: usize, streams: &str, text: &str) -> bool {
        !self.places_of(server, streams, text).is_empty()
    }

    /// Where a server's files of these streams hold a text.
    fn places_of(&self, server: usize, streams: &str, text: &str) -> Vec<(PathBuf, usize)> {
        let mut files = Vec::new();
        blocks_below(&self.path(server), streams, &mut files);
        let places = files.into_iter().filter_map(|file| {
            let bytes = fs::read(&file).ok()?;
            let place = bytes.windows(text.len()).position(|part| part == text.as_bytes())?;
            Some((file, place))
        });
        places.collect()
    }

    /// Parts two servers.
    pub fn cut(&self, one: usize, other: usize) {
        self.routes[&(one, other)].cut();
        self.routes[&(other, one)].cut();
    }

    /// Parts a server from all others.
    pub fn isolate(&self, server: usize) {
        for other in (0..self.len()).filter(|other| *other != server) {
            self.cut(server, other);
        }
    }

    /// Has all servers reach each other again.
    pub fn heal(&self) {
        for route in self.routes.values() {
            route.heal();
        }
    }

    /// What a server wrote to its log.
    pub fn log(&self, server: usize) -> String {
        fs::read_to_string(self.path(server).join("log")).unwrap_or_default()
    }

    fn path(&self, server: usize) -> PathBuf {
        self.dir.path().join(format!("server-{server}"))
    }

    fn config(&self, server: usize) -> PathBuf {
        self.dir.path().join(format!("server-{server}.conf"))
    }

    fn configuration(&self, server: usize) -> String {
        let Server {
            client_port,
            route_port,
            ..
        } = &self.servers[server];
        let store = self.path(server);
        let sync = if self.settings.sync_always {
            "sync_interval: always"
        } else {
            ""
        };
        let mut text = format!(
            "server_name: server-{server}\n\
             listen: \"127.0.0.1:{client_port}\"\n\
             jetstream {{ store_dir: {store:?}, max_mem: 64MB, max_file: 4GB, {sync} }}\n\
             {}\n",
            self.users
        );
        if self.settings.servers > 1 {
            let routes: Vec<String> = (0..self.settings.servers)
                .filter_map(|to| self.routes.get(&(server, to)))
                .map(|route| format!("\"nats-route://127.0.0.1:{}\"", route.port()))
                .collect();
            // Servers tell each other their addresses, which would lead around the ways that tests cut.
            text += &format!(
                "cluster {{ name: lodge-test, listen: \"127.0.0.1:{route_port}\", advertise: \"127.0.0.1:1\", \
                 no_advertise: true, pool_size: -1, routes: [ {} ] }}\n",
                routes.join(", ")
            );
        }
        text
    }

    fn spawn(&mut self, program: &Path, server: usize) {
        let dir = self.path(server);
        fs::create_dir_all(&dir).expect("a directory for the server");
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(dir.join("log"))
            .expect("a file for the server's log");
        let process = Command::new(program)
            .arg("--config")
            .arg(self.config(server))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("nats-server can be started");
        self.servers[server].process = Some(process);
    }

    async fn wait_until_listening(&mut self, server: usize) {
        let port = self.servers[server].client_port;
        let began = Instant::now();
        while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            let process = self.servers[server].process.as_mut().expect("it was started");
            let ended = process.try_wait().ok().flatten();
            assert!(
                ended.is_none() && began.elapsed() < PATIENCE,
                "nats-server {server} does not listen ({ended:?}): {}",
                self.log(server)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn signal(&self, server: usize, signal: Signal) {
        if let Some(process) = &self.servers[server].process {
            let _ = kill_process(Pid::from_child(process), signal);
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for server in 0..self.len() {
            self.kill(server);
        }
    }
}

/// The files with messages of streams whose names begin like this.
fn blocks_below(dir: &Path, streams: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            blocks_below(&path, streams, found);
        } else if path.extension().is_some_and(|extension| extension == "blk")
            && path.iter().any(|part| part.to_string_lossy().starts_with(streams))
        {
            found.push(path);
        }
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |from| (0..count).filter(move |to| *to != from).map(move |to| (from, to)))
}

/// Ports for one cluster. The first of a block of ports is bound as long as the cluster lives: whoever has it, has the block. The
/// system gives none of them to a connection, because it hands out ports from 32768 on.
struct Ports {
    _first: TcpListener,
    rest: std::ops::Range<u16>,
}

impl Ports {
    const BLOCK: u16 = 16;

    fn reserve() -> Self {
        let blocks = (32_000 - 10_000) / Self::BLOCK;
        let first = std::iter::repeat_with(|| (uuid::Uuid::new_v4().as_u128() % u128::from(blocks)) as u16)
            .map(|block| 10_000 + block * Self::BLOCK)
            .find_map(|port| Some((TcpListener::bind(("127.0.0.1", port)).ok()?, port)));
        let (listener, port) = first.expect("an endless iterator ends with a block");
        Self {
            _first: listener,
            rest: port + 1..port + Self::BLOCK,
        }
    }

    /// The next port of the block that no other program has.
    fn next(&mut self) -> u16 {
        self.rest
            .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
            .expect("a block has more ports than a cluster needs")
    }
}
