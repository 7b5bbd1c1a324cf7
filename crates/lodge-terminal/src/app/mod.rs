//! The conversation on a whole screen: what the host says goes in, what a person presses goes in, and out come screens and what is to be
//! done. It does nothing by itself, so it can be tried without a host and without a terminal.

mod commands;
mod complete;
mod draw;
mod input;
mod mouse;
mod overlay;
mod status;
mod tasks;
#[cfg(test)]
mod tests;

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
use self::{complete::Menu, overlay::Overlay};
use crate::{
    client::{
        mirror::{APPROVALS_KEY, AppliedTo, Channel, Mirror},
        outbox::{self, Outbox},
    },
    composer::Composer,
    edits::Edit,
    panel::Panel,
    plain::plain_line,
    theme::{Scheme, Theme},
    transcript::Transcript,
    vim::Vim,
};

/// How long a note stays on the screen.
const NOTE: Duration = Duration::from_secs(8);
/// A turn that took so long is worth a notification when it ends.
pub const LONG_TURN: Duration = Duration::from_secs(20);

/// Something that was dispatched and is not echoed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// A message, by its id.
    Message(String),
    /// An answer to a question.
    Answer,
    /// Anything else.
    Other,
}

/// What is to be done.
#[derive(Debug)]
pub enum Effect {
    /// Send an action to the host.
    Dispatch(Uri, Box<StateAction>, Sent),
    /// Ask the host what completes a text; the number comes back with the answer.
    Complete(String, u64),
    /// Ask the hosts for their sessions.
    List,
    /// Show another session, perhaps on another host.
    Open(HostName, Uri),
    /// Show a new session.
    New,
    /// Show another chat of the session.
    Watch(Uri),
    /// Stop the sub-agent that a tool call started.
    Stop(String),
    /// Ask for the turns before the first that is known.
    Older(String),
    /// Let the person change a text in an editor.
    Edit(String),
    /// Read both sides of changes that a question, named by its id, is about.
    Read(String, Vec<FileEdit>),
    /// Read an image.
    Attach(String),
    /// Read the image on the clipboard.
    AttachCopied,
    /// Put a text on the clipboard.
    Copy(String),
    /// Put what is on the screen between two places on the clipboard.
    CopyShown(Cell, Cell),
    /// Keep what was typed for the next time.
    Remember(String),
    /// Call the person.
    Notify(String),
    /// Stop until the shell brings the program back.
    Suspend,
    /// Draw everything anew.
    Redraw,
    /// Bring a model: providers, keys, a test.
    Login,
    /// Start a host in the place of the one that is away.
    StartHost {
        /// Whether the person asked for just that, rather than said something.
        asked: bool,
    },
    /// End.
    Leave(u8),
}

/// A place on the screen: column and row.
pub type Cell = (u16, u16);

/// What a person calls a host; nothing for the one of this machine.
pub type HostName = Option<String>;

/// What the client begins with.
pub struct Setup {
    /// The host.
    pub host: HostName,
    /// The session.
    pub mirror: Mirror,
    /// Our name at the host.
    pub client_id: String,
    /// What was typed before.
    pub history: Vec<String>,
    /// The colours.
    pub scheme: Scheme,
    /// What tokens cost, as far as somebody said.
    pub prices: Option<Prices>,
    /// The model for the first message.
    pub model: Option<String>,
    /// Whether the editor has the keys of vi.
    pub vim: bool,
}

/// Whether the host is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Up,
    Away,
}

/// What the transcript is searched for, also in turns that are not loaded yet.
enum Seek {
    Beginning,
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

/// A letter that answers a question, unless another letter follows.
struct Decision {
    /// The question that was in front.
    question: String,
    key: KeyEvent,
    since: Instant,
}

/// What stands where the session was.
const DELETED: &str = "This session was deleted. /new starts another, /sessions lists the others.";

/// The conversation.
pub struct App {
    /// What is known of the session.
    pub mirror: Mirror,
    client_id: String,
    host: HostName,
    sessions: BTreeMap<HostName, Vec<SessionSummary>>,
    wire: Wire,
    /// Why the host stays away, where that is known.
    trouble: Option<String>,
    outbox: Outbox,
    sent: HashMap<i64, Sent>,
    transcript: Transcript,
    changed: bool,
    composer: Composer,
    vim: Option<Vim>,
    /// What words in the editor stand for.
    attachments: Vec<(String, MessageAttachment)>,
    /// Long texts that were pasted, by the words that stand for them in the editor.
    pasted: Vec<(String, String)>,
    panel: Panel,
    menu: Option<Menu>,
    completion: u64,
    overlay: Option<Overlay>,
    search: Option<Search>,
    /// What the mouse is being dragged over.
    dragged: Option<(Cell, Cell)>,
    note: Option<(String, Instant, bool)>,
    scheme: Scheme,
    theme: Theme,
    prices: Option<Prices>,
    /// The model and the agent for the next messages.
    model: Option<String>,
    agent: Option<(String, Uri)>,
    cancelling: bool,
    armed: Option<Instant>,
    escaped: Option<Instant>,
    began: Option<Instant>,
    loading: bool,
    seek: Option<Seek>,
    held: Option<Decision>,
    /// Whether the session is no more.
    deleted: bool,
    width: usize,
    height: usize,
    page: usize,
    effects: Vec<Effect>,
}

impl App {
    /// Begins.
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
            vim: setup.vim.then(Vim::default),
            attachments: Vec::new(),
            pasted: Vec::new(),
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
            began: None,
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

