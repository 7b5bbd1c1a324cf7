//! The full-screen conversation. Its input is what the host says and which keys are pressed; its output is frames and [`Effect`]s. It does
//! no I/O itself, so tests need neither a host nor a terminal.

mod commands;
mod complete;
mod draw;
mod input;
mod mouse;
mod overlay;
mod sessions;
mod status;
mod tasks;
#[cfg(test)]
mod tests;
mod tokens;

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use ahp::ahp_types::{
    ActionEnvelope, StateAction, Uri,
    commands::CompletionItem,
    state::{ChatState, FileEdit, Message, MessageAttachment, ModelSelection, SessionSummary, Snapshot, TurnState},
};
use crossterm::event::KeyEvent;

pub use self::{
    commands::COMMANDS,
    status::{Price, Prices},
};
use self::{complete::Menu, overlay::Overlay, tokens::Tokens};
use crate::{
    client::{
        mirror::{APPROVALS_KEY, AppliedTo, Channel, Mirror},
        outbox::{self, Outbox, Refused},
    },
    composer::Composer,
    edits::Edit,
    keys::{Action, Keymap},
    panel::Panel,
    plain::plain_line,
    theme::{Scheme, Theme},
    transcript::Transcript,
    vim::Vim,
};

/// How long a note is shown.
const NOTE: Duration = Duration::from_secs(8);
/// When a turn that took at least this long ends, the person is notified.
const LONG_TURN: Duration = Duration::from_secs(20);

/// Whether a turn of this many milliseconds was long.
pub fn is_long(duration: Option<i64>) -> bool {
    let milliseconds = duration.and_then(|duration| u64::try_from(duration).ok());
    milliseconds.is_some_and(|milliseconds| Duration::from_millis(milliseconds) > LONG_TURN)
}

/// An action that was dispatched and is not echoed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// A message, by its id.
    Message(String),
    /// An answer to a question.
    Answer,
    /// Any other action.
    Other,
}

/// What the caller must do.
#[derive(Debug)]
pub enum Effect {
    /// Send an action to the host.
    Dispatch(Uri, Box<StateAction>, Sent),
    /// Ask the host for completions; the answer has the same number.
    Complete(String, u64),
    /// Ask the hosts for their sessions.
    List,
    /// Open another session, perhaps on another host.
    Open(HostName, Uri),
    /// Open a new session.
    New,
    /// Open another chat of the session.
    Watch(Uri),
    /// Stop something that runs beside the conversation.
    Stop(Work),
    /// Fetch what a command in the background printed: its id, and what it is.
    Output(String, String),
    /// Delete a session of this host.
    Delete(Uri),
    /// Give a session of this host another title.
    Rename(Uri, String),
    /// Save a setting of `[terminal]` in the configuration.
    Save(Setting),
    /// Fetch the turns before the first known one.
    Older(String),
    /// Open a text in the person's editor.
    Edit(String),
    /// Read both versions of the files that a question is about.
    Read(String, Vec<FileEdit>),
    /// Read an image file.
    Attach(String),
    /// Read the image from the clipboard.
    AttachCopied,
    /// Copy a text to the clipboard.
    Copy(String),
    /// Copy the text between two cells of the screen to the clipboard.
    CopyShown(Cell, Cell),
    /// Save the typed message in the history.
    Remember(String),
    /// Notify the person.
    Notify(String),
    /// Suspend the program until the shell resumes it.
    Suspend,
    /// Redraw the screen.
    Redraw,
    /// Set up a model: provider, key, test.
    Login,
    /// Start a host in the place of the one that is away.
    StartHost {
        /// Whether the person asked for just that, rather than said something.
        asked: bool,
    },
    /// End.
    Leave(u8),
}

/// Something that runs beside the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The sub-agent that this tool call started.
    Call(String),
    /// The command in the background with this id.
    Shell(String),
}

/// A setting of `[terminal]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// The colours.
    Theme(Scheme),
    /// Whether the editor has the keys of vi.
    Vim(bool),
}

/// A place on the screen: column and row.
pub type Cell = (u16, u16);

/// The person's name for a host. None for the host of this machine.
pub type HostName = Option<String>;

/// What the conversation starts with.
pub struct Setup {
    /// The host's name.
    pub host: HostName,
    /// The session.
    pub mirror: Mirror,
    /// Our client id at the host.
    pub client_id: String,
    /// Messages that were typed earlier.
    pub history: Vec<String>,
    /// The colour scheme.
    pub scheme: Scheme,
    /// The prices of tokens, if they were configured.
    pub prices: Option<Prices>,
    /// The model for the first message.
    pub model: Option<String>,
    /// Whether the editor has the keys of vi.
    pub vim: bool,
    /// What the keys do.
    pub keys: Keymap,
}

