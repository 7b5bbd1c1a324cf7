//! `lodge run`: sends one message and shows the answer.

use std::{
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Result, bail};
use lodge_events::{AbortReason, Event, Payload};
use lodge_host::{
    Answer, AnsweredBy, Approval, Capabilities, Change, ClientSpec, Host, INCOMPLETE_ANSWERS, Mode, ModelChoice,
    NewSession, NoCalls, Prompt, Resume, Session, mcp::Status,
};

use tokio::time::Instant;

use crate::{
    cli::{ApprovalArg, ModeArg, RunArgs},
    console::{Console, Heard},
    question::Asker,
    view::{Format, View},
};

/// More than a terminal can lag behind before it is disconnected. A local terminal reads from memory and never does.
const QUEUE_BYTES: usize = 64 << 20;

/// How a run ended, as its exit code tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Finished = 0,
    Failed = 1,
    /// It ended, but the last answer is cut off, filtered or empty.
    Incomplete = 3,
    Aborted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Says which MCP servers are missing from the turn, and why.
fn tell_failed_servers(session: &Session, view: &mut View<'_>) -> io::Result<()> {
    for server in session.mcp().list() {
        if server.status == Status::Failed {
            view.note(&format!("MCP: {}", crate::mcp::state(&server, 0)))?;
        }
    }
    Ok(())
}

/// Runs `lodge run`. `input` is the piped input.
pub(crate) async fn run(host: &Host, args: RunArgs, input: &str, console: &mut Console) -> Result<u8> {
    let session = open(host, &args).await?;
    // For as long as the run lasts, however it ends.
    let approval = args.yolo.then_some(ApprovalArg::All).or(args.approve);
    let _approval = approval.map(|mode| session.approve_for_run(mode.into())).transpose()?;
    turn(host, &args, input, console, &session).await
}

impl From<ApprovalArg> for Approval {
    fn from(mode: ApprovalArg) -> Self {
        match mode {
            ApprovalArg::All => Self::ApproveAll,
            ApprovalArg::Safe => Self::AutoSafe,
            ApprovalArg::Edits => Self::AutoEdit,
            ApprovalArg::Ask => Self::Ask,
            ApprovalArg::None => Self::DenyAll,
        }
    }
}

/// Sends the message and shows the turn.
async fn turn(host: &Host, args: &RunArgs, input: &str, console: &mut Console, session: &Session) -> Result<u8> {
    let text = prompt(&args.prompt, input);
    let format = args.format();
    let interactive = format == Format::Text && console.terminal.has_person();
    let client = ClientSpec {
        name: "lodge run".into(),
        can: Capabilities {
            permissions: interactive,
            user_input: interactive,
            exit_plan_mode: interactive,
            elicitation: interactive,
            ..Default::default()
        },
        tools: Vec::new(),
        commands: Vec::new(),
        calls: Arc::new(NoCalls),
    };
    let _attached = session.attach_client(client).await?;
    // Events from before the subscription are shown, too, so that `--json` is complete.
    let (history, mut events) = session.history_and_subscribe(QUEUE_BYTES)?;
    let scheme = crate::setup::config(host.home().path())?
        .terminal
        .theme
        .scheme()
        .unwrap_or(console.terminal.scheme);
    let mut view = View::new(format, scheme, &session.settings().cwd, console);
    if format == Format::Events && args.resume.is_none() {
        for event in history.events() {
            view.show(&event?)?;
        }
    }
    let prompt = Prompt {
        text,
        ..Prompt::default()
    };
    if let Some(answer) = session.say(prompt).await? {
        // The command is already finished: no turn follows.
        view.answer(&answer)?;
        if format == Format::Json {
            view.finish(session.id(), Exit::Finished)?;
        }
        return Ok(Exit::Finished as u8);
    }
    let mut asker = Asker::new(interactive);
    let mut exit = Exit::Finished;
    let mut interrupts = 0;
    let mut servers_told = false;
    'turn: loop {
        while let Some((request, answer)) = asker.answer() {
            answer_question(session, &mut view, &request, answer).await?;
        }
        if let Some(question) = asker.unseen() {
            view.question(question)?;
            // An earlier line may be the answer.
            continue;
        }
        view.waits(asker.is_asking());
        if let Err(error) = view.flush().await {
            return stop_quietly(session, error).await;
        }
        let due = view.due();
        let frame = async { tokio::time::sleep_until(due.unwrap_or_else(Instant::now)).await };
        tokio::select! {
            () = frame, if due.is_some() => {}
            batch = events.next_batch() => {
                let Some(batch) = batch else { break };
                for event in batch {
                    if let Err(error) = view.show(&event) {
                        return stop_quietly(session, error).await;
                    }
                    asker.take(&event);
                    match event.payload() {
                        // By now the servers are connected, or have failed.
                        Payload::AssistantTurnStart(_) if !std::mem::replace(&mut servers_told, true) => {
                            tell_failed_servers(session, &mut view)?;
                        }
                        Payload::SessionError(_) => exit = Exit::Failed,
                        Payload::SessionWarning(warning)
                            if event.agent_id().is_none()
                                && INCOMPLETE_ANSWERS.contains(&warning.warning_type.as_str()) =>
                        {
                            exit = Exit::Incomplete;
                        }
                        // The model's later answer replaces it.
                        Payload::AssistantMessage(_) if exit == Exit::Incomplete && event.agent_id().is_none() => {
                            exit = Exit::Finished;
                        }
                        Payload::Abort(_) => exit = Exit::Aborted,
                        Payload::SessionIdle(_) => break 'turn,
                        _ => {}
                    }
                }
            }
            heard = view.console.heard() => match heard {
                Heard::Line(line) => {
                    view.typed();
                    asker.hear(line);
                }
                Heard::Resized(size) => view.resized(size),
                Heard::End => asker.end(),
                Heard::Gone => return stop_quietly(session, std::io::ErrorKind::BrokenPipe.into()).await,
                Heard::Interrupt => {
                    interrupts += 1;
                    if interrupts > 1 {
                        return Ok(Exit::Aborted as u8);
                    }
                    session.abort(AbortReason::UserInitiated).await?;
                }
            },
        }
    }
    if format == Format::Events && session.clients() <= 1 {
        // No other client has it open, so it ends here, and `--json` is complete.
        host.close(session.id()).await;
        while let Some(batch) = events.next_batch().await {
            for event in batch {
                view.show(&event)?;
            }
        }
    }
    view.finish(session.id(), exit)?;
    view.flush().await?;
    Ok(exit as u8)
}

