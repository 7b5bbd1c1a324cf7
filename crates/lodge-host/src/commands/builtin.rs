//! Built-in commands.

use std::fmt::Write as _;

use futures_util::future::BoxFuture;
use lodge_agent::{AgentError, Change, Mode};

use super::{CommandInfo, CommandSource, Invoked};
use crate::{
    Export, Format, HostError, Session,
    changes::Span,
    export::fenced,
    titles::{check_title, title_of_copy},
};

/// How long providers may take to say which models they have.
const DISCOVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// How much `/diff` shows: lines of all files, lines of one file, and characters of a line.
const DIFF_LINES: usize = 2_000;
const DIFF_LINES_OF_A_FILE: usize = 400;
const DIFF_COLUMNS: usize = 300;

/// A built-in command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builtin {
    Agents,
    Autopilot,
    Clear,
    Compact,
    Context,
    Diff,
    Export,
    Fork,
    Help,
    Mcp,
    Memory,
    Mode,
    Model,
    Plan,
    Rename,
    Rewind,
    Skills,
    Title,
    Tools,
    Undo,
    Usage,
}

/// Name, what may follow it, whether it may be given while a turn runs, what it does.
const ALL: [(Builtin, &str, &str, bool, &str); 20] = [
    (
        Builtin::Agents,
        "agents",
        "[NAME|none]",
        true,
        "List the custom agents, or choose one",
    ),
    (
        Builtin::Autopilot,
        "autopilot",
        "[TASK]",
        false,
        "Work until the task is complete",
    ),
    (
        Builtin::Clear,
        "clear",
        "",
        false,
        "Forget the conversation; the log keeps it",
    ),
    (
        Builtin::Compact,
        "compact",
        "[FOCUS]",
        false,
        "Replace the conversation with a summary",
    ),
    (
        Builtin::Context,
        "context",
        "",
        true,
        "Show how full the model's context window is",
    ),
    (
        Builtin::Diff,
        "diff",
        "",
        true,
        "Show what this session changed in files",
    ),
    (
        Builtin::Export,
        "export",
        "[md|html|jsonl] [FILE]",
        true,
        "Write the conversation to a file",
    ),
    (Builtin::Fork, "fork", "[NAME]", true, "Copy the session into a new one"),
    (Builtin::Help, "help", "", true, "List the commands"),
    (
        Builtin::Mcp,
        "mcp",
        "[NAME | enable|disable|restart|login|logout NAME | reload]",
        true,
        "List the MCP servers, show one, or control it",
    ),
    (
        Builtin::Memory,
        "memory",
        "[forget N]",
        true,
        "List what agents remember about this project, or forget one entry",
    ),
    (
        Builtin::Mode,
        "mode",
        "[interactive|plan|autopilot]",
        true,
        "Show or change the mode",
    ),
    (
        Builtin::Model,
        "model",
        "[ID]",
        true,
        "List the models, or use another one",
    ),
    (
        Builtin::Plan,
        "plan",
        "[TASK]",
        false,
        "Plan first; nothing is changed until you approve the plan",
    ),
    (Builtin::Rename, "rename", "TITLE", true, "Change the title"),
    (
        Builtin::Rewind,
        "rewind",
        "[N] [chat]",
        false,
        "Rewind the last N messages and their file changes; with `chat`, keep the files",
    ),
    (
        Builtin::Skills,
        "skills",
        "[on|off NAME | reload]",
        true,
        "List the skills, or turn one on or off",
    ),
    (
        Builtin::Tools,
        "tools",
        "",
        true,
        "List the tools that the model may call",
    ),
    (Builtin::Undo, "undo", "", false, "Undo the last /rewind"),
    (
        Builtin::Usage,
        "usage",
        "",
        true,
        "Show tokens, time and changes so far",
    ),
];

pub(super) fn all() -> Vec<CommandInfo> {
    let info = |(_, name, hint, while_busy, description): &(Builtin, &str, &str, bool, &str)| CommandInfo {
        name: (*name).to_owned(),
        description: (*description).to_owned(),
        hint: Some((*hint).to_owned()).filter(|hint| !hint.is_empty()),
        while_busy: *while_busy,
        source: CommandSource::Builtin,
    };
    ALL.iter().map(info).collect()
}

pub(super) fn find(name: &str) -> Option<Builtin> {
    let name = match name {
        "?" => "help",
        "reset" | "new" => "clear",
        // The old name of /rename, which also shows the title.
        "title" => return Some(Builtin::Title),
        name => name,
    };
    ALL.iter()
        .find(|(_, known, ..)| *known == name)
        .map(|(builtin, ..)| *builtin)
}