/// Whether the host is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Up,
    Away,
}

/// A search, which also covers turns that are not loaded yet.
enum Seek {
    Beginning,
    /// More messages for the list of those to go back to, in which this one is selected.
    Messages(usize),
    Words(String),
}

/// The words that are searched for.
#[derive(Default)]
struct Search {
    words: String,
    /// Whether matches are gone through towards the end. Who begins at the end wants what was said before.
    onwards: bool,
    /// Which match is at the top of the screen, the first being 1, and how many there are, as far as that is known.
    found: Option<(Option<usize>, usize)>,
}

/// What the person is told beside the conversation.
struct Note {
    text: String,
    since: Instant,
    failed: bool,
    /// Whether a key was pressed since.
    seen: bool,
}

impl Note {
    fn new(text: &str, failed: bool) -> Self {
        Self {
            text: plain_line(text),
            since: Instant::now(),
            failed,
            seen: false,
        }
    }

    /// Whether it disappears by itself. What went wrong stays until somebody is there.
    fn fades(&self) -> bool {
        !self.failed || self.seen
    }

    fn is_over(&self) -> bool {
        self.fades() && self.since.elapsed() > NOTE
    }
}

/// A letter that answers a question, unless another letter follows.
struct Decision {
    /// The question that was in front.
    question: String,
    key: KeyEvent,
    since: Instant,
}

/// The full stop that a sentence lacks.
fn stop(sentence: &str) -> &'static str {
    if sentence.ends_with(['.', '!', '?']) { "" } else { "." }
}

/// Shown in place of a deleted session.
const DELETED: &str = "This session was deleted. /new starts another, /sessions lists the others.";

/// The conversation.
pub struct App {
    /// Our copy of the session's state.
    pub mirror: Mirror,
    client_id: String,
    host: HostName,
    sessions: BTreeMap<HostName, Vec<SessionSummary>>,
    wire: Wire,
    /// Why the host cannot be reached, if that is known.
    trouble: Option<String>,
    outbox: Outbox,
    sent: HashMap<i64, Sent>,
    transcript: Transcript,
    changed: bool,
    composer: Composer,
    keys: Keymap,
    vim: Option<Vim>,
    /// What words in the editor stand for.
    tokens: Tokens,
    panel: Panel,
    menu: Option<Menu>,
    completion: u64,
    overlay: Option<Overlay>,
    search: Option<Search>,
    /// What the mouse is being dragged over.
    dragged: Option<(Cell, Cell)>,
    note: Option<Note>,
    scheme: Scheme,
    theme: Theme,
    prices: Option<Prices>,
    /// The model and the agent for the next messages.
    model: Option<String>,
    agent: Option<(String, Uri)>,
    cancelling: bool,
    armed: Option<Instant>,
    escaped: Option<Instant>,
    loading: bool,
    seek: Option<Seek>,
    held: Option<Decision>,
    /// Whether the session was deleted.
    deleted: bool,
    width: usize,
    height: usize,
    page: usize,
    effects: Vec<Effect>,
}

impl App {
    /// Starts the conversation.
    pub fn new(setup: Setup) -> Self {
        let mut app = Self {
            mirror: setup.mirror,
            client_id: setup.client_id,
            host: setup.host,
            sessions: BTreeMap::new(),
            wire: Wire::Up,
            trouble: None,
            outbox: Outbox::default(),
            sent: HashMap::new(),
            transcript: Transcript::default(),
            changed: true,
            composer: Composer::with_history(setup.history),
            keys: setup.keys,
            vim: setup.vim.then(Vim::default),
            tokens: Tokens::default(),
            panel: Panel::default(),
            menu: None,
            completion: 0,
            overlay: None,
            search: None,
            dragged: None,
            note: None,
            scheme: setup.scheme,
            theme: Theme::new(setup.scheme),
            prices: setup.prices,
            model: setup.model,
            agent: None,
            cancelling: false,
            armed: None,
            escaped: None,
            loading: false,
            seek: None,
            held: None,
            deleted: false,
            width: 80,
            height: 24,
            page: 10,
            effects: Vec::new(),
        };
        app.panel.focused = true;
        app
    }

