//! A running program: started, initialized, with one conversation.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt;
use lodge_rpc::{
    AUTH_REQUIRED, Error, INVALID_PARAMS, Launch, Lines, METHOD_NOT_FOUND, NOT_FOUND, Peer, PeerRequest, Process,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::Instant,
};

use crate::{
    program::Program,
    reader::{Heard, LONGEST, Listener, ROOM, Reader},
    said::{Block, Command, Said},
    servers::{McpCapabilities, McpServer},
};

/// How long a program may take from its start to its first conversation; some are installed first.
const START_LIMIT: Duration = Duration::from_secs(120);
/// How long a program that is told to stop may take to do so.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// So much of what the program says waits here until somebody takes it, and no more than [`ROOM`]; meanwhile the program waits,
/// too.
const QUEUE: usize = 64;
/// A longer id of a conversation is none.
const LONGEST_ID: usize = 4096;
/// Shorter values of variables occur by chance everywhere.
const SHORTEST_SECRET: usize = 4;

/// Why a program does not do what it should.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ExternalError {
    /// It could not be started.
    #[error("The agent {name} cannot be started: `{command}`: {why}. Check [agents.{name}] in lodge.toml.")]
    Start {
        /// The agent.
        name: String,
        /// The program.
        command: String,
        /// What the system says.
        why: String,
    },
    /// It is not there any more, or does not behave.
    #[error("The agent {name} {why}")]
    Gone {
        /// The agent.
        name: String,
        /// How it ended.
        why: String,
    },
    /// It refused.
    #[error("The agent {name} reports: {why}")]
    Refused {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
    },
    /// It does not continue its conversation, although it may know it.
    #[error(
        "The agent {name} could not continue its conversation: {why}. Send again to try once more. If that fails, too, it begins a new \
         one."
    )]
    NotContinued {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
    },
    /// Somebody has to sign in first.
    #[error("The agent {name} needs you to sign in: {why}. Start it in a terminal and sign in there, then send again.")]
    SignIn {
        /// The agent.
        name: String,
        /// What it says.
        why: String,
    },
}

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

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Greeting {
    agent_capabilities: Capabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Capabilities {
    load_session: bool,
    mcp_capabilities: McpCapabilities,
    prompt_capabilities: PromptCapabilities,
    session_capabilities: SessionCapabilities,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PromptCapabilities {
    image: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SessionCapabilities {
    resume: Option<Value>,
    additional_directories: Option<Value>,
}

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
    takes_images: bool,
    /// The session's directory, and the others as far as it was told of them.
    place: (PathBuf, Option<Vec<PathBuf>>),
    prompt: Option<PeerRequest>,
    /// How the last one was answered; nothing where the program ended first.
    answer: Option<Result<Value, Error>>,
    start_limit: Duration,
    /// The values of variables that were set for it, the longest first: it may print them.
    hidden: Vec<String>,
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
        };
        tokio::spawn(async move {
            let why = reader.read(Lines::new(stdout, LONGEST)).await;
            reader.peer.close();
            let _ = ended.send(Some(why));
            // Whoever begins a turn from now on sees that it has ended.
            reader.listener.send_replace(None);
        });
        let values = program.entry.env.values();
        let mut hidden: Vec<String> = values.filter(|value| value.len() >= SHORTEST_SECRET).cloned().collect();
        hidden.sort_by_key(|value| std::cmp::Reverse(value.len()));
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
            takes_images: false,
            place: (start.cwd.clone(), None),
            prompt: None,
            answer: None,
            start_limit: limit,
            hidden,
        };
        running.open(start).await?;
        Ok(running)
    }

    async fn open(&mut self, start: Start) -> Result<(), ExternalError> {
        let until = Instant::now() + self.start_limit;
        let greeting = json!({
            "protocolVersion": 1,
            "clientCapabilities": { "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true },
            "clientInfo": { "name": "lodge", "title": "Lodge", "version": env!("CARGO_PKG_VERSION") },
        });
        let answer = self.ask("initialize", &greeting, until).await?;
        let Greeting {
            agent_capabilities: can,
        } = serde_json::from_value(answer).unwrap_or_default();
        self.takes_images = can.prompt_capabilities.image;
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
            let mut answer = self.request(method, &place, until).await?;
            if let Err(error) = &answer
                && error.code != AUTH_REQUIRED
                && !means_unknown(error)
            {
                answer = self.request(method, &place, until).await?;
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
        let made = self.ask("session/new", &place, until).await?;
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

    /// A text of the program without the values of variables that were set for it.
    fn shown(&self, text: String) -> String {
        let hide = |text: String, value: &String| text.replace(value.as_str(), "******");
        self.hidden.iter().fold(text, hide)
    }

    fn refused(&self, error: Error) -> ExternalError {
        let (name, why) = (self.name.clone(), self.shown(error.message));
        match error.code {
            AUTH_REQUIRED => ExternalError::SignIn { name, why },
            _ => ExternalError::Refused { name, why },
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
                let how = self.shown(self.process.epitaph().await);
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

    /// Whether images can be sent.
    pub fn takes_images(&self) -> bool {
        self.takes_images
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

/// Whether an answer to a wish to continue a conversation can mean that there is no such conversation. Agents have no common word
/// for that.
fn means_unknown(error: &Error) -> bool {
    let details = error.data.as_ref().map(ToString::to_string).unwrap_or_default();
    let said = format!("{} {details}", error.message).to_lowercase();
    let words = [
        "not found",
        "not find",
        "cannot find",
        "unknown",
        "no such",
        "not exist",
        "no conversation",
        "no session",
        "no rollout",
    ];
    [METHOD_NOT_FOUND, INVALID_PARAMS, NOT_FOUND].contains(&error.code) || words.iter().any(|word| said.contains(word))
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
