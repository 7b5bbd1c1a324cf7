//! The conversation as the model gets it: a fold over persisted events, the same for live and stored ones.

use std::{collections::HashMap, fmt::Write as _, sync::Arc};

use lodge_events::{AbortReason, Attachment, COMMAND_SOURCE, Event, Payload, SkillTrigger};
use lodge_models::{AssistantMessage, CitableSource, Document, Image, Message, Part, ToolCall};
use uuid::Uuid;

use crate::call::parse_arguments;

/// What a model reads in place of a result that never came.
pub const INTERRUPTED: &str = "The execution of this tool, or a previous tool was interrupted.";

/// What a model reads where the user stopped its turn.
const STOPPED: &str = "[The user interrupted the turn here.]";

/// What a model that takes no images reads in place of one.
const UNSEEN: &str = "[The user attached an image or document here. This model cannot see it: say so.]";

#[derive(Debug)]
enum Entry {
    /// What the model reads, and what the person said.
    User(Vec<Part>, String),
    /// What the host says in the person's place: a skill's text, the end of a background agent, what a command of theirs
    /// printed.
    Added(Vec<Part>),
    /// What stands for everything before it, and what the person said in that.
    Summary(Vec<Part>, String),
    Assistant {
        event: Uuid,
        message: AssistantMessage,
        results: Vec<Option<Outcome>>,
    },
}

impl Entry {
    /// Its size for a model.
    fn size(&self) -> usize {
        match self {
            Self::User(parts, _) | Self::Summary(parts, _) | Self::Added(parts) => parts.iter().map(Part::size).sum(),
            Self::Assistant { message, results, .. } => {
                message.size() + results.iter().flatten().map(Outcome::size).sum::<usize>()
            }
        }
    }
}

#[derive(Debug, Clone)]
struct Outcome {
    content: Arc<str>,
    images: Vec<Image>,
    sources: Vec<CitableSource>,
}

impl Outcome {
    fn size(&self) -> usize {
        let images: usize = self.images.iter().map(Image::size).sum();
        self.content.len() + images + self.sources.iter().map(CitableSource::size).sum::<usize>()
    }
}

/// The conversation.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    /// Tool-call arguments as the model wrote them, for calls of this run; events hold them parsed.
    verbatim: HashMap<String, Arc<str>>,
    /// Commands that the person runs, by their call.
    by_person: HashMap<String, String>,
    /// Images that messages refer to.
    assets: HashMap<String, Image>,
    /// Its size for a model.
    size: usize,
    /// How many entries the compaction under way will summarise.
    summarising: Option<usize>,
}

impl Transcript {
    /// Keeps the arguments of calls that the next recorded message will hold.
    pub(crate) fn keep_verbatim(&mut self, calls: &[ToolCall]) {
        self.verbatim
            .extend(calls.iter().map(|call| (call.id.clone(), call.arguments.clone())));
    }

    /// Takes one persisted event into account; those of sub-agents belong to other conversations.
    pub(crate) fn fold(&mut self, event: &Event) {
        let of_sub_agent = match event.payload() {
            Payload::AssistantMessage(message) => message.parent_tool_call_id.is_some(),
            _ => false,
        };
        if event.agent_id().is_none() && !of_sub_agent {
            self.fold_own(event);
        }
    }

    /// An image that was attached as a file: its name, and what was in the file then.
    fn of_asset(&self, attachment: &Attachment) -> Option<[Part; 2]> {
        let Attachment::File(file) = attachment else {
            return None;
        };
        let image = self.assets.get(file.asset_id.as_ref()?)?.clone();
        let name = match file.display_name.as_str() {
            "" => &file.path,
            name => name,
        };
        Some([Part::Text(name.into()), Part::Image(image)])
    }