    /// Returns what to do now. Call this after every other method.
    pub fn settle(&mut self) -> Vec<Effect> {
        // Messages go to the session's own chat, which is not shown while a sub-agent's is.
        let speaks = !self.watches() && !self.deleted;
        if speaks {
            self.outbox.follow(&self.mirror);
        }
        while speaks
            && self.wire == Wire::Up
            && let Some((id, action)) = self.outbox.next(&self.mirror)
        {
            let chat = self.mirror.chat.uri.clone();
            self.effects
                .push(Effect::Dispatch(chat, Box::new(action), Sent::Message(id)));
        }
        self.take_decision();
        let waited = !self.panel.is_empty();
        let (session, own) = (&self.mirror.session.state, self.mirror.own_chat());
        let who = |chat: &str| {
            let chats = session
                .chats
                .iter()
                .filter(|known| known.resource == chat && chat != own);
            chats.map(|known| plain_line(&known.title)).next()
        };
        if self.panel.follow(self.mirror.needed(), who) {
            // A person who is typing keeps the focus.
            self.panel.focused = self.composer.is_empty() || waited && self.panel.focused;
            self.effects
                .push(Effect::Notify("Lodge waits for your answer".to_owned()));
        }
        let unread = self.panel.take_unread().into_iter();
        self.effects
            .extend(unread.map(|(question, edits)| Effect::Read(question, edits)));
        std::mem::take(&mut self.effects)
    }

    /// Notes that an action was dispatched under this number.
    pub fn dispatched(&mut self, client_seq: i64, sent: Sent) {
        self.sent.insert(client_seq, sent);
    }

    /// Applies an action from the host.
    pub fn apply(&mut self, envelope: &ActionEnvelope) {
        let mine = envelope
            .origin
            .as_ref()
            .filter(|origin| origin.client_id == self.client_id);
        let sent = mine.and_then(|origin| self.sent.remove(&origin.client_seq));
        if let Some(reason) = &envelope.rejection_reason {
            self.mirror.apply(envelope);
            if let Some(sent) = sent {
                self.refused(sent, reason);
            }
            return;
        }
        match self.mirror.apply(envelope) {
            AppliedTo::Chat => self.chat_changed(envelope),
            AppliedTo::Session => self.session_changed(envelope),
            AppliedTo::Root => self.changed = true,
            AppliedTo::Nothing => {}
        }
    }

    fn chat_changed(&mut self, envelope: &ActionEnvelope) {
        self.changed = true;
        match &envelope.action {
            StateAction::ChatTurnStarted(started) => {
                if let Some(queued) = &started.queued_message_id {
                    self.outbox.renamed(queued, &started.turn_id);
                }
                self.cancelling = false;
            }
            StateAction::ChatTurnResume(resumed) => {
                self.transcript.reopen(&resumed.turn_id);
                self.cancelling = false;
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                self.cancelling = false;
                let last = self.mirror.chat.state.turns.last();
                let long = last.is_some_and(|turn| is_long(turn.duration));
                if long && self.mirror.chat.state.queued_messages.iter().flatten().next().is_none() {
                    self.effects.push(Effect::Notify("Lodge is done".to_owned()));
                }
            }
            StateAction::ChatTurnsLoaded(_) => {
                self.loading = false;
                self.go_on_seeking();
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                // To begin a turn with a queued message, the host itself removes it from the queue.
                use ahp::ahp_types::state::PendingMessageKind;
                if envelope.origin.is_some() || removed.kind == PendingMessageKind::Steering {
                    self.outbox.removed(&removed.id);
                }
            }
            _ => {}
        }
    }

    fn session_changed(&mut self, envelope: &ActionEnvelope) {
        self.changed = true;
        if let StateAction::SessionCreationFailed(failed) = &envelope.action {
            self.complain(&format!("Cannot create the session: {}", failed.error.message));
        }
    }

    fn refused(&mut self, sent: Sent, reason: &str) {
        match sent {
            Sent::Message(id) => match self.outbox.refused(&id) {
                // Another turn may just have begun.
                Refused::Queued => {}
                Refused::Removed(message) => {
                    let kept = match self.composer.is_empty() {
                        true => Some("It is in the editor again.".to_owned()),
                        false => self.keys.does(Action::Earlier, "finds it again."),
                    };
                    let kept = kept.unwrap_or_default();
                    if let Some(message) = message.filter(|_| self.composer.is_empty()) {
                        self.restore(&message);
                    }
                    self.complain(&format!("The message was refused: {reason}{} {kept}", stop(reason)));
                }
            },
            Sent::Answer => {
                self.panel.refused();
                self.complain(&format!("Your answer was refused: {reason}"));
            }
            Sent::Other => self.complain(&format!("Refused: {reason}")),
        }
    }

