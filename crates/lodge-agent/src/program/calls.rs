//! Tool calls that a program makes itself, as it reports them.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::{Duration, Instant},
};

use lodge_events::{
    ContentBlock, Payload, PermissionRequest, ToolError, ToolExecutionComplete, ToolExecutionPartialResult,
    ToolExecutionProgress, ToolExecutionStart, ToolRequest, ToolResult,
};
use lodge_external::{CallContent, CallUpdate, words};
use lodge_log::LogError;
use lodge_tools::{MAX_STREAMED, NO_LONGER_SHOWN};
use serde_json::Value;
use uuid::Uuid;

use super::{
    LONGEST_SHOWN, MOST_OPEN, TURN_ID, Work,
    approved::Approved,
    described::{Action, Recorded},
    terminals::{MOST_TERMINALS, Terminals},
};
use crate::{mcp_call::block, redact::Held, tool_call, turn::Stop};

/// So much may be known of all calls of a turn.
const MOST_BYTES: usize = 64 << 20;
/// So many calls and requests a turn may have.
const MOST_CALLS: usize = 10_000;
/// So much a turn may add to the log.
const MOST_RECORDED: usize = 64 << 20;
/// What one id of a call that has ended takes, besides its text.
const ENDED: usize = 64;
/// So many questions about one call may be open: each keeps what was known of the call when it was asked.
const MOST_ASKED: usize = 4;
/// So long the differences of one call are looked for.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a turn of the program came to so far.
#[derive(Default)]
pub(super) struct Tally {
    /// Calls and requests.
    calls: usize,
    /// What is known of all calls, in bytes.
    known: usize,
    /// What is written to the log, in bytes.
    recorded: usize,
    /// The program's ids of the calls that have ended.
    ended: HashSet<String>,
}

/// A call that has not ended.
pub(super) struct Call {
    /// Ours: a program may use its own twice.
    pub(super) id: String,
    pub(super) known: CallUpdate,
    /// What the log says of it, once it has begun.
    recorded: Option<Recorded>,
    /// Questions about it that nobody has answered. What the program says of it meanwhile is recorded after the answer.
    asked: usize,
    /// What people allowed for it, until it ends.
    approved: Vec<Approved>,
    started: bool,
    /// Whether it has texts that were not looked at.
    has_news: bool,
    /// What of its texts is told: how much, and its digest.
    told: (usize, u64),
    /// The commands that it refers to, and how much of the output of each is told.
    terminals: Vec<(String, usize)>,
    /// What is told in all, in bytes, and what of it waits.
    watched: usize,
    held: Held,
    /// What is known of it, in bytes.
    size: usize,
}

impl Call {
    fn new(known: CallUpdate) -> Self {
        let mut call = Self {
            id: Uuid::new_v4().to_string(),
            recorded: None,
            asked: 0,
            approved: Vec::new(),
            started: false,
            has_news: false,
            told: (0, digest("")),
            terminals: Vec::new(),
            watched: 0,
            held: Held::default(),
            size: size_of::<Self>() + known.size(),
            known,
        };
        call.look_at_content();
        call
    }

    fn look_at_content(&mut self) {
        self.has_news = true;
        let before = std::mem::take(&mut self.terminals);
        for content in self.known.content.iter().flatten() {
            if let CallContent::Terminal { terminal_id: id, .. } = content
                && self.terminals.len() < MOST_TERMINALS
                && self.terminals.iter().all(|(known, _)| known != id)
            {
                let told = before
                    .iter()
                    .find(|(known, _)| known == id)
                    .map_or(0, |(_, told)| *told);
                self.terminals.push((id.clone(), told));
            }
        }
    }

