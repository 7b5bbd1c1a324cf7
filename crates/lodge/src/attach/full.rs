//! The conversation on the whole screen: connects the host, the terminal and `lodge_terminal::App`, which decides everything.

use std::{io, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use ahp::ahp_types::{
    ActionEnvelope, StateAction, Uri,
    actions::SessionTitleChangedAction,
    commands::{CompletionItem, CompletionItemKind, CompletionsParams, CompletionsResult, FetchTurnsParams},
    state::{FileEdit, MessageAttachment, SessionSummary},
};
use anyhow::{Context, Result};
use crossterm::event::{Event, EventStream, KeyEvent};
use futures_util::StreamExt;
use lodge_terminal::{App, Effect, HostName, Painter, Sent, Setting, Work};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    background::{Heard, Late},
    clipboard,
    hardware::{self, Hardware},
    history::History,
    images,
    link::{Inbound, Leftover, Link, Missed, News, Wire},
    others::Others,
    pick::{self, Workplace},
    place::Place,
    sides,
};
use crate::remote::Forward;

/// Time between two frames, and between two frames of an animation.
const FRAME: Duration = Duration::from_millis(16);
const TURN: Duration = Duration::from_millis(100);
/// How often a visible list of sessions is refreshed.
const LIST: Duration = Duration::from_secs(2);

/// Answers to requests beside the conversation.
enum Answer {
    Completed(u64, Vec<CompletionItem>),
    Listed(HostName, Result<Vec<SessionSummary>>),
    /// A question, and both sides of the files that it is about.
    Read(String, Vec<(Uri, String, String)>),
    Image(String, Box<MessageAttachment>),
    /// What a command in the background printed, with the command first.
    Output(String, String),
    Failed(String),
}

pub(super) struct Full {
    pub(super) place: Place,
    pub(super) client_id: String,
    pub(super) wire: Wire,
    pub(super) app: App,
    pub(super) history: History,
    /// Where new sessions work.
    pub(super) workplace: Workplace,
    /// How many turns to request when a session is opened.
    pub(super) turns: usize,
    /// Other sessions whose titles are being changed.
    pub(super) renamed: Vec<Uri>,
    /// Where the configuration of this terminal is.
    pub(super) home: PathBuf,
    pub(super) others: Others,
    /// The forwarded connection to the host, if it needs one.
    pub(super) way: Option<Arc<Forward>>,
    /// Whether Lodge handles the mouse instead of the terminal.
    pub(super) mouse: bool,
    /// The terminal's answer about its background, while that is missing.
    pub(super) late: Option<Late>,
}

/// State that exists only while the terminal is in use.
struct Screen {
    hardware: Hardware,
    /// Absent while another program reads keys: two streams beside each other would take them from each other.
    keys: Option<EventStream>,
    painter: Painter,
    size: (u16, u16),
    title: String,
    /// Whether the terminal has the focus, if it reports that.
    looked_at: Option<bool>,
}

impl Screen {
    fn take(mouse: bool) -> Result<Self> {
        let size = crossterm::terminal::size().context("The terminal does not report its size")?;
        Ok(Self {
            hardware: Hardware::take(mouse)?,
            keys: Some(EventStream::new()),
            painter: Painter::new(size.0, size.1),
            size,
            title: String::new(),
            looked_at: None,
        })
    }

    /// Draws what the app shows.
    fn draw(&mut self, app: &mut App) -> io::Result<()> {
        let title = app.title();
        if title != self.title {
            hardware::set_title(&title)?;
            self.title = title;
        }
        self.painter
            .frame(&mut io::stdout().lock(), self.size, |buffer| app.draw(buffer))
    }

    /// The next key, paste or mouse report. Nothing when the terminal is gone.
    async fn key(&mut self) -> Option<io::Result<Event>> {
        self.keys.as_mut()?.next().await
    }

