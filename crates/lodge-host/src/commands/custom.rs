//! Commands about custom agents, skills and MCP servers.

use std::fmt::Write as _;

use lodge_agent::TaskStatus;
use lodge_mcp::{LoginOptions, ServerInfo, Status};

use super::{Invoked, builtin::count};
use crate::{HostError, Session};

/// How long a list waits for servers that start.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// The first line of a description, for a list.
fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

impl Session {
    /// `/agents`: lists them, `NAME` chooses one, `none` leaves it.
    pub(super) async fn agents_command(&self, input: &str) -> Result<Invoked, HostError> {
        match input {
            "" => {}
            "none" | "default" => {
                self.select_agent(None).await?;
                return Ok(Invoked::Done("Switched to the default agent.".to_owned()));
            }
            name => {
                self.select_agent(Some(name.to_owned())).await?;
                return Ok(Invoked::Done(format!(
                    "Switched to `{name}`. `/agents none` switches back."
                )));
            }
        }
        let chosen = self.current_agent().await?.map(|agent| agent.name);
        let mut text = String::new();
        for agent in self.custom_agents(false).await? {
            let mark = if Some(&agent.name) == chosen.as_ref() {
                " (answers now)"
            } else {
                ""
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- `{}`{mark}: {}", agent.name, first_line(&agent.description));
        }
        if text.is_empty() {
            text = "There are no custom agents. Put one into `.github/agents/NAME.md`.\n".to_owned();
        }
        for task in self
            .tasks()
            .into_iter()
            .filter(|task| task.status == TaskStatus::Running)
        {
            let _ = writeln!(
                text,
                "- running: `{}` ({}): {}",
                task.id, task.agent_type, task.description
            );
        }
        Ok(Invoked::Done(text))
    }

    /// `/skills`: lists them; `on NAME`, `off NAME` and `reload` do what they say.
    pub(super) async fn skills_command(&self, input: &str) -> Result<Invoked, HostError> {
        let (word, name) = input.split_once(char::is_whitespace).unwrap_or((input, ""));
        let name = name.trim();
        let on = match (word, name) {
            ("", _) => None,
            ("reload", "") => {
                let (warnings, errors) = self.reload_skills().await?;
                let mut text = self.skill_list().await?;
                for problem in warnings.iter().chain(&errors) {
                    let _ = writeln!(text, "- not used: {problem}");
                }
                return Ok(Invoked::Done(text));
            }
            ("on" | "enable", name) if !name.is_empty() => Some(true),
            ("off" | "disable", name) if !name.is_empty() => Some(false),
            _ => {
                return Err(HostError::Invalid(
                    "/skills lists them; /skills on NAME, /skills off NAME and /skills reload change them.".to_owned(),
                ));
            }
        };
        let Some(on) = on else {
            return Ok(Invoked::Done(self.skill_list().await?));
        };
        if !self.switch_skill(name, on).await? {
            return Err(HostError::Invalid(format!("There is no skill named {name}.")));
        }
        let how = if on { "on" } else { "off" };
        Ok(Invoked::Done(format!("`{name}` is {how} in this session.")))
    }

    async fn skill_list(&self) -> Result<String, HostError> {
        let mut text = String::new();
        for (skill, on) in self.skills().await? {
            let mark = if on { "" } else { " (off)" };
            let _ = writeln!(text, "- `{}`{mark}: {}", skill.name, first_line(&skill.description));
        }
        if text.is_empty() {
            text = "There are no skills. Put one into `.github/skills/NAME/SKILL.md`.\n".to_owned();
        }
        Ok(text)
    }

    /// `/mcp`: lists the servers, `NAME` shows one; `enable`, `disable`, `restart`, `login` and `logout NAME` do what
    /// they say.
    pub(super) async fn mcp_command(&self, input: &str) -> Result<Invoked, HostError> {
        let servers = self.mcp();
        let (word, name) = input.split_once(char::is_whitespace).unwrap_or((input, ""));
        let name = name.trim();
        let refuse = |error: lodge_mcp::McpError| HostError::Invalid(error.to_string());
        match (word, name) {
            ("", _) => {}
            ("reload", "") => servers.reset(),
            ("enable" | "start", name) if !name.is_empty() => {
                self.switch_server(name, true).await?;
                servers.start(name).await.map_err(refuse)?;
                return Ok(Invoked::Done(self.server_page(name)));
            }
            ("disable" | "stop", name) if !name.is_empty() => {
                if !self.switch_server(name, false).await? {
                    return Err(refuse(lodge_mcp::McpError::NotConfigured(name.to_owned())));
                }
                return Ok(Invoked::Done(format!("`{name}` is off in this session.")));
            }
            ("login", name) if !name.is_empty() => {
                let address = self.mcp_login(name, LoginOptions::default(), false).await?;
                return Ok(Invoked::Done(match address {
                    Some(address) => format!(
                        "Open this on the machine that the host runs on, and sign in; `{name}` then starts by itself:\n\n{address}"
                    ),
                    None => self.server_page(name),
                }));
            }
            ("logout", name) if !name.is_empty() => {
                let text = match self.mcp_logout(name)? {
                    true => format!("Signed out of `{name}`."),
                    false => format!("You were not signed in to `{name}`."),
                };
                return Ok(Invoked::Done(text));
            }
            ("restart", name) if !name.is_empty() => {
                servers.restart(name).await.map_err(refuse)?;
                return Ok(Invoked::Done(self.server_page(name)));
            }
            (name, "") if servers.info(name).is_some() => {
                servers.ready(PATIENCE).await;
                return Ok(Invoked::Done(self.server_page(name)));
            }
            (name, "") => return Err(HostError::Invalid(format!("There is no MCP server named {name}."))),
            _ => {
                return Err(HostError::Invalid(
                    "/mcp lists the servers and /mcp NAME shows one; /mcp enable, disable, restart, login or logout NAME and \
                     /mcp reload change them."
                        .to_owned(),
                ));
            }
        }
        if servers.is_empty() {
            return Ok(Invoked::Done(
                "There are no MCP servers. Put them into `mcp-config.json` in Lodge's home, or `.mcp.json` in the folder."
                    .to_owned(),
            ));
        }
        servers.ready(PATIENCE).await;
        let mut text = String::new();
        for server in servers.list() {
            let tools = servers.tools().iter().filter(|(of, _)| **of == *server.name).count();
            let _ = match server.status {
                Status::Connected => writeln!(text, "- `{}`: connected, {}", server.name, count(tools, "tool")),
                _ => writeln!(text, "- `{}`: {}", server.name, status_text(&server)),
            };
        }
        Ok(Invoked::Done(text))
    }

    /// One server with all it offers.
    fn server_page(&self, name: &str) -> String {
        let servers = self.mcp();
        let Some(server) = servers.info(name) else {
            return String::new();
        };
        let mut text = format!("**{name}**: {}\n\n", status_text(&server));
        for (_, tool) in servers.tools().iter().filter(|(of, _)| **of == *name) {
            let about = tool
                .description
                .as_deref()
                .or(tool.title.as_deref())
                .unwrap_or_default();
            let _ = writeln!(text, "- `{}`: {}", tool.name, first_line(about));
        }
        for (server, prompt) in servers.prompts().iter().filter(|(of, _)| **of == *name) {
            let about = first_line(prompt.description.as_deref().unwrap_or_default());
            let _ = writeln!(
                text,
                "- `/{}`: {about}",
                super::mcp_prompts::command_name(server, &prompt.name)
            );
        }
        text
    }
}

/// What a server's state is, in words.
fn status_text(server: &ServerInfo) -> String {
    match server.status {
        Status::Pending => "starting".to_owned(),
        Status::Connected => "connected".to_owned(),
        Status::Failed => format!("failed: {}", first_line(server.error.as_deref().unwrap_or_default())),
        Status::NeedsAuth => format!("needs you to sign in: `/mcp login {}`", server.name),
        Status::Disabled => "off".to_owned(),
        Status::Stopped => "stopped".to_owned(),
    }
}
