//! `lodge attach`: a terminal client. Like any other client, it knows the host only through the Agent Host Protocol.

mod automations;
mod background;
mod clipboard;
mod devices;
mod editor;
mod full;
mod hardware;
mod history;
mod images;
mod input;
mod line_client;
mod link;
mod others;
mod pick;
mod place;
mod screen;
mod show;
mod sides;
mod typed;

use std::{io, path::Path, process::ExitCode};

use ahp::ahp_types::{
    Uri,
    commands::InitializeResult,
    state::{RootState, SessionStatus, SessionSummary, SnapshotState},
};
use anyhow::{Context, Result, bail};
use clap::Parser;
use lodge_terminal::{App, Scheme, Setup};
use uuid::Uuid;

pub(crate) use self::{
    automations::automations,
    devices::{devices, pair, parse_role},
};
use self::{
    editor::Key,
    full::Full,
    history::History,
    input::Input,
    line_client::LineClient,
    link::{Link, Wire},
    others::Others,
    pick::Workplace,
    place::Place,
    screen::Screen,
    typed::Typed,
};
use crate::{
    cli::{ApprovalArg, AttachArgs, ChatOptions, Cli, Command},
    launch, remote,
    serve::print_line,
};

/// Turns requested when a session is opened on the whole screen; earlier ones are loaded on scrolling.
const TURNS: usize = 50;

/// Runs `lodge attach`.
pub(crate) async fn attach(home: &Path, args: AttachArgs) -> Result<ExitCode> {
    match connect(home, args).await {
        // The reader of the output, or the terminal, is gone; the session stays.
        Err(error) if is_gone(&error) => Ok(ExitCode::SUCCESS),
        other => other,
    }
}

/// Plain `lodge`: a conversation with the host of a home, which is started if none runs. A first message begins a new session.
pub(crate) async fn converse(home: &Path, options: ChatOptions, message: Option<String>) -> Result<ExitCode> {
    let is_new = options.new || message.is_some() && !options.last && options.resume.is_none();
    let words = ["lodge", "attach"].map(str::to_owned).into_iter().chain(options.resume);
    let Some(Command::Attach(mut args)) = Cli::try_parse_from(words)?.command else {
        unreachable!("`attach` is a command");
    };
    args.last_here = true;
    (args.new, args.model, args.approve, args.message) = (is_new, options.model, options.approve, message);
    // The way to another machine, open for as long as this runs.
    let _way = remote::open(home, &mut args).await?;
    if args.url.is_none() {
        launch::ensure(home).await?;
    }
    attach(home, args).await
}

/// `lodge status`: says whether a host runs, and what its sessions do.
pub(crate) async fn status(home: &Path) -> Result<ExitCode> {
    let Some(note) = crate::host_file::running(home)? else {
        print_line(&format!(
            "No host is running on {}. `lodge` starts one.",
            home.display()
        ));
        return Ok(ExitCode::FAILURE);
    };
    print_line(&format!(
        "Lodge {} is running on {} (process {}).",
        note.version,
        home.display(),
        note.pid
    ));
    print_line(&format!("AHP clients   {}", note.ahp));
    print_line(&format!("Copilot SDKs  {}", note.copilot));
    let (link, _) = Link::connect(&Place::of_home(home), &format!("lodge-status-{}", Uuid::new_v4())).await?;
    let busy: Vec<SessionSummary> = pick::many(&link.client)
        .await?
        .into_iter()
        .filter(|session| session.status & SessionStatus::InProgress.bits() != 0)
        .collect();
    match busy.is_empty() {
        true => print_line("No session is working."),
        false => print_line(pick::table(&busy, None).trim_end()),
    }
    Ok(ExitCode::SUCCESS)
}

fn is_gone(error: &anyhow::Error) -> bool {
    // A closed terminal answers everything with this.
    let no_terminal = rustix::io::Errno::IO.raw_os_error();
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe || error.raw_os_error() == Some(no_terminal))
}