    /// Takes one persisted event of this conversation's agent into account.
    pub(crate) fn fold_own(&mut self, event: &Event) {
        match event.payload() {
            Payload::UserMessage(message) if message.source.as_deref() == Some(COMMAND_SOURCE) => {}
            Payload::UserMessage(message) => {
                let text = message.transformed_content.as_deref().unwrap_or(&message.content);
                let mut parts = vec![Part::Text(text.into())];
                for attachment in message.attachments.iter().flatten() {
                    parts.extend(name(attachment).into_iter().chain(shown(attachment)));
                    parts.extend(self.of_asset(attachment).into_iter().flatten());
                }
                self.push(Entry::User(parts, message.content.clone()));
            }
            Payload::SessionBinaryAsset(asset) if asset.mime_type.starts_with("image/") => {
                let image = Image {
                    mime_type: asset.mime_type.clone(),
                    data: asset.data.as_str().into(),
                };
                self.assets.insert(asset.asset_id.clone(), image);
            }
            Payload::AssistantMessage(message) => {
                let tool_calls: Vec<ToolCall> = message
                    .tool_requests
                    .iter()
                    .flatten()
                    .map(|request| self.tool_call(request))
                    .collect();
                let results = vec![None; tool_calls.len()];
                let message = AssistantMessage {
                    text: message.content.as_str().into(),
                    tool_calls,
                    reasoning_text: message.reasoning_text.clone(),
                    reasoning_opaque: message.reasoning_opaque.clone(),
                    encrypted_content: message.encrypted_content.clone(),
                    phase: message.phase.clone(),
                };
                self.push(Entry::Assistant {
                    event: event.id(),
                    message,
                    results,
                });
            }
            Payload::ToolUserRequested(request) => {
                let arguments = request.arguments.as_ref();
                let command = arguments.and_then(|arguments| arguments["command"].as_str());
                let command = command.unwrap_or(&request.tool_name).to_owned();
                self.by_person.insert(request.tool_call_id.clone(), command);
            }
            // A hook or a person may have changed it: the model then reads what ran as what it called.
            Payload::ToolExecutionStart(start) => {
                if let Some(arguments) = &start.arguments {
                    self.ran_with(&start.tool_call_id, arguments);
                }
            }
            Payload::ToolExecutionComplete(done) => {
                let content = match (&done.result, &done.error) {
                    (Some(result), _) => result.content.as_str(),
                    (None, Some(error)) => error.message.as_str(),
                    (None, None) => "",
                };
                let images = done
                    .result
                    .iter()
                    .flat_map(|result| result.contents.iter().flatten())
                    .filter_map(block_image);
                if let Some(command) = self.by_person.remove(&done.tool_call_id) {
                    let text =
                        format!("<user_command>\nThe user ran this command: {command}\n{content}\n</user_command>");
                    return self.add(&text);
                }
                self.settle(
                    &done.tool_call_id,
                    Outcome {
                        content: content.into(),
                        images: images.collect(),
                        sources: done.result.iter().flat_map(citable).collect(),
                    },
                );
            }
            Payload::SessionCompactionStart(_) => self.summarising = Some(self.entries.len()),
            Payload::SessionCompactionComplete(done) => {
                let end = self.summarising.take().unwrap_or(self.entries.len());
                if done.success
                    && let Some(summary) = &done.summary_content
                {
                    self.replace_by_summary(summary, end.min(self.entries.len()), done.token_limit);
                }
            }
            Payload::Abort(abort) if matches!(abort.reason, AbortReason::UserInitiated | AbortReason::UserAbort) => {
                self.add(STOPPED);
            }
            Payload::SystemNotification(notification) => self.add(&notification.content),
            // What is preloaded stands in the system prompt.
            Payload::SkillInvoked(skill) if skill.trigger != Some(SkillTrigger::ContextLoad) => {
                self.add(&skill_context(&skill.name, &skill.path, &skill.content));
            }
            Payload::SessionContextCleared(_) => {
                self.entries.clear();
                self.summarising = self.summarising.map(|_| 0);
                self.size = 0;
            }
            _ => {}
        }
    }

    fn tool_call(&mut self, request: &lodge_events::ToolRequest) -> ToolCall {
        let arguments = self
            .verbatim
            .remove(&request.tool_call_id)
            .unwrap_or_else(|| match &request.arguments {
                None => "{}".into(),
                // Text of a tool's own grammar, or what was not JSON in logs of earlier builds.
                Some(serde_json::Value::String(text)) => text.as_str().into(),
                Some(value) => value.to_string().into(),
            });
        ToolCall {
            id: request.tool_call_id.clone(),
            name: request.name.clone(),
            arguments,
            custom: request.type_ == Some(lodge_events::ToolRequestType::Custom),
        }
    }

