//! `lodge run`: one message, its answer on the terminal.

use std::{
    io::{IsTerminal, Read, Write},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context, Result, bail};
use lodge_events::{AbortReason, Event, Payload};
use lodge_host::{
    Answer, Approval, Capabilities, Change, ClientSpec, Host, INCOMPLETE_ANSWERS, Mode, ModelChoice, NewSession,
    NoCalls, Prompt, Resume, Session,
};

use crate::{
    cli::{ApprovalArg, ModeArg, RunArgs},
    question::Asker,
    view::View,
};

/// More than a terminal can be behind before it is cut off; it is not, since it is read from memory.
const QUEUE_BYTES: usize = 64 << 20;

/// How a run ended, as its exit code tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Finished = 0,
    Failed = 1,
    /// It ended, and the last answer is not whole: cut off, filtered or empty.
    Incomplete = 3,
    Aborted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Runs it.
pub(crate) async fn run(host: Host, args: RunArgs) -> Result<ExitCode> {
    let text = match args.prompt.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("Cannot read the prompt from standard input")?;
            text
        }
        prompt => prompt.to_owned(),
    };
    let session = open(&host, &args).await?;
    let interactive =
        !args.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal() && args.prompt != "-";
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
    // What was recorded for this run before anybody could listen is shown too, so that `--json` is the whole of it.
    let (history, mut events) = session.history_and_subscribe(QUEUE_BYTES)?;
    let mut view = View::new(args.json);
    if args.json && args.resume.is_none() {
        for event in history.events() {
            view.show(&event?)?;
        }
    }
    let prompt = Prompt {
        text,
        ..Prompt::default()
    };
    if let Some(answer) = session.say(prompt).await? {
        // A command that is done already: no turn follows.
        crate::serve::print_line(crate::view::plain(&answer).trim_end());
        return Ok(Exit::Finished.into());
    }
    let mut asker = Asker::new(interactive);
    let mut exit = Exit::Finished;
    let mut interrupts = 0;
    // One listener for the whole turn: one made anew for each event would miss what comes in between.
    let mut ctrl_c = std::pin::pin!(tokio::signal::ctrl_c());
    'turn: loop {
        tokio::select! {
            batch = events.next_batch() => {
                let Some(batch) = batch else { break };
                for event in batch {
                    if let Err(error) = view.show(&event) {
                        return stop_quietly(&session, error).await;
                    }
                    asker.take(&event);
                    match event.payload() {
                        Payload::SessionError(_) => exit = Exit::Failed,
                        Payload::SessionWarning(warning)
                            if event.agent_id().is_none()
                                && INCOMPLETE_ANSWERS.contains(&warning.warning_type.as_str()) =>
                        {
                            exit = Exit::Incomplete;
                        }
                        // What the model said after that stands for it.
                        Payload::AssistantMessage(_) if exit == Exit::Incomplete && event.agent_id().is_none() => {
                            exit = Exit::Finished;
                        }
                        Payload::Abort(_) => exit = Exit::Aborted,
                        Payload::SessionIdle(_) => break 'turn,
                        _ => {}
                    }
                }
                view.flush()?;
            }
            (request, answer) = asker.answered() => answer_question(&session, &mut view, &request, answer).await?,
            _ = &mut ctrl_c => {
                ctrl_c.set(tokio::signal::ctrl_c());
                interrupts += 1;
                if interrupts > 1 {
                    std::process::exit(Exit::Aborted as i32);
                }
                session.abort(AbortReason::UserInitiated).await?;
            }
        }
    }
    view.finish(session.id(), exit == Exit::Finished)?;
    Ok(exit.into())
}

async fn answer_question(session: &Session, view: &mut View, request: &str, answer: Answer) -> Result<()> {
    if !session.answer(request, answer).await? {
        view.note("That question has been answered elsewhere.")?;
    }
    Ok(())
}

/// Whoever read the output has left: stop the turn and say nothing more.
async fn stop_quietly(session: &Session, error: std::io::Error) -> Result<ExitCode> {
    session.abort(AbortReason::UserInitiated).await?;
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        Ok(Exit::Aborted.into())
    } else {
        Err(error.into())
    }
}

async fn open(host: &Host, args: &RunArgs) -> Result<Session> {
    let model = args.model.clone().map_or(ModelChoice::Default, ModelChoice::Named);
    let approval = match (args.yolo, args.approve) {
        (true, _) | (_, ApprovalArg::All) => Approval::ApproveAll,
        (_, ApprovalArg::Safe) => Approval::AutoSafe,
        (_, ApprovalArg::Edits) => Approval::AutoEdit,
        (_, ApprovalArg::Ask) => Approval::Ask,
        (_, ApprovalArg::None) => Approval::DenyAll,
    };
    let mode = args.mode.map(|mode| match mode {
        ModeArg::Interactive => Mode::Interactive,
        ModeArg::Plan => Mode::Plan,
        ModeArg::Autopilot => Mode::Autopilot,
    });
    if let Some(cwd) = &args.cwd
        && !cwd.is_dir()
    {
        bail!("{} is not a directory that exists.", cwd.display());
    }
    let cwd = args.cwd.as_ref().map(std::fs::canonicalize).transpose()?;
    match &args.resume {
        Some(wanted) => {
            let id = crate::sessions::find(host.home(), wanted)?;
            let resume = Resume {
                model,
                reasoning_effort: args.reasoning_effort.clone(),
                cwd,
                approval: Some(approval),
                streaming: Some(true),
                ..Resume::default()
            };
            let session = host.resume(&id, resume).await?;
            if let Some(mode) = mode {
                session.configure(Change::Mode(mode)).await?;
            }
            Ok(session)
        }
        None => Ok(host
            .create(NewSession {
                model,
                reasoning_effort: args.reasoning_effort.clone(),
                cwd,
                approval,
                mode: mode.unwrap_or_default(),
                client_name: Some("lodge".into()),
                ..NewSession::default()
            })
            .await?),
    }
}

/// Prints one event as it is.
pub(crate) fn print_event(out: &mut impl Write, event: &Event) -> std::io::Result<()> {
    out.write_all(event.json())?;
    out.write_all(b"\n")
}
