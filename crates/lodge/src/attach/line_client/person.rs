//! Handles what the person types: messages, answers, commands.

use std::process::ExitCode;

use ahp::ahp_types::{
    StateAction,
    actions::{ChatTurnCancelledAction, ChatTurnResumeAction, SessionConfigChangedAction, SessionTitleChangedAction},
    commands::CompletionItem,
    state::MessageAttachment,
};
use anyhow::Result;

use super::{LineClient, Sent};
use lodge_terminal::client::{
    ask::{Reply, Verdict},
    mirror::{APPROVALS, APPROVALS_KEY, Mirror, NO_APPROVALS, NOT_FAILED},
    outbox::{self, Outbox},
};

use crate::attach::{
    link::Wire,
    pick,
    show::Show,
    typed::{HELP, Typed},
};

impl LineClient {
    pub(super) async fn line(&mut self, line: String) -> Result<()> {
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
                Ok(self.screen.note("·", "There is no question to answer.")?)
            }
            Typed::Approve { always: false } => self.decide(Verdict::Yes).await,
            Typed::Approve { always: true } => self.decide(Verdict::Always).await,
            Typed::Deny(why) => self.decide(Verdict::No(why)).await,
            Typed::Cancel => self.cancel().await,
            Typed::Retry => self.retry().await,
            Typed::Approvals(mode) => self.approvals(mode).await,
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
            // The thread that reads lines would take those that are meant for `lodge setup`.
            Typed::Login => Ok(self
                .screen
                .note("·", "To set up a model, leave with /quit and run `lodge setup`.")?),
            Typed::Help => self.help().await,
            Typed::Quit => {
                self.leaving = Some(ExitCode::SUCCESS);
                Ok(())
            }
            Typed::Unknown(name)
                if lodge_host::is_mcp_prompt(&name)
                    || self.host_commands(&name).await.iter().any(|(known, _)| *known == name) =>
            {
                self.say(&line, false)
            }
            Typed::Unknown(name) => {
                let text = format!(
                    "There is no command /{name}. Type /help for a list, or // to send text that begins with a slash."
                );
                Ok(self.screen.note("·", &text)?)
            }
        }
    }

    async fn help(&mut self) -> Result<()> {
        self.screen.lines(HELP)?;
        let commands = self.host_commands("").await;
        let lines = commands
            .iter()
            .filter(|(name, _)| Typed::read(&format!("/{name}")) == Typed::Unknown(name.clone()));
        let lines: Vec<String> = lines.map(|(name, what)| format!("  /{name:<22} {what}")).collect();
        if !lines.is_empty() {
            self.screen
                .lines(&format!("Commands of the host:\n{}", lines.join("\n")))?;
        }
        Ok(())
    }

    /// The host's commands whose names contain these letters, with descriptions. None while the host is away.
    async fn host_commands(&mut self, letters: &str) -> Vec<(String, String)> {
        let found = self.completions(format!("/{letters}")).await;
        let name = |item: CompletionItem| match item.attachment {
            MessageAttachment::Simple(simple) => {
                let meta = simple.meta?;
                let text = |key: &str| meta.get(key)?.as_str().map(str::to_owned);
                Some((text("command")?, text("description").unwrap_or_default()))
            }
            _ => None,
        };
        found.into_iter().filter_map(name).collect()
    }

    fn answered_elsewhere(&mut self) -> Result<()> {
        Ok(self.screen.note("·", "That was already answered.")?)
    }

    /// Says that something has to wait because the host is away. True if the host is there.
    fn must_be_up(&mut self) -> Result<bool> {
        let up = matches!(self.wire, Wire::Up(_));
        if !up {
            self.screen
                .note("·", "The host is not reachable; try again when it is back.")?;
        }
        Ok(up)
    }

    pub(super) fn say(&mut self, text: &str, steers: bool) -> Result<()> {
        let at_once = self.is_idle();
        let message = outbox::message(text, self.model.take());
        let id = self.outbox.put(message, steers);
        if at_once && self.screen.typed_at {
            self.show.typed(&id);
        }
        if matches!(self.wire, Wire::Away(_)) {
            self.screen.note("·", "It will be sent when the host is back.")?;
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

    /// Has the agent go on with a turn that failed.
    async fn retry(&mut self) -> Result<()> {
        let Some(turn_id) = self.mirror.failed_turn().map(str::to_owned) else {
            return Ok(self.screen.note("·", NOT_FAILED)?);
        };
        let chat = self.mirror.chat.uri.clone();
        if self.must_be_up()? {
            let action = StateAction::ChatTurnResume(ChatTurnResumeAction { turn_id });
            self.dispatch(chat, action, Sent::Other).await;
        }
        Ok(())
    }

    /// Shows or chooses the approval mode.
    pub(super) async fn approvals(&mut self, wanted: Option<String>) -> Result<()> {
        let Some(wanted) = wanted else {
            let now = self.mirror.approvals();
            let line =
                |(mode, what): &(&str, &str)| format!("{} {mode:<6} {what}\n", if now == *mode { "*" } else { " " });
            let text: String = APPROVALS.iter().map(line).collect();
            return Ok(self.screen.lines(&text)?);
        };
        if APPROVALS.iter().all(|(mode, _)| *mode != wanted) {
            return Ok(self.screen.error(NO_APPROVALS)?);
        }
        let session = self.mirror.session.uri.clone();
        if self.must_be_up()? {
            let config = [(APPROVALS_KEY.to_owned(), wanted.into())].into_iter().collect();
            let action = StateAction::SessionConfigChanged(SessionConfigChangedAction { config, replace: None });
            self.dispatch(session, action, Sent::Other).await;
        }
        Ok(())
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

    /// Ctrl-C stops the turn. If none runs, or it does not stop, the second one leaves.
    pub(super) async fn interrupted(&mut self) -> Result<()> {
        if let Some(editor) = self.input.editor().filter(|editor| !editor.is_empty()) {
            editor.clear();
            return Ok(self.screen.typing(self.input.editor())?);
        }
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
        Ok(self
            .screen
            .note("·", "Press Ctrl-C again to leave; the session stays.")?)
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
                self.screen.note("·", &format!("Using {model} for the next message."))?;
                self.model = Some(model);
            }
            None => self
                .screen
                .note("·", &format!("No single model matches {wanted:?}; /model lists them."))?,
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<()> {
        let Some(link) = self.wire.link() else {
            return self.must_be_up().map(drop);
        };
        match pick::newest(&link.client).await {
            Ok(listed) => {
                self.listed = listed;
                let table = pick::table(&self.listed, Some(&self.mirror.session.uri));
                self.screen.lines(if table.is_empty() {
                    "There is no session yet."
                } else {
                    &table
                })?;
            }
            Err(error) => self.screen.error(&format!("{error:#}"))?,
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
                Some(wanted) => pick::find(&link.client, wanted, &self.listed).await?,
                None => pick::create(&link.client, &root, &self.workplace).await?,
            };
            if uri == self.mirror.session.uri {
                return Ok(None);
            }
            pick::open(&link.client, root, &uri, &self.workplace, self.history)
                .await
                .map(Some)
        };
        let opened: Result<Option<Mirror>> = opened.await;
        let mirror = match opened {
            Ok(Some(mirror)) => mirror,
            Ok(None) => return Ok(self.screen.note("·", "You are already in this session.")?),
            Err(error) => return Ok(self.screen.error(&format!("{error:#}"))?),
        };
        for channel in [&self.mirror.session.uri, &self.mirror.chat.uri] {
            // If it fails, the connection is lost, and the subscription with it.
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