    /// Notes that the connection is lost.
    pub fn lost(&mut self) {
        self.wire = Wire::Away;
        self.trouble = None;
        self.sent.clear();
        self.loading = false;
        self.changed = true;
    }

    /// Says why the host cannot be reached.
    pub fn away_because(&mut self, why: &str) {
        self.trouble = Some(plain_line(why));
        self.changed = true;
    }

    /// Applies new snapshots after a restart of the host. Returns the channels that no longer exist.
    pub fn replace(&mut self, snapshots: Vec<Snapshot>) -> Vec<Uri> {
        let missing = self.mirror.refresh(snapshots);
        self.transcript = Transcript::default();
        missing
    }

    /// Notes that the host is connected again and everything missed was applied.
    pub fn back(&mut self) {
        self.wire = Wire::Up;
        self.outbox.again(&self.mirror);
        self.panel.refused();
        self.cancelling = false;
        self.changed = true;
        self.tell("The host is back.");
    }

    /// Shows another session.
    pub fn opened(&mut self, mirror: Mirror) {
        // Each goes before what is in the editor. Their files are still those of the other session.
        for message in std::mem::take(&mut self.outbox).into_unsent().rev() {
            self.restore(&message);
        }
        self.tokens.forget_files(self.composer.text());
        let seen = self.mirror.seen.max(mirror.seen);
        self.mirror = Mirror { seen, ..mirror };
        self.transcript = Transcript::default();
        // Agents belong to the session.
        self.agent = None;
        self.panel = Panel::default();
        self.panel.focused = true;
        self.sent.clear();
        (self.cancelling, self.loading, self.overlay) = (false, false, None);
        (self.seek, self.held, self.deleted) = (None, None, false);
        self.changed = true;
    }

    /// Shows another chat of the session: a sub-agent's, or its own again.
    pub fn watched(&mut self, chat: Channel<ChatState>) {
        self.mirror.chat = chat;
        self.transcript = Transcript::default();
        (self.cancelling, self.loading) = (false, false);
        self.seek = None;
        self.changed = true;
    }

    /// Whether a sub-agent's chat is shown.
    pub fn watches(&self) -> bool {
        self.mirror.chat.uri != self.mirror.own_chat()
    }

    /// Shows a session of another host.
    pub fn moved(&mut self, host: HostName, mirror: Mirror) {
        self.host = host;
        // Every host has its own numbers.
        self.mirror.seen = 0;
        // Models belong to the host.
        self.model = None;
        self.wire = Wire::Up;
        self.opened(mirror);
    }

    /// Whether this session is shown.
    pub fn shows(&self, session: &str) -> bool {
        self.mirror.session.uri == session
    }

    /// Sets the sessions of a host, which [`Effect::List`] asked for. They fill an open list and never open one, because the
    /// answer may arrive after the list was closed.
    pub fn listed(&mut self, host: HostName, sessions: Vec<SessionSummary>) {
        self.sessions.insert(host, sessions);
        self.refresh_sessions();
    }

    /// Removes the sessions of a host that does not answer.
    pub fn unlisted(&mut self, host: &HostName) {
        if self.sessions.remove(host).is_some() {
            self.refresh_sessions();
        }
    }

    /// Sets the completions that [`Effect::Complete`] asked for.
    pub fn completed(&mut self, number: u64, items: Vec<CompletionItem>) {
        if number == self.completion {
            self.complete_with(items);
            self.changed = true;
        }
    }

    /// Sets the changes that [`Effect::Read`] asked for: the file, and its old and new text.
    pub fn read(&mut self, question: &str, edits: Vec<(Uri, String, String)>) {
        let edits = edits.into_iter();
        let edits = edits.map(|(uri, old, new)| Edit::between(self.below(&uri), &old, &new));
        let edits = edits.collect();
        self.panel.show_edits(question, edits);
        self.changed = true;
    }

    /// Takes a text that was changed in the person's editor.
    pub fn edited(&mut self, text: &str) {
        let text = text.trim_end_matches('\n');
        let answers = self.panel.focused;
        match self.panel.words().filter(|_| answers) {
            Some(words) => words.set(text),
            None => self.composer.set(text),
        }
        self.changed = true;
    }

