//! `lodge sessions` and `lodge check`: read the sessions on disk, even while a host runs.

use std::{
    collections::BTreeSet,
    io::{BufWriter, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use lodge_events::{BrokenOff, Event, Payload};
use lodge_host::{Home, HomeOptions, Host, ListFilter, Progress, SessionSummary, can_put_back};
use lodge_log::{Damage, EventReader, Findings, LogError, Position, Store};

use crate::{
    cli::{CheckArgs, SessionsCommand},
    console::Console,
    listing::{self, Row, count},
    view::{cut, plain, shorten},
};

/// The last session is searched for among this many.
const RECENT: usize = 50;

/// Runs `lodge sessions`.
pub(crate) fn sessions(home: &Path, command: SessionsCommand) -> Result<ExitCode> {
    let home = Home::open_unlocked_read_only(home)?;
    let mut out = BufWriter::new(std::io::stdout());
    let done = match command {
        SessionsCommand::List {
            cwd,
            repository,
            branch,
            limit,
            all,
            json,
        } => {
            let cwd = cwd
                .map(|cwd| std::path::absolute(&cwd))
                .transpose()?
                .map(|cwd| cwd.to_string_lossy().into_owned());
            let filter = ListFilter {
                cwd,
                repository,
                branch,
                limit: Some(limit),
                include_empty: all,
                ..ListFilter::default()
            };
            list(&home, &filter, json, &mut out)
        }
        SessionsCommand::Show { id } => show(read(&home, &find(&home, &id)?)?.events(), &mut out),
        SessionsCommand::Search { text, limit } => search(&home, &text, limit, &mut out),
        SessionsCommand::Export { id } => export(read(&home, &find(&home, &id)?)?.events(), &mut out),
        SessionsCommand::Delete { .. }
        | SessionsCommand::Fork { .. }
        | SessionsCommand::Prune(_)
        | SessionsCommand::Rewind { .. } => {
            unreachable!("they are for a host")
        }
    };
    match done.and_then(|()| Ok(out.flush()?)) {
        // The reader of the output may be gone.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other.map(|()| ExitCode::SUCCESS),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Like [`find`], for a host: a fleet has sessions that are not in this home. They are found by their whole id.
pub(crate) fn find_for(host: &Host, wanted: &str) -> Result<String> {
    match find(host.home(), wanted) {
        Err(_) if host.is_kept() => Ok(wanted.to_owned()),
        found => found,
    }
}

/// A session by its id, the beginning of its id, or `last`.
pub(crate) fn find(home: &Home, wanted: &str) -> Result<String> {
    if wanted == "last" {
        let recent = ListFilter {
            include_empty: true,
            limit: Some(RECENT),
            ..ListFilter::default()
        };
        let recent = home.catalogue().list(&recent)?.sessions.into_iter();
        // A session whose first message was rewound has no messages, but the rewind can be undone.
        let mut recent = recent.filter(|session| session.message_count > 0 || can_put_back(&session.dir));
        let last = recent.next();
        let last = match last {
            None => home.catalogue().last(ListFilter::default())?,
            last => last,
        };
        return Ok(last.context("There is no session yet.")?.id);
    }
    if home.sessions().exists(wanted)? {
        return Ok(wanted.to_owned());
    }
    let here = home.sessions().list()?.into_iter().map(|entry| entry.id);
    let begins = ListFilter {
        id_prefix: Some(wanted.to_owned()),
        include_empty: true,
        ..ListFilter::default()
    };
    // The catalogue also has sessions of other hosts.
    let listed = home.catalogue().list(&begins)?.sessions.into_iter();
    let found: BTreeSet<String> = here
        .filter(|id| id.starts_with(wanted))
        .chain(listed.map(|session| session.id))
        .collect();
    if let Some(exact) = found.get(wanted) {
        return Ok(exact.clone());
    }
    let mut found = Vec::from_iter(found);
    match found.len() {
        0 => bail!("There is no session {wanted:?}. List them with `lodge sessions list`."),
        1 => Ok(found.remove(0)),
        many => bail!("{many} sessions begin with {wanted:?}; give more of the id."),
    }
}

fn list(home: &Home, filter: &ListFilter, json: bool, out: &mut impl Write) -> Result<()> {
    let page = home.catalogue().list(filter)?;
    if page.sessions.is_empty() && !json {
        eprintln!("No sessions yet. Start one with: lodge run \"hello\"");
    }
    let width = listing::width();
    for session in page.sessions {
        if json {
            writeln!(out, "{}", as_json(&session))?;
            continue;
        }
        let title = session.title().unwrap_or_else(|| "(no messages)".into());
        let row = Row {
            id: &session.id,
            state: state(&session),
            age: listing::age(session.modified, jiff::Timestamp::now()),
            directory: listing::directory(session.cwd.as_deref()),
            title: &one_line(&title, 200),
        };
        writeln!(out, "{}", row.line(width))?;
    }
    Ok(())
}

/// The state of a session, from its log or as another host reports it.
fn state(session: &SessionSummary) -> &'static str {
    match session.progress {
        _ if session.log_bytes > 0 => listing::state(&session.dir, session.progress),
        Progress::Idle => "idle",
        Progress::Working | Progress::Running => "working",
        Progress::Asking => "needs answer",
        Progress::Failed => "interrupted",
    }
}

/// The beginning of a text, on one line.
fn one_line(text: &str, longest: usize) -> String {
    shorten(&plain(text).replace('\n', " "), longest)
}

/// Whether a command reads a session of which the running host may have more than this home.
pub(crate) fn is_elsewhere(home: &Path, command: &SessionsCommand) -> bool {
    let (SessionsCommand::Show { id } | SessionsCommand::Export { id }) = command else {
        return false;
    };
    let Ok(home) = Home::open_unlocked_read_only(home) else {
        return false;
    };
    let files = home.sessions();
    let is_whole = |id: String| files.exists(&id).unwrap_or(false) && !files.is_copy(&id).unwrap_or(false);
    !find(&home, id).is_ok_and(is_whole)
}

/// Shows or exports a session that is kept for several hosts, as it is there, wherever it is in use.
pub(crate) async fn read_kept(host: &Host, command: &SessionsCommand, out: &mut impl Write) -> Result<u8> {
    let (SessionsCommand::Show { id } | SessionsCommand::Export { id }) = command else {
        bail!("This command does not read a session.");
    };
    let id = find_for(host, id)?;
    let events: Box<dyn Iterator<Item = Result<Event, LogError>> + Send> = match host.read_kept(&id).await? {
        Some(events) => Box::new(events.into_iter().map(Ok)),
        None => Box::new(read(host.home(), &id)?.events()),
    };
    match command {
        SessionsCommand::Show { .. } => show(events, out)?,
        _ => export(events, out)?,
    }
    Ok(0)
}

fn read(home: &Home, id: &str) -> Result<EventReader> {
    Ok(home.sessions().read(id, Position::START, Position::END)?)
}

fn show(events: impl Iterator<Item = Result<Event, LogError>>, out: &mut impl Write) -> Result<()> {
    let mut broken = BrokenOff::default();
    for event in events {
        let event = event?;
        if event.agent_id().is_none()
            && let Some(text) = broken.before(event.payload())
        {
            writeln!(out, "{}", plain(&text))?;
        }
        match event.payload() {
            Payload::UserMessage(message) => writeln!(out, "\n> {}\n", plain(&message.content).replace('\n', "\n> "))?,
            Payload::AssistantMessage(message) => {
                let text = broken.rest_of(&message.message_id, &message.content);
                if !text.is_empty() {
                    writeln!(out, "{}", plain(text))?;
                }
            }
            Payload::ToolExecutionStart(start) => {
                let arguments = start.arguments.as_ref().map(ToString::to_string).unwrap_or_default();
                writeln!(
                    out,
                    "→ {} {}",
                    plain(&start.tool_name),
                    shorten(&plain(&arguments), 200)
                )?;
            }
            Payload::ToolExecutionComplete(done) => {
                let text = match (&done.result, &done.error) {
                    (Some(result), _) => &result.content,
                    (None, Some(error)) => &error.message,
                    (None, None) => continue,
                };
                writeln!(out, "{}", cut(text, 8, 160))?;
            }
            Payload::SessionError(error) => writeln!(out, "error ({}): {}", error.error_type, plain(&error.message))?,
            Payload::SessionInfo(info) => writeln!(out, "Note: {}", plain(&info.message))?,
            Payload::Abort(_) => writeln!(out, "Aborted.")?,
            _ => {}
        }
    }
    if let Some(text) = broken.rest() {
        writeln!(out, "{}", plain(&text))?;
    }
    Ok(())
}

fn search(home: &Home, text: &str, limit: usize, out: &mut impl Write) -> Result<()> {
    let hits = home.catalogue().search(text, limit)?;
    if hits.is_empty() {
        eprintln!("Nothing found.");
    }
    for hit in hits {
        let snippet = plain(&hit.snippet).replace('\n', " ");
        writeln!(out, "{}  {}", hit.session.id, shorten(&snippet, 160))?;
    }
    Ok(())
}

fn export(events: impl Iterator<Item = Result<Event, LogError>>, out: &mut impl Write) -> Result<()> {
    for event in events {
        crate::run::print_event(out, &event?)?;
    }
    Ok(())
}

/// Deletes sessions after the person has confirmed.
pub(crate) async fn delete(host: &Host, ids: &[String], yes: bool, console: &mut Console) -> Result<u8> {
    let home = host.home();
    let ids = ids.iter().map(|id| find(home, id)).collect::<Result<Vec<_>>>()?;
    if !yes {
        for id in &ids {
            let title = home.catalogue().get(id)?.and_then(|session| session.title());
            let title = title.map_or_else(String::new, |title| format!("  {}", one_line(&title, 60)));
            writeln!(console.err, "{id}{title}")?;
        }
        let question = match ids.len() {
            1 => "Delete this session and everything in it? [y]es, [n]o: ".to_owned(),
            many => format!("Delete these {many} sessions and everything in them? [y]es, [n]o: "),
        };
        if !agrees(console, &question).await? {
            return Ok(1);
        }
    }
    for id in ids {
        host.delete(&id).await?;
        console.say(&format!("Deleted {id}."))?;
    }
    host.catalogue().flush();
    Ok(0)
}

/// Asks for confirmation of a deletion.
pub(crate) async fn agrees(console: &mut Console, question: &str) -> Result<bool> {
    match console.ask(question).await? {
        None if !console.terminal.has_person() => {
            bail!("Deleting needs confirmation, and there is nobody to ask. Add --yes.")
        }
        Some(answer) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(true),
        _ => {
            writeln!(console.err, "Nothing was deleted.")?;
            Ok(false)
        }
    }
}

pub(crate) fn println_quietly(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Verifies logs.
pub(crate) fn check(home: &Path, args: &CheckArgs) -> Result<ExitCode> {
    let opened = Home::open_unlocked_read_only(home)?;
    // A running host is in nobody's way unless there is something to repair.
    let mut held = None;
    let ids = match &args.id {
        Some(id) => vec![find(&opened, id)?],
        None => {
            let mut ids: Vec<String> = opened.sessions().list()?.into_iter().map(|entry| entry.id).collect();
            ids.sort();
            ids
        }
    };
    let (mut damaged, mut incomplete, mut unread) = (0, 0, 0);
    for id in &ids {
        let report = match opened.sessions().check(id) {
            Ok(report) => report,
            // An unreadable log does not keep the others from being checked.
            Err(error) => {
                println_quietly(&format!("{id}: {error}"));
                unread += 1;
                continue;
            }
        };
        if report.findings.is_empty() {
            continue;
        }
        if is_beyond_repair(&report.findings) {
            incomplete += 1;
            println_quietly(&format!("{id}: {}, which cannot be repaired", report.findings));
            continue;
        }
        damaged += 1;
        if args.fix {
            let home = match held.take() {
                Some(home) => home,
                None => Home::open(home, HomeOptions::default())
                    .context("Stop the host first (`lodge serve --stop`), then repair")?,
            };
            let repaired = held.insert(home).sessions().fix(id)?.repaired;
            let told = repaired.map_or_else(|| report.findings.to_string(), |repair| repair.to_string());
            println_quietly(&format!("{id}: {told}"));
        } else {
            println_quietly(&format!("{id}: {}", report.findings));
        }
    }
    let (total, what) = (ids.len(), if args.fix { "repaired" } else { "damaged" });
    let beside: String = [(incomplete, "incomplete"), (unread, "unreadable")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!(", {count} {what}"))
        .collect();
    println_quietly(&format!(
        "{} checked, {damaged} {what}{beside}.",
        count(total, "session")
    ));
    if damaged > 0 && !args.fix {
        println_quietly(
            "Run `lodge check --fix` to repair. Every whole event is kept; damaged bytes go to a file beside the log.",
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::from(u8::from(unread > 0 || (incomplete > 0 && !args.fix))))
}

/// Whether a log is damaged only because events are missing in it: repairing it again would find the same.
fn is_beyond_repair(findings: &Findings) -> bool {
    use Damage::{Changed, Duplicate, Gap, Garbage, NoNewline, NotUtf8, TooLong, TornEnd, Zeros};
    let repairable = [TornEnd, Garbage, Zeros, TooLong, Duplicate, NotUtf8, Changed, NoNewline];
    findings.count(Gap) > 0 && repairable.iter().all(|damage| findings.count(*damage) == 0)
}

fn as_json(session: &SessionSummary) -> serde_json::Value {
    serde_json::json!({
        "id": session.id,
        "title": session.title,
        "summary": session.summary,
        "created": lodge_events::timestamp_text(session.created),
        "modified": lodge_events::timestamp_text(session.modified),
        "cwd": session.cwd,
        "gitRoot": session.git_root,
        "repository": session.repository,
        "branch": session.branch,
        "model": session.model,
        "clientName": session.client_name,
        "events": session.event_count,
        "messages": session.message_count,
        "bytes": session.log_bytes,
    })
}

/// The title that a list shows for a session.
trait Titled {
    fn title(&self) -> Option<String>;
}

impl Titled for SessionSummary {
    fn title(&self) -> Option<String> {
        self.title.clone().or_else(|| self.summary.clone())
    }
}
