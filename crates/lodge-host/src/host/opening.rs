//! Opening sessions: creating them, or reading them back from their logs.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use lodge_agent::{
    Agent, Approval, Change, EVENTS_VERSION, Facts, GitContext, Mode, NewAgent, PRODUCER, Remote, Reopen, Settings,
    Supply, limits,
};
use lodge_events::{
    Event, LodgeApproval, LodgeDirectories, LodgeNamed, LodgeWorktreeWanted, SessionInfo, SessionModeChanged,
    SessionResume, SessionStart, SessionWarning, WorkingDirectoryContext,
};
use lodge_log::{About, LogError, Opened, Store};
use lodge_models::Rehearsal;
use lodge_tools::{
    SessionTools,
    changes::{self, Changes},
    rules::{Policy, RuleSet},
};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{Host, Inner};
use crate::{
    HostError, Lifecycle, McpFiles, ModelChoice, NewSession, Resume, Storage,
    hub::Hub,
    keeper,
    metrics::TurnClock,
    session::{Live, Session},
    trust::Trust,
};

impl Host {
    /// Makes a session. Its first event is `session.start`.
    pub async fn create(&self, new: NewSession) -> Result<Session, HostError> {
        let id = new.id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
        if id.is_empty() {
            return Err(HostError::Invalid("A session id cannot be empty.".into()));
        }
        let gate = self.0.gate(&id);
        let open = gate.lock().await;
        if self.live(&id).is_some() {
            return Err(HostError::AlreadyExists(id));
        }
        let worktree = new.worktree.clone();
        let session = self.create_held(id, new, open).await?;
        if let Some(base) = worktree {
            let wanted = async {
                session
                    .agent()
                    .record_beside(LodgeWorktreeWanted { base })?
                    .done()
                    .await
            };
            if let Err(error) = wanted.await {
                let id = session.id().to_owned();
                drop(session);
                self.delete(&id).await?;
                return Err(error.into());
            }
        }
        Ok(session)
    }

