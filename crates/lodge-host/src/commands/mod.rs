//! Slash commands: built-in ones, and those from files. Every face lists and invokes them here.

mod builtin;
mod custom;
mod files;
mod mcp_prompts;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use lodge_agent::{Mode, Prompt};
use lodge_tools::custom::{Found, Plugin};

pub(crate) use self::files::DEPTH;
pub use self::mcp_prompts::is_mcp_prompt;
use crate::{Host, HostError, Session};

/// How long a command waits for MCP servers that start.
const SERVERS_PATIENCE: Duration = Duration::from_secs(30);

/// A command that can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandInfo {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it.
    pub hint: Option<String>,
    /// Whether it may be given while a turn runs.
    pub while_busy: bool,
    /// Where it comes from.
    pub source: CommandSource,
}

/// Where a command comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandSource {
    /// It is built in.
    Builtin,
    /// This file.
    File(PathBuf),
    /// A prompt of an MCP server.
    McpPrompt {
        /// The server.
        server: String,
        /// The prompt's name there.
        prompt: String,
    },
    /// A client that is attached runs it.
    Client,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Invoked {
    /// It is done, and this is to be shown, as Markdown.
    Done(String),
    /// The client that has it ran it.
    Ran,
    /// This is to be said to the agent, in this mode where it says so.
    Prompt {
        /// What the agent shall be told.
        text: String,
        /// The mode to work in.
        mode: Option<Mode>,
    },
}

/// What a message of a person is.
#[derive(Debug, Clone)]
pub enum Interpreted {
    /// Something to say to the agent.
    Prompt(Box<Prompt>),
    /// A command, which answered this.
    Answer(String),
}

impl Host {
    /// The commands that a new session in this directory will have, by name: those of the house and of files, also of
    /// plugins. Reads files.
    pub(crate) fn commands_at(&self, cwd: &Path, plugins: &[Plugin]) -> Vec<CommandInfo> {
        let found = files::find(&places(cwd, Some(self.home().path()), plugins));
        sorted(builtin::all().into_iter().chain(found.all))
    }
}

/// The commands of the house, which are there without a session.
pub fn builtin_commands() -> Vec<CommandInfo> {
    builtin::all()
}

/// Every name once, the first of that name; by name.
fn sorted(all: impl IntoIterator<Item = CommandInfo>) -> Vec<CommandInfo> {
    let mut commands: Vec<CommandInfo> = Vec::new();
    for more in all {
        if !commands.iter().any(|known| known.name == more.name) {
            commands.push(more);
        }
    }
    commands.sort_by(|a, b| a.name.cmp(&b.name));
    commands
}

/// Where files describe commands, those that count first.
pub(crate) fn places<'a>(
    cwd: &Path,
    home: Option<&Path>,
    plugins: impl IntoIterator<Item = &'a Plugin>,
) -> Vec<PathBuf> {
    let root = lodge_agent::GitContext::of(cwd).root.map(PathBuf::from);
    let root = root.filter(|root| root != cwd);
    let mut places = Vec::new();
    for base in [Some(cwd), root.as_deref()].into_iter().flatten() {
        places.extend([base.join(".github/prompts"), base.join(".claude/commands")]);
    }
    if let Some(home) = home {
        places.extend([home.join("prompts"), home.join("commands")]);
    }
    places.extend(plugins.into_iter().flat_map(|plugin| plugin.commands.clone()));
    places
}

/// The name and the rest of a message that looks like a command. A path does not.
pub(crate) fn split(message: &str) -> Option<(&str, &str)> {
    let message = message.trim();
    let rest = message.strip_prefix('/')?;
    let (name, input) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    (!name.is_empty() && name.chars().all(fits)).then_some((name, input.trim()))
}

impl Session {
    /// The commands that can be given in this session, by name. Of two with the same name a client's wins, then a built-in
    /// one.
    pub async fn commands(&self) -> Vec<CommandInfo> {
        let client = |command: lodge_events::CommandInfo| CommandInfo {
            name: command.name,
            description: command.description.unwrap_or_default(),
            hint: None,
            while_busy: false,
            source: CommandSource::Client,
        };
        let clients = self.agent().client_commands().into_iter().map(client);
        let (settings, home) = (self.settings(), self.home_path());
        let look = move || {
            let places = places(&settings.cwd, home.as_deref(), settings.customization.all_plugins());
            files::find(&places)
        };
        let found = tokio::task::spawn_blocking(look)
            .await
            .map_or_else(|_| Vec::new(), |found| found.all);
        let prompts = mcp_prompts::all(self.mcp());
        sorted(clients.chain(builtin::all()).chain(found).chain(prompts))
    }

