//! A running program: started, initialized, with one conversation.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt;
use lodge_rpc::{AUTH_REQUIRED, Error, Launch, Lines, Peer, PeerRequest, Process};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};

use crate::{
    failure::{ExternalError, Hidden, means_unknown},
    greeting::{AuthMethod, Greeting, PromptCapabilities},
    program::Program,
    reader::{Heard, LONGEST, Listener, ROOM, Reader},
    reply::Open,
    said::{Block, Command, Said, shortened},
    servers::McpServer,
};

/// How long a program may take from its start to its first conversation; some are installed first.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a program that is told to stop may take to do so.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// So much of what the program says waits here until somebody takes it, and no more than [`ROOM`]; meanwhile the program waits,
/// too.
const QUEUE: usize = 64;
/// So much of a version that is none is told, in bytes.
const LONGEST_VERSION: usize = 32;
/// A longer id of a conversation is none.
const LONGEST_ID: usize = 4096;
/// The version of the protocol that is spoken.
const PROTOCOL_VERSION: u64 = 1;

/// Where a conversation takes place.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The session's directory.
    pub cwd: PathBuf,
    /// Others that belong to it.
    pub additional_directories: Vec<PathBuf>,
    /// The MCP servers that the program is to connect to, as far as it can.
    pub mcp_servers: Vec<McpServer>,
    /// The variables that the program begins with.
    pub variables: Vec<(OsString, OsString)>,
    /// Variables to set above all others.
    pub env: Vec<(OsString, OsString)>,
    /// The conversation to go on with, by the program's id for it.
    pub earlier: Option<String>,
}

/// How a turn of the program ended, in its words.
pub type Stopped = String;

/// A program with which one conversation is held. Dropped, its processes end.
pub struct Running {
    name: String,
    process: Process,
    peer: Peer,
    listener: Listener,
    commands: Arc<watch::Sender<Vec<Command>>>,
    /// What it says in the turn that runs.
    said: Option<mpsc::Receiver<Heard>>,
    /// Why nothing comes any more.
    end: watch::Receiver<Option<String>>,
    session_id: Arc<OnceLock<String>>,
    /// Whether it knows what was said before.
    is_continued: bool,
    takes: PromptCapabilities,
    /// The session's directory, and the others as far as it was told of them.
    place: (PathBuf, Option<Vec<PathBuf>>),
    prompt: Option<PeerRequest>,
    /// How the last one was answered; nothing where the program ended first.
    answer: Option<Result<Value, Error>>,
    start_limit: Duration,
    hidden: Hidden,
    /// The method by which it is signed in once it wants that.
    sign_in: Option<String>,
    /// What people can do when it wants them to sign in.
    advice: String,
}

impl Running {
    /// Starts a program and a conversation with it.
    pub async fn start(program: &Program, start: Start) -> Result<Self, ExternalError> {
        Self::start_within(START_LIMIT, program, start).await
    }

    async fn start_within(limit: Duration, program: &Program, mut start: Start) -> Result<Self, ExternalError> {
        let name = lodge_models::Model::info(program).name.clone();
        let launch = Launch {
            command: program.entry.command.clone(),
            args: program.entry.args.clone(),
            cwd: start.cwd.clone(),
            variables: Some(std::mem::take(&mut start.variables)),
            env: program
                .entry
                .env
                .iter()
                .map(|(name, value)| (OsString::from(name), OsString::from(value)))
                .chain(std::mem::take(&mut start.env))
                .collect(),
        };
        let (process, stdout, stdin) = Process::start(&launch).map_err(|error| ExternalError::Start {
            name: name.clone(),
            id: lodge_models::Model::info(program).id.clone(),
            command: program.entry.command.clone(),
            why: error.to_string(),
        })?;
        let peer = Peer::default();
        tokio::spawn(peer.clone().write_to(stdin));
        let listener = Listener::default();
        let commands = Arc::<watch::Sender<Vec<Command>>>::default();
        let session_id = Arc::<OnceLock<String>>::default();
        let (ended, end) = watch::channel(None);
        let reader = Reader {
            peer: peer.clone(),
            listener: listener.clone(),
            commands: commands.clone(),
            room: Arc::new(Semaphore::new(ROOM)),
            session_id: session_id.clone(),
            open: Open::default(),
        };
        tokio::spawn(async move {
            let why = reader.read(Lines::new(stdout, LONGEST)).await;
            reader.peer.close();
            let _ = ended.send(Some(why));
            // Whoever begins a turn from now on sees that it has ended.
            reader.listener.send_replace(None);
        });
        let mut running = Self {
            name,
            process,
            peer,
            listener,
            commands,
            said: None,
            end,
            session_id,
            is_continued: false,
            takes: PromptCapabilities::default(),
            place: (start.cwd.clone(), None),
            prompt: None,
            answer: None,
            start_limit: limit,
            hidden: Hidden::new(program.entry.env.values()),
            sign_in: None,
            advice: String::new(),
        };
        let variables = launch.variables.iter().flatten().chain(&launch.env);
        let is_set = |name: &str| {
            variables
                .clone()
                .any(|(known, value)| known == OsStr::new(name) && !value.is_empty())
        };
        running.open(program, start, is_set).await?;
        Ok(running)
    }