    fn texts(&self) -> String {
        let texts = self.known.content.iter().flatten().filter_map(|content| match content {
            CallContent::Content { content, .. } => words(content),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// What it brought besides text, with the text around it, as far as it can be shown; and what is left out, in words.
    fn blocks(&self) -> (Vec<ContentBlock>, String) {
        let (mut blocks, mut left_out, mut room) = (Vec::new(), String::new(), LONGEST_SHOWN);
        for content in self.known.content.iter().flatten() {
            let CallContent::Content { content, .. } = content else {
                continue;
            };
            let Some(block) = block(content) else { continue };
            let size = content.to_string().len();
            match (room.checked_sub(size), block) {
                (Some(rest), block) => {
                    room = rest;
                    blocks.push(block);
                }
                // What it says is in the text.
                (None, ContentBlock::Text(_)) => {}
                (None, block) => left_out.push_str(&format!("\n({} of {size} bytes is left out here.)", block.tag())),
            }
        }
        if blocks.iter().all(|block| matches!(block, ContentBlock::Text(_))) {
            blocks.clear();
        }
        (blocks, left_out)
    }

    /// What it brought since this was asked last. What takes the place of something else begins on a line of its own.
    fn news(&mut self, terminals: &Terminals) -> String {
        let mut news = String::new();
        if std::mem::take(&mut self.has_news) {
            let texts = self.texts();
            let (told, known) = self.told;
            let more = texts.get(..told).filter(|before| digest(before) == known);
            match more {
                Some(_) => news.push_str(&texts[told..]),
                None => news.extend(["\n", &texts]),
            }
            self.told = (texts.len(), digest(&texts));
        }
        for (id, told) in &mut self.terminals {
            if let Some((new, now)) = terminals.since(id, *told) {
                news.push_str(&new);
                *told = now;
            }
        }
        news
    }

    /// What it brought, in words.
    fn output(&self, terminals: &Terminals) -> String {
        let printed = self.terminals.iter().filter_map(|(id, _)| terminals.output(id));
        let said = Some(self.texts()).filter(|texts| !texts.is_empty());
        said.into_iter().chain(printed).collect::<Vec<_>>().join("\n")
    }

    /// Whether the log has it.
    pub(super) fn is_recorded(&self) -> bool {
        self.recorded.is_some()
    }

    /// Takes something away that was allowed for it, if it was.
    pub(super) fn use_up(&mut self, what: &Approved) -> bool {
        let at = self.approved.iter().position(|allowed| allowed == what);
        at.map(|at| self.approved.swap_remove(at)).is_some()
    }
}

fn digest(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The end of a result that is longer than anything people are shown.
fn shortened(text: String) -> String {
    if text.len() <= LONGEST_SHOWN {
        return text;
    }
    let start = text.ceil_char_boundary(text.len() - LONGEST_SHOWN);
    format!("({start} bytes are left out here.)\n{}", &text[start..])
}

impl<'a> Work<'a> {
    /// A call as the tools of this host know theirs.
    pub(super) fn tool_call<'b>(&self, id: &'b str, name: &'b str) -> tool_call::Call<'b>
    where
        'a: 'b,
    {
        tool_call::Call {
            turn: self.turn,
            id,
            name,
            message: Uuid::nil(),
            model: None,
            turn_id: TURN_ID,
            mcp: None,
        }
    }

    pub(super) fn call(&mut self, update: CallUpdate) -> Result<(), Stop> {
        let id = update.tool_call_id.clone();
        self.learn(update)?;
        Ok(self.follow_call(&id)?)
    }

    /// Records how far a call is, unless a question about it is open.
    fn follow_call(&mut self, id: &str) -> Result<(), LogError> {
        let Some(call) = self.calls.get(id).filter(|call| call.asked == 0) else {
            return Ok(());
        };
        let ended = match call.known.status.as_deref() {
            Some("in_progress") => None,
            Some("completed") => Some(Ok(())),
            Some("failed") => Some(Err("")),
            _ => return Ok(()),
        };
        self.start_call(id)?;
        match ended {
            Some(ended) => self.end_call(id, ended)?,
            None => self.tell_output(id),
        }
        Ok(())
    }

    /// Everything that is known of a call that the program asks about. What it says of the call from now on is recorded after the
    /// answer. `None` if too many questions about it are open.
    pub(super) fn hold_call(&mut self, id: &str) -> Option<CallUpdate> {
        self.tally.calls += 1;
        let call = self.calls.get_mut(id).filter(|call| call.asked < MOST_ASKED)?;
        call.asked += 1;
        Some(call.known.clone())
    }

    /// The questions as people get them. One names the call only if the log says of the call what the question asks for.
    /// Otherwise it stands alone, so no face can show what the program said of the call before.
    pub(super) fn ask_about_call(&mut self, id: &str, actions: &[Action]) -> Result<Vec<PermissionRequest>, LogError> {
        let asked = Recorded::of(actions);
        if self.calls.get(id).is_some_and(|call| call.recorded.is_none()) {
            self.record_call(id, asked.clone())?;
        }
        let call = self.calls.get(id).filter(|call| call.recorded.as_ref() == Some(&asked));
        let name = call.filter(|_| actions.len() == 1).map(|call| call.id.clone());
        Ok(actions.iter().map(|action| action.question(name.clone())).collect())
    }

    /// A question about a call is answered: what the program said of the call meanwhile is recorded.
    pub(super) fn answered(&mut self, id: &str, approved: Vec<Approved>) -> Result<(), LogError> {
        if let Some(call) = self.calls.get_mut(id) {
            call.asked = call.asked.saturating_sub(1);
            call.approved.extend(approved);
        }
        self.follow_call(id)
    }

    /// Forgets a call that has ended: what is said of its id from now on is about another one.
    pub(super) fn forget_ended(&mut self, id: &str) {
        if self.tally.ended.remove(id) {
            self.tally.known -= ENDED + id.len();
        }
    }

    /// Takes in what is new about a call. One that has ended is not spoken of any more.
    pub(super) fn learn(&mut self, update: CallUpdate) -> Result<(), Stop> {
        if self.tally.ended.contains(&update.tool_call_id) {
            return Ok(());
        }
        if let Some(call) = self.calls.get_mut(&update.tool_call_id) {
            let has_content = update.content.is_some();
            let (less, more) = call.known.update(update);
            call.size = call.size + more - less;
            self.tally.known = self.tally.known + more - less;
            if has_content {
                call.look_at_content();
            }
            return Ok(());
        }
        if self.calls.len() >= MOST_OPEN {
            return Err(self.too_much(format!("has more than {MOST_OPEN} calls open")));
        }
        let call = Call::new(update);
        self.tally.calls += 1;
        self.tally.known += call.size;
        self.calls.insert(call.known.tool_call_id.clone(), call);
        Ok(())
    }

    /// An error once the turn has come to more than any turn may.
    pub(super) fn within_limits(&self) -> Result<(), Stop> {
        let Tally {
            calls, known, recorded, ..
        } = &self.tally;
        let what = if *known > MOST_BYTES {
            format!("has more than {MOST_BYTES} bytes in its calls")
        } else if *calls > MOST_CALLS {
            format!("made more than {MOST_CALLS} calls and requests in one turn")
        } else if *recorded > MOST_RECORDED {
            format!("added more than {MOST_RECORDED} bytes to the log in one turn")
        } else {
            return Ok(());
        };
        Err(self.too_much(what))
    }

    fn too_much(&self, what: String) -> Stop {
        let why = format!("The agent {} {what} and was stopped.", self.agent);
        super::failed(lodge_models::ErrorKind::Connection, why)
    }

    /// Counts a request that is none about a call.
    pub(super) fn count_request(&mut self) {
        self.tally.calls += 1;
    }

    /// Counts what others write to the log for the program.
    pub(super) fn count_recorded(&mut self, bytes: usize) {
        self.tally.recorded = self.tally.recorded.saturating_add(bytes);
    }

    pub(super) fn record(&mut self, payload: impl Into<Payload>) -> Result<(), LogError> {
        let event = self.turn.shared.recorder.record(payload)?;
        self.count_recorded(event.json().len());
        Ok(())
    }

    /// Records that the program wants a call.
    fn record_call(&mut self, id: &str, recorded: Recorded) -> Result<(), LogError> {
        let Some(call) = self.calls.get_mut(id) else {
            return Ok(());
        };
        let request = ToolRequest {
            tool_call_id: call.id.clone(),
            name: recorded.name.clone(),
            arguments: Some(recorded.arguments.clone()),
            tool_title: recorded.title.clone(),
            ..ToolRequest::default()
        };
        call.recorded = Some(recorded);
        self.record_message(Some(request))
    }

    fn start_call(&mut self, id: &str) -> Result<(), LogError> {
        if let Some(call) = self.calls.get(id).filter(|call| call.recorded.is_none()) {
            let claimed = Recorded::claimed(&call.known);
            self.record_call(id, claimed)?;
        }
        let Some(call) = self.calls.get_mut(id).filter(|call| !call.started) else {
            return Ok(());
        };
        let Some(recorded) = call.recorded.clone() else {
            return Ok(());
        };
        call.started = true;
        let start = ToolExecutionStart {
            tool_call_id: call.id.clone(),
            tool_name: recorded.name,
            arguments: Some(recorded.arguments),
            turn_id: Some(TURN_ID.into()),
            model: Some(self.agent.clone()),
            ..ToolExecutionStart::default()
        };
        self.record(start)
    }

    /// Tells what the commands printed that calls refer to.
    pub(super) fn tell_printed(&mut self) {
        let calls = self.calls.iter().filter(|(_, call)| !call.terminals.is_empty());
        let ids: Vec<String> = calls.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.tell_output(&id);
        }
    }

    /// Tells what a running call brought, as much as people watch of one.
    fn tell_output(&mut self, id: &str) {
        let is_watched = |call: &&mut Call| call.started && call.asked == 0 && call.watched < MAX_STREAMED;
        let Some(call) = self.calls.get_mut(id).filter(is_watched) else {
            return;
        };
        let news = call.news(&self.terminals);
        let news = self.secrets.pass(&mut call.held, news);
        if news.is_empty() {
            return;
        }
        call.watched += news.len();
        let recorder = &self.turn.shared.recorder;
        recorder.note(ToolExecutionPartialResult {
            tool_call_id: call.id.clone(),
            partial_output: news,
        });
        if call.watched >= MAX_STREAMED {
            recorder.note(ToolExecutionProgress {
                tool_call_id: call.id.clone(),
                progress_message: NO_LONGER_SHOWN.to_owned(),
            });
        }
    }

    /// Records how a call ended; the error says why where the program does not.
    fn end_call(&mut self, id: &str, ended: Result<(), &str>) -> Result<(), LogError> {
        let Some(call) = self.calls.remove(id) else {
            return Ok(());
        };
        self.tally.ended.insert(id.to_owned());
        self.tally.known = self.tally.known + ENDED + id.len() - call.size;
        let mut content = call.output(&self.terminals);
        if content.is_empty() {
            content = match &call.known.raw_output {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Object(output)) if output.get("output").is_some_and(Value::is_string) => {
                    output["output"].as_str().unwrap_or_default().to_owned()
                }
                Some(Value::Null) | None => String::new(),
                Some(other) => other.to_string(),
            };
        }
        let (mut blocks, left_out) = call.blocks();
        if !call.terminals.is_empty() {
            // What commands printed stands in the text alone.
            blocks.retain(|block| !matches!(block, ContentBlock::Text(_)));
        }
        let content = shortened(content + &left_out);
        let until = Instant::now() + PATIENCE;
        let changes = call.known.changes();
        let changes = changes.map(|(path, old, new)| lodge_tools::difference(path, old, new, until));
        let changes = shortened(changes.collect::<Vec<_>>().join("\n"));
        let success = ended.is_ok();
        let complete = ToolExecutionComplete {
            tool_call_id: call.id.clone(),
            success,
            model: Some(self.agent.clone()),
            interaction_id: Some(self.turn.interaction_id.clone()),
            turn_id: Some(TURN_ID.into()),
            result: success.then(|| ToolResult {
                content: content.clone(),
                detailed_content: (!changes.is_empty()).then_some(changes),
                contents: (!blocks.is_empty()).then_some(blocks),
                ..ToolResult::default()
            }),
            error: (!success).then(|| ToolError {
                message: match ended {
                    Err("") | Ok(()) if content.is_empty() => "The call failed.".to_owned(),
                    Err("") | Ok(()) => content,
                    Err(why) => why.to_owned(),
                },
                code: Some("failure".into()),
                ..ToolError::default()
            }),
            ..ToolExecutionComplete::default()
        };
        if let Some(sub) = &self.turn.shared.sub {
            sub.task.activity.lock().call_ended(call.known.tool_name(), success);
        }
        self.record(complete)
    }

    /// Ends the calls whose end the program did not tell. Questions about them that are open have nobody to wait for the answer.
    pub(super) fn close_calls(&mut self, why: &str) -> Result<(), LogError> {
        let calls = self.calls.iter();
        let begun = calls.filter(|(_, call)| call.recorded.is_some() || call.asked > 0);
        let ids: Vec<String> = begun.map(|(id, _)| id.clone()).collect();
        for id in ids {
            if let Some(call) = self.calls.get_mut(&id) {
                call.asked = 0;
            }
            self.follow_call(&id)?;
            // Nobody knows of one that was not even asked about.
            if self.calls.get(&id).is_some_and(|call| call.recorded.is_some()) {
                self.start_call(&id)?;
                self.end_call(&id, Err(why))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_result_that_is_too_long_the_end_is_kept() {
        assert_eq!(shortened("short".to_owned()), "short");
        let long = format!("ä{}end", "x".repeat(LONGEST_SHOWN - 4));
        let shown = shortened(long);
        assert!(shown.starts_with("(2 bytes are left out here.)\nx"), "{}", &shown[..40]);
        assert!(shown.ends_with("xend"));
    }
}