    /// Gives a command. `None` when there is no such command.
    pub async fn invoke(&self, name: &str, input: &str) -> Result<Option<Invoked>, HostError> {
        let name = name.trim_start_matches('/');
        if self
            .agent()
            .client_commands()
            .iter()
            .any(|command| command.name == name)
        {
            self.run_client_command(name, input.trim()).await?;
            return Ok(Some(Invoked::Ran));
        }
        let name = name.to_lowercase();
        if let Some(builtin) = builtin::find(&name) {
            return self.run_builtin(builtin, input.trim()).await.map(Some);
        }
        if is_mcp_prompt(&name) {
            // Without a turn before, nobody needed the server.
            let servers = self.mcp();
            servers.move_to(self.settings().cwd);
            servers.ready(SERVERS_PATIENCE).await;
        }
        let Some(command) = self
            .commands()
            .await
            .into_iter()
            .find(|command| command.name.to_lowercase() == name)
        else {
            return Ok(None);
        };
        let path = match command.source {
            CommandSource::File(path) => path,
            CommandSource::McpPrompt { server, prompt } => {
                return mcp_prompts::get(self.mcp(), &server, &prompt, input).await.map(Some);
            }
            CommandSource::Builtin | CommandSource::Client => return Ok(None),
        };
        let file = path.clone();
        let text = tokio::task::spawn_blocking(move || files::text(&file))
            .await
            .unwrap_or_else(|error| Err(error.to_string()))
            .map_err(|error| HostError::Invalid(format!("{} cannot be read: {error}", path.display())))?;
        Ok(Some(files::filled(&text, input.trim())))
    }

    /// Says something that may be a command: `Ok(Some(…))` is what a command answered at once; otherwise the agent has it.
    pub async fn say(&self, prompt: Prompt) -> Result<Option<String>, HostError> {
        match self.interpret(prompt).await? {
            Interpreted::Answer(answer) => Ok(Some(answer)),
            Interpreted::Prompt(prompt) => {
                self.send(*prompt).await?;
                Ok(None)
            }
        }
    }

    /// Finds out what a message says that may be a command, and does what the command does by itself. A command that does
    /// not exist is an error.
    pub async fn interpret(&self, mut prompt: Prompt) -> Result<Interpreted, HostError> {
        let for_agent = |prompt| Ok(Interpreted::Prompt(Box::new(prompt)));
        let Some((name, input)) = split(&prompt.text) else {
            return for_agent(prompt);
        };
        match self.invoke(name, input).await? {
            Some(Invoked::Done(answer)) => Ok(Interpreted::Answer(answer)),
            Some(Invoked::Ran) => Ok(Interpreted::Answer(format!("`/{name}` is done."))),
            Some(Invoked::Prompt { text, mode }) => {
                if let Some(mode) = mode {
                    self.configure(lodge_agent::Change::Mode(mode)).await?;
                }
                prompt.display_text = Some(std::mem::replace(&mut prompt.text, text));
                for_agent(prompt)
            }
            // Somebody speaks of a place on this machine, as in `/etc is a directory`.
            None if Path::new("/").join(name).exists() => for_agent(prompt),
            // A model would make something of it, and nobody would notice the slip.
            None => Err(HostError::Invalid(format!(
                "There is no command `/{name}`; `/help` lists all commands. To send this text to the model, begin it \
                 with another word."
            ))),
        }
    }
}

/// The commands that files describe for sessions in this folder, and what is wrong with the rest. Reads files.
pub fn command_files(home: &Path, cwd: &Path) -> Found<CommandInfo> {
    files::find(&places(cwd, Some(home), &[]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_command_when_it_begins_like_one() {
        for (message, expected) in [
            ("/help", Some(("help", ""))),
            ("  /plan  do this\nand that ", Some(("plan", "do this\nand that"))),
            ("/git:commit now", Some(("git:commit", "now"))),
            ("/etc/hosts is odd", None),
            ("/", None),
            ("//help", None),
            ("help", None),
            ("/ help", None),
        ] {
            assert_eq!(split(message), expected, "{message:?}");
        }
    }
}
