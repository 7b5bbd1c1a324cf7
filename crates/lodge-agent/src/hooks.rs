//! Runs the hooks of a session's steps: commands from files first, then clients' hooks. One mechanism serves both, and none of
//! them can block a session for ever.

mod steps;

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use lodge_events::{HookEnd, HookError, HookStart, SessionWarning};
use lodge_log::LogError;
use lodge_tools::{
    custom::Plugin,
    hooks::{FileHooks, ONLY_IN_FILES},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

pub(crate) use self::steps::{Decision, Output as HookOutput, Step, Subagent, TextResult};
use crate::session::Shared;

/// How long a client may take. A person may have to answer, so it is long.
const CLIENT_LIMIT: Duration = Duration::from_secs(600);
/// How long anybody may take who is only told of an end, since something waits for that.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Which hooks of files a session has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HookFiles {
    /// None.
    Off,
    /// The person's own, and those of the folder it works in if the person trusts that.
    #[default]
    Trusted,
    /// Also those of a folder nobody said to trust: a client asked for them.
    All,
}

/// Finds the hooks that files describe, given a working directory.
pub type FindHooks = Arc<dyn Fn(&Path, HookFiles) -> FileHooks + Send + Sync>;

/// The hooks of files that are in force, and how to find them anew.
pub(crate) struct Hooks {
    find: FindHooks,
    files: Mutex<FileHooks>,
    /// What people were told of already.
    told: Mutex<Vec<String>>,
}

impl Hooks {
    pub(crate) fn new(find: FindHooks) -> Self {
        Self {
            find,
            files: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// How many of files there are.
    pub(crate) fn len(&self) -> usize {
        self.files.lock().len()
    }
}

type Invocation = BoxFuture<'static, Result<Option<Value>, String>>;

impl Shared {
    /// Reads the hooks of files anew, so that a change of them holds from the next message on.
    pub(crate) async fn read_hooks(&self) -> Result<(), LogError> {
        let (cwd, which, plugins, given) = {
            let settings = self.settings.lock();
            let plugins: Vec<Plugin> = settings.customization.all_plugins().cloned().collect();
            let given = settings.customization.hook_directories.clone();
            (settings.cwd.clone(), settings.hook_files, plugins, given)
        };
        if which == HookFiles::Off && plugins.is_empty() && given.is_empty() {
            *self.hooks.files.lock() = FileHooks::default();
            return Ok(());
        }
        let find = self.hooks.find.clone();
        let read = move || {
            let mut files = find(&cwd, which);
            for dir in &given {
                files.read_given(&cwd.join(dir), &cwd);
            }
            for plugin in &plugins {
                files.read_plugin(plugin, &cwd);
            }
            let left_out = plugins.iter().filter_map(Plugin::language_servers_left_out);
            (files, left_out.collect::<Vec<_>>())
        };
        let (files, left_out) = tokio::task::spawn_blocking(read).await.unwrap_or_default();
        let problems = files.problems.clone();
        *self.hooks.files.lock() = files;
        for message in problems {
            self.warn_once("hooks", message)?;
        }
        for message in left_out {
            self.warn_once("plugins", message)?;
        }
        Ok(())
    }

    /// Tells people what is not as a file has it, unless they were told.
    pub(crate) fn warn_once(&self, kind: &str, message: String) -> Result<(), LogError> {
        {
            let mut told = self.hooks.told.lock();
            if told.contains(&message) {
                return Ok(());
            }
            told.push(message.clone());
        }
        self.root().recorder.record(SessionWarning {
            warning_type: kind.into(),
            message,
            ..SessionWarning::default()
        })?;
        Ok(())
    }

    /// Tells whoever wants to know of a step. Answers with what they said to it together.
    pub(crate) async fn hook(&self, step: Step<'_>) -> Result<HookOutput, LogError> {
        let hook_type = step.name();
        let mut output = HookOutput::default();
        let clients = match ONLY_IN_FILES.contains(&hook_type) {
            true => Vec::new(),
            false => self.clients.lock().calls(|can| can.hooks),
        };
        if clients.is_empty() && self.hooks.len() == 0 {
            return Ok(output);
        }
        let mut input = step.input();
        let files = self.hooks.files.lock().of(hook_type, &input);
        if files.is_empty() && clients.is_empty() {
            return Ok(output);
        }
        // So that hooks can tell a sub-agent's doings from those of the session's own agent.
        input["sessionId"] = json!(self.sub.as_ref().map_or(&*self.id, |sub| &sub.task.id));
        input["timestamp"] = json!(jiff::Timestamp::now().as_millisecond());
        input["cwd"] = json!(self.settings.lock().cwd);
        let limit = match hook_type {
            "sessionEnd" | "errorOccurred" => END_LIMIT,
            _ => CLIENT_LIMIT,
        };
        let mut invocations: Vec<(Option<String>, Invocation)> = Vec::new();
        for hook in files {
            let mut given = input.clone();
            if matches!(hook_type, "agentStop" | "subagentStart" | "subagentStop") {
                given["transcriptPath"] = json!(self.dir.join("events.jsonl"));
            }
            let source = hook.source.to_string_lossy().into_owned();
            let environment = self.tool_state.environment();
            let run = async move { hook.run(&given, &environment).await };
            invocations.push((Some(source), Box::pin(run)));
        }
        for client in clients {
            invocations.push((None, client.hook(hook_type.into(), input.clone())));
        }
        for (source, invocation) in invocations {
            let given = self.invoke(hook_type, &input, source, invocation, limit).await?;
            output.merge(HookOutput::read(given));
        }
        Ok(output)
    }

    async fn invoke(
        &self,
        hook_type: &str,
        input: &Value,
        source: Option<String>,
        invocation: Invocation,
        limit: Duration,
    ) -> Result<Option<Value>, LogError> {
        let id = Uuid::new_v4().to_string();
        self.recorder.record(HookStart {
            hook_invocation_id: id.clone(),
            hook_type: hook_type.into(),
            input: Some(input.clone()),
            ..HookStart::default()
        })?;
        self.recorder.durable().await?;
        let ended = tokio::time::timeout(limit, invocation).await;
        let (given, error) = match ended.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs()))) {
            Ok(given) => (given, None),
            Err(message) => {
                let error = HookError {
                    message,
                    source,
                    ..HookError::default()
                };
                (None, Some(error))
            }
        };
        self.recorder.record(HookEnd {
            hook_invocation_id: id,
            hook_type: hook_type.into(),
            success: error.is_none(),
            output: given.clone(),
            error,
            ..HookEnd::default()
        })?;
        Ok(given)
    }
}