    /// Lends the terminal to another program. Meanwhile, keys are not read.
    fn lend<T>(&mut self, what: impl FnOnce() -> T) -> io::Result<T> {
        self.keys = None;
        let done = self.hardware.lend(|| {
            let done = what();
            // The stream that ended has left a wake-up, beside which the next one would not see that keys were pressed.
            let _ = crossterm::event::poll(Duration::ZERO);
            done
        })?;
        self.keys = Some(EventStream::new());
        self.size = crossterm::terminal::size()?;
        self.painter.forget();
        self.title.clear();
        Ok(done)
    }
}

impl Full {
    /// Runs until the person leaves or the terminal closes.
    pub(super) async fn run(&mut self, first: Option<String>) -> Result<ExitCode> {
        let mut screen = Screen::take(self.mouse)?;
        self.app.resize(screen.size.0, screen.size.1);
        if let Some(first) = first {
            self.app.say(&first, false);
        }
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut ended = std::pin::pin!(hung_up());
        let mut drawn = Instant::now() - FRAME;
        let mut asked = Instant::now();
        let mut due = true;
        loop {
            if let Some(code) = self.settle(&mut screen, &answers).await? {
                return Ok(code);
            }
            due |= self.app.take_changed();
            let next = match (due, self.app.is_moving()) {
                (true, _) => drawn + FRAME,
                (false, true) => drawn + TURN,
                (false, false) => drawn + LIST,
            };
            tokio::select! {
                biased;
                () = sleep_until(next) => {
                    if due {
                        self.catch_up();
                        if let Some(code) = self.settle(&mut screen, &answers).await? {
                            return Ok(code);
                        }
                    }
                    if due || self.app.is_moving() {
                        screen.draw(&mut self.app)?;
                        self.app.take_changed();
                    }
                    (drawn, due) = (Instant::now(), false);
                    if self.app.shows_sessions() && asked.elapsed() > LIST {
                        asked = drawn;
                        self.list(&answers);
                    }
                }
                key = screen.key() => match key {
                    Some(Ok(event)) => self.event(event, &mut screen),
                    // The terminal is gone; the session stays.
                    Some(Err(_)) | None => return Ok(ExitCode::SUCCESS),
                },
                () = &mut ended => return Ok(ExitCode::SUCCESS),
                Some(answer) = answered.recv() => match answer {
                    Answer::Completed(number, items) => self.app.completed(number, items),
                    Answer::Listed(host, Ok(sessions)) => self.app.listed(host, sessions),
                    Answer::Listed(host, Err(error)) if host == self.others.current => {
                        self.app.complain(&crate::describe(&error));
                    }
                    Answer::Listed(host, Err(error)) => {
                        tracing::debug!("{}", crate::describe(&error));
                        self.app.unlisted(&host);
                    }
                    Answer::Read(question, edits) => self.app.read(&question, edits),
                    Answer::Image(label, image) => self.app.attached(&label, *image),
                    Answer::Output(command, text) => self.app.show_output(command, text),
                    Answer::Failed(why) => self.app.failed(&why),
                },
                // Updates wait for the next frame, so that the many pieces of an answer are applied together.
                news = self.wire.next(), if !due => self.news(news?).await?,
            }
        }
    }

    /// Carries out all pending effects. Returns an exit code when the conversation is over.
    async fn settle(
        &mut self,
        screen: &mut Screen,
        answers: &mpsc::UnboundedSender<Answer>,
    ) -> Result<Option<ExitCode>> {
        for effect in self.app.settle() {
            if let Some(code) = self.perform(effect, screen, answers).await? {
                if let Some(link) = self.wire.link() {
                    link.client.shutdown().await;
                }
                return Ok(Some(code));
            }
        }
        Ok(None)
    }

