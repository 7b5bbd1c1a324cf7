//! Reads an answer of the responses API, streamed or whole.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    Usage,
    wire::{
        assembly::{Assembly, Decoder, Fault, Progress},
        lenient,
    },
};

/// An event. Only what belongs to a known type is read further: other types may have fields of any form.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
    output_index: Option<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    copilot_usage: Option<&'a RawValue>,
}

impl<'a> Event<'a> {
    fn delta(&self) -> Result<String, Fault> {
        Ok(self
            .delta
            .map_or(Ok(String::new()), |raw| serde_json::from_str(raw.get()))?)
    }

    fn response(&self) -> Result<Option<Response<'a>>, Fault> {
        Ok(self.response.map(|raw| serde_json::from_str(raw.get())).transpose()?)
    }
}

#[derive(Deserialize)]
struct Response<'a> {
    id: Option<String>,
    model: Option<String>,
    status: Option<String>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    usage: Option<Arc<RawValue>>,
    #[serde(borrow)]
    copilot_usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    incomplete_details: Option<Incomplete>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

/// The types of items that are read.
const ITEMS: [&str; 4] = ["message", "reasoning", "function_call", "custom_tool_call"];

#[derive(Deserialize)]
struct ItemType<'a> {
    #[serde(borrow, default)]
    r#type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Item {
    r#type: String,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(default, deserialize_with = "lenient::arguments")]
    arguments: Option<String>,
    #[serde(default, deserialize_with = "lenient::arguments")]
    input: Option<String>,
    content: Option<Vec<Piece>>,
    summary: Option<Vec<Piece>>,
    encrypted_content: Option<String>,
    phase: Option<String>,
}

impl Item {
    /// Reads an item, if it is of a known type.
    fn read(raw: &RawValue) -> Result<Option<Self>, Fault> {
        let known: ItemType<'_> = serde_json::from_str(raw.get())?;
        match ITEMS.contains(&&*known.r#type) {
            true => Ok(Some(serde_json::from_str(raw.get())?)),
            false => Ok(None),
        }
    }
}

#[derive(Deserialize)]
struct Piece {
    text: Option<String>,
    refusal: Option<String>,
}

impl Piece {
    fn into_text(self) -> String {
        self.text.or(self.refusal).unwrap_or_default()
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    input_tokens_details: Option<Details>,
    output_tokens_details: Option<Details>,
    cost: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

/// A reasoning item as it is sent back.
#[derive(Serialize)]
struct Kept<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    summary: Vec<Summary<'a>>,
    encrypted_content: &'a str,
}

#[derive(Serialize)]
struct Summary<'a> {
    r#type: &'static str,
    text: &'a str,
}

/// Reads one answer.
#[derive(Default)]
pub(in crate::wire) struct Reader {
    /// Tool calls by the place of their item: number in the assembly.
    calls: HashMap<u64, usize>,
    /// The item whose text or reasoning came last.
    last_text: Option<u64>,
    /// The reasoning paragraph that came last.
    new_paragraph: bool,
    /// Indexes whose text or reasoning was streamed, so that it is not added again at the item's end.
    in_pieces: Vec<u64>,
    kept: Vec<String>,
}

impl Reader {
    fn text(&mut self, place: u64, text: String, into: &mut Assembly) {
        if self.last_text.is_some_and(|last| last != place) && into.has_text() {
            into.text("\n\n".to_owned());
        }
        self.last_text = Some(place);
        into.text(text);
    }

    fn reasoning(&mut self, text: String, into: &mut Assembly) {
        if std::mem::take(&mut self.new_paragraph) && into.has_reasoning() {
            into.reasoning("\n\n".to_owned());
        }
        into.reasoning(text);
    }

    fn mark(&mut self, place: u64) {
        if self.in_pieces.last() != Some(&place) {
            self.in_pieces.push(place);
        }
    }

    fn begin_item(&mut self, place: u64, item: &Item, into: &mut Assembly) {
        let custom = item.r#type == "custom_tool_call";
        if !(custom || item.r#type == "function_call") || self.calls.contains_key(&place) {
            return;
        }
        let id = item
            .call_id
            .as_ref()
            .or(item.id.as_ref())
            .filter(|id| !id.is_empty())
            .cloned();
        let number = into.begin_call(id, item.name.clone().unwrap_or_default(), custom);
        self.calls.insert(place, number);
    }

