//! The conversation in the line client: shows the mirror of the host's state, and sends what is typed.

mod complete;
mod person;

use std::{collections::HashMap, io::IsTerminal, process::ExitCode, time::Duration};

use ahp::ahp_types::{
    ActionEnvelope, StateAction, Uri,
    state::{PendingMessageKind, SessionSummary, TurnState},
};
use anyhow::Result;

use lodge_terminal::client::{
    ask::Asker,
    mirror::{APPROVALS_KEY, AppliedTo, Mirror},
    outbox::{Outbox, Refused},
};

use super::{
    editor::Key,
    input::Input,
    link::{Inbound, Leftover, Link, Missed, News, Wire},
    pick::{self, Workplace},
    place::Place,
    screen::Screen,
    show::Show,
};
use lodge_terminal::{is_long, shorten, shown_path};

/// How long a script waits for a lost host.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a new session says while no model is configured.
const FIRST_RUN: &str = "No model is configured: you are using the built-in offline demo model.\n\
                         To set up a real one, leave with /quit and run `lodge setup`; to try this one, say `hello`.";
/// Updates are shown after this many at the latest.
const BATCH: usize = 1000;

/// A dispatched action without an echo yet.
enum Sent {
    Message(String),
    Answer,
    Other,
}

/// A client that prints the conversation line by line.
pub(super) struct LineClient {
    place: Place,
    me: String,
    wire: Wire,
    mirror: Mirror,
    screen: Screen,
    show: Show,
    asker: Asker,
    outbox: Outbox,
    sent: HashMap<i64, Sent>,
    input: Input,
    /// Whether lines come from a program: then each waits for the answer to the one before, and the end of the lines
    /// ends the conversation.
    scripted: bool,
    held: Option<String>,
    no_more_lines: bool,
    /// Whether the running turn was told to stop.
    cancelling: bool,
    /// Whether the next Ctrl-C leaves.
    armed: bool,
    leaving: Option<ExitCode>,
    /// The list to which numbers refer.
    pub(super) listed: Vec<SessionSummary>,
    /// Where new sessions work.
    pub(super) workplace: Workplace,
    pub(super) history: usize,
    /// The model for the next message.
    pub(super) model: Option<String>,
}