    fn event(&mut self, event: Event, screen: &mut Screen) {
        match event {
            Event::Key(key) => self.key(key),
            Event::Paste(text) => self.app.paste(&text),
            Event::Resize(width, height) => {
                screen.size = (width, height);
                self.app.resize(width, height);
            }
            Event::FocusGained => screen.looked_at = Some(true),
            Event::FocusLost => screen.looked_at = Some(false),
            Event::Mouse(event) => self.app.mouse(&event),
        }
    }

    fn key(&mut self, key: KeyEvent) {
        let heard = match &mut self.late {
            Some(late) => late.take(key),
            None => Heard::Keys(vec![key]),
        };
        match heard {
            Heard::Keys(keys) => keys.iter().for_each(|key| self.app.key(key)),
            Heard::Part => {}
            Heard::Answer(scheme) => {
                self.late = None;
                if let Some(scheme) = scheme {
                    self.app.paint(scheme);
                }
            }
        }
    }

    async fn news(&mut self, news: News) -> Result<()> {
        match news {
            News::Said(inbound) => {
                self.said(inbound);
                Ok(())
            }
            News::Lost => {
                self.app.lost();
                let left = Leftover {
                    me: self.client_id.clone(),
                    seen: self.app.mirror.seen,
                    subscriptions: self.app.mirror.channels(),
                    session: self.app.mirror.session.uri.clone(),
                };
                self.wire = Wire::look(&self.place, left, None);
                Ok(())
            }
            News::Trouble(why) => {
                self.app.away_because(&why);
                Ok(())
            }
            News::Back(link, missed) => self.back(link, missed).await,
        }
    }

    /// Applies updates since the last frame, but not beyond the next one.
    fn catch_up(&mut self) {
        let began = Instant::now();
        while let Some(inbound) = self.wire.link().and_then(Link::ready) {
            self.said(inbound);
            if began.elapsed() > FRAME {
                return;
            }
        }
    }