    /// The same while the session's gate is held.
    fn create_held<'a>(
        &'a self,
        id: String,
        new: NewSession,
        open: tokio::sync::MutexGuard<'a, ()>,
    ) -> BoxFuture<'a, Result<Session, HostError>> {
        Box::pin(async move {
            let settings = self.settings(&new)?;
            self.0.home.ensure()?;
            let log = match self.0.home.sessions().create(&id) {
                Err(LogError::Exists { .. }) => return Err(HostError::AlreadyExists(id)),
                other => other?,
            };
            let remote = match &self.0.keeper {
                None => None,
                Some(keeper) => match keeper.create(&id, self.0.home.sessions()).await {
                    Ok(remote) => Some(remote),
                    Err(error) => {
                        let _ = self.0.home.sessions().delete(&id);
                        return Err(error);
                    }
                },
            };
            let context = context_of(&settings);
            let start = SessionStart {
                session_id: id.clone(),
                version: EVENTS_VERSION,
                producer: PRODUCER.into(),
                copilot_version: self.0.version.clone(),
                start_time: lodge_events::timestamp_text(jiff::Timestamp::now()),
                selected_model: chosen_model(&new.model, &settings),
                reasoning_effort: settings.reasoning_effort.clone(),
                auto_tier: settings.auto.tier.clone(),
                context: Some(context),
                session_limits: limits(settings.limit),
                already_in_use: Some(false),
                remote_steerable: Some(false),
                ..SessionStart::default()
            };
            let opened = Opened {
                log,
                repaired: None,
                snapshot: None,
            };
            let session = self.start_with(&id, opened, Facts::default(), settings, &new.storage, remote)?;
            self.0.enlist(&session);
            // Before the first event: a list that knows the session knows its name.
            self.0.label(&session, session.settings().name);
            if let Err(error) = session.record(start).await {
                // Nobody got it, so nobody may find it in the way of the next attempt.
                drop(open);
                let _ = self.delete(&id).await;
                return Err(error.into());
            }
            if let Some(chat) = new.chat {
                session.agent().record_beside(chat)?.done().await?;
            }
            if let Some(name) = session.agent().settings().name {
                let name = Some(name);
                let named = LodgeNamed { name, automatic: None };
                session.agent().record_beside(named)?.done().await?;
            }
            if !new.additional_directories.is_empty() {
                let further = new.additional_directories.iter();
                let further = further.map(|path| path.to_string_lossy().into_owned()).collect();
                let chosen = None;
                let directories = LodgeDirectories { further, chosen };
                session.agent().record_beside(directories)?.done().await?;
            }
            if new.mode != Mode::Interactive {
                // No field of `session.start` says it, and it must be known after a restart.
                let mode = SessionModeChanged {
                    previous_mode: Mode::Interactive.as_str().into(),
                    new_mode: new.mode.as_str().into(),
                };
                session.record(mode).await?;
            }
            if new.approval != Approval::default() {
                session
                    .record(LodgeApproval {
                        mode: new.approval.into(),
                    })
                    .await?;
            }
            session.use_mcp_files(new.mcp_files);
            session.add_mcp_servers(new.mcp_servers);
            session.apply_known_decisions().await?;
            if let Some(agent) = &new.agent
                && let Err(error) = session.select_agent(Some(agent.clone())).await
            {
                // Without the agent that was asked for it is not the session that was asked for.
                drop(open);
                self.delete(&id).await?;
                return Err(error.into());
            }
            let _ = self.0.lifecycle.send(Lifecycle::Created(id));
            Ok(session)
        })
    }

    fn start_with(
        &self,
        id: &str,
        opened: Opened,
        facts: Facts,
        settings: Settings,
        storage: &Storage,
        remote: Option<Remote>,
    ) -> Result<Session, HostError> {
        let dir = self.0.home.sessions().dir(id)?;
        let (host, name) = (Arc::downgrade(&self.0), id.to_owned());
        let clock = TurnClock::default();
        let hub = Arc::new(Hub::with_tap(move |event| note(&host, &name, &clock, event)));
        // Rules that cannot be read are no reason to go on without them.
        let rules = RuleSet::load(self.0.home.path(), &settings.cwd, Policy::default())
            .map_err(|error| HostError::Invalid(format!("The permission rules cannot be used: {error}")))?;
        let mut tool_state = SessionTools::new(&dir).with_exclusions(rules.unsearchable());
        tool_state = tool_state.with_memories(self.0.memories.clone());
        tool_state.use_environment(self.environment_of(id, facts.about.chat_of()));
        if let Some(launcher) = &self.0.sandbox {
            tool_state = tool_state.with_sandbox(launcher.clone());
        }
        if let Some(name) = &storage.shown_as {
            tool_state = tool_state.shown_as(name.clone());
        }
        if let Some(database) = &storage.database {
            tool_state = tool_state.with_database(database.clone());
        }
        let agent = Agent::spawn(NewAgent {
            id: id.to_owned(),
            rules,
            changes: Arc::new(Changes::new(&dir, self.0.home.path(), changes::Limits::default())),
            dir,
            log: opened.log,
            reopen: self.0.reopen(id),
            facts,
            settings,
            builtins: self.0.builtins.clone(),
            tool_state: Arc::new(tool_state),
            trust: Trust::of(&self.0.home).store().clone(),
            find_hooks: Trust::of(&self.0.home).find_hooks(),
            logins: self.0.logins.clone(),
            publish: hub.clone(),
            secrets: self.0.secrets.clone(),
            remote,
        });
        let live = Arc::new(Live {
            agent,
            hub,
            host: Arc::downgrade(&self.0),
            caller: self.1.clone(),
            mcp_files: Mutex::default(),
            brought: Mutex::default(),
        });
        let session = Session(live);
        if self.0.keeper.is_some() {
            keeper::end_when_lost(Arc::downgrade(&self.0), &session);
        }
        Ok(session)
    }

    /// A session, from memory or from its log. Nothing is recorded by this, but repairs are. A further chat has the approval mode
    /// and the directories of its session.
    pub async fn open_session(&self, id: &str) -> Result<Session, HostError> {
        self.open_stored(id, &Storage::default()).await
    }

    /// The same for a session whose files a client keeps.
    pub async fn open_stored(&self, id: &str, storage: &Storage) -> Result<Session, HostError> {
        self.use_again(id);
        let was_live = self.live(id).is_some();
        let session = self.open_alone(id, storage).await?;
        let about = session.state().about;
        if let Some(main) = about.chat_of()
            && let Ok(main) = self.open_alone(main, &Storage::default()).await
        {
            if !was_live {
                let approval = main.settings().approval;
                session.configure(Change::Approval(approval)).await?;
            }
            session.work_where(&main, &about.directories).await?;
        }
        Ok(session)
    }

    /// The same for a session that stays unused.
    pub(crate) async fn open_unused(&self, id: &str) -> Result<Session, HostError> {
        self.open_alone(id, &Storage::default()).await
    }

    fn open_alone<'a>(&'a self, id: &'a str, storage: &'a Storage) -> BoxFuture<'a, Result<Session, HostError>> {
        Box::pin(async move {
            self.end_if_lost(id).await;
            if let Some(session) = self.live(id) {
                // One that nobody has open any more is from now on the caller's.
                if self.1.is_some() && session.clients() == 0 && !session.is_busy() {
                    let environment = self.environment_of(id, None);
                    session.supply(Supply::Environment(environment)).await?;
                }
                return Ok(session);
            }
            let gate = self.0.gate(id);
            let _open = gate.lock().await;
            if let Some(session) = self.live(id) {
                return Ok(session);
            }
            let remote = match &self.0.keeper {
                None if self.0.home.sessions().is_copy(id)? => return Err(HostError::Invalid(of_fleet(id))),
                None => None,
                Some(keeper) => Some(keeper.open(id, self.0.home.sessions()).await?),
            };
            let (inner, name) = (self.0.clone(), id.to_owned());
            let (opened, facts) = tokio::task::spawn_blocking(move || {
                let opened = inner.home.sessions().open(&name)?;
                let facts = Facts::read(&opened)?;
                Ok::<_, LogError>((opened, facts))
            })
            .await
            .map_err(|_| HostError::Invalid(format!("The session {id} could not be opened.")))?
            .map_err(|error| match error {
                LogError::NotFound { .. } => HostError::NotFound(id.to_owned()),
                other => other.into(),
            })?;
            if let Some(why) = &facts.newer {
                return Err(HostError::Newer {
                    id: id.to_owned(),
                    why: why.clone(),
                });
            }
            let settings = self.settings_of(id, &facts)?;
            let repaired = opened.repaired.as_ref().map(ToString::to_string);
            let session = self.start_with(id, opened, facts, settings, storage, remote)?;
            session.use_mcp_files(McpFiles::default());
            session.apply_known_decisions().await?;
            // Before anybody else gets it: what they see is what it ends with.
            if let Err(error) = session.finish_interrupted().await {
                let message = format!("A rewind was interrupted and cannot be finished: {error}");
                tracing::warn!(session = id, message);
                let info = SessionInfo {
                    info_type: "rewind_interrupted".into(),
                    message,
                    ..SessionInfo::default()
                };
                session.record(info).await?;
            }
            if let Some(message) = session.agent().queue_damage() {
                let warning = SessionWarning {
                    warning_type: "queue_damaged".into(),
                    message: message.to_owned(),
                    ..SessionWarning::default()
                };
                session.record(warning).await?;
            }
            if let Some(message) = repaired {
                session
                    .record(SessionInfo {
                        info_type: "log_repaired".into(),
                        message,
                        ..SessionInfo::default()
                    })
                    .await?;
            }
            self.0.enlist(&session);
            Ok(session)
        })
    }

    /// Opens a session to go on with it: `session.resume` is recorded, and what was open when the host went down is
    /// taken up again or closed.
    pub async fn resume(&self, id: &str, resume: Resume) -> Result<Session, HostError> {
        let was_live = self.live(id).is_some();
        let session = self.open_session(id).await?;
        for supply in self.supplies(&resume)? {
            session.supply(supply).await?;
        }
        for change in resume.changes() {
            session.configure(change).await?;
        }
        if let Some(files) = resume.mcp_files.clone() {
            session.mcp().forget_files();
            session.use_mcp_files(files);
        }
        session.add_mcp_servers(resume.mcp_servers.clone());
        if let Some(agent) = &resume.agent {
            session.select_agent(Some(agent.clone())).await?;
        }
        let settings = session.agent().settings();
        let event_count = session.agent().paused(|log| log.count());
        if !resume.silent {
            session
                .record(SessionResume {
                    resume_time: lodge_events::timestamp_text(jiff::Timestamp::now()),
                    event_count,
                    selected_model: Some(settings.model.info().id.clone()),
                    reasoning_effort: settings.reasoning_effort.clone(),
                    auto_tier: settings.auto.tier.clone(),
                    context: Some(context_of(&settings)),
                    session_limits: limits(settings.limit),
                    already_in_use: Some(was_live && session.clients() > 1),
                    session_was_active: Some(session.is_busy()),
                    continue_pending_work: Some(resume.continue_pending),
                    ..SessionResume::default()
                })
                .await?;
        }
        // Asked again, or closed as interrupted: either way nothing is left hanging.
        if resume.continue_pending {
            session.continue_pending().await?
        } else {
            session.settle_interrupted().await?
        };
        Ok(session)
    }
}