impl LineClient {
    pub(super) fn new(place: Place, me: String, link: Link, mirror: Mirror, screen: Screen, input: Input) -> Self {
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
            input,
            scripted: !std::io::stdin().is_terminal(),
            held: None,
            no_more_lines: false,
            cancelling: false,
            armed: false,
            leaving: None,
            listed: Vec::new(),
            workplace: Workplace::default(),
            history: 0,
            model: None,
        }
    }

    /// Runs until the person leaves, or the script is over.
    pub(super) async fn run(&mut self, approvals: Option<&str>, first: Option<String>) -> Result<ExitCode> {
        self.welcome()?;
        if let Some(mode) = approvals {
            self.approvals(Some(mode.to_owned())).await?;
        }
        if let Some(text) = first {
            self.say(&text, false)?;
        }
        // A single listener: a new one for each update would miss signals in between.
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
                key = self.input.next(), if self.held.is_none() && !self.no_more_lines => match key {
                    Some(Key::Line(line)) => {
                        self.screen.entered(&line)?;
                        self.line(line).await?;
                    }
                    Some(Key::Complete) => self.complete().await?,
                    Some(_) => self.screen.typing(self.input.editor())?,
                    None => self.input_ended()?,
                },
                _ = &mut ctrl_c => {
                    ctrl_c.set(tokio::signal::ctrl_c());
                    self.interrupted().await?;
                }
            }
        }
    }

    /// Shows the session and its last turns.
    fn welcome(&mut self) -> Result<()> {
        let session = &self.mirror.session;
        let directory = session.state.working_directories.iter().flatten().next();
        let parts = [
            Some(format!("Session {}", pick::short(&session.uri))),
            Some(session.state.title.clone()),
            directory.map(|uri| shown_path(uri)),
            self.model.as_deref().or(self.mirror.model()).map(str::to_owned),
            Some(self.mirror.approvals())
                .filter(|mode| *mode != "safe")
                .map(|mode| format!("approvals: {mode}")),
        ];
        let line: Vec<String> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        self.screen.note("·", &line.join(" · "))?;
        if self.screen.typed_at {
            self.screen.note("·", "Type /help for help.")?;
            if self.mirror.is_young() && self.mirror.model() == Some("rehearsal") {
                self.screen.note("·", FIRST_RUN)?;
            }
        }
        Ok(self
            .show
            .open(&mut self.screen, &self.mirror.chat.state, self.history)?)
    }

    /// Whether nothing is in progress.
    fn is_idle(&self) -> bool {
        let up = matches!(self.wire, Wire::Up(_));
        // Answers may go to chats to which we do not subscribe, so no echo of them arrives.
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

    /// Does everything that can be done now: sends messages, asks questions, continues the script, shows the prompt.
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
                self.screen.notify("Lodge waits for your answer")?;
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
        } else if self.is_idle() || (self.is_typing() && self.screen.is_free()) {
            self.screen.prompt("> ")?;
        }
        Ok(self.screen.flush()?)
    }

    /// Whether the person is in the middle of a line.
    fn is_typing(&mut self) -> bool {
        self.input.editor().is_some_and(|editor| !editor.is_empty())
    }

    fn input_ended(&mut self) -> Result<()> {
        self.no_more_lines = true;
        self.tell_nobody_answers()
    }

    /// A script without further lines cannot answer a question.
    fn tell_nobody_answers(&mut self) -> Result<()> {
        if self.scripted && self.no_more_lines && self.held.is_none() && self.asker.is_asking() {
            self.screen.note("·", "Another client has to answer this.")?;
        }
        Ok(())
    }

    async fn dispatch(&mut self, channel: Uri, action: StateAction, sent: Sent) {
        let Some(link) = self.wire.link() else { return };
        // If it fails, the connection is lost, which is reported separately.
        if let Ok(handle) = link.client.dispatch(channel, action).await {
            self.sent.insert(handle.client_seq, sent);
        }
    }

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
                self.screen.begin("The host is not reachable; reconnecting…")?;
                self.sent.clear();
                let left = Leftover {
                    me: self.me.clone(),
                    seen: self.mirror.seen,
                    subscriptions: self.mirror.channels(),
                    session: self.mirror.session.uri.clone(),
                };
                self.wire = Wire::look(&self.place, left, self.scripted.then_some(PATIENCE));
                Ok(())
            }
            News::Trouble(why) => Ok(self.screen.note("·", &why)?),
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
            // The host had no time to keep it. It is created again, unless another client already did so.
            let uri = mirror.session.uri.clone();
            pick::create_as(&link.client, &uri, &self.workplace).await?;
            *mirror = pick::open(&link.client, mirror.root.clone(), &uri, &self.workplace, self.history).await?;
        } else {
            pick::bring_environment(&link.client, &mirror.session.uri, &self.workplace).await;
        }
        self.wire = Wire::Up(link);
        self.outbox.again(&self.mirror);
        self.asker.refused();
        self.cancelling = false;
        Ok(self.show.all(&mut self.screen, &self.mirror.chat.state)?)
    }

    fn session_gone(&mut self) -> Result<()> {
        self.screen.error("This session was deleted.")?;
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
        let about_session = envelope.channel == self.mirror.session.uri;
        let model = self.mirror.model().filter(|_| about_session).map(str::to_owned);
        match self.mirror.apply(&envelope) {
            AppliedTo::Chat => self.chat_changed(&envelope, turns),
            AppliedTo::Session => self.session_changed(&envelope, model),
            AppliedTo::Root | AppliedTo::Nothing => Ok(()),
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
            StateAction::ChatTurnResume(_) => {
                self.cancelling = false;
                screen.note("·", "Trying again.")?;
                show.resumed(chat)?;
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                show.all(screen, chat)?;
                if chat.turns.last().is_some_and(|turn| is_long(turn.duration)) {
                    screen.notify("Lodge is done")?;
                }
            }
            StateAction::ChatTurnsLoaded(loaded) => show.loaded(chat, &loaded.turns),
            StateAction::ChatTruncated(_) if chat.turns.len() < turns_before => {
                screen.note("·", "The conversation was rewound to an earlier turn.")?;
            }
            StateAction::ChatPendingMessageSet(set) => {
                if show.waits(&set.id) || chat.active_turn.is_some() {
                    let word = match set.kind {
                        PendingMessageKind::Queued => "Queued",
                        PendingMessageKind::Steering => "Steering",
                    };
                    screen.note("·", &format!("{word}: {}", shorten(&set.message.text, 100)))?;
                }
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                // The host itself takes a message out of the queue to begin its turn.
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
            StateAction::SessionConfigChanged(changed) if changed.config.contains_key(APPROVALS_KEY) => {
                let mode = format!("Approvals: {}", self.mirror.approvals());
                self.screen.note("·", &mode)?;
            }
            StateAction::SessionActivityChanged(changed) => {
                self.show.activity(&mut self.screen, changed.activity.as_deref())?;
            }
            StateAction::SessionCreationFailed(failed) => {
                let text = format!("Cannot create the session: {}", failed.error.message);
                self.screen.error(&text)?;
                self.leaving = Some(ExitCode::FAILURE);
            }
            _ => {}
        }
        Ok(())
    }

    fn refused(&mut self, sent: Sent, reason: &str) -> Result<()> {
        match sent {
            // Another turn may have begun just before.
            Sent::Message(id) => match self.outbox.refused(&id) {
                Refused::Queued => drop(self.show.waits(&id)),
                Refused::Removed(_) => {
                    self.show.last = Some(TurnState::Error);
                    self.screen.error(&format!("The message was refused: {reason}"))?;
                }
            },
            Sent::Answer => {
                self.asker.refused();
                self.screen.error(&format!("Your answer was refused: {reason}"))?;
            }
            Sent::Other => self.screen.error(&format!("Refused: {reason}"))?,
        }
        Ok(())
    }
}