    fn said(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Action(envelope) => {
                self.was_renamed(&envelope);
                self.app.apply(&envelope);
            }
            Inbound::SessionRemoved(uri) if self.app.shows(&uri) => self.app.deleted(),
            Inbound::SessionRemoved(_) => {}
        }
    }

    async fn back(&mut self, link: Link, missed: Missed) -> Result<()> {
        let missing = match missed {
            Missed::Actions(actions, missing) => {
                for action in actions {
                    self.app.apply(&action);
                }
                missing
            }
            Missed::Snapshots(snapshots) => self.app.replace(snapshots),
        };
        let mirror = &self.app.mirror;
        let (uri, root) = (mirror.session.uri.clone(), mirror.root.clone());
        let is_gone = missing.contains(&uri);
        let was_kept = !mirror.is_young() || self.app.watches();
        if is_gone && !was_kept {
            // The host had no time to keep it. It is created again, unless another client already did so.
            pick::create_as(&link.client, &uri, &self.workplace).await?;
        }
        if !(missing.is_empty() || is_gone && was_kept) {
            self.app.mirror = pick::open(&link.client, root, &uri, &self.workplace, self.turns).await?;
        } else if !is_gone {
            pick::bring_environment(&link.client, &uri, &self.workplace).await;
        }
        self.wire = Wire::Up(link);
        self.app.back();
        if is_gone && was_kept {
            self.app.deleted();
        }
        Ok(())
    }

    /// Carries out one effect. Returns an exit code when the conversation is over.
    async fn perform(
        &mut self,
        effect: Effect,
        screen: &mut Screen,
        answers: &mpsc::UnboundedSender<Answer>,
    ) -> Result<Option<ExitCode>> {
        match effect {
            Effect::Dispatch(channel, action, sent) => self.dispatch(channel, *action, sent).await,
            Effect::Complete(text, number) => self.complete(text, number, answers),
            Effect::List => self.list(answers),
            Effect::Open(host, uri) if host == self.others.current => self.open(Some(uri)).await,
            Effect::Open(host, uri) => Box::pin(self.go_to(host, &uri)).await,
            Effect::New => self.open(None).await,
            Effect::Watch(chat) => self.watch(&chat).await,
            Effect::Stop(work) => self.stop(&work, answers),
            Effect::Output(id, command) => self.output(id, command, answers),
            Effect::Delete(session) => self.delete(session, answers),
            Effect::Rename(session, title) => self.rename(session, title, answers),
            Effect::Save(setting) => self.save(setting),
            Effect::Older(cursor) => self.older(cursor, answers),
            Effect::Read(question, edits) => self.read(question, edits, answers),
            Effect::Edit(text) => match screen.lend(|| edit(&text))? {
                Ok(text) => self.app.edited(&text),
                Err(error) => self.app.complain(&crate::describe(&error)),
            },
            Effect::Attach(path) => match images::at(&path) {
                Ok((label, attachment)) => self.app.attached(&label, attachment),
                Err(error) => {
                    self.app.insert(&path);
                    self.app
                        .complain(&format!("{path} is not attached: {}", crate::describe(&error)));
                }
            },
            Effect::AttachCopied => {
                let answers = answers.clone();
                tokio::task::spawn_blocking(move || {
                    let image = images::copied();
                    let _ = answers.send(image.map_or_else(
                        || Answer::Failed("There is no image on the clipboard.".to_owned()),
                        |(label, image)| Answer::Image(label, Box::new(image)),
                    ));
                });
            }
            Effect::Copy(text) => clipboard::copy(&text)?,
            Effect::CopyShown(from, to) => clipboard::copy(&screen.painter.text(from, to))?,
            Effect::Remember(text) => {
                if let Err(error) = self.history.add(&text) {
                    tracing::debug!(%error, "cannot save the input history");
                }
            }
            Effect::Notify(text) => {
                if screen.looked_at != Some(true) {
                    hardware::notify(&text)?;
                }
            }
            Effect::Suspend => screen.lend(suspend)?,
            Effect::Redraw => screen.painter.forget(),
            Effect::Login => self.login(screen).await?,
            Effect::StartHost { asked } => self.start_host(asked, answers),
            Effect::Leave(code) => return Ok(Some(ExitCode::from(code))),
        }
        Ok(None)
    }

    /// Starts a host in the place of one that is gone. One that a person started and that was killed is left to them, unless
    /// they asked for it here.
    fn start_host(&mut self, asked: bool, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(home) = self.place.own_home() else { return };
        let note = crate::host_file::find(&home).ok().flatten();
        if !asked && note.is_some_and(|note| !note.background) {
            return;
        }
        let answers = answers.clone();
        tokio::spawn(async move {
            if let Err(error) = crate::launch::ensure(&home).await {
                let _ = answers.send(Answer::Failed(crate::describe(&error)));
            }
        });
    }

    /// Runs `lodge setup` in the terminal. The session goes on with the model that was set up.
    async fn login(&mut self, screen: &mut Screen) -> Result<()> {
        let Some(home) = self.place.own_home() else {
            self.app
                .complain("Set up the models of a remote host on its own machine.");
            return Ok(());
        };
        let program = crate::launch::program()?;
        let run = || {
            std::process::Command::new(program)
                .arg("setup")
                .env("LODGE_HOME", &home)
                .status()
        };
        let default = || Some(crate::setup::config(&home).ok()?.models.default_model);
        let before = default();
        match screen.lend(run)? {
            Err(error) => self.app.complain(&format!("Cannot start `lodge setup`: {error}")),
            Ok(_) if default() == before => self.app.tell("No other model was set up."),
            // `lodge setup` does this as well, but what it says about it is not on this screen.
            Ok(_) => match crate::join::reload(&home).await {
                Err(error) => self.app.complain(&crate::describe(&error)),
                Ok(_) => {
                    if let Some(Some(model)) = default() {
                        self.app.use_model(&model);
                    }
                }
            },
        }
        Ok(())
    }

    async fn dispatch(&mut self, channel: Uri, action: ahp::ahp_types::StateAction, sent: Sent) {
        let Some(link) = self.wire.link() else { return };
        // If it fails, the connection is lost, which is reported separately.
        if let Ok(handle) = link.client.dispatch(channel, action).await {
            self.app.dispatched(handle.client_seq, sent);
        }
    }

    fn complete(&mut self, text: String, number: u64, answers: &mpsc::UnboundedSender<Answer>) {
        let params = CompletionsParams {
            channel: self.app.mirror.chat.uri.clone(),
            meta: None,
            kind: CompletionItemKind::UserMessage,
            offset: text.encode_utf16().count() as i64,
            text,
        };
        let Some(link) = self.wire.link() else { return };
        let (client, answers) = (link.client.clone(), answers.clone());
        tokio::spawn(async move {
            let found: Result<CompletionsResult, _> = client.request("completions", params).await;
            if let Ok(found) = found {
                let _ = answers.send(Answer::Completed(number, found.items));
            }
        });
    }

    /// Fetches both sides of changes. A side that cannot be read is shown as in the call.
    fn read(&mut self, question: String, edits: Vec<FileEdit>, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else { return };
        let (client, answers) = (link.client.clone(), answers.clone());
        tokio::spawn(async move {
            match sides::read(&client, edits).await {
                Ok(edits) => drop(answers.send(Answer::Read(question, edits))),
                Err(error) => tracing::debug!("{error:#}"),
            }
        });
    }

    fn list(&mut self, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let (client, own, host) = (link.client.clone(), answers.clone(), self.others.current.clone());
        tokio::spawn(async move {
            let _ = own.send(Answer::Listed(host, pick::many(&client).await));
        });
        for other in self.others.all() {
            let answers = answers.clone();
            tokio::spawn(async move {
                if let Some(listed) = other.list().await {
                    let _ = answers.send(Answer::Listed(other.name.clone(), listed));
                }
            });
        }
    }

    /// Shows a session of another host. If that cannot be reached, the conversation stays.
    async fn go_to(&mut self, host: HostName, session: &str) {
        self.app.tell("Connecting …");
        let moved = async {
            let (place, way) = self.others.way_to(&host).await?;
            let (link, hello) = Link::connect(&place, &self.client_id).await?;
            let workplace = Workplace::of(&place);
            let mirror = pick::open(&link.client, super::root_of(hello)?, session, &workplace, self.turns).await?;
            anyhow::Ok((place, way, link, mirror))
        };
        match moved.await {
            Ok((place, way, link, mirror)) => {
                if let Some(left) = self.wire.link() {
                    left.client.shutdown().await;
                }
                self.workplace = Workplace::of(&place);
                (self.place, self.way, self.wire) = (place, way, Wire::Up(link));
                self.others.current = host.clone();
                self.app.moved(host, mirror);
            }
            Err(error) => self.app.complain(&crate::describe(&error)),
        }
    }

    fn older(&mut self, cursor: String, answers: &mpsc::UnboundedSender<Answer>) {
        let params = FetchTurnsParams {
            channel: self.app.mirror.chat.uri.clone(),
            meta: None,
            cursor: Some(cursor),
        };
        let Some(link) = self.wire.link() else { return };
        let (client, answers) = (link.client.clone(), answers.clone());
        // The turns arrive as a separate action.
        tokio::spawn(async move {
            let fetched: Result<serde_json::Value, _> = client.request("fetchTurns", params).await;
            if let Err(error) = fetched {
                let why = format!("Cannot read earlier turns: {}", super::link::reason(&error));
                let _ = answers.send(Answer::Failed(why));
            }
        });
    }

    /// Stops something that runs beside the conversation. The list of what works follows by itself.
    fn stop(&mut self, work: &Work, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let channel = &self.app.mirror.session.uri;
        let params = match work {
            Work::Call(call) => serde_json::json!({ "channel": channel, "toolCallId": call }),
            Work::Shell(id) => serde_json::json!({ "channel": channel, "workId": id }),
        };
        let (client, answers) = (link.client.clone(), answers.clone());
        tokio::spawn(async move {
            let stopped: Result<serde_json::Value, _> = client.request("lodge/stopWork", params).await;
            let why = match stopped {
                Ok(done) if done["stopped"] == true => return,
                Ok(_) => "It is not running.".to_owned(),
                Err(error) => format!("Cannot stop it: {}", super::link::reason(&error)),
            };
            let _ = answers.send(Answer::Failed(why));
        });
    }

    /// Fetches what a command in the background printed.
    fn output(&mut self, id: String, command: String, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let params = serde_json::json!({ "channel": self.app.mirror.session.uri, "workId": id });
        let (client, answers) = (link.client.clone(), answers.clone());
        tokio::spawn(async move {
            let printed: Result<serde_json::Value, _> = client.request("lodge/workOutput", params).await;
            let _ = answers.send(match printed {
                Ok(printed) => Answer::Output(command, printed["output"].as_str().unwrap_or_default().to_owned()),
                Err(error) => Answer::Failed(format!("Cannot read its output: {}", super::link::reason(&error))),
            });
        });
    }

    /// Deletes a session of this host for good.
    fn delete(&mut self, session: Uri, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let params = serde_json::json!({ "channel": session });
        let (client, answers) = (link.client.clone(), answers.clone());
        tokio::spawn(async move {
            let deleted: Result<serde_json::Value, _> = client.request("disposeSession", params).await;
            if let Err(error) = deleted {
                let why = format!("Cannot delete the session: {}", super::link::reason(&error));
                let _ = answers.send(Answer::Failed(why));
            }
        });
    }

    /// Gives another session of this host a title. Only who is subscribed may change a session, and stays so until it is changed.
    fn rename(&mut self, session: Uri, title: String, answers: &mpsc::UnboundedSender<Answer>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let (client, answers) = (link.client.clone(), answers.clone());
        self.renamed.push(session.clone());
        tokio::spawn(async move {
            let renamed = async {
                client.subscribe(session.clone()).await?;
                let action = SessionTitleChangedAction { title };
                client.dispatch(session, StateAction::SessionTitleChanged(action)).await
            };
            if let Err(error) = renamed.await {
                let why = format!("Cannot rename the session: {}", super::link::reason(&error));
                let _ = answers.send(Answer::Failed(why));
            }
        });
    }

    /// Another session got the title that was wanted for it, or did not.
    fn was_renamed(&mut self, envelope: &ActionEnvelope) {
        let is_title = matches!(envelope.action, StateAction::SessionTitleChanged(_));
        let Some(at) = self.renamed.iter().position(|uri| is_title && *uri == envelope.channel) else {
            return;
        };
        let session = self.renamed.swap_remove(at);
        if let Some(reason) = &envelope.rejection_reason {
            self.app.complain(&format!("Cannot rename the session: {reason}"));
        }
        if let Some(link) = self.wire.link().filter(|_| !self.app.shows(&session)) {
            let client = link.client.clone();
            // If it fails, the connection is lost, and the subscription with it.
            tokio::spawn(async move { client.unsubscribe(session).await });
        }
    }

    /// Saves a setting of this terminal.
    fn save(&mut self, setting: Setting) {
        let (key, value): (_, toml::Value) = match setting {
            Setting::Theme(scheme) => ("theme", scheme.name().into()),
            Setting::Vim(on) => ("vim", on.into()),
        };
        match crate::settings_file::set(&self.home, "terminal", key, value.clone()) {
            Ok(()) => self.app.tell(&format!("Saved `{key} = {value}` in lodge.toml.")),
            Err(error) => self.app.complain(&crate::describe(&error)),
        }
    }

    /// Shows another chat of the session.
    async fn watch(&mut self, chat: &str) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let left = self.app.mirror.chat.uri.clone();
        if chat == left {
            return;
        }
        match pick::open_chat(&link.client, chat, self.turns).await {
            Ok(opened) => {
                // If it fails, the connection is lost, and the subscription with it.
                let _ = link.client.unsubscribe(left).await;
                self.app.watched(opened);
            }
            Err(error) => self.app.complain(&crate::describe(&error)),
        }
    }

    /// Shows another session, or a new one. Updates wait meanwhile, so nothing is missed.
    async fn open(&mut self, wanted: Option<Uri>) {
        let Some(link) = self.wire.link() else {
            return self.app.tell("The host is not reachable; try again when it is back.");
        };
        let root = self.app.mirror.root.clone();
        let opened = async {
            let uri = match wanted {
                Some(uri) => uri,
                None => pick::create(&link.client, &root, &self.workplace).await?,
            };
            pick::open(&link.client, root, &uri, &self.workplace, self.turns).await
        };
        let opened: Result<_> = opened.await;
        match opened {
            Ok(mirror) => {
                for channel in [&self.app.mirror.session.uri, &self.app.mirror.chat.uri] {
                    // If it fails, the connection is lost, and the subscription with it.
                    let _ = link.client.unsubscribe(channel.clone()).await;
                }
                self.app.opened(mirror);
            }
            Err(error) => self.app.complain(&crate::describe(&error)),
        }
    }
}