/// As the last word of the message: standard input is waited for, however long it takes.
pub(crate) const WAIT: &str = "-";

/// The words of the command line, followed by the piped input.
pub(crate) fn prompt(words: &[String], input: &str) -> String {
    let words = match words {
        [words @ .., last] if last == WAIT => words,
        words => words,
    };
    let words = words.join(" ");
    match (words.trim(), input.trim()) {
        (words, "") => words.to_owned(),
        ("", _) => input.to_owned(),
        (words, _) => format!("{words}\n\n{input}"),
    }
}

async fn answer_question(session: &Session, view: &mut View<'_>, request: &str, answer: Answer) -> Result<()> {
    let by = AnsweredBy {
        client: Some("lodge run".into()),
        ..AnsweredBy::default()
    };
    if !session.answer(request, answer, by).await? {
        view.note("That question was answered in another client.")?;
    }
    Ok(())
}

/// The reader of the output is gone: stops the turn without a message.
async fn stop_quietly(session: &Session, error: std::io::Error) -> Result<u8> {
    session.abort(AbortReason::UserInitiated).await?;
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        Ok(Exit::Aborted as u8)
    } else {
        Err(error.into())
    }
}

async fn open(host: &Host, args: &RunArgs) -> Result<Session> {
    let model = args.model.clone().map_or(ModelChoice::Default, ModelChoice::Named);
    let mode = args.mode.map(|mode| match mode {
        ModeArg::Interactive => Mode::Interactive,
        ModeArg::Plan => Mode::Plan,
        ModeArg::Autopilot => Mode::Autopilot,
    });
    let cwd = args.cwd.as_ref().map(|cwd| host.cwd().join(cwd));
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        bail!("{} is not a directory.", cwd.display());
    }
    let cwd = cwd.map(std::fs::canonicalize).transpose()?;
    let session = match &args.resume {
        Some(wanted) => {
            let id = crate::sessions::find_for(host, wanted)?;
            let resume = Resume {
                model,
                reasoning_effort: args.reasoning_effort.clone(),
                cwd,
                streaming: Some(true),
                ..Resume::default()
            };
            let session = host.resume(&id, resume).await?;
            if let Some(mode) = mode {
                session.configure(Change::Mode(mode)).await?;
            }
            session
        }
        None => {
            host.create(NewSession {
                model,
                reasoning_effort: args.reasoning_effort.clone(),
                cwd,
                mode: mode.unwrap_or_default(),
                client_name: Some("lodge".into()),
                ..NewSession::default()
            })
            .await?
        }
    };
    Ok(session)
}

/// Prints one event as it is.
pub(crate) fn print_event(out: &mut impl Write, event: &Event) -> std::io::Result<()> {
    out.write_all(event.json())?;
    out.write_all(b"\n")
}