    fn add(&mut self, text: &str) {
        self.push(Entry::Added(vec![Part::Text(text.into())]));
    }

    fn push(&mut self, entry: Entry) {
        self.size += entry.size();
        self.entries.push(entry);
    }

    fn ran_with(&mut self, call_id: &str, arguments: &serde_json::Value) {
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Assistant { message, .. } = entry
                && let Some(call) = message.tool_calls.iter_mut().find(|call| call.id == call_id)
            {
                let same = parse_arguments(&call.arguments).is_ok_and(|written| written == *arguments);
                if !same && arguments.as_str() != Some(&*call.arguments) {
                    let ran: Arc<str> = arguments.to_string().into();
                    self.size = self.size - call.arguments.len() + ran.len();
                    call.arguments = ran;
                }
                return;
            }
        }
    }

    fn settle(&mut self, call_id: &str, outcome: Outcome) {
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Assistant { message, results, .. } = entry
                && let Some(at) = message.tool_calls.iter().position(|call| call.id == call_id)
            {
                self.size += outcome.size();
                results[at].get_or_insert(outcome);
                return;
            }
        }
    }

    /// What a summary would make of the conversation.
    pub(crate) fn with_summary(&self, summary: &str, token_limit: Option<u64>) -> Shrunk {
        let end = self.summarising.unwrap_or(self.entries.len()).min(self.entries.len());
        let mut shrunk = Shrunk {
            messages: self.entries.len() as u64,
            removed: 0,
            before: self.size,
            after: self.size,
        };
        if let Some((entry, open)) = self.summarised(summary, end, token_limit) {
            let kept = open.iter().map(|at| &self.entries[*at]).chain(&self.entries[end..]);
            shrunk.after = entry.size() + kept.map(Entry::size).sum::<usize>();
            shrunk.removed = (end - usize::from(open.is_some())) as u64;
        }
        shrunk
    }

    /// The first entries become one message.
    fn replace_by_summary(&mut self, summary: &str, end: usize, token_limit: Option<u64>) {
        let Some((entry, open)) = self.summarised(summary, end, token_limit) else {
            return;
        };
        let since = self.entries.split_off(end);
        let open = open.map(|at| self.entries.swap_remove(at));
        self.entries = vec![entry];
        self.entries.extend(open.into_iter().chain(since));
        self.size = self.entries.iter().map(Entry::size).sum();
    }

    /// What stands for the first entries: what the person said, word for word so that the model still knows what it was
    /// asked, and a summary of the rest. Of the person's words the newest are kept. The question among them that is still to
    /// be answered stays as it was asked: its place is given. Nothing for no entries.
    fn summarised(&self, summary: &str, end: usize, token_limit: Option<u64>) -> Option<(Entry, Option<usize>)> {
        if end == 0 {
            return None;
        }
        let (summarised, since) = self.entries.split_at(end);
        let answered = match summarised.last() {
            Some(Entry::Assistant { message, .. }) => message.tool_calls.is_empty(),
            _ => since.iter().any(|entry| matches!(entry, Entry::Assistant { .. })),
        };
        let asked = summarised.iter().rposition(|entry| matches!(entry, Entry::User(..)));
        let open = asked.filter(|_| !answered);
        let mut said = String::new();
        for (at, entry) in summarised.iter().enumerate() {
            match entry {
                Entry::User(..) if open == Some(at) => {}
                Entry::User(_, text) => drop(writeln!(said, "<user_message>\n{text}\n</user_message>")),
                Entry::Summary(_, before) => said.push_str(before),
                Entry::Assistant { .. } | Entry::Added(_) => {}
            }
        }
        let said = newest(said, token_limit.map_or(usize::MAX, room_for_words));
        let text = format!(
            "Some of the conversation history has been summarized to free up context.\n\nYou were originally given \
             instructions from a user over one or more turns. Here were the user messages:\n{said}\nHere is a summary of \
             the prior context:\n<summary>\n{summary}\n</summary>"
        );
        Some((Entry::Summary(vec![Part::Text(text.into())], said), open))
    }

    /// The messages for a model call. Every tool call has a result, as the wires demand. A model that takes no images is told
    /// where one was left out.
    pub(crate) fn messages(&self, vision: bool) -> Vec<Message> {
        let seen = |parts: &[Part]| -> Vec<Part> {
            let shown = parts.iter().map(|part| match part {
                Part::Image(_) | Part::Document(_) if !vision => Part::Text(UNSEEN.into()),
                part => part.clone(),
            });
            shown.collect()
        };
        let mut messages = Vec::with_capacity(self.entries.len() * 2);
        for entry in &self.entries {
            match entry {
                Entry::User(parts, _) | Entry::Summary(parts, _) | Entry::Added(parts) => {
                    messages.push(Message::User(seen(parts)))
                }
                Entry::Assistant { message, results, .. } => {
                    messages.push(Message::Assistant(message.clone()));
                    let mut viewed = Vec::new();
                    for (call, outcome) in message.tool_calls.iter().zip(results) {
                        let (content, mut images) = match outcome {
                            Some(outcome) if vision => (outcome.content.clone(), outcome.images.clone()),
                            Some(outcome) if outcome.images.is_empty() => (outcome.content.clone(), Vec::new()),
                            Some(outcome) => (format!("{}\n{UNSEEN}", outcome.content).into(), Vec::new()),
                            None => (INTERRUPTED.into(), Vec::new()),
                        };
                        if call.name == "view" && !images.is_empty() {
                            viewed.push(image_message(&call.arguments, std::mem::take(&mut images)));
                        }
                        messages.push(Message::Tool {
                            call_id: call.id.clone(),
                            name: call.name.clone(),
                            content,
                            images,
                            sources: outcome.iter().flat_map(|outcome| outcome.sources.clone()).collect(),
                        });
                    }
                    messages.append(&mut viewed);
                }
            }
        }
        messages
    }

    /// The tool calls of the last assistant message that have no result, with the event that asked for them.
    pub(crate) fn open_calls(&self) -> Option<(Uuid, Vec<ToolCall>)> {
        let Some(Entry::Assistant {
            event,
            message,
            results,
        }) = self
            .entries
            .iter()
            .rev()
            .find(|entry| matches!(entry, Entry::Assistant { .. }))
        else {
            return None;
        };
        let open: Vec<_> = message
            .tool_calls
            .iter()
            .zip(results)
            .filter(|(_, result)| result.is_none())
            .map(|(call, _)| call.clone())
            .collect();
        (!open.is_empty()).then_some((*event, open))
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The size of the conversation for a model.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// What a compaction makes of a conversation: its messages, how many of them the summary stands for, and its size before and
/// after.
pub(crate) struct Shrunk {
    pub(crate) messages: u64,
    pub(crate) removed: u64,
    pub(crate) before: usize,
    pub(crate) after: usize,
}

/// Bytes that the person's words may take after a summary: a quarter of what the model takes, at four bytes a token.
fn room_for_words(token_limit: u64) -> usize {
    usize::try_from(token_limit).unwrap_or(usize::MAX)
}

/// The newest of what the person said.
fn newest(said: String, most: usize) -> String {
    if said.len() <= most {
        return said;
    }
    let from = said.len() - most;
    let from = (from..=said.len()).find(|at| said.is_char_boundary(*at));
    let rest = &said[from.unwrap_or(said.len())..];
    let whole = rest.find("<user_message>\n").map_or(rest, |at| &rest[at..]);
    format!("[Earlier messages are left out here; the summary has what mattered of them.]\n{whole}")
}

/// A skill's text as the model gets it, in the words of the Copilot CLI.
pub(crate) fn skill_context(name: &str, path: &str, content: &str) -> String {
    let base = std::path::Path::new(path).parent().filter(|_| !path.is_empty());
    let base = base.map(|dir| format!("Base directory for this skill: {}\n\n", dir.display()));
    format!(
        "<skill-context name=\"{name}\">\n{}{content}\n</skill-context>",
        base.unwrap_or_default()
    )
}

/// The name of an image goes before it.
fn name(attachment: &Attachment) -> Option<Part> {
    match attachment {
        Attachment::Blob(blob) if blob.mime_type.starts_with("image/") && blob.data.is_some() => {
            Some(Part::Text(blob.display_name.as_deref()?.into()))
        }
        _ => None,
    }
}

/// What the model is shown of an attachment as it is.
fn shown(attachment: &Attachment) -> Option<Part> {
    match attachment {
        Attachment::Blob(blob) if blob.mime_type.starts_with("image/") => Some(Part::Image(Image {
            mime_type: blob.mime_type.clone(),
            data: blob.data.as_deref()?.into(),
        })),
        Attachment::Blob(blob) if blob.mime_type == "application/pdf" => Some(Part::Document(Document {
            mime_type: blob.mime_type.clone(),
            data: blob.data.as_deref()?.into(),
            title: blob.display_name.as_deref().unwrap_or("document.pdf").into(),
        })),
        _ => None,
    }
}

/// An image that was viewed is shown in a message of its own, since not every wire takes images in results.
fn image_message(arguments: &str, images: Vec<Image>) -> Message {
    let path = serde_json::from_str::<serde_json::Value>(arguments)
        .ok()
        .and_then(|arguments| Some(arguments.get("path")?.as_str()?.to_owned()))
        .unwrap_or_default();
    let mut parts = vec![Part::Text(format!("Image file at path {path}").into())];
    parts.extend(images.into_iter().map(Part::Image));
    Message::User(parts)
}

/// What a tool found that the model may cite. What cannot be read as that is nothing to cite.
fn citable(result: &lodge_events::ToolResult) -> impl Iterator<Item = CitableSource> + '_ {
    let sources = result.citable_sources.iter().flatten();
    sources.filter_map(|source| serde_json::from_value(source.clone()).ok())
}

