//! Commands on whole sessions: fork, rewind, import, export.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use lodge_host::{
    Export, Format, Home, Host, Invoked, check_title,
    import::{self, Outcome},
};
use lodge_log::{Position, Store};

use crate::{
    cli::FormatArg,
    console::Console,
    listing::count,
    serve::print_line as say,
    sessions::{find, find_for},
    view::plain,
};

/// Exports a session.
pub(crate) fn export(home: &Path, id: &str, format: FormatArg, output: Option<&Path>) -> Result<ExitCode> {
    let home = Home::open_unlocked_read_only(home)?;
    let id = find(&home, id)?;
    let reader = home.sessions().read(&id, Position::START, Position::END)?;
    let labels = home.sessions().labels(&id).unwrap_or_default();
    let format = match format {
        FormatArg::Md => Format::Markdown,
        FormatArg::Html => Format::Html,
        FormatArg::Jsonl => Format::Jsonl,
    };
    let text = Export::of(reader, labels.name)?.render(format);
    match output {
        Some(path) => {
            std::fs::write(path, text).with_context(|| format!("Cannot write {}", path.display()))?;
            say(&format!("Written to {}.", path.display()));
        }
        None => match std::io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// Imports sessions.
pub(crate) fn import(host: &Host, paths: &[PathBuf], console: &mut Console) -> Result<u8> {
    let paths = match paths {
        [] => {
            let home = copilot_home(host).context("There is no home directory. Name the sessions to import.")?;
            if !home.exists() {
                console.say(&format!(
                    "There is nothing to import at {}. Name the sessions to import.",
                    home.display()
                ))?;
                return Ok(0);
            }
            vec![home]
        }
        given => given.iter().map(|path| host.cwd().join(path)).collect(),
    };
    let (mut new, mut seen, mut failed) = (0, 0, 0);
    for path in &paths {
        if !path.exists() {
            bail!("{} does not exist.", path.display());
        }
        for log in import::find(path) {
            if log.starts_with(host.home().path()) {
                continue;
            }
            match tokio::task::block_in_place(|| host.import(&log)) {
                Ok(None) => {}
                Ok(Some(imported)) => {
                    seen += 1;
                    let told = match imported.outcome {
                        Outcome::New(events) => format!("imported, {}", count(events, "event")),
                        Outcome::Grown(events) => format!("{} more", count(events, "event")),
                        Outcome::Same => continue,
                        Outcome::Differs => "changed here since the import; not updated".to_owned(),
                    };
                    new += 1;
                    let left_out = match imported.unreadable {
                        0 => String::new(),
                        lines => format!(" ({} could not be read)", count(lines, "line")),
                    };
                    console.say(&format!("{}: {told}{left_out}", plain(&imported.id)))?;
                }
                Err(error) => {
                    failed += 1;
                    writeln!(console.err, "error: {}: {error}", log.display())?;
                }
            }
        }
    }
    host.catalogue().flush();
    console.say(&format!(
        "{} checked, {new} imported or updated.",
        count(seen + failed, "session")
    ))?;
    Ok(u8::from(failed > 0))
}

/// The Copilot CLI's home.
fn copilot_home(host: &Host) -> Option<PathBuf> {
    let environment = host.environment();
    let given = environment.get("COPILOT_HOME").map(PathBuf::from);
    given.or_else(|| Some(PathBuf::from(environment.get("HOME")?).join(".copilot")))
}

/// Forks a session.
pub(crate) async fn fork(
    host: &Host,
    id: &str,
    at: Option<usize>,
    name: Option<String>,
    console: &mut Console,
) -> Result<u8> {
    name.as_deref().map_or(Ok(()), check_title)?;
    let id = find_for(host, id)?;
    let up_to = match at {
        None => None,
        Some(turn) => {
            let session = host.open_session(&id).await?;
            let points = session.rewind_points().await?;
            if turn == 0 || turn > points.len() {
                bail!(
                    "There is no turn {turn}: the session has {}.",
                    count(points.len(), "turn")
                );
            }
            match points.get(turn) {
                None => None,
                // Up to the events before the next message.
                Some(next) => {
                    let mut last = None;
                    for event in session.history()?.events() {
                        let event = event?;
                        if event.id() == next.event {
                            break;
                        }
                        last = Some(event.id());
                    }
                    last
                }
            }
        }
    };
    let copy = host.fork(&id, up_to, None).await?;
    if name.is_some() {
        copy.rename(name).await?;
    }
    console.say(copy.id())?;
    Ok(0)
}

/// Rewinds a session by `input` messages; without `input`, undoes the last rewind.
pub(crate) async fn rewind(host: &Host, id: &str, input: Option<String>, console: &mut Console) -> Result<u8> {
    let id = find_for(host, id)?;
    let session = host.open_session(&id).await?;
    let done = match input {
        Some(input) => session.invoke("rewind", &input).await,
        None => session.invoke("undo", "").await,
    };
    // The session was not resumed, so its end is not recorded.
    drop(session);
    match done? {
        Some(Invoked::Done(text)) => {
            console.say(plain(&text.replace("/undo restores it.", "--undo restores it.")).trim_end())?
        }
        other => bail!("The rewind failed: {other:?}"),
    }
    host.catalogue().flush();
    Ok(0)
}