    /// Attaches an image that was read.
    pub fn attached(&mut self, label: &str, attachment: MessageAttachment) {
        let word = self.tokens.attach(label, attachment);
        self.composer.insert(&format!("{word} "));
        self.changed = true;
        let answers = self.model.as_deref().or(self.mirror.model());
        let mut models = self.mirror.root.agents.iter().flat_map(|agent| &agent.models);
        let answering = models.find(|model| Some(model.id.as_str()) == answers);
        if let Some(model) = answering.filter(|model| model.supports_vision == Some(false)) {
            let way = self.keys.does(Action::Models, "chooses another model.");
            let why = format!(
                "{} takes no images and will not see {label}. {}",
                model.id,
                way.unwrap_or_default()
            );
            self.complain(&why);
        }
    }

    /// Inserts a text into the editor, as if typed.
    pub fn insert(&mut self, text: &str) {
        self.composer.insert(text);
        self.changed = true;
    }

    /// Shows a note, which is not part of the conversation.
    pub fn tell(&mut self, text: &str) {
        self.note = Some(Note::new(text, false));
        self.changed = true;
    }

    /// Says that this is a session from before.
    pub fn continues(&mut self) {
        if self.mirror.is_young() {
            return;
        }
        let title = &self.mirror.session.state.title;
        let age = match overlay::age(&self.mirror.chat.state.modified_at).as_str() {
            "" | "now" => String::new(),
            age => format!(" from {age} ago"),
        };
        self.tell(&format!("Continued: {title:?}{age}. /new starts another session."));
    }

    /// Sets the approval mode of the session.
    pub fn approve(&mut self, mode: &str) {
        self.configure(APPROVALS_KEY, mode.into());
    }

    /// The session, if there is something in it to come back to.
    pub fn leaves(&self) -> Option<&str> {
        let has_begun = !self.mirror.is_young() || self.mirror.is_busy();
        (has_begun && !self.deleted).then_some(self.mirror.session.uri.as_str())
    }

    /// Says what went wrong.
    pub fn complain(&mut self, text: &str) {
        self.note = Some(Note::new(text, true));
        self.changed = true;
    }

    /// Notes that a request, perhaps for earlier turns, has failed.
    pub fn failed(&mut self, why: &str) {
        (self.loading, self.seek) = (false, None);
        self.complain(why);
    }

    /// Notes that somebody deleted the session.
    pub fn deleted(&mut self) {
        self.deleted = true;
        self.changed = true;
    }

    /// Whether something is animated, so that the screen must be redrawn soon.
    pub fn is_moving(&self) -> bool {
        let fades = self.note.as_ref().is_some_and(Note::fades);
        self.mirror.is_busy() || self.wire == Wire::Away || fades || self.held.is_some()
    }

    /// Whether the screen must be redrawn.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether the list of sessions is open, which the caller should refresh now and then.
    pub fn shows_sessions(&self) -> bool {
        matches!(&self.overlay, Some(Overlay::Picker(picker)) if picker.is_sessions())
    }

    /// How the last turn ended.
    pub fn last_turn(&self) -> Option<TurnState> {
        self.mirror.chat.state.turns.last().map(|turn| turn.state)
    }

    /// The title of the terminal.
    pub fn title(&self) -> String {
        let title = plain_line(&self.mirror.session.state.title);
        let busy = if !self.panel.is_empty() {
            "? "
        } else if self.mirror.is_busy() {
            "● "
        } else {
            ""
        };
        match title.is_empty() {
            true => format!("{busy}lodge"),
            false => format!("{busy}{title}"),
        }
    }

    /// Sends a message to the agent.
    pub fn say(&mut self, text: &str, steers: bool) {
        let mut message: Message = outbox::message(text, None);
        message.model = self.model.take().map(|id| ModelSelection { id, config: None });
        message.agent = self
            .agent
            .as_ref()
            .map(|(_, uri)| ahp::ahp_types::state::AgentSelection { uri: uri.clone() });
        message.attachments = self.tokens.attachments(text);
        self.note = None;
        self.outbox.put(message, steers);
        self.transcript.follow_end();
        if self.wire == Wire::Away {
            self.effects.push(Effect::StartHost { asked: false });
        }
    }

    fn dispatch(&mut self, channel: Uri, action: StateAction) {
        match self.wire {
            Wire::Up => self
                .effects
                .push(Effect::Dispatch(channel, Box::new(action), Sent::Other)),
            Wire::Away => self.tell("The host is not reachable; try again when it is back."),
        }
    }
}
