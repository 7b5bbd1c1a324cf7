//! The conversation at the terminal: what the host says is mirrored and shown, what is typed is sent.

use std::{collections::HashMap, io::IsTerminal, process::ExitCode, time::Duration};

use ahp::ahp_types::{
    ActionEnvelope, StateAction, Uri,
    actions::{ChatTurnCancelledAction, SessionTitleChangedAction},
    state::{PendingMessageKind, SessionSummary, TurnState},
};
use anyhow::Result;
use tokio::sync::mpsc;

use super::{
    ask::{Asker, Reply, Verdict},
    link::{Inbound, Leftover, Link, Missed, News, Wire},
    mirror::{Mirror, Went},
    outbox::{self, Outbox},
    pick,
    place::{Place, shown_path},
    screen::Screen,
    show::Show,
    typed::{HELP, Typed},
};
use crate::view::shorten;

/// How long a script waits for a host that went away.
const PATIENCE: Duration = Duration::from_secs(60);
/// What came is shown at the latest after so many pieces of news.
const BATCH: usize = 1000;

/// Something that was dispatched and is not echoed yet.
enum Sent {
    Message(String),
    Answer,
    Other,
}

/// The conversation.
pub(super) struct Talk {
    place: Place,
    me: String,
    wire: Wire,
    mirror: Mirror,
    screen: Screen,
    show: Show,
    asker: Asker,
    outbox: Outbox,
    sent: HashMap<i64, Sent>,
    lines: mpsc::UnboundedReceiver<String>,
    /// Lines come from a program: each waits until it can be said, and the end of them is the end of the conversation.
    scripted: bool,
    held: Option<String>,
    no_more_lines: bool,
    /// The running turn was told to stop.
    cancelling: bool,
    /// The next Ctrl-C leaves.
    armed: bool,
    leaving: Option<ExitCode>,
    /// The list that numbers are about.
    pub(super) listed: Vec<SessionSummary>,
    /// Where new sessions work.
    pub(super) cwd: Option<Uri>,
    pub(super) history: usize,
    /// The model for the next message.
    pub(super) model: Option<String>,
}

impl Talk {
    pub(super) fn new(
        place: Place,
        me: String,
        link: Link,
        mirror: Mirror,
        screen: Screen,
        lines: mpsc::UnboundedReceiver<String>,
    ) -> Self {
        Self {
            place,
            me,
            wire: Wire::Up(link),
            mirror,
            screen,
            show: Show::default(),
            asker: Asker::default(),
            outbox: Outbox::default(),
            sent: HashMap::new(),
            lines,
            scripted: !std::io::stdin().is_terminal(),
            held: None,
            no_more_lines: false,
            cancelling: false,
            armed: false,
            leaving: None,
            listed: Vec::new(),
            cwd: None,
            history: 0,
            model: None,
        }
    }

    /// Goes on until the person leaves, or the script is over.
    pub(super) async fn run(&mut self, first: Option<String>) -> Result<ExitCode> {
        self.welcome()?;
        if let Some(text) = first {
            self.say(&text, false)?;
        }
        // One listener for all the time: one made anew for each piece of news would miss what comes in between.
        let mut ctrl_c = std::pin::pin!(tokio::signal::ctrl_c());
        loop {
            self.settle().await?;
            if let Some(code) = self.over() {
                self.screen.end_line()?;
                self.screen.flush()?;
                if let Some(link) = self.wire.link() {
                    link.client.shutdown().await;
                }
                return Ok(code);
            }
            tokio::select! {
                news = self.wire.next() => self.news(news?).await?,
                line = self.lines.recv(), if self.held.is_none() && !self.no_more_lines => match line {
                    Some(line) => {
                        self.screen.entered();
                        self.line(line).await?;
                    }
                    None => self.input_ended()?,
                },
                _ = &mut ctrl_c => {
                    ctrl_c.set(tokio::signal::ctrl_c());
                    self.interrupted().await?;
                }
            }
        }
    }

    /// Says where we are, and what was said last.
    fn welcome(&mut self) -> Result<()> {
        let session = &self.mirror.session;
        let directory = session.state.working_directories.iter().flatten().next();
        let parts = [
            Some(format!("Session {}", pick::short(&session.uri))),
            Some(session.state.title.clone()),
            directory.map(|uri| shown_path(uri)),
            self.model.as_deref().or(self.mirror.model()).map(str::to_owned),
        ];
        let line: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        self.screen.note("·", &line.join(" · "))?;
        if self.screen.typed_at {
            self.screen.note("·", "/help tells what can be typed.")?;
        }
        Ok(self
            .show
            .open(&mut self.screen, &self.mirror.chat.state, self.history)?)
    }