    /// What is to be done now. Called after everything that happens.
    pub fn settle(&mut self) -> Vec<Effect> {
        // Messages go to the session's own chat, which is not in view while a sub-agent's is.
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
            // Who is in the middle of a sentence goes on with it.
            self.panel.focused = self.composer.is_empty() || waited && self.panel.focused;
            self.effects
                .push(Effect::Notify("Lodge waits for your answer".to_owned()));
        }
        let unread = self.panel.take_unread().into_iter();
        self.effects
            .extend(unread.map(|(question, edits)| Effect::Read(question, edits)));
        std::mem::take(&mut self.effects)
    }

    /// Something was dispatched under this number.
    pub fn dispatched(&mut self, client_seq: i64, sent: Sent) {
        self.sent.insert(client_seq, sent);
    }

    /// Something that the host said.
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
                self.began = Some(Instant::now());
            }
            StateAction::ChatTurnResume(resumed) => {
                self.transcript.reopen(&resumed.turn_id);
                self.cancelling = false;
                self.began = Some(Instant::now());
            }
            StateAction::ChatTurnComplete(_) | StateAction::ChatTurnCancelled(_) | StateAction::ChatError(_) => {
                self.cancelling = false;
                let long = self.began.take().is_some_and(|began| began.elapsed() > LONG_TURN);
                if long && self.mirror.chat.state.queued_messages.iter().flatten().next().is_none() {
                    self.effects.push(Effect::Notify("Lodge is done".to_owned()));
                }
            }
            StateAction::ChatTurnsLoaded(_) => {
                self.loading = false;
                self.go_on_seeking();
            }
            StateAction::ChatPendingMessageRemoved(removed) => {
                // The host itself takes a message out of the queue to begin a turn with it.
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
            // Another turn may have begun just before.
            Sent::Message(id) if self.outbox.wait(&id) => {}
            Sent::Message(_) => self.complain(&format!("The message was refused: {reason}")),
            Sent::Answer => {
                self.panel.refused();
                self.complain(&format!("Your answer was refused: {reason}"));
            }
            Sent::Other => self.complain(&format!("Refused: {reason}")),
        }
    }

    /// The host is away.
    pub fn lost(&mut self) {
        self.wire = Wire::Away;
        self.trouble = None;
        self.sent.clear();
        self.loading = false;
        self.changed = true;
    }

    /// Why the host stays away.
    pub fn away_because(&mut self, why: &str) {
        self.trouble = Some(plain_line(why));
        self.changed = true;
    }

    /// Fresh states after a restart of the host. Returns what is no more.
    pub fn replace(&mut self, snapshots: Vec<Snapshot>) -> Vec<Uri> {
        let missing = self.mirror.refresh(snapshots);
        self.transcript = Transcript::default();
        missing
    }

    /// The host is back, and what was missed is applied.
    pub fn back(&mut self) {
        self.wire = Wire::Up;
        self.outbox.again(&self.mirror);
        self.panel.refused();
        self.cancelling = false;
        self.changed = true;
        self.tell("The host is back.");
    }

    /// Another session is shown.
    pub fn opened(&mut self, mirror: Mirror) {
        let seen = self.mirror.seen.max(mirror.seen);
        self.mirror = Mirror { seen, ..mirror };
        self.transcript = Transcript::default();
        self.outbox = Outbox::default();
        self.panel = Panel::default();
        self.panel.focused = true;
        self.sent.clear();
        (self.cancelling, self.loading, self.overlay) = (false, false, None);
        (self.seek, self.held, self.deleted) = (None, None, false);
        self.began = None;
        self.changed = true;
    }

    /// Another chat of the session is shown: a sub-agent's, or its own again.
    pub fn watched(&mut self, chat: Channel<ChatState>) {
        self.mirror.chat = chat;
        self.transcript = Transcript::default();
        (self.cancelling, self.loading, self.began) = (false, false, None);
        self.seek = None;
        self.changed = true;
    }

    /// Whether a sub-agent's chat is shown.
    pub fn watches(&self) -> bool {
        self.mirror.chat.uri != self.mirror.own_chat()
    }

    /// A session of another host is shown.
    pub fn moved(&mut self, host: HostName, mirror: Mirror) {
        self.host = host;
        // Every host counts for itself.
        self.mirror.seen = 0;
        // Models and agents are the host's.
        (self.model, self.agent) = (None, None);
        self.wire = Wire::Up;
        self.opened(mirror);
    }

    /// Whether this session is the one that is shown.
    pub fn shows(&self, session: &str) -> bool {
        self.mirror.session.uri == session
    }

    /// The sessions of a host, asked for by [`Effect::List`]. They fill a list that is open and never open one: an
    /// answer may come after the list was closed.
    pub fn listed(&mut self, host: HostName, sessions: Vec<SessionSummary>) {
        self.sessions.insert(host, sessions);
        self.refresh_sessions();
    }

    /// A host that does not answer has no sessions to choose from.
    pub fn unlisted(&mut self, host: &HostName) {
        if self.sessions.remove(host).is_some() {
            self.refresh_sessions();
        }
    }

    /// What the host completes a text by, asked for by [`Effect::Complete`].
    pub fn completed(&mut self, number: u64, items: Vec<CompletionItem>) {
        if number == self.completion {
            self.complete_with(items);
            self.changed = true;
        }
    }

    /// Changes asked for by [`Effect::Read`]: the file, what it was and what it will be.
    pub fn read(&mut self, question: &str, edits: Vec<(Uri, String, String)>) {
        let edits = edits.into_iter();
        let edits = edits.map(|(uri, old, new)| Edit::between(self.below(&uri), &old, &new));
        let edits = edits.collect();
        self.panel.show_edits(question, edits);
        self.changed = true;
    }

    /// A text that was changed in an editor.
    pub fn edited(&mut self, text: &str) {
        self.composer.set(text.trim_end_matches('\n'));
        self.changed = true;
    }

    /// An image that was read.
    pub fn attached(&mut self, label: &str, attachment: MessageAttachment) {
        let token = format!("[{label}]");
        self.composer.insert(&format!("{token} "));
        self.attachments.push((token, attachment));
        self.changed = true;
        let answers = self.model.as_deref().or(self.mirror.model());
        let mut models = self.mirror.root.agents.iter().flat_map(|agent| &agent.models);
        let answering = models.find(|model| Some(model.id.as_str()) == answers);
        if let Some(model) = answering.filter(|model| model.supports_vision == Some(false)) {
            let why = format!(
                "{} takes no images and will not see {label}. Alt-M chooses another model.",
                model.id
            );
            self.complain(&why);
        }
    }

    /// Puts a text into the editor, as if typed.
    pub fn insert(&mut self, text: &str) {
        self.composer.insert(text);
        self.changed = true;
    }

    /// Says something that is no part of the conversation.
    pub fn tell(&mut self, text: &str) {
        self.note = Some((plain_line(text), Instant::now(), false));
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
        self.note = Some((plain_line(text), Instant::now(), true));
        self.changed = true;
    }

    /// Something that was asked for failed, perhaps earlier turns.
    pub fn failed(&mut self, why: &str) {
        (self.loading, self.seek) = (false, None);
        self.complain(why);
    }

    /// Somebody deleted the session.
    pub fn deleted(&mut self) {
        self.deleted = true;
        self.changed = true;
    }

    /// Whether something moves by itself, so that the screen has to be drawn again soon.
    pub fn is_moving(&self) -> bool {
        self.mirror.is_busy() || self.wire == Wire::Away || self.note.is_some() || self.held.is_some()
    }

    /// Whether there is something new to draw.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Whether the list of sessions is on the screen, which should be asked for again now and then.
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

    /// Says something to the agent.
    pub fn say(&mut self, text: &str, steers: bool) {
        let mut message: Message = outbox::message(text, None);
        message.model = self.model.take().map(|id| ModelSelection { id, config: None });
        message.agent = self
            .agent
            .as_ref()
            .map(|(_, uri)| ahp::ahp_types::state::AgentSelection { uri: uri.clone() });
        let mut attached = Vec::new();
        for (token, attachment) in self.attachments.drain(..) {
            if text.contains(&token) {
                attached.push(attachment);
            }
        }
        message.attachments = (!attached.is_empty()).then_some(attached);
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