fn done(text: impl Into<String>) -> Result<Invoked, HostError> {
    Ok(Invoked::Done(text.into()))
}

/// Writes the first lines of a diff as a block of Markdown, and says how many follow. Returns how many it wrote.
fn write_hunks(text: &mut String, hunks: &str, most: usize) -> usize {
    let all = hunks.lines().count();
    let shown: Vec<String> = hunks.lines().take(most).map(cut).collect();
    // Writing to a string cannot fail.
    if !shown.is_empty() {
        let _ = write!(text, "\n{}\n\n", fenced(&shown.join("\n"), "diff"));
    }
    if all > shown.len() {
        let _ = writeln!(text, "… {}\n", count(all - shown.len(), "more line"));
    }
    shown.len()
}

/// A line that is not too long to show.
fn cut(line: &str) -> String {
    match line.char_indices().nth(DIFF_COLUMNS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

impl Session {
    pub(super) fn run_builtin<'a>(
        &'a self,
        command: Builtin,
        input: &'a str,
    ) -> BoxFuture<'a, Result<Invoked, HostError>> {
        Box::pin(async move {
            match command {
                Builtin::Agents => self.agents_command(input).await,
                Builtin::Skills => self.skills_command(input).await,
                Builtin::Mcp => self.mcp_command(input).await,
                Builtin::Help => self.help().await,
                Builtin::Clear => {
                    let messages = self.clear_context(None).await?;
                    done(format!(
                        "The model has forgotten {}; the log keeps everything.",
                        count(messages, "message")
                    ))
                }
                Builtin::Compact => {
                    let focus = Some(input.to_owned()).filter(|focus| !focus.is_empty());
                    let compacted = self.compact(focus).await?;
                    done(format!(
                        "Replaced {} with a summary:\n\n{}",
                        count(compacted.messages_removed, "message"),
                        compacted.summary
                    ))
                }
                Builtin::Context => self.context(),
                Builtin::Diff => self.diff().await,
                Builtin::Export => self.export_to_file(input).await,
                Builtin::Fork => self.fork_here(input).await,
                Builtin::Memory => self.memory_command(input),
                Builtin::Mode => self.mode(input).await,
                Builtin::Model => self.model(input).await,
                Builtin::Plan => self.work_in(Mode::Plan, input).await,
                Builtin::Autopilot => self.work_in(Mode::Autopilot, input).await,
                Builtin::Rewind => self.rewind_by(input).await,
                Builtin::Undo => self.undo().await,
                Builtin::Rename if input.is_empty() => done(""),
                Builtin::Rename | Builtin::Title => self.title(input).await,
                Builtin::Tools => {
                    let lines = self.tools().into_iter().map(|tool| {
                        let first = tool.description.lines().next().unwrap_or_default().to_owned();
                        format!("- `{}`: {first}\n", tool.name)
                    });
                    done(lines.collect::<String>())
                }
                Builtin::Usage => self.usage(),
            }
        })
    }

    async fn help(&self) -> Result<Invoked, HostError> {
        let mut text = String::new();
        for command in self.commands().await {
            let hint = command.hint.map(|hint| format!(" {hint}")).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- `/{}{hint}`: {}", command.name, command.description);
        }
        done(text)
    }

    fn context(&self) -> Result<Invoked, HostError> {
        let model = self.settings().model;
        let (size, window) = (self.context_size()?, model.context_window);
        if window == 0 {
            return done(format!("{} manages its own context; the size is unknown.", model.name));
        }
        done(format!(
            "About {} of {window} tokens ({}%): conversation {} in {}, system prompt {}, tools {}.",
            size.total(),
            size.total() * 100 / window,
            size.conversation,
            count(size.messages, "message"),
            size.system,
            size.tools
        ))
    }

    async fn diff(&self) -> Result<Invoked, HostError> {
        let deltas = self.changes_of(Span::Session).await?;
        let cwd = self.settings().cwd;
        let text = self.with_changes(move |changes| {
            let (mut text, mut room) = (String::new(), DIFF_LINES);
            for delta in deltas {
                let path = delta.path.strip_prefix(&cwd).unwrap_or(&delta.path).display();
                // Writing to a string cannot fail.
                let _ = match changes.lines(&delta.before, &delta.after) {
                    Some((added, removed)) => writeln!(text, "- {path} (+{added} -{removed})"),
                    None => writeln!(text, "- {path}"),
                };
                let hunks = changes.hunks(&delta.before, &delta.after).unwrap_or_default();
                room -= write_hunks(&mut text, &hunks, room.min(DIFF_LINES_OF_A_FILE));
            }
            Ok(text)
        });
        let text = text.await?;
        done(match text.is_empty() {
            true => "This session has changed no files.".to_owned(),
            false => text,
        })
    }

    async fn export_to_file(&self, input: &str) -> Result<Invoked, HostError> {
        let mut words = input.split_whitespace().peekable();
        let format = words
            .next_if(|word| Format::parse(word).is_some())
            .and_then(Format::parse);
        let file = words.collect::<Vec<_>>().join(" ");
        let format = format
            .or_else(|| Format::parse(file.rsplit_once('.')?.1))
            .unwrap_or(Format::Markdown);
        let export = Export::of(self.history()?, self.settings().name)?;
        let name = match file.is_empty() {
            true => export.file_name(format),
            false => file,
        };
        let path = self.settings().cwd.join(name);
        let text = export.render(format);
        let written = tokio::task::spawn_blocking({
            let path = path.clone();
            move || {
                let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
                std::io::Write::write_all(&mut file, text.as_bytes())
            }
        })
        .await
        .unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        match written {
            Ok(()) => done(format!("Written to {}.", path.display())),
            Err(error) => Err(HostError::Invalid(format!(
                "{} cannot be written: {error}",
                path.display()
            ))),
        }
    }

    async fn fork_here(&self, name: &str) -> Result<Invoked, HostError> {
        let host = self
            .host()
            .ok_or_else(|| HostError::Invalid("The host is stopping.".into()))?;
        let title = match name {
            "" => title_of_copy(&self.title_now()),
            name => name.to_owned(),
        };
        check_title(&title).map_err(AgentError::from)?;
        let copy = host.fork(self.id(), None, None).await?;
        copy.rename(Some(title.clone())).await?;
        done(format!("“{title}” is a copy of this session: {}", copy.id()))
    }

    fn title_now(&self) -> String {
        let title = self.settings().name.or_else(|| self.state().title());
        title.unwrap_or_else(|| "Untitled".to_owned())
    }

    fn memory_command(&self, input: &str) -> Result<Invoked, HostError> {
        let host = self.0.host.upgrade();
        let memories = &host
            .as_ref()
            .ok_or_else(|| HostError::Invalid("The host is stopping.".into()))?
            .memories;
        let cwd = self.settings().cwd;
        let failed = |error| HostError::Invalid(format!("The memory of this project cannot be read: {error}"));
        let mut words = input.split_whitespace();
        match (words.next(), words.next().map(str::parse::<usize>)) {
            (None, _) => {
                let all = memories.list(&cwd).map_err(failed)?;
                let lines = all.iter().enumerate().map(|(at, memory)| {
                    let from = memory.citations.as_ref().map(|from| format!(" (from: {from})"));
                    format!(
                        "{}. {}: {}{}\n",
                        at + 1,
                        memory.subject,
                        memory.fact,
                        from.unwrap_or_default()
                    )
                });
                let text: String = lines.collect();
                done(match text.is_empty() {
                    true => "Nothing is remembered about this project.".to_owned(),
                    false => text,
                })
            }
            (Some("forget"), Some(Ok(number))) if number > 0 => {
                match memories.forget(&cwd, number - 1).map_err(failed)? {
                    Some(gone) => done(format!("Forgotten: {}", gone.fact)),
                    None => Err(HostError::Invalid(format!(
                        "There is no number {number}; `/memory` lists them."
                    ))),
                }
            }
            _ => Err(HostError::Invalid(
                "Use `/memory`, or `/memory forget NUMBER` with a number from that list.".into(),
            )),
        }
    }

    async fn mode(&self, input: &str) -> Result<Invoked, HostError> {
        if input.is_empty() {
            return done(format!("The mode is {}.", self.settings().mode.as_str()));
        }
        let mode = Mode::parse(input).ok_or_else(|| {
            HostError::Invalid(format!(
                "There is no mode {input:?}; choose interactive, plan or autopilot."
            ))
        })?;
        self.configure(Change::Mode(mode)).await?;
        done(format!("The mode is now {input}."))
    }

    async fn model(&self, input: &str) -> Result<Invoked, HostError> {
        let host = self
            .host()
            .ok_or_else(|| HostError::Invalid("The host is stopping.".into()))?;
        let current = self.settings().model.id;
        if input.is_empty() {
            // Those that only their provider knows are listed once it was asked; one that does not answer is left out.
            let _ = tokio::time::timeout(DISCOVERY, host.models().discover()).await;
            let lines = host.models().list().into_iter().map(|model| {
                let mark = if model.id == current { " (in use)" } else { "" };
                format!("- `{}`: {}{mark}\n", model.id, model.name)
            });
            return done(lines.collect::<String>());
        }
        self.select_model(&host, input).await?;
        done(format!("Switched to {input}."))
    }

    async fn work_in(&self, mode: Mode, task: &str) -> Result<Invoked, HostError> {
        if !task.is_empty() {
            return Ok(Invoked::Prompt {
                text: task.to_owned(),
                mode: Some(mode),
            });
        }
        let was = self.settings().mode;
        self.configure(Change::Mode(mode)).await?;
        let plan = tokio::fs::read_to_string(self.plan_path()).await.unwrap_or_default();
        done(match (mode, was == mode, plan.trim()) {
            (Mode::Plan, _, plan) if !plan.is_empty() => format!("The mode is plan. The plan so far:\n\n{plan}"),
            (Mode::Plan, ..) => "The mode is plan. Type a task; nothing is changed until you approve the plan.".into(),
            _ => format!("The mode is {}.", mode.as_str()),
        })
    }

    async fn rewind_by(&self, input: &str) -> Result<Invoked, HostError> {
        let mut words = input.split_whitespace();
        let first = words.next().unwrap_or("1");
        let (count, rest) = match first.parse::<usize>() {
            Ok(count) => (count, words.next()),
            Err(_) => (1, Some(first)),
        };
        let files = match rest {
            None => true,
            Some("chat") => false,
            Some(other) => {
                return Err(HostError::Invalid(format!(
                    "Unknown argument {other:?}. Usage: /rewind [N] [chat]"
                )));
            }
        };
        let points = self.rewind_points().await?;
        let point = count.checked_sub(1).and_then(|back| points.iter().rev().nth(back));
        let Some(point) = point else {
            return Err(HostError::Invalid(match points.len() {
                0 => "Nothing to rewind.".to_owned(),
                most => format!("You can rewind 1 to {most} messages."),
            }));
        };
        let rewound = self.rewind(point.event, files).await?;
        let mut text = format!("Rewound to before “{}”.", short(&point.text));
        for path in &rewound.files.restored {
            let _ = write!(text, "\n- restored {}", path.display());
        }
        for (path, why) in rewound.left_alone() {
            let _ = write!(text, "\n- {} is left alone: {why}", path.display());
        }
        text.push_str("\n\n/undo restores it.");
        done(text)
    }

    async fn undo(&self) -> Result<Invoked, HostError> {
        match self.undo_rewind().await? {
            None => done("There is nothing to restore."),
            Some(files) => {
                let mut text = "Rewind undone.".to_owned();
                for (path, why) in &files.skipped {
                    let _ = write!(text, "\n- {} is left alone: {why}", path.display());
                }
                done(text)
            }
        }
    }

    async fn title(&self, input: &str) -> Result<Invoked, HostError> {
        if input.is_empty() {
            return done(self.title_now());
        }
        self.rename(Some(input.to_owned())).await?;
        done(format!("Renamed: {input}"))
    }

    fn usage(&self) -> Result<Invoked, HostError> {
        let facts = self.state();
        let totals = &facts.totals;
        let mut text = format!(
            "{}, {:.1} s of model calls, {} changed (+{} -{}).\n",
            count(facts.user_messages, "message"),
            totals.api_ms as f64 / 1000.0,
            count(totals.files.len(), "file"),
            totals.lines_added,
            totals.lines_removed
        );
        for (name, model) in &totals.models {
            let _ = writeln!(
                text,
                "- {name}: {}, {} in ({} cached), {} out",
                count(model.requests, "call"),
                count(model.input, "token"),
                model.cache_read,
                model.output
            );
        }
        done(text)
    }
}

/// A number with its noun, which follows it into the plural.
pub(super) fn count(number: impl std::fmt::Display, noun: &str) -> String {
    let number = number.to_string();
    let plural = if number == "1" { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn short(text: &str) -> String {
    lodge_agent::title_of(text).unwrap_or_else(|| text.trim().to_owned())
}
