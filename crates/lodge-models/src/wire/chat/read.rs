//! Reads an answer of the chat completions API, streamed or whole.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Usage,
    wire::{
        assembly::{Assembly, Decoder, Fault, Progress},
        lenient::{self, Said},
    },
};

/// One piece, or the whole: they differ only in `delta` being called `message`.
#[derive(Deserialize)]
struct Piece {
    id: Option<String>,
    model: Option<String>,
    choices: Option<Vec<Choice>>,
    usage: Option<Arc<RawValue>>,
    copilot_usage: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice {
    index: Option<u64>,
    delta: Option<Delta>,
    message: Option<Delta>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<Said>,
    refusal: Option<String>,
    // The same under the names that local servers, routers and Copilot give it.
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    reasoning_text: Option<String>,
    reasoning_opaque: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    index: Option<u64>,
    id: Option<String>,
    function: Option<Function>,
    custom: Option<Function>,
}

#[derive(Deserialize)]
struct Function {
    name: Option<String>,
    #[serde(default, deserialize_with = "lenient::arguments")]
    arguments: Option<String>,
    #[serde(default, deserialize_with = "lenient::arguments")]
    input: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    completion_tokens_details: Option<Details>,
    prompt_cache_hit_tokens: Option<u64>,
    cost: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    cached_tokens: Option<u64>,
    #[serde(alias = "cache_creation_tokens")]
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
}

/// Reads one answer.
#[derive(Default)]
pub(in crate::wire) struct Reader {
    /// For each tool call: the choice and index it is known by, and its number in the assembly.
    calls: Vec<(u64, u64, usize)>,
    ended: bool,
}

impl Reader {
    fn read_chunk(&mut self, json: &str, into: &mut Assembly) -> Result<(), Fault> {
        let piece: Piece = serde_json::from_str(json)?;
        if piece.error.is_some() {
            return Err(Fault::Reported(json.to_owned()));
        }
        if into.api_call_id.is_none() {
            into.api_call_id = piece.id.filter(|id| !id.is_empty());
            into.model = piece.model.filter(|model| !model.is_empty());
        }
        if let Some(raw) = piece.usage {
            into.usage = usage(raw);
        }
        into.take_copilot_usage(piece.copilot_usage.as_deref());
        for choice in piece.choices.unwrap_or_default() {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.delta(choice.index.unwrap_or_default(), delta, into);
            }
            // Until the end, some write an empty one.
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.ended = true;
                into.finish_reason = Some(reason);
            }
        }
        Ok(())
    }

    fn delta(&mut self, choice: u64, delta: Delta, into: &mut Assembly) {
        let said = delta.content.unwrap_or_default();
        let named = [delta.reasoning_content, delta.reasoning, delta.reasoning_text];
        let reasoning = named.into_iter().chain([Some(said.reasoning)]);
        if let Some(text) = reasoning.flatten().find(|text| !text.is_empty()) {
            into.reasoning(text);
        }
        if let Some(opaque) = delta.reasoning_opaque {
            into.reasoning_opaque.get_or_insert_default().push_str(&opaque);
        }
        into.text(said.text);
        into.text(delta.refusal.unwrap_or_default());
        for (position, call) in delta.tool_calls.into_iter().flatten().enumerate() {
            self.call(choice, call.index.unwrap_or(position as u64), call, into);
        }
    }

    fn call(&mut self, choice: u64, index: u64, call: Call, into: &mut Assembly) {
        let custom = call.custom.is_some();
        let function = call.function.or(call.custom);
        let (name, arguments) = function.map_or((None, None), |function| {
            (function.name, function.arguments.or(function.input))
        });
        let id = call.id.filter(|id| !id.is_empty());
        let known = self
            .calls
            .iter()
            .rev()
            .find(|(a, b, _)| (*a, *b) == (choice, index))
            .map(|(.., number)| *number);
        // Some servers give every call the index 0: another id is another call.
        let known = known.filter(|number| id.as_deref().is_none_or(|id| into.is_called(*number, id)));
        let number = match known {
            Some(number) => {
                // A name that comes with every fragment is the same name, one that comes without an id is a piece of it.
                if let (Some(piece), None) = (&name, &id)
                    && into.arguments_so_far(number).is_empty()
                {
                    into.name(number, piece);
                }
                number
            }
            None => {
                let number = into.begin_call(id, name.unwrap_or_default(), custom);
                self.calls.push((choice, index, number));
                number
            }
        };
        if let Some(fragment) = arguments.filter(|fragment| !fragment.is_empty()) {
            into.arguments(number, fragment);
        }
    }
}

fn usage(raw: Arc<RawValue>) -> Usage {
    // Counts of another form are kept raw and not read.
    let tokens: Tokens = serde_json::from_str(raw.get()).unwrap_or_default();
    let input = tokens.prompt_tokens_details.unwrap_or_default();
    Usage {
        input_tokens: tokens.prompt_tokens,
        output_tokens: tokens.completion_tokens,
        cache_read_tokens: input.cached_tokens.or(tokens.prompt_cache_hit_tokens),
        cache_write_tokens: input.cache_write_tokens,
        reasoning_tokens: tokens.completion_tokens_details.unwrap_or_default().reasoning_tokens,
        cost: tokens.cost,
        copilot: None,
        raw: Some(raw),
    }
}

impl Decoder for Reader {
    fn event(&mut self, _name: &str, data: &str, into: &mut Assembly) -> Result<Progress, Fault> {
        if data == "[DONE]" {
            // The sign of the end, but only of an answer: an empty stream is none.
            return if self.ended || into.has_text() || !self.calls.is_empty() {
                Ok(Progress::Finished)
            } else {
                Err(Fault::Malformed("the stream ended without an answer".to_owned()))
            };
        }
        if data.trim().is_empty() {
            return Ok(Progress::More);
        }
        self.read_chunk(data, into).map(|()| Progress::More)
    }

    fn whole(&mut self, body: &str, into: &mut Assembly) -> Result<(), Fault> {
        self.read_chunk(body, into)?;
        if self.ended || into.has_text() || !self.calls.is_empty() {
            return Ok(());
        }
        Err(Fault::Malformed("it has no choices".to_owned()))
    }

    fn may_end_here(&self) -> bool {
        self.ended
    }
}