/// Connects to the host and runs the client that this terminal can show.
async fn connect(home: &Path, args: AttachArgs) -> Result<ExitCode> {
    let place = Place::new(home, &args);
    let mut workplace = workplace(&place, &args)?;
    let me = format!("lodge-attach-{}", Uuid::new_v4());
    let (link, hello) = Link::connect(&place, &me).await?;
    let root = root_of(hello)?;
    let notices = notices(&place, &root, &mut workplace);
    if !args.plain && hardware::can_draw() {
        let joined = Joined { place, me, link, root };
        return Box::pin(on_whole_screen(home, args, joined, workplace, notices)).await;
    }
    let mut screen = Screen::new();
    for notice in &notices {
        screen.note("·", notice)?;
    }
    let mut opening = Opening {
        link: &link,
        root: &root,
        input: Input::open(screen.draws_line()),
        screen,
        listed: Vec::new(),
        workplace: &workplace,
    };
    let Some(start) = opening.choose(&args).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    let Opening {
        screen, input, listed, ..
    } = opening;
    let mirror = pick::open(&link.client, root, &start.session, &workplace, args.history).await?;
    let mut client = LineClient::new(place, me, link, mirror, screen, input);
    client.listed = listed;
    client.workplace = workplace;
    client.history = args.history;
    client.model = args.model;
    client
        .run(args.approve.map(ApprovalArg::name), start.first.or(args.message))
        .await
}

/// What the person should know before the conversation. New sessions use the model that a variable here names, if the host has it.
fn notices(place: &Place, root: &RootState, workplace: &mut Workplace) -> Vec<String> {
    let mut notices = Vec::from_iter(version_notice(place));
    let named = ["LODGE_MODEL", "COPILOT_MODEL"]
        .iter()
        .find_map(|name| Some((name, std::env::var(name).ok().filter(|value| !value.trim().is_empty())?)));
    if let Some((variable, model)) = named.filter(|_| place.is_here()) {
        let mut models = root.agents.iter().flat_map(|agent| &agent.models);
        match models.any(|known| known.id == model) {
            true => workplace.model = Some(model),
            false => notices.push(format!(
                "{variable} names {model}, and the running host was started without that model. To use it: `lodge serve --stop`, \
                 then `lodge`."
            )),
        }
    }
    notices
}

/// What to do about a host of another version, if it is that. An upgrade leaves the running host as it was.
fn version_notice(place: &Place) -> Option<String> {
    let note = crate::host_file::find(&place.own_home()?).ok()??;
    let own = env!("CARGO_PKG_VERSION");
    (note.version != own).then(|| {
        format!(
            "The running host is Lodge {}, and this is Lodge {own}. To replace it: `lodge serve --stop`, then `lodge`.",
            note.version
        )
    })
}

/// A host that this client is connected to.
struct Joined {
    place: Place,
    /// The client's own id.
    me: String,
    link: Link,
    root: RootState,
}

/// The conversation on the whole screen, with the named session or the last one of this directory.
async fn on_whole_screen(
    home: &Path,
    args: AttachArgs,
    joined: Joined,
    workplace: Workplace,
    notices: Vec<String>,
) -> Result<ExitCode> {
    let Joined { place, me, link, root } = joined;
    let client = &link.client;
    let wanted = match (&args.session, args.new, &workplace.directory) {
        (_, true, _) => None,
        (Some(wanted), ..) => Some(pick::find(client, wanted, &pick::newest(client).await?).await?),
        (None, _, Some(cwd)) => pick::last_in(client, cwd).await?,
        (None, _, None) => None,
    };
    let is_continued = args.session.is_none() && wanted.is_some();
    let session = match wanted {
        Some(session) => session,
        None => pick::create(client, &root, &workplace).await?,
    };
    let mirror = pick::open(client, root, &session, &workplace, TURNS).await?;
    let config = crate::setup::config(home)?;
    let (history, typed) = History::open(home);
    let variable = |name: &str| std::env::var(name).ok();
    let chosen = config.terminal.theme.scheme().or_else(|| Scheme::detect(variable));
    let asked = match chosen {
        Some(_) => None,
        None => Some(background::ask().context("The terminal cannot be asked for its background")?),
    };
    let (scheme, typed_early, late) = match asked {
        Some(asked) => (
            asked.scheme,
            asked.typed,
            (!asked.whole).then(background::Late::default),
        ),
        None => (None, String::new(), None),
    };
    let setup = Setup {
        host: args.host.clone(),
        mirror,
        client_id: me.clone(),
        history: typed,
        scheme: chosen.or(scheme).unwrap_or_default(),
        prices: config.prices,
        model: args.model,
        vim: config.terminal.vim,
        keys: config.terminal.keys,
    };
    let mut full = Full {
        place,
        client_id: me,
        wire: Wire::Up(link),
        app: App::new(setup),
        history,
        workplace,
        turns: TURNS,
        renamed: Vec::new(),
        home: home.to_owned(),
        others: Others::new(home, args.host),
        way: None,
        mouse: config.terminal.mouse,
        late,
    };
    if !typed_early.is_empty() {
        full.app.insert(&typed_early);
    }
    if !notices.is_empty() {
        full.app.complain(&notices.join(" "));
    }
    if is_continued {
        full.app.continues();
    }
    if let Some(mode) = args.approve {
        full.app.approve(mode.name());
    }
    let code = full.run(args.message).await?;
    if let Some(session) = full.app.leaves() {
        print_line(&match full.place.is_here() {
            true => format!("To continue: lodge --resume {}", pick::short(session)),
            false => format!("The session is {}.", pick::short(session)),
        });
    }
    Ok(code)
}