    async fn open(
        &mut self,
        program: &Program,
        start: Start,
        is_set: impl Fn(&str) -> bool,
    ) -> Result<(), ExternalError> {
        let until = Instant::now() + self.start_limit;
        let greeting = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": { "readTextFile": true, "writeTextFile": true },
                "terminal": true,
                "elicitation": { "form": {}, "url": {} },
                // People are told the command.
                "auth": { "terminal": true },
            },
            "clientInfo": { "name": "lodge", "title": "Lodge", "version": env!("CARGO_PKG_VERSION") },
        });
        let mut greeting = Greeting::read(self.ask("initialize", &greeting, until).await?);
        if let Some(version) = greeting
            .protocol_version
            .take()
            .filter(|version| *version != PROTOCOL_VERSION)
        {
            let version = shortened(self.hidden.hide(version.to_string()), LONGEST_VERSION);
            return Err(self.gone(&format!(
                "speaks ACP version {version}; Lodge speaks {PROTOCOL_VERSION}."
            )));
        }
        let methods = greeting.methods();
        self.sign_in = AuthMethod::chosen(&methods, program.entry.auth.as_deref(), is_set);
        self.advice = self.hidden.hide(AuthMethod::advice(&methods, program));
        let can = greeting.agent_capabilities;
        self.takes = can.prompt_capabilities;
        let servers = start.mcp_servers.iter();
        let servers: Vec<Value> = servers
            .filter_map(|server| server.on_the_wire(&can.mcp_capabilities))
            .collect();
        let mut place = json!({ "cwd": start.cwd, "mcpServers": servers });
        let takes_directories = can.session_capabilities.additional_directories.is_some();
        if takes_directories && !start.additional_directories.is_empty() {
            place["additionalDirectories"] = json!(start.additional_directories);
        }
        self.place.1 = takes_directories.then_some(start.additional_directories);
        let way = match (can.session_capabilities.resume, can.load_session) {
            (Some(_), _) => Some("session/resume"),
            (None, true) => Some("session/load"),
            (None, false) => None,
        };
        if let (Some(method), Some(id)) = (way, start.earlier) {
            place["sessionId"] = id.as_str().into();
            let mut answer = self.converse(method, &place, until).await?;
            if let Err(error) = &answer
                && error.code != AUTH_REQUIRED
                && !means_unknown(error)
            {
                answer = self.converse(method, &place, until).await?;
            }
            match answer {
                Ok(_) => {
                    self.is_continued = true;
                    let _ = self.session_id.set(id);
                    return Ok(());
                }
                Err(error) if means_unknown(&error) => {
                    tracing::warn!(agent = self.name, %error, "an agent does not find its conversation again");
                }
                Err(error) => {
                    return Err(match self.refused(error) {
                        ExternalError::Refused { name, why } => ExternalError::NotContinued { name, why },
                        other => other,
                    });
                }
            }
            place.as_object_mut().map(|place| place.remove("sessionId"));
        }
        let made = self.converse("session/new", &place, until).await?;
        let made = made.map_err(|error| self.refused(error))?;
        let id = made["sessionId"].as_str().filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| self.gone("named no session."))?;
        if id.len() > LONGEST_ID {
            return Err(self.gone(&format!("named its session by more than {LONGEST_ID} bytes.")));
        }
        let _ = self.session_id.set(id.to_owned());
        Ok(())
    }

    fn gone(&self, why: &str) -> ExternalError {
        ExternalError::Gone {
            name: self.name.clone(),
            why: why.to_owned(),
        }
    }

    fn refused(&self, error: Error) -> ExternalError {
        let why = self.hidden.cause(&error);
        match error.code {
            AUTH_REQUIRED => self.wants_sign_in(&why),
            _ => ExternalError::Refused {
                name: self.name.clone(),
                why,
            },
        }
    }

    fn wants_sign_in(&self, why: &str) -> ExternalError {
        ExternalError::SignIn {
            name: self.name.clone(),
            why: why.trim_end_matches('.').to_owned(),
            advice: self.advice.clone(),
        }
    }

    /// Asks for a conversation. A program that wants a sign-in first is signed in once, if there is a method that needs no person.
    async fn converse(
        &mut self,
        method: &str,
        place: &Value,
        until: Instant,
    ) -> Result<Result<Value, Error>, ExternalError> {
        let answer = self.request(method, place, until).await?;
        let wants_sign_in = answer.as_ref().is_err_and(|error| error.code == AUTH_REQUIRED);
        let Some(chosen) = self.sign_in.take_if(|_| wants_sign_in) else {
            return Ok(answer);
        };
        match self
            .request("authenticate", &json!({ "methodId": chosen }), until)
            .await?
        {
            Ok(_) => self.request(method, place, until).await,
            Err(error) => {
                let why = self.hidden.cause(&error);
                Err(self.wants_sign_in(&format!("signing in by `{chosen}` failed: {why}")))
            }
        }
    }

    /// Asks something. A refusal is an error.
    async fn ask(&mut self, method: &str, params: &Value, until: Instant) -> Result<Value, ExternalError> {
        let answer = self.request(method, params, until).await?;
        answer.map_err(|error| self.refused(error))
    }

    /// Asks something.
    async fn request(
        &mut self,
        method: &str,
        params: &Value,
        until: Instant,
    ) -> Result<Result<Value, Error>, ExternalError> {
        let mut request = self.peer.request(method, params);
        match tokio::time::timeout_at(until, request.answer()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.epitaph().await),
            Err(_) => {
                let limit = self.start_limit.as_secs();
                Err(self.gone(&format!("did not answer `{method}` within {limit} s.")))
            }
        }
    }

    /// What became of it.
    async fn epitaph(&mut self) -> ExternalError {
        let _ = tokio::time::timeout(STOP_LIMIT, self.end.wait_for(Option::is_some)).await;
        let why = self.end.borrow().clone().unwrap_or_default();
        match why.is_empty() {
            true => {
                let how = self.hidden.hide(self.process.epitaph().await);
                self.gone(&format!("{how}."))
            }
            false => self.gone(&why),
        }
    }

    /// Its id for the conversation.
    pub fn session_id(&self) -> &str {
        self.session_id.get().map_or("", String::as_str)
    }

    /// Whether it knows what was said in the conversation before it was started.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Whether it works in these directories, as far as it knows.
    pub fn is_in(&self, cwd: &Path, additional: &[PathBuf]) -> bool {
        let (known, others) = &self.place;
        known == cwd && others.as_ref().is_none_or(|others| others == additional)
    }

    /// The slash commands that it named last.
    pub fn commands(&self) -> Vec<Command> {
        self.commands.borrow().clone()
    }

    /// What can be sent to it besides text and links.
    pub fn takes(&self) -> PromptCapabilities {
        self.takes
    }

    /// Whether it can be spoken to.
    pub fn is_alive(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// Begins a turn.
    pub fn prompt(&mut self, blocks: &[Block]) {
        let (sender, said) = mpsc::channel(QUEUE);
        self.said = Some(said);
        self.listener.send_replace(Some(sender));
        if !self.is_alive() {
            self.listener.send_replace(None);
        }
        let params = json!({ "sessionId": self.session_id(), "prompt": blocks });
        self.prompt = Some(self.peer.request("session/prompt", &params));
    }

    /// Ends a turn. What the program still says of it is dropped, and requests are answered as cancelled.
    fn turn_away(&mut self) {
        self.listener.send_replace(None);
        self.said = None;
    }

    /// What the program says or wants next in the turn; nothing once the turn is over.
    pub async fn next(&mut self) -> Option<Said> {
        let (prompt, said) = (self.prompt.as_mut()?, self.said.as_mut()?);
        let answer = loop {
            match said.recv().await {
                Some(Heard::Said { said, .. }) => return Some(*said),
                // What it says after its answer is not part of the turn.
                Some(Heard::Answered) => {
                    if let Some(answer) = prompt.answer().now_or_never() {
                        break answer;
                    }
                }
                None => break prompt.answer().await,
            }
        };
        self.prompt = None;
        self.answer = answer;
        self.turn_away();
        None
    }

    /// How the turn that is over ended.
    pub async fn stopped(&mut self) -> Result<Stopped, ExternalError> {
        match self.answer.take() {
            Some(Ok(answer)) => Ok(answer["stopReason"].as_str().unwrap_or("end_turn").to_owned()),
            Some(Err(error)) => Err(self.refused(error)),
            None => Err(self.epitaph().await),
        }
    }

    /// Tells it to stop and waits for that. False when it does not, and then it is of no use any more.
    pub async fn stop(&mut self) -> bool {
        self.turn_away();
        let Some(mut prompt) = self.prompt.take() else {
            return self.is_alive();
        };
        self.peer
            .notify("session/cancel", &json!({ "sessionId": self.session_id() }));
        let answered = tokio::time::timeout(STOP_LIMIT, prompt.answer()).await;
        matches!(answered, Ok(Some(_))) && self.is_alive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AgentEntry;

    #[tokio::test]
    async fn a_program_that_does_not_start_is_ended_whether_it_is_silent_or_babbles() {
        let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{}}}"#;
        let babbles = format!("while :; do echo '{update}'; done");
        let greets = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; sleep 1000"#;
        for (script, method) in [
            ("sleep 1000", "initialize"),
            (babbles.as_str(), "initialize"),
            (greets, "session/new"),
        ] {
            let entry = serde_json::json!({ "command": "sh", "args": ["-c", script] });
            let entry: AgentEntry = serde_json::from_value(entry).expect("an entry");
            let program = Program::new("slow", entry);
            let start = Start {
                cwd: std::env::temp_dir(),
                variables: std::env::vars_os().collect(),
                ..Start::default()
            };
            let started = Running::start_within(Duration::from_secs(1), &program, start).await;
            let error = started.err().expect("it does not start").to_string();
            assert_eq!(error, format!("The agent slow did not answer `{method}` within 1 s."));
        }
    }
}