    /// Whether nothing is going on.
    fn is_idle(&self) -> bool {
        let up = matches!(self.wire, Wire::Up(_));
        // Answers may go to chats that we do not listen to, so nothing is heard of them.
        let heard = !self.sent.values().any(|sent| matches!(sent, Sent::Other));
        up && heard && self.mirror.is_ready() && !self.mirror.is_busy() && self.outbox.is_empty()
    }

    fn over(&self) -> Option<ExitCode> {
        if self.leaving.is_some() {
            return self.leaving;
        }
        if !self.no_more_lines || self.held.is_some() {
            return None;
        }
        if !self.scripted {
            return Some(ExitCode::SUCCESS);
        }
        let failed = self.show.last == Some(TurnState::Error);
        self.is_idle()
            .then_some(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Does what can be done now: sends, asks, goes on with the script, shows where to type.
    async fn settle(&mut self) -> Result<()> {
        loop {
            self.outbox.follow(&self.mirror);
            while matches!(self.wire, Wire::Up(_))
                && let Some((id, action)) = self.outbox.next(&self.mirror)
            {
                let chat = self.mirror.chat.uri.clone();
                self.dispatch(chat, action, Sent::Message(id)).await;
            }
            if let Some(question) = self.asker.follow(self.mirror.needed()) {
                self.screen.lines(&question)?;
                self.tell_nobody_answers()?;
            }
            match self.held.take_if(|_| self.asker.is_asking() || self.outbox.is_empty()) {
                Some(line) => self.line(line).await?,
                None => break,
            }
            // It may have to wait again.
            if self.held.is_some() {
                break;
            }
        }
        if self.asker.is_asking() {
            self.screen.prompt("? ")?;
        } else if self.is_idle() {
            self.screen.prompt("> ")?;
        }
        Ok(self.screen.flush()?)
    }

    fn input_ended(&mut self) -> Result<()> {
        self.no_more_lines = true;
        self.tell_nobody_answers()
    }

    /// A script that has nothing more to say cannot answer either.
    fn tell_nobody_answers(&mut self) -> Result<()> {
        if self.scripted && self.no_more_lines && self.held.is_none() && self.asker.is_asking() {
            self.screen
                .note("·", "This waits for an answer from another terminal.")?;
        }
        Ok(())
    }

    async fn dispatch(&mut self, channel: Uri, action: StateAction, sent: Sent) {
        let Some(link) = self.wire.link() else { return };
        // When it fails the connection is lost, which is news of its own.
        if let Ok(handle) = link.client.dispatch(channel, action).await {
            self.sent.insert(handle.client_seq, sent);
        }
    }

    // What comes from the host.

    async fn news(&mut self, news: News) -> Result<()> {
        match news {
            News::Said(inbound) => {
                self.take(inbound)?;
                for _ in 0..BATCH {
                    let Some(more) = self.wire.link().and_then(Link::ready) else {
                        break;
                    };
                    self.take(more)?;
                }
                Ok(())
            }
            News::Lost => {
                self.screen.begin("The host is away; reconnecting…")?;
                self.sent.clear();
                let left = Leftover {
                    me: self.me.clone(),
                    seen: self.mirror.seen,
                    subscriptions: self.mirror.channels(),
                };
                self.wire = Wire::look(&self.place, left, self.scripted.then_some(PATIENCE));
                Ok(())
            }
            News::Back(link, missed) => self.back(link, missed).await,
        }
    }

    async fn back(&mut self, link: Link, missed: Missed) -> Result<()> {
        self.screen.go_on("back.")?;
        let missing = match missed {
            Missed::Actions(actions, missing) => {
                for action in actions {
                    self.take(Inbound::Action(Box::new(action)))?;
                }
                missing
            }
            Missed::Snapshots(snapshots) => {
                let old = self.mirror.chat.state.clone();
                let missing = self.mirror.refresh(snapshots);
                self.show.replaced(&old, &self.mirror.chat.state);
                missing
            }
        };
        let mirror = &mut self.mirror;
        if missing.contains(&mirror.session.uri) || missing.contains(&mirror.chat.uri) {
            if !mirror.is_young() {
                return self.session_gone();
            }
            // The host had no time to keep it: it is made again, if nobody else who was attached did so.
            let uri = mirror.session.uri.clone();
            pick::create_as(&link, &uri, self.cwd.clone()).await?;
            *mirror = pick::open(&link, mirror.root.clone(), &uri, self.history).await?;
        }
        self.wire = Wire::Up(link);
        self.outbox.again(&self.mirror);
        self.asker.refused();
        self.cancelling = false;
        Ok(self.show.all(&mut self.screen, &self.mirror.chat.state)?)
    }

    fn session_gone(&mut self) -> Result<()> {
        self.screen.note("✗", "This session is no more.")?;
        self.leaving = Some(ExitCode::FAILURE);
        Ok(())
    }

    fn take(&mut self, inbound: Inbound) -> Result<()> {
        let envelope = match inbound {
            Inbound::Action(envelope) => envelope,
            Inbound::SessionRemoved(uri) if uri == self.mirror.session.uri => return self.session_gone(),
            Inbound::SessionRemoved(_) => return Ok(()),
        };
        let mine = envelope.origin.as_ref().filter(|origin| origin.client_id == self.me);
        let sent = mine.and_then(|origin| self.sent.remove(&origin.client_seq));
        if let Some(reason) = &envelope.rejection_reason {
            self.mirror.apply(&envelope);
            return sent.map_or(Ok(()), |sent| self.refused(sent, reason));
        }
        let turns = self.mirror.chat.state.turns.len();
        let model = self.mirror.model().map(str::to_owned);
        match self.mirror.apply(&envelope) {
            Went::Chat => self.chat_changed(&envelope, turns),
            Went::Session => self.session_changed(&envelope, model),
            Went::Root | Went::Nowhere => Ok(()),
        }
    }

    fn chat_changed(&mut self, envelope: &ActionEnvelope, turns_before: usize) -> Result<()> {
        let (screen, show, chat) = (&mut self.screen, &mut self.show, &self.mirror.chat.state);
        match &envelope.action {
            StateAction::ChatTurnStarted(started) => {
                if let Some(queued) = &started.queued_message_id {
                    self.outbox.renamed(queued, &started.turn_id);
                }
                self.cancelling = false;
                show.running(screen, chat)?;
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                show.all(screen, chat)?;
            }
            StateAction::ChatTurnsLoaded(loaded) => show.loaded(chat, &loaded.turns),
            StateAction::ChatTruncated(_) if chat.turns.len() < turns_before => {
                screen.note("·", "The conversation was cut back to an earlier turn.")?;
            }
            StateAction::ChatPendingMessageSet(set) => {
                show.waits(&set.id);
                if chat.active_turn.is_some() {
                    let word = match set.kind {
                        PendingMessageKind::Queued => "Queued",
                        PendingMessageKind::Steering => "Steering",
                    };
                    screen.note("·", &format!("{word}: {}", shorten(&set.message.text, 100)))?;
                }
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                // The host itself takes a message out of the queue to begin a turn with it.
                if envelope.origin.is_some() || removed.kind == PendingMessageKind::Steering {
                    self.outbox.removed(&removed.id);
                }
            }
            _ => show.running(screen, chat)?,
        }
        Ok(())
    }

    fn session_changed(&mut self, envelope: &ActionEnvelope, model_before: Option<String>) -> Result<()> {
        match &envelope.action {
            StateAction::SessionTitleChanged(changed) if envelope.origin.is_some() => {
                self.screen.note("·", &format!("Title: {}", changed.title))?;
            }
            StateAction::SessionConfigChanged(_) if self.mirror.model() != model_before.as_deref() => {
                let model = self.mirror.model().unwrap_or("the host's choice");
                self.screen.note("·", &format!("Model: {model}"))?;
            }
            StateAction::SessionCreationFailed(failed) => {
                let text = format!("The session could not be made: {}", failed.error.message);
                self.screen.note("✗", &text)?;
                self.leaving = Some(ExitCode::FAILURE);
            }
            _ => {}
        }
        Ok(())
    }

    fn refused(&mut self, sent: Sent, reason: &str) -> Result<()> {
        match sent {
            // Another turn may have begun just before.
            Sent::Message(id) if self.outbox.wait(&id) => {
                self.show.waits(&id);
                return Ok(());
            }
            Sent::Message(_) => self.screen.note("✗", &format!("The message was refused: {reason}"))?,
            Sent::Answer => {
                self.asker.refused();
                self.screen.note("✗", &format!("The answer was refused: {reason}"))?;
            }
            Sent::Other => self.screen.note("✗", &format!("Refused: {reason}"))?,
        }
        Ok(())
    }

    // What comes from the person.

    async fn line(&mut self, line: String) -> Result<()> {
        let typed = Typed::read(&line);
        if self.scripted && typed.waits() && !self.is_idle() && !self.asker.is_asking() {
            self.held = Some(line);
            return Ok(());
        }
        self.armed = false;
        let overtaken = std::mem::take(&mut self.asker.overtaken);
        match typed {
            Typed::Nothing if self.asker.form().is_some() => self.answer("").await,
            Typed::Nothing => Ok(()),
            Typed::Say(text) if self.asker.is_asking() => self.answer(&text).await,
            Typed::Say(text) if overtaken && Verdict::read(&text).is_some() => self.answered_elsewhere(),
            Typed::Say(text) => self.say(&text, false),
            Typed::Steer(text) => self.say(&text, self.mirror.is_busy()),
            Typed::Approve { .. } | Typed::Deny(_) if !self.asker.is_asking() => {
                if overtaken {
                    return self.answered_elsewhere();
                }
                Ok(self.screen.note("·", "Nothing is asked.")?)
            }
            Typed::Approve { always: false } => self.decide(Verdict::Yes).await,
            Typed::Approve { always: true } => self.decide(Verdict::Always).await,
            Typed::Deny(why) => self.decide(Verdict::No(why)).await,
            Typed::Cancel => self.cancel().await,
            Typed::Title(Some(title)) => {
                let action = StateAction::SessionTitleChanged(SessionTitleChangedAction { title });
                let session = self.mirror.session.uri.clone();
                if self.must_be_up()? {
                    self.dispatch(session, action, Sent::Other).await;
                }
                Ok(())
            }
            Typed::Title(None) => Ok(self.screen.note("·", &self.mirror.session.state.title)?),
            Typed::Model(wanted) => self.choose_model(wanted.as_deref()),
            Typed::Sessions(None) => self.list().await,
            Typed::Sessions(Some(wanted)) => self.go_to(Some(&wanted)).await,
            Typed::New => self.go_to(None).await,
            Typed::Help => Ok(self.screen.lines(HELP)?),
            Typed::Quit => {
                self.leaving = Some(ExitCode::SUCCESS);
                Ok(())
            }
            Typed::Unknown(name) => {
                let text = format!("There is no /{name}. /help tells what there is; //… sends words that begin so.");
                Ok(self.screen.note("·", &text)?)
            }
        }
    }

    fn answered_elsewhere(&mut self) -> Result<()> {
        Ok(self.screen.note("·", "That has been answered already.")?)
    }

    /// Says when something has to wait because the host is away. True when it is there.
    fn must_be_up(&mut self) -> Result<bool> {
        let up = matches!(self.wire, Wire::Up(_));
        if !up {
            self.screen.note("·", "The host is away; try again when it is back.")?;
        }
        Ok(up)
    }

    fn say(&mut self, text: &str, steers: bool) -> Result<()> {
        let at_once = self.is_idle();
        let message = outbox::message(text, self.model.take());
        let id = self.outbox.put(message, steers);
        if at_once && self.screen.typed_at {
            self.show.typed(&id);
        }
        if matches!(self.wire, Wire::Away(_)) {
            self.screen.note("·", "It is sent when the host is back.")?;
        }
        Ok(())
    }

    async fn answer(&mut self, text: &str) -> Result<()> {
        let form = self.asker.form().map(str::to_owned);
        match self.asker.read(text) {
            Reply::None => self.say(text, false),
            reply => self.reply(reply, form).await,
        }
    }

    async fn decide(&mut self, verdict: Verdict) -> Result<()> {
        let form = self.asker.form().map(str::to_owned);
        let reply = self.asker.decide(verdict);
        self.reply(reply, form).await
    }

    async fn reply(&mut self, reply: Reply, form: Option<String>) -> Result<()> {
        match reply {
            Reply::Answer(chat, action) => {
                if let Some(form) = form.filter(|_| self.screen.typed_at) {
                    self.show.typed(&form);
                }
                self.dispatch(chat, *action, Sent::Answer).await;
                Ok(())
            }
            Reply::More(question) => Ok(self.screen.lines(&question)?),
            Reply::Again(why) => Ok(self.screen.note("·", &why)?),
            Reply::None => Ok(()),
        }
    }

    async fn cancel(&mut self) -> Result<()> {
        let Some(turn) = &self.mirror.chat.state.active_turn else {
            return Ok(self.screen.note("·", "Nothing is running.")?);
        };
        let started = turn.started_at.parse::<jiff::Timestamp>();
        let duration = started.map_or(0, |started| {
            (jiff::Timestamp::now().as_millisecond() - started.as_millisecond()).max(0)
        });
        let action = ChatTurnCancelledAction {
            turn_id: turn.id.clone(),
            duration,
            meta: None,
        };
        let chat = self.mirror.chat.uri.clone();
        if self.must_be_up()? {
            self.cancelling = true;
            self.dispatch(chat, StateAction::ChatTurnCancelled(action), Sent::Other)
                .await;
        }
        Ok(())
    }

    /// Ctrl-C stops what runs; when nothing does, or it does not stop, the second one leaves.
    async fn interrupted(&mut self) -> Result<()> {
        if self.mirror.is_busy() && !self.cancelling && matches!(self.wire, Wire::Up(_)) {
            self.armed = true;
            return self.cancel().await;
        }
        if self.armed || self.scripted || matches!(self.wire, Wire::Away(_)) {
            let code = if self.scripted {
                ExitCode::from(130)
            } else {
                ExitCode::SUCCESS
            };
            self.leaving = Some(code);
            return Ok(());
        }
        self.armed = true;
        Ok(self.screen.note("·", "Ctrl-C again leaves; the session stays.")?)
    }

    fn choose_model(&mut self, wanted: Option<&str>) -> Result<()> {
        let models: Vec<&str> = self
            .mirror
            .root
            .agents
            .iter()
            .flat_map(|agent| &agent.models)
            .map(|model| model.id.as_str())
            .collect();
        let now = self.model.as_deref().or(self.mirror.model());
        let Some(wanted) = wanted else {
            let line = |model: &&str| format!("{} {model}\n", if now == Some(*model) { "*" } else { " " });
            let text: String = models.iter().map(line).collect();
            return Ok(self.screen.lines(&text)?);
        };
        let exact = models.iter().find(|model| **model == wanted);
        let mut similar = models.iter().filter(|model| model.contains(wanted));
        let found = exact.or_else(|| similar.next().filter(|_| similar.next().is_none()));
        match found.map(|model| (*model).to_owned()) {
            Some(model) => {
                self.screen.note("·", &format!("{model} takes the next message."))?;
                self.model = Some(model);
            }
            None => self
                .screen
                .note("·", &format!("There is no one model {wanted:?}; /model lists them."))?,
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<()> {
        let Some(link) = self.wire.link() else {
            return self.must_be_up().map(drop);
        };
        match pick::newest(link).await {
            Ok(listed) => {
                self.listed = listed;
                let table = pick::table(&self.listed, Some(&self.mirror.session.uri));
                self.screen.lines(if table.is_empty() {
                    "There is no session yet."
                } else {
                    &table
                })?;
            }
            Err(error) => self.screen.note("✗", &format!("{error:#}"))?,
        }
        Ok(())
    }

    /// Shows another session, or a new one.
    async fn go_to(&mut self, wanted: Option<&str>) -> Result<()> {
        let Some(link) = self.wire.link() else {
            return self.must_be_up().map(drop);
        };
        let root = self.mirror.root.clone();
        let opened = async {
            let uri = match wanted {
                Some(wanted) => pick::find(link, wanted, &self.listed).await?,
                None => pick::create(link, &root, self.cwd.clone()).await?,
            };
            if uri == self.mirror.session.uri {
                return Ok(None);
            }
            pick::open(link, root, &uri, self.history).await.map(Some)
        };
        let opened: Result<Option<Mirror>> = opened.await;
        let mirror = match opened {
            Ok(Some(mirror)) => mirror,
            Ok(None) => return Ok(self.screen.note("·", "This is the session.")?),
            Err(error) => return Ok(self.screen.note("✗", &format!("{error:#}"))?),
        };
        for channel in [&self.mirror.session.uri, &self.mirror.chat.uri] {
            // When it fails the connection is lost, and with it the subscription.
            let _ = link.client.unsubscribe(channel.clone()).await;
        }
        let seen = self.mirror.seen.max(mirror.seen);
        self.mirror = Mirror { seen, ..mirror };
        (self.show, self.outbox, self.cancelling) = (Show::default(), Outbox::default(), false);
        self.asker.clear();
        self.sent.clear();
        self.welcome()
    }
}
