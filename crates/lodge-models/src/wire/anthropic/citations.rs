//! Citations: which parts of the documents an answer rests on, in the format of the session event.

use serde_json::{Value, json};

use crate::{CitableSource, Message, ModelRequest};

/// The passages of one answer that say what they rest on.
#[derive(Default)]
pub(super) struct Cited {
    passages: Vec<Passage>,
    /// What tools found, so that a citation can say what the tool called it.
    found: Vec<CitableSource>,
}

struct Passage {
    start: usize,
    end: usize,
    /// As the provider reported them.
    citations: Vec<Value>,
}

impl Cited {
    /// Those of the answer to a request.
    pub(super) fn of(request: &ModelRequest) -> Self {
        let found = request.messages.iter().filter(|_| request.citations);
        let found = found.flat_map(|message| match message {
            Message::Tool { sources, .. } => sources.as_slice(),
            Message::User(_) | Message::Assistant(_) => &[],
        });
        Self {
            passages: Vec::new(),
            found: found.cloned().collect(),
        }
    }

    /// A block of text begins after this much.
    pub(super) fn begin(&mut self, text: &str) {
        let at = text.encode_utf16().count();
        self.passages.retain(|passage| !passage.citations.is_empty());
        self.passages.push(Passage {
            start: at,
            end: at,
            citations: Vec::new(),
        });
    }

    /// The block of text that began last rests on this.
    pub(super) fn add(&mut self, citation: Value) {
        if let Some(passage) = self.passages.last_mut() {
            passage.citations.push(citation);
        }
    }

    /// The block of text ends after this much.
    pub(super) fn end(&mut self, text: &str) {
        if let Some(passage) = self.passages.last_mut().filter(|passage| !passage.citations.is_empty()) {
            passage.end = passage.end.max(text.encode_utf16().count());
        }
    }

    /// All of them; nothing when there are none.
    pub(super) fn to_json(&self) -> Option<Value> {
        let mut sources: Vec<Value> = Vec::new();
        let mut spans = Vec::new();
        for passage in self.passages.iter().filter(|passage| !passage.citations.is_empty()) {
            let mut references = Vec::new();
            for citation in &passage.citations {
                let source = self.found(citation).unwrap_or_else(|| source(citation));
                references.push(reference(citation, &source["id"]));
                if !sources.iter().any(|known| known["id"] == source["id"]) {
                    sources.push(source);
                }
            }
            spans.push(json!({"startIndex": passage.start, "endIndex": passage.end, "references": references}));
        }
        (!spans.is_empty()).then(|| json!({"sources": sources, "spans": spans}))
    }

    /// The source that a tool found and this names. Where several have one name, the last is what the model just read.
    fn found(&self, citation: &Value) -> Option<Value> {
        let name = citation["source"]
            .as_str()
            .filter(|_| citation["type"] == "search_result_location")?;
        let found = self.found.iter().rev().find(|source| source.name() == name)?;
        let mut source = json!({"id": found.id, "provider": "client"});
        for (key, value) in [("title", &found.title), ("url", &found.url), ("path", &found.path)] {
            if let Some(value) = value {
                source[key] = value.as_str().into();
            }
        }
        Some(source)
    }
}

fn source(citation: &Value) -> Value {
    let number = ["document_index", "search_result_index"]
        .iter()
        .find_map(|key| citation[key].as_u64().map(|number| format!("{key}-{number}")));
    let url = citation["url"].as_str().or_else(|| citation["source"].as_str());
    let id = number.or_else(|| url.map(str::to_owned)).unwrap_or_default();
    let mut source = json!({"id": id, "provider": "anthropic"});
    let title = citation["document_title"]
        .as_str()
        .or_else(|| citation["title"].as_str());
    for (key, value) in [("title", title), ("url", url)] {
        if let Some(value) = value {
            source[key] = value.into();
        }
    }
    source
}

fn reference(citation: &Value, source: &Value) -> Value {
    let mut reference = json!({"sourceId": source, "providerMetadata": citation});
    if let Some(text) = citation["cited_text"].as_str() {
        reference["citedText"] = text.into();
    }
    let number = |key: &str| citation[key].as_u64().unwrap_or_default();
    let location = match citation["type"].as_str() {
        // The provider's end is the page after the last one.
        Some("page_location") => json!({
            "type": "page", "startPage": number("start_page_number"),
            "endPage": number("end_page_number").saturating_sub(1).max(number("start_page_number")),
        }),
        Some("char_location") => json!({
            "type": "char", "startIndex": number("start_char_index"), "endIndex": number("end_char_index"),
        }),
        Some("content_block_location" | "search_result_location") => json!({
            "type": "block", "startBlock": number("start_block_index"), "endBlock": number("end_block_index"),
        }),
        _ => return reference,
    };
    reference["location"] = location;
    reference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passages_are_told_by_their_place_in_the_whole_answer() {
        let page = |document: u64| json!({"type": "page_location", "document_index": document, "start_page_number": 4});
        let mut cited = Cited::default();
        cited.begin("");
        cited.end("Plain. ");
        cited.begin("Plain. ");
        cited.add(page(1));
        cited.add(page(1));
        cited.end("Plain. 𝄞 cited");
        cited.begin("Plain. 𝄞 cited");
        cited.add(json!({"type": "char_location", "document_index": 2, "start_char_index": 1, "end_char_index": 5}));
        cited.end("Plain. 𝄞 cited.");
        let rendered = cited.to_json().unwrap();
        let spans: Vec<_> = rendered["spans"].as_array().unwrap().iter().collect();
        let places: Vec<_> = spans
            .iter()
            .map(|span| (&span["startIndex"], &span["endIndex"]))
            .collect();
        assert_eq!(places, [(&json!(7), &json!(15)), (&json!(15), &json!(16))]);
        let location = json!({"type": "page", "startPage": 4, "endPage": 4});
        assert_eq!(spans[0]["references"][1]["location"], location);
        assert_eq!(rendered["sources"].as_array().unwrap().len(), 2);
        assert_eq!(Cited::default().to_json(), None);
    }

    #[test]
    fn what_a_tool_found_is_cited_under_the_name_that_the_tool_gave_it() {
        let found = CitableSource {
            id: "doc-7".to_owned(),
            content: "Otters hold hands.".to_owned(),
            title: Some("Otters".to_owned()),
            url: None,
            path: Some("notes/otters.md".to_owned()),
        };
        let mut cited = Cited {
            found: vec![found],
            ..Cited::default()
        };
        cited.begin("");
        cited.add(json!({"type": "search_result_location", "source": "notes/otters.md", "title": "Otters",
            "search_result_index": 0, "start_block_index": 0, "end_block_index": 1, "cited_text": "Otters hold hands."}));
        cited.add(json!({"type": "search_result_location", "source": "elsewhere", "search_result_index": 1}));
        cited.end("They do.");
        let rendered = cited.to_json().unwrap();
        let client = json!({"id": "doc-7", "provider": "client", "title": "Otters", "path": "notes/otters.md"});
        assert_eq!(rendered["sources"][0], client);
        assert_eq!(rendered["sources"][1]["provider"], "anthropic");
        assert_eq!(rendered["spans"][0]["references"][0]["sourceId"], "doc-7");
    }
}
