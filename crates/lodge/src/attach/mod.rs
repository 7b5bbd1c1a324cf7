//! `lodge attach`: a terminal client. It knows the host only through the Agent Host Protocol, as any other client does.

mod ask;
mod automations;
mod devices;
mod editor;
mod form;
mod input;
mod link;
mod mirror;
mod outbox;
mod pick;
mod place;
mod screen;
mod show;
mod talk;
mod typed;

use std::{io, path::Path, process::ExitCode};

use ahp::ahp_types::{
    Uri,
    commands::InitializeResult,
    state::{RootState, SessionSummary, SnapshotState},
};
use anyhow::{Context, Result, bail};
use uuid::Uuid;

pub(crate) use self::{
    automations::automations,
    devices::{devices, pair, parse_role},
};
use self::{editor::Key, input::Input, link::Link, place::Place, screen::Screen, talk::Talk, typed::Typed};
use crate::cli::AttachArgs;

/// Runs it.
pub(crate) async fn attach(home: &Path, args: AttachArgs) -> Result<ExitCode> {
    match talk(home, args).await {
        // Whoever read the output has left.
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

async fn talk(home: &Path, args: AttachArgs) -> Result<ExitCode> {
    let place = Place::new(home, &args);
    let cwd = directory(&place, &args)?;
    let me = format!("lodge-attach-{}", Uuid::new_v4());
    let (link, hello) = Link::connect(&place, &me).await?;
    let root = root_of(hello)?;
    let screen = Screen::new();
    let mut opening = Opening {
        link: &link,
        root: &root,
        input: Input::open(screen.draws_line()),
        screen,
        listed: Vec::new(),
        cwd: cwd.clone(),
    };
    let Some(start) = opening.choose(&args).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let Opening {
        screen, input, listed, ..
    } = opening;
    let mirror = pick::open(&link, root, &start.session, args.history).await?;
    let mut talk = Talk::new(place, me, link, mirror, screen, input);
    talk.listed = listed;
    talk.cwd = cwd;
    talk.history = args.history;
    talk.model = args.model;
    talk.run(start.first).await
}

/// The directory that new sessions work in. The host's own choice, unless it is on this machine.
fn directory(place: &Place, args: &AttachArgs) -> Result<Option<Uri>> {
    let Some(named) = &args.cwd else {
        let here = std::env::current_dir().ok().filter(|_| place.is_here());
        return Ok(here.map(|path| place::file_uri(&path)));
    };
    if !place.is_here() {
        return Ok(Some(place::file_uri(named)));
    }
    let path = named
        .canonicalize()
        .with_context(|| format!("{} is not a directory that exists", named.display()))?;
    Ok(Some(place::file_uri(&path)))
}

fn root_of(hello: InitializeResult) -> Result<RootState> {
    for snapshot in hello.snapshots {
        if let SnapshotState::Root(root) = snapshot.state {
            return Ok(*root);
        }
    }
    bail!("The host does not say what it offers.")
}

/// Where the conversation begins.
struct Start {
    session: Uri,
    /// What was said already.
    first: Option<String>,
}

/// Choosing a session.
struct Opening<'a> {
    link: &'a Link,
    root: &'a RootState,
    screen: Screen,
    input: Input,
    listed: Vec<SessionSummary>,
    cwd: Option<Uri>,
}

impl Opening<'_> {
    /// Nothing when the person leaves.
    async fn choose(&mut self, args: &AttachArgs) -> Result<Option<Start>> {
        if args.new {
            return self.new_session(None).await;
        }
        self.listed = pick::newest(self.link).await?;
        if let Some(wanted) = &args.session {
            let session = pick::find(self.link, wanted, &self.listed).await?;
            return Ok(Some(Start { session, first: None }));
        }
        if self.listed.is_empty() {
            return self.new_session(None).await;
        }
        self.ask().await
    }

    async fn ask(&mut self) -> Result<Option<Start>> {
        self.screen.lines(&pick::table(&self.listed, None))?;
        self.screen
            .lines("Pick a number or an id, or just say something to begin a new session.")?;
        loop {
            self.screen.prompt("> ")?;
            self.screen.flush()?;
            let line = match self.input.next().await {
                Some(Key::Line(line)) => line,
                Some(_) => {
                    self.screen.typing(self.input.editor())?;
                    continue;
                }
                None => return Ok(None),
            };
            self.screen.entered(&line)?;
            match Typed::read(&line) {
                Typed::Say(word) if pick::is_choice(&word, &self.listed) => {
                    match pick::find(self.link, &word, &self.listed).await {
                        Ok(session) => return Ok(Some(Start { session, first: None })),
                        Err(error) => self.screen.note("✗", &format!("{error:#}"))?,
                    }
                }
                Typed::Say(word) if ["n", "new"].contains(&word.as_str()) => return self.new_session(None).await,
                Typed::Say(text) => return self.new_session(Some(text)).await,
                Typed::New => return self.new_session(None).await,
                Typed::Quit => return Ok(None),
                Typed::Nothing => {}
                _ => self
                    .screen
                    .note("·", "First pick a session; /new makes one, /quit leaves.")?,
            }
        }
    }

    async fn new_session(&self, first: Option<String>) -> Result<Option<Start>> {
        let session = pick::create(self.link, self.root, self.cwd.clone()).await?;
        Ok(Some(Start { session, first }))
    }
}
