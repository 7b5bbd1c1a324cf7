//! The face as a whole: the state, the conversations behind it, and the host they belong to.

mod agents;
mod inner;
mod locked;
mod removals;
mod shapes;

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ahp_types::{
    StateAction,
    actions::{RootAgentsChangedAction, SessionActiveClientRemovedAction},
    state::{Customization, RootState},
};
use lodge_door::Admission;
use lodge_files::{Grants, Indexes, Scratch, Symbols};
use lodge_host::{Host, HostError};
use lodge_http::Push;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub(crate) use self::{
    agents::{is_agent, is_program},
    inner::Inner,
    locked::{Held, State},
    removals::Removals,
    shapes::{chat_state, point_to_chats, sub_state, summary_of},
};
use crate::{
    automations,
    changesets::Followers,
    config::AhpConfig,
    state::{Bounds, Conn, Core, Keep, Numbers, Service, Uri},
    telemetry::Telemetry,
    terminals::Terminals,
    uri,
    watch::Watch,
};

/// The face.
pub(crate) struct Face {
    pub(crate) host: Host,
    /// Its home, and with it that of the person it works for, without links.
    pub(crate) home: PathBuf,
    pub(crate) homes: Vec<PathBuf>,
    pub(crate) config: AhpConfig,
    pub(crate) inner: State,
    /// All that sessions share on the way of a delta.
    pub(crate) numbers: Arc<Numbers>,
    /// One at a time may open or make a session of a given URI.
    gates: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    /// Where the windows of clients began that are away.
    pub(crate) windows: Mutex<HashMap<Arc<str>, HashMap<Uri, usize>>>,
    pub(crate) watches: Mutex<HashMap<Uri, Watch>>,
    pub(crate) indexes: Arc<Indexes>,
    pub(crate) symbols: Arc<Symbols>,
    pub(crate) grants: Grants,
    pub(crate) removals: Removals,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    next_conn: AtomicU64,
    /// Whether somebody is about to look at the user's files.
    looking: AtomicBool,
    pub(crate) telemetry: Telemetry,
    pub(crate) automations: automations::Shown,
    pub(crate) push: Arc<Push>,
}

impl Face {
    pub(crate) async fn new(host: Host, config: AhpConfig) -> std::io::Result<Arc<Self>> {
        let customizations = crate::customizations::agents_of_host(&host).await;
        let dir = host.home().path().join("ahp");
        let home = lodge_files::real_path(host.home().path().to_owned()).await?;
        let mut homes = vec![home.clone()];
        if let Some(person) = std::env::home_dir() {
            homes.push(lodge_files::real_path(person.clone()).await.unwrap_or(person));
        }
        // What people typed is theirs alone.
        lodge_files::private_directory(&dir)?;
        Scratch::clear(&crate::customizations::plugins_place(host.home().path()));
        let grants = Grants::of_home(host.home().path());
        grants.begin();
        let telemetry = Telemetry::new(config.door.token().map(str::to_owned));
        let settings = host.host_settings();
        let catalogue = Self::automations_state(&host);
        let seq = host.counter("ahp");
        let root = RootState {
            agents: agents::agents(&host, &config.pricing, customizations),
            active_sessions: Some(0),
            terminals: None,
            config: Some(crate::actions::shown_settings(settings)),
            meta: shapes::other_hosts(&config.other_hosts),
        };
        let bounds = Bounds {
            ring_bytes: config.limits.replay_bytes,
            keep: Keep {
                bytes: config.limits.kept_bytes,
                dir: dir.as_path().into(),
            },
            window_bytes: config.limits.window_bytes,
            whole_bytes: config.limits.whole_bytes,
            subscriptions: config.limits.subscriptions,
        };
        let mut core = Core::new(seq, root, bounds);
        let (outcomes, heard) = mpsc::unbounded_channel();
        core.outcomes = Some(outcomes);
        let push = Arc::new(Push::new(host.push_subscriptions().clone(), config.door.clone()));
        core.insert_service(automations::CHANNEL.into(), None, Service::Automations(catalogue));
        let inner = Inner {
            core,
            conversations: HashMap::new(),
            subs: HashMap::new(),
            terminals: Terminals::new(config.limits.terminal_bytes),
            followers: Followers::default(),
        };
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(stop.clone().run_until_cancelled_owned(push.clone().tell_all(heard)));
        Ok(Arc::new(Self {
            host,
            indexes: Arc::new(Indexes::new(home.clone())),
            home,
            homes,
            config,
            numbers: inner.core.numbers.clone(),
            inner: State::new(inner),
            gates: Mutex::default(),
            windows: Mutex::default(),
            watches: Mutex::default(),
            symbols: Arc::default(),
            grants,
            removals: Removals::default(),
            tasks,
            stop,
            next_conn: AtomicU64::new(1),
            looking: AtomicBool::new(false),
            telemetry,
            automations: automations::Shown::default(),
            push,
        }))
    }