/// Waits until the system asks the program to end, or its terminal is gone. Signals are taken from the call on: keys may keep it from
/// being waited for until an editor has the terminal.
fn hung_up() -> impl Future<Output = ()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Ctrl-C is a key here. While an editor or `lodge setup` uses the terminal, it is meant for that program.
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = kinds.map(signal);
        async move {
            let [_interrupts, Ok(mut terminate), Ok(mut hang_up)] = signals else {
                return std::future::pending().await;
            };
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
                () = without_terminal() => {}
            }
        }
    }
    #[cfg(not(unix))]
    {
        std::future::pending()
    }
}

/// Waits until the terminal is gone. Only the session that the terminal controls is signalled, and whoever reads keys from a
/// terminal that is gone reads nothing, again and again.
#[cfg(unix)]
async fn without_terminal() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut tick = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        tick.tick().await;
        let stdin = io::stdin();
        let mut watched = [PollFd::new(&stdin, PollFlags::empty())];
        // NVAL says nothing: macOS answers it for every terminal.
        let gone = PollFlags::HUP | PollFlags::ERR;
        if poll(&mut watched, Some(&Timespec::default())).is_ok() && watched[0].revents().intersects(gone) {
            return;
        }
    }
}

/// Suspends the program and its children until the shell resumes them.
fn suspend() {
    #[cfg(unix)]
    if let Err(error) = rustix::process::kill_current_process_group(rustix::process::Signal::TSTP) {
        tracing::debug!(%error, "cannot suspend");
    }
}

/// Lets the person edit a text in their own editor.
fn edit(text: &str) -> Result<String> {
    let editor = ["VISUAL", "EDITOR"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
        .unwrap_or_else(|| "vi".to_owned());
    let path: PathBuf = std::env::temp_dir().join(format!("lodge-message-{}.md", uuid::Uuid::new_v4()));
    lodge_files::replace(&path, text.as_bytes()).with_context(|| format!("Cannot write {}", path.display()))?;
    // Editors may be named with arguments, so a shell parses the name.
    let status = std::process::Command::new("sh")
        .args(["-c", &format!("{editor} \"$1\""), "sh"])
        .arg(&path)
        .status();
    let edited = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    let status = status.with_context(|| format!("Cannot start {editor}"))?;
    anyhow::ensure!(
        status.success(),
        "{editor} ended with {status}; the message is unchanged"
    );
    edited.context("The edited message cannot be read")
}