impl Inner {
    /// From here on others find the session.
    fn enlist(&self, session: &Session) {
        self.live.lock().insert(session.id().to_owned(), session.0.clone());
        match self.keeper {
            Some(_) => self.schedules.opened_after_others(session),
            None => self.schedules.opened(session.id()),
        }
    }

    /// Opens a session's log anew when another process has written to it.
    fn reopen(self: &Arc<Self>, id: &str) -> Reopen {
        let (host, id) = (Arc::downgrade(self), id.to_owned());
        Box::new(move || match host.upgrade() {
            Some(host) => Ok(host.home.sessions().open(&id)?.log),
            None => Err(LogError::NotFound { id: id.clone() }),
        })
    }
}

/// Tells who watches all sessions.
fn note(host: &Weak<Inner>, id: &str, clock: &TurnClock, event: &Event) {
    let Some(host) = host.upgrade() else { return };
    host.metrics.observe(clock, event);
    host.schedules.event(id, event);
    // Its first event is what makes a session, and that is told as such. Little of what hangs beside the chain is in lists.
    let is_in_lists = !event.is_beside() || About::is_told_by(event);
    if event.is_ephemeral() || !is_in_lists || event.is::<SessionStart>() {
        return;
    }
    let _ = host.lifecycle.send(Lifecycle::Updated(id.to_owned()));
}

/// Why a host that is in no fleet does not go on with a session.
fn of_fleet(id: &str) -> String {
    format!(
        "The session {id} belongs to a fleet, and this program is not connected to it: what you add here would be missing on \
         the other hosts. Name the fleet with --fleet or LODGE_FLEET, or take the session out of the fleet with \
         `lodge fleet export`. You can read and export the copy in this home."
    )
}

/// The model that a new session keeps. The rehearsal model is not kept when it only stands in for a model that nobody set up yet: the
/// session follows the default then.
fn chosen_model(choice: &ModelChoice, settings: &Settings) -> Option<String> {
    let id = settings.model.info().id.clone();
    let stands_in = matches!(choice, ModelChoice::Default) && id == Rehearsal::ID;
    (!stands_in).then_some(id)
}

fn context_of(settings: &Settings) -> WorkingDirectoryContext {
    let git = GitContext::of(&settings.cwd);
    WorkingDirectoryContext {
        cwd: settings.cwd.to_string_lossy().into_owned(),
        git_root: git.root,
        repository: git.repository,
        branch: git.branch,
        ..WorkingDirectoryContext::default()
    }
}
