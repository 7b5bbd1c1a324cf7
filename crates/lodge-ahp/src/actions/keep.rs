//! What people set that is no part of a conversation is kept before anybody hears of it.

use ahp_types::StateAction;
use lodge_host::{DecidedFor, Storing};

use super::{
    Refusal,
    plan::{After, Plan},
};
use crate::{
    chats::kept_message,
    face::{Face, Inner},
    state::Uri,
};

/// Keeps what an action sets. Drafts of sessions are kept with their first message. Answers with what a log is to store.
pub(super) fn keep(
    face: &Face,
    inner: &mut Inner,
    channel: &Uri,
    action: &StateAction,
    plan: &Plan,
) -> Result<Option<Storing>, Refusal> {
    let mut storing = None;
    for after in &plan.after {
        if let After::Decided(key, said) = after {
            storing = decide(face, inner, channel, key, said)?;
        }
    }
    let Some(entry) = inner.core.entry_of(channel).filter(|entry| entry.announced.is_some()) else {
        return Ok(storing);
    };
    let chat = match inner.core.chats.get_key_value(channel) {
        Some((chat, _)) => chat,
        None => &entry.default_chat,
    };
    let Some(talk) = inner.talks.get(chat) else {
        return Ok(storing);
    };
    let (marks, id) = (face.host.marks(), &talk.host_id);
    let kept = match action {
        StateAction::SessionIsReadChanged(changed) => marks.update(id, |marks| marks.read = changed.is_read),
        StateAction::SessionIsArchivedChanged(changed) => {
            marks.update(id, |marks| marks.archived = changed.is_archived)
        }
        StateAction::ChatDraftChanged(changed) => marks.set_draft(id, changed.draft.as_ref().map(kept_message)),
        _ => Ok(()),
    };
    kept?;
    Ok(storing)
}

/// Keeps what somebody at a session decided about a thing: for it alone in its log, for more with the host.
fn decide(
    face: &Face,
    inner: &mut Inner,
    session: &Uri,
    key: &str,
    said: &[(DecidedFor, bool)],
) -> Result<Option<Storing>, Refusal> {
    let Some(entry) = inner.core.sessions.get_mut(session) else {
        return Ok(None);
    };
    let own = said
        .iter()
        .find(|(whom, _)| *whom == DecidedFor::Session)
        .map(|(_, on)| *on);
    let mut switches = entry.decisions.clone();
    match own {
        Some(on) => switches.insert(key.to_owned(), on),
        None => switches.remove(key),
    };
    let place = entry.state.working_directories.as_ref().and_then(|all| all.first());
    let place = place.and_then(|place| crate::uri::path(place));
    let agent = inner.talks.get(&entry.default_chat).and_then(|talk| talk.agent());
    let set = || {
        let storing = agent.map(|agent| agent.set_switches(switches.clone()));
        storing.transpose().map_err(Refusal::Unrecorded)
    };
    let decisions = face.host.decisions();
    let storing = decisions.decide_and(key, |decision| decision.replace(said, place.as_deref()), set)?;
    entry.decisions = switches;
    Ok(storing)
}