/// Where new sessions work. Unless the host is on this machine, it chooses the directory.
fn workplace(place: &Place, args: &AttachArgs) -> Result<Workplace> {
    let is_here = place.is_here();
    let directory = match &args.cwd {
        None => place.current_directory(),
        Some(named) if !is_here => Some(place::file_uri(named)),
        Some(named) => {
            let path = named
                .canonicalize()
                .with_context(|| format!("{} is not a directory", named.display()))?;
            Some(place::file_uri(&path))
        }
    };
    Ok(Workplace {
        directory,
        is_here,
        model: None,
    })
}

fn root_of(hello: InitializeResult) -> Result<RootState> {
    for snapshot in hello.snapshots {
        if let SnapshotState::Root(root) = snapshot.state {
            return Ok(*root);
        }
    }
    bail!("The host did not describe itself.")
}

/// The start of the conversation.
struct Start {
    session: Uri,
    /// A first message, already typed.
    first: Option<String>,
}

/// Choosing a session.
struct Opening<'a> {
    link: &'a Link,
    root: &'a RootState,
    screen: Screen,
    input: Input,
    listed: Vec<SessionSummary>,
    workplace: &'a Workplace,
}

impl Opening<'_> {
    /// Returns `None` if the person leaves.
    async fn choose(&mut self, args: &AttachArgs) -> Result<Option<Start>> {
        if args.new {
            return self.new_session(None).await;
        }
        if let (None, true, Some(cwd)) = (&args.session, args.last_here, &self.workplace.directory) {
            return match pick::last_in(&self.link.client, cwd).await? {
                Some(session) => Ok(Some(Start { session, first: None })),
                None => self.new_session(None).await,
            };
        }
        self.listed = pick::newest(&self.link.client).await?;
        if let Some(wanted) = &args.session {
            let session = pick::find(&self.link.client, wanted, &self.listed).await?;
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
            .lines("Enter a number or an id, or type a message to start a new session.")?;
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
                    match pick::find(&self.link.client, &word, &self.listed).await {
                        Ok(session) => return Ok(Some(Start { session, first: None })),
                        Err(error) => self.screen.error(&format!("{error:#}"))?,
                    }
                }
                Typed::Say(word) if ["n", "new"].contains(&word.as_str()) => return self.new_session(None).await,
                Typed::Say(text) => return self.new_session(Some(text)).await,
                Typed::New => return self.new_session(None).await,
                Typed::Quit => return Ok(None),
                Typed::Nothing => {}
                _ => self
                    .screen
                    .note("·", "Choose a session first. /new creates one, /quit leaves.")?,
            }
        }
    }

    async fn new_session(&self, first: Option<String>) -> Result<Option<Start>> {
        let session = pick::create(&self.link.client, self.root, self.workplace).await?;
        Ok(Some(Start { session, first }))
    }
}