fn block_image(block: &lodge_events::ContentBlock) -> Option<Image> {
    match block {
        lodge_events::ContentBlock::Image(image) => Some(Image {
            mime_type: image.mime_type.clone(),
            data: image.data.as_str().into(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        let id = Uuid::new_v4();
        let line = format!(
            r#"{{"id":"{id}","timestamp":"2026-01-01T00:00:00.000Z","parentId":null,"type":"{kind}","data":{data}}}"#
        );
        Event::parse(line.into()).unwrap()
    }

    fn texts(transcript: &Transcript) -> Vec<String> {
        let text = |message: &Message| match message {
            Message::User(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => text.to_string(),
                    Part::Image(_) | Part::Document(_) => String::new(),
                })
                .collect(),
            Message::Assistant(message) => message.text.to_string(),
            Message::Tool { content, .. } => content.to_string(),
        };
        transcript.messages(true).iter().map(text).collect()
    }

    #[test]
    fn a_model_that_takes_no_images_is_told_where_one_was_left_out() {
        let image = r#"{"type":"blob","displayName":"pic.png","mimeType":"image/png","data":"aGk="}"#;
        let mut transcript = Transcript::default();
        transcript.fold(&event(
            "user.message",
            &format!(r#"{{"content":"Look","attachments":[{image}]}}"#),
        ));
        let parts = |vision| match transcript.messages(vision).as_slice() {
            [Message::User(parts)] => parts.clone(),
            other => panic!("{other:?}"),
        };
        assert!(matches!(
            &parts(true)[..],
            [Part::Text(_), Part::Text(_), Part::Image(_)]
        ));
        match &parts(false)[..] {
            [Part::Text(_), Part::Text(name), Part::Text(unseen)] => {
                assert_eq!((&**name, &**unseen), ("pic.png", UNSEEN));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_model_reads_that_the_user_stopped_its_turn() {
        for (reason, told) in [("user_initiated", true), ("remote_command", false)] {
            let mut transcript = Transcript::default();
            transcript.fold(&event("user.message", r#"{"content":"a"}"#));
            transcript.fold(&event("abort", &format!(r#"{{"reason":"{reason}"}}"#)));
            let expected = if told { vec!["a", STOPPED] } else { vec!["a"] };
            assert_eq!(texts(&transcript), expected);
        }
    }

    #[test]
    fn the_newest_words_of_the_person_are_kept_as_far_as_there_is_room() {
        let said = |words: &[&str]| -> String {
            let said = words
                .iter()
                .map(|text| format!("<user_message>\n{text}\n</user_message>\n"));
            said.collect()
        };
        let all = said(&["one", "two", "three"]);
        assert_eq!(newest(all.clone(), all.len()), all);
        for most in 0..all.len() {
            let kept = newest(all.clone(), most);
            let (note, kept) = kept.split_once('\n').unwrap();
            assert!(note.contains("left out") && kept.len() <= most, "{most}: {kept}");
            let last = said(&["three"]);
            assert!(most < last.len() || kept.ends_with(&last), "{most}: {kept}");
        }
        assert!(newest("é".repeat(100), 33).len() < 120);
    }

    #[test]
    fn a_summary_stands_for_what_was_said_before_it_was_begun() {
        let say = |text: &str| event("user.message", &format!(r#"{{"content":"{text}"}}"#));
        let answer = |text: &str| {
            event(
                "assistant.message",
                &format!(r#"{{"messageId":"{text}","content":"{text}"}}"#),
            )
        };
        let start = || event("session.compaction_start", "{}");
        let done = |success: bool| {
            event(
                "session.compaction_complete",
                &format!(r#"{{"success":{success},"summaryContent":"in short"}}"#),
            )
        };
        let cleared = || event("session.context_cleared", r#"{"messagesCleared":2}"#);
        // (what happens, what stays besides the summary, whether there is a summary)
        let cases: [(Vec<Event>, &[&str], bool); 6] = [
            (vec![say("a"), answer("b"), start(), done(true)], &[], true),
            // What was answered meanwhile needs not be asked again.
            (
                vec![say("a"), start(), answer("b"), say("c"), done(true)],
                &["b", "c"],
                true,
            ),
            (vec![say("a"), start(), say("c"), done(true)], &["a", "c"], true),
            (
                vec![say("a"), answer("b"), start(), say("c"), done(false)],
                &["a", "b", "c"],
                false,
            ),
            (
                vec![say("a"), answer("b"), start(), cleared(), say("c"), done(true)],
                &["c"],
                false,
            ),
            (vec![say("a"), answer("b"), done(true)], &[], true),
        ];
        for (number, (events, stays, summarised)) in cases.into_iter().enumerate() {
            let mut transcript = Transcript::default();
            events.iter().for_each(|event| transcript.fold(event));
            let mut texts = texts(&transcript);
            if summarised {
                assert!(texts.remove(0).contains("<summary>\nin short\n</summary>"), "{number}");
            }
            assert_eq!(texts, stays, "{number}");
            let size: usize = transcript.entries.iter().map(Entry::size).sum();
            assert_eq!(transcript.size, size, "{number}");
        }
    }

    #[test]
    fn what_is_no_text_has_a_size_too() {
        let message = |data: &str| event("user.message", data);
        let image = r#"{"type":"blob","mimeType":"image/png","data":"AA=="}"#;
        let page = r#"{"type":"blob","mimeType":"application/pdf","data":"AA=="}"#;
        let seal = "x".repeat(4000);
        let contents = r#"[{"type":"image","mimeType":"image/png","data":"AA=="}]"#;
        for (events, least) in [
            (
                vec![message(&format!(r#"{{"content":"a","attachments":[{image},{page}]}}"#))],
                12_000,
            ),
            (
                vec![event(
                    "assistant.message",
                    &format!(
                        r#"{{"messageId":"m","content":"","reasoningOpaque":"{seal}","encryptedContent":"{seal}"}}"#
                    ),
                )],
                6_000,
            ),
            (
                vec![
                    event(
                        "assistant.message",
                        r#"{"messageId":"m","content":"","toolRequests":[{"toolCallId":"c","name":"view"}]}"#,
                    ),
                    event(
                        "tool.execution_complete",
                        &format!(
                            r#"{{"toolCallId":"c","success":true,"result":{{"content":"","contents":{contents}}}}}"#
                        ),
                    ),
                ],
                6_000,
            ),
        ] {
            let mut transcript = Transcript::default();
            events.iter().for_each(|event| transcript.fold(event));
            assert!(transcript.size() >= least, "{}: {events:?}", transcript.size());
        }
    }
}