    fn end_item(&mut self, place: u64, item: Item, into: &mut Assembly) -> Result<(), Fault> {
        self.begin_item(place, &item, into);
        if let Some(number) = self.calls.get(&place) {
            into.settle_arguments(*number, item.arguments.or(item.input).unwrap_or_default());
            return Ok(());
        }
        let streamed = self.in_pieces.contains(&place);
        if item.r#type == "reasoning" {
            self.keep(&item)?;
            if !streamed {
                for piece in item.summary.into_iter().chain(item.content).flatten() {
                    self.new_paragraph = true;
                    self.reasoning(piece.into_text(), into);
                }
            }
        } else if item.r#type == "message" {
            // Of several messages in one answer the last one says what it is.
            into.phase = item.phase.or(into.phase.take());
            if !streamed {
                for piece in item.content.into_iter().flatten() {
                    self.text(place, piece.into_text(), into);
                }
            }
        }
        Ok(())
    }

    /// Keeps reasoning that the provider wants back. Without its encrypted content it would be only a name of something
    /// that the provider, asked not to store, has forgotten.
    fn keep(&mut self, item: &Item) -> Result<(), Fault> {
        let Some(encrypted_content) = item.encrypted_content.as_deref() else {
            return Ok(());
        };
        let pieces = item.summary.iter().flatten().filter_map(|piece| piece.text.as_deref());
        let summary = pieces
            .map(|text| Summary {
                r#type: "summary_text",
                text,
            })
            .collect();
        let kept = Kept {
            r#type: "reasoning",
            id: item.id.as_deref(),
            summary,
            encrypted_content,
        };
        self.kept.push(serde_json::to_string(&kept)?);
        Ok(())
    }

    fn finish(&mut self, response: Response<'_>, into: &mut Assembly) {
        if let Some(raw) = response.usage {
            into.usage = usage(raw);
        }
        into.take_copilot_usage(response.copilot_usage);
        into.finish_reason = response
            .incomplete_details
            .and_then(|details| details.reason)
            .or(response.status);
        if !self.kept.is_empty() {
            into.encrypted_content = Some(format!("[{}]", self.kept.join(",")));
        }
    }
}

fn usage(raw: Arc<RawValue>) -> Usage {
    // Counts of another form are kept raw and not read.
    let tokens: Tokens = serde_json::from_str(raw.get()).unwrap_or_default();
    Usage {
        input_tokens: tokens.input_tokens,
        output_tokens: tokens.output_tokens,
        cache_read_tokens: tokens.input_tokens_details.unwrap_or_default().cached_tokens,
        cache_write_tokens: None,
        reasoning_tokens: tokens.output_tokens_details.unwrap_or_default().reasoning_tokens,
        cost: tokens.cost,
        copilot: None,
        raw: Some(raw),
    }
}

impl Decoder for Reader {
    fn event(&mut self, _name: &str, data: &str, into: &mut Assembly) -> Result<Progress, Fault> {
        if data == "[DONE]" || data.trim().is_empty() {
            return Ok(Progress::More);
        }
        let event: Event<'_> = serde_json::from_str(data)?;
        into.take_copilot_usage(event.copilot_usage);
        let place = event.output_index.unwrap_or_default();
        match &*event.r#type {
            "response.created" => {
                if let Some(response) = event.response()? {
                    into.api_call_id = response.id;
                    into.model = response.model;
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                self.mark(place);
                self.text(place, event.delta()?, into);
            }
            "response.reasoning_summary_part.added" => self.new_paragraph = true,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.mark(place);
                self.reasoning(event.delta()?, into);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                if let Some(number) = self.calls.get(&place) {
                    let delta = event.delta()?;
                    if !delta.is_empty() {
                        into.arguments(*number, delta);
                    }
                }
            }
            "response.output_item.added" => {
                if let Some(item) = event.item.map(Item::read).transpose()?.flatten() {
                    self.begin_item(place, &item, into);
                }
            }
            "response.output_item.done" => {
                if let Some(item) = event.item.map(Item::read).transpose()?.flatten() {
                    self.end_item(place, item, into)?;
                }
            }
            "response.completed" | "response.incomplete" => {
                let response = event
                    .response()?
                    .ok_or_else(|| Fault::Malformed("its last event has no response".to_owned()))?;
                self.finish(response, into);
                return Ok(Progress::Finished);
            }
            "response.failed" => {
                let error = event.response()?.and_then(|response| response.error);
                return Err(Fault::Reported(
                    error.map_or_else(|| data.to_owned(), |error| error.get().to_owned()),
                ));
            }
            "error" => return Err(Fault::Reported(data.to_owned())),
            _ => {}
        }
        Ok(Progress::More)
    }

    fn whole(&mut self, body: &str, into: &mut Assembly) -> Result<(), Fault> {
        let mut response: Response<'_> = serde_json::from_str(body)?;
        if let Some(error) = response.error {
            return Err(Fault::Reported(error.get().to_owned()));
        }
        let items = response
            .output
            .take()
            .ok_or_else(|| Fault::Malformed("it has no output".to_owned()))?;
        into.api_call_id = response.id.take();
        into.model = response.model.take();
        for (place, item) in items.into_iter().enumerate() {
            if let Some(item) = Item::read(item)? {
                self.end_item(place as u64, item, into)?;
            }
        }
        self.finish(response, into);
        Ok(())
    }

    fn may_end_here(&self) -> bool {
        false
    }
}