    /// A new connection.
    pub(crate) fn connect(&self, admission: Admission) -> Arc<Conn> {
        let mut inner = self.inner.lock();
        let id = self.next_conn.fetch_add(1, Ordering::Relaxed);
        let conn = Arc::new(Conn::new(id, self.config.limits.queue_bytes, admission));
        inner.core.conns.insert(id, conn.clone());
        conn
    }

    /// A connection is gone. Its client may come back: its windows are remembered, and its tools wait a while.
    pub(crate) fn disconnect(self: &Arc<Self>, conn: &Conn) {
        let (starts, left) = {
            let mut inner = self.inner.lock();
            let starts = inner.core.starts(conn.id);
            (starts, inner.core.disconnect(conn.id))
        };
        self.listeners_changed();
        let Some(peer) = conn.peer().cloned() else { return };
        self.somebody_left();
        {
            let mut windows = self.windows.lock();
            if windows.len() > 10_000 {
                windows.clear();
            }
            windows.insert(peer.client.clone(), starts.into_iter().collect());
        }
        if left.is_empty() {
            return;
        }
        let (face, grace) = (self.clone(), self.config.limits.client_grace);
        self.later(grace, move || {
            for channel in &left {
                face.client_left(channel, &peer.client);
            }
        });
        let (face, unwatched) = (self.clone(), self.config.limits.unwatched);
        self.later(unwatched, move || face.unload_unwatched());
    }

    /// Does something after a while, unless the face stops before.
    pub(crate) fn later(self: &Arc<Self>, after: std::time::Duration, run: impl FnOnce() + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(after) => run(),
                () = stop.cancelled() => {}
            }
        });
    }

    /// A client no longer listens to a session: its tools are gone, and what it was running has failed.
    pub(crate) fn client_left(&self, channel: &str, client: &str) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(session) = inner.core.sessions.get(channel) else {
            return;
        };
        let active = session
            .state
            .active_clients
            .iter()
            .any(|active| active.client_id == client);
        if !active || inner.core.listens(client, channel) {
            return;
        }
        let action = SessionActiveClientRemovedAction {
            client_id: client.to_owned(),
        };
        inner
            .core
            .publish(channel, &StateAction::SessionActiveClientRemoved(action), None);
        inner.clients_changed(channel);
        inner.fail_client_calls(channel, client);
        inner.core.settle(channel);
    }

    /// Closes sessions that nobody watches and that do nothing. They come back from their logs.
    pub(crate) fn unload_unwatched(&self) {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let idle: Vec<Uri> = inner
            .core
            .sessions
            .keys()
            .filter(|uri| !inner.is_needed(uri))
            .cloned()
            .collect();
        for uri in idle {
            inner.remove_session(&uri);
        }
    }

    /// The lock that makes opening and making a session one at a time.
    pub(crate) fn gate(&self, uri: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.gates.lock();
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        gates.entry(uri.to_owned()).or_default().clone()
    }

    /// Whether a session is shown here of which this face no longer hears.
    pub(crate) fn is_detached(&self, id: &str) -> bool {
        self.inner
            .lock()
            .conversations
            .values()
            .any(|talk| talk.host_id == id && talk.is_detached)
    }

    /// The URI under which clients know a session of the host's.
    pub(crate) fn uri_of(&self, id: &str) -> String {
        let address = self.host.marks().get(id).address;
        address.unwrap_or_else(|| uri::session(id))
    }

    /// Removes a session of the host's for good, with its chats.
    pub(crate) async fn delete(&self, id: &str) -> Result<(), HostError> {
        let removal = self.removals.begin(id);
        let deleted = self.host.delete(id).await;
        match deleted {
            Ok(()) => removal.done(),
            Err(HostError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Tells clients when the models changed since they were told, and the user's skills, agents and servers once they are
    /// looked at.
    pub(crate) fn refresh_agents(self: &Arc<Self>) {
        let known = self.inner.lock().core.root.agents.first().cloned();
        self.show_agents(known.and_then(|agent| agent.customizations));
        if !self.looking.swap(true, Ordering::Relaxed) {
            let face = self.clone();
            self.tasks.spawn(async move {
                face.looking.store(false, Ordering::Relaxed);
                face.show_agents(crate::customizations::agents_of_host(&face.host).await);
            });
        }
    }

    fn show_agents(&self, customizations: Option<Vec<Customization>>) {
        let agents = agents::agents(&self.host, &self.config.pricing, customizations);
        let mut inner = self.inner.lock();
        if inner.core.root.agents != agents {
            let root = inner.core.root_uri.clone();
            let action = StateAction::RootAgentsChanged(RootAgentsChangedAction { agents });
            inner.core.publish(&root, &action, None);
        }
    }

    /// Stops: connections are told, conversations are let go.
    pub(crate) fn shut(&self) {
        self.stop.cancel();
        self.watches.lock().clear();
        let mut inner = self.inner.lock();
        for conn in inner.core.conns.values() {
            conn.close(crate::state::Closing::GoingAway);
        }
        inner.conversations.clear();
    }
}
