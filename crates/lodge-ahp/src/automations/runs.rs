//! The sessions of runs.

use std::sync::Arc;

use ahp_types::state::{AutomationDefinition, Message, MessageKind};
use futures_util::future::BoxFuture;
use lodge_host::{Automation, AutomationChange, AutomationFace, MadeBy, Marks, PreparedRun, RunSession};

use super::{RUN, definition, id_at, rpc_error};
use crate::{
    actions, chats,
    face::Face,
    methods::{NewSession, Template, Wanted, prepare},
    rpc::RpcError,
    session_config::effort_in,
    state::Uri,
    uri,
};

impl AutomationFace for Face {
    fn prepare(
        self: Arc<Self>,
        automation: Automation,
        run: String,
    ) -> BoxFuture<'static, Result<PreparedRun, String>> {
        Box::pin(async move {
            let definition = definition::shown(&automation.definition);
            // What was right when it was saved need not be so any more.
            definition::check(&definition).map_err(|error| error.to_string())?;
            let wanted = prepare(&self, template(&definition)).await;
            let wanted = wanted.map_err(|error| error.message)?;
            let message = message(&definition);
            for chat in actions::attached_chats(&serde_json::json!({ "message": &message })) {
                // One that is not there is refused in a moment.
                let _ = self.open(chat).await;
            }
            let id = uuid::Uuid::new_v4().to_string();
            let provider = definition.session.provider.as_deref().unwrap_or(uri::PROVIDER);
            let new = NewRun {
                id: id.clone(),
                session: format!("{provider}:/{id}").into(),
                title: definition.title,
                made_by: MadeBy {
                    automation: automation.id,
                    run,
                },
                wanted,
                message,
            };
            let session = RunSession {
                id,
                address: new.session.to_string(),
            };
            let start = Box::pin(new.start(self));
            Ok(PreparedRun { session, start })
        })
    }

    fn stop(&self, session: &RunSession) {
        let chat = uri::default_chat(&session.address);
        actions::cancel_automation(&self.inner.lock(), &chat.into());
    }

    fn caught_up(self: Arc<Self>, session: String) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ends = self.inner.lock().core.turn_ends.subscribe();
            loop {
                ends.borrow_and_update();
                let is_running = {
                    let inner = self.inner.lock();
                    let mut of = inner.conversations.iter().filter(|(_, talk)| talk.host_id == session);
                    of.any(|(chat, _)| {
                        let turn = inner.core.head(chat).and_then(|head| head.active_turn.as_ref());
                        turn.is_some_and(|turn| turn.message.origin.kind == MessageKind::Automation)
                    })
                };
                if !is_running || ends.changed().await.is_err() {
                    return;
                }
            }
        })
    }

    fn changed(&self, change: AutomationChange<'_>, allowed: bool) {
        self.automation_changed(change, allowed);
    }
}

/// A run whose session can be made.
struct NewRun {
    id: String,
    session: Uri,
    title: String,
    made_by: MadeBy,
    wanted: Wanted,
    message: Message,
}

impl NewRun {
    /// Makes the session and gives it the message. The id of that.
    async fn start(self, face: Arc<Face>) -> Result<String, String> {
        let Self { id, session, .. } = self;
        let made_by = Marks {
            made_by: Some(self.made_by),
            ..Marks::default()
        };
        let kept = face.host.marks().update(&id, |marks| marks.clone_from(&made_by));
        kept.map_err(|error| error.to_string())?;
        let new = NewSession {
            session: &session,
            id: &id,
            wanted: self.wanted,
            client: "automation",
            title: Some(self.title),
            origin: chats::made_by(&made_by),
        };
        new.draft(&face).await;
        let chat: Uri = uri::default_chat(&session).into();
        let made = face.materialise(&session).await.map_err(|error| error.to_string());
        let message = self.message;
        let begun = match made {
            Ok(()) => actions::begin_automation(&face, &chat, message)
                .await
                .map_err(|refusal| refusal.to_string()),
            Err(error) => Err(error),
        };
        if begun.is_err() {
            // Nothing was said in it, and nobody knows of it.
            face.inner.lock().remove_session(&session);
            // It may not have been made.
            let _ = face.host.delete(&id).await;
            face.host.marks().forget(&id);
        }
        begun
    }
}

impl Face {
    /// Starts a run for somebody, once for each of their keys. Its address.
    pub(crate) async fn run_automation(&self, automation: &str, request: String) -> Result<String, RpcError> {
        let run = self.host.automations().run(id_at(automation), request).await;
        run.map(|run| format!("{RUN}{run}")).map_err(rpc_error)
    }
}

/// The session that a definition wants.
fn template(definition: &AutomationDefinition) -> Template {
    let template = definition.session.clone();
    Template {
        provider: template.provider,
        directories: template.working_directories.unwrap_or_default(),
        effort: template.model.as_ref().and_then(effort_in).map(str::to_owned),
        model: template.model.map(|model| model.id),
        config: template.config,
    }
}

/// What its agent is told: by the model and the custom agent of the template, where the message names none.
fn message(definition: &AutomationDefinition) -> Message {
    let (template, mut message) = (&definition.session, definition.message.clone());
    message.model = message.model.or_else(|| template.model.clone());
    message.agent = message.agent.or_else(|| template.agent.clone());
    message
}
