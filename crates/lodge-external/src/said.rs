//! What a program says and wants, as plain data.

use std::borrow::Cow;

use lodge_rpc::nullable;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Map, Value};

use crate::reply::Reply;

/// So many slash commands of a program are listed.
const MOST_COMMANDS: usize = 256;
/// So much of what one does is shown, in characters.
const LONGEST_LINE: usize = 200;

/// What came from the program.
pub enum Said {
    /// More of its answer, and its id of the message, if it gives them ids.
    Text(String, Option<String>),
    /// More of its thoughts, likewise.
    Thought(String, Option<String>),
    /// What it calls the conversation.
    Title(String),
    /// A tool call of its own, or what is new about one.
    Call(Box<CallUpdate>),
    /// Everything that it has noted to do.
    Plan(Vec<PlanEntry>),
    /// The slash commands that it understands, all of them.
    Commands(Vec<Command>),
    /// How full its context is.
    Usage {
        /// Tokens in it.
        used: u64,
        /// Tokens that fit.
        size: u64,
    },
    /// It asks whether it may do something. Dropped, the answer is that nobody wants it any more.
    Permission(Box<CallUpdate>, Reply),
    /// It asks people something with a form or a page. Dropped, the answer is that nobody answers.
    Elicitation(Elicitation, Reply),
    /// It wants to read a text file: from this line on, so many lines.
    Read(String, Option<u64>, Option<u64>, Reply),
    /// It wants to give a file a text.
    Write(String, String, Reply),
    /// It wants a command to be run.
    Terminal(NewTerminal, Reply),
    /// It wants something of a command that runs.
    OfTerminal(TerminalRequest, String, Reply),
}

/// A form that people are to fill in, or a page that they are to visit.
#[derive(Debug)]
pub struct Elicitation {
    /// What it is about.
    pub message: String,
    /// The JSON schema of the form.
    pub schema: Option<Value>,
    /// The page.
    pub url: Option<String>,
    /// The program's id of the call that it belongs to.
    pub tool_call_id: Option<String>,
}

/// What a block says in words. Nothing for an image, and for kinds that this version does not know.
pub fn words(block: &Value) -> Option<Cow<'_, str>> {
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    match block["type"].as_str()? {
        "text" => block["text"].as_str().map(Cow::Borrowed),
        "resource_link" => Some(format!("[{}]({})", text(block, "name")?, text(block, "uri")?).into()),
        "resource" => match block["resource"]["text"].as_str() {
            Some(text) => Some(text.into()),
            None => Some(format!("[resource {}]", text(&block["resource"], "uri")?).into()),
        },
        "audio" => Some(format!("[audio of type {}]", text(block, "mimeType")?).into()),
        _ => None,
    }
}

/// A slash command of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its name, without the slash.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What may follow it.
    pub hint: Option<String>,
}

impl Command {
    /// The commands of a list, as many and as long as a list for people may be.
    pub(crate) fn listed(given: &Value) -> Vec<Self> {
        let short = |text: &Value| text.as_str().map(short).unwrap_or_default();
        let command = |given: &Value| {
            let name = given["name"].as_str()?.trim_start_matches('/');
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
            let is_name = !name.is_empty() && name.len() <= LONGEST_LINE && name.chars().all(fits);
            is_name.then(|| Self {
                name: name.to_owned(),
                description: short(&given["description"]),
                hint: Some(short(&given["input"]["hint"])).filter(|hint| !hint.is_empty()),
            })
        };
        let given = given.as_array().into_iter().flatten();
        given.filter_map(command).take(MOST_COMMANDS).collect()
    }
}

/// The first line of a text, as long as a line for people may be.
pub(crate) fn short(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(LONGEST_LINE)
        .collect()
}

/// The beginning of a text that is longer than so many bytes.
pub(crate) fn shortened(mut text: String, bytes: usize) -> String {
    if text.len() > bytes {
        text.truncate(text.floor_char_boundary(bytes));
        text.push('…');
    }
    text
}

/// A command to be run.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTerminal {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default, deserialize_with = "nullable")]
    pub args: Vec<String>,
    /// Variables to set for it.
    #[serde(default, deserialize_with = "nullable")]
    pub env: Vec<Variable>,
    /// Where it runs.
    pub cwd: Option<String>,
    /// How much of its output is kept.
    pub output_byte_limit: Option<usize>,
}

impl NewTerminal {
    /// The command for a shell. One without arguments may be a whole line.
    pub fn line(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        if !self.env.is_empty() {
            words.push("env".to_owned());
            words.extend(
                self.env
                    .iter()
                    .map(|pair| quoted(&format!("{}={}", pair.name, pair.value))),
            );
        }
        match self.args.is_empty() {
            true => words.push(self.command.clone()),
            false => words.extend(
                std::iter::once(&self.command)
                    .chain(&self.args)
                    .map(|word| quoted(word)),
            ),
        }
        words.join(" ")
    }
}

/// A word that a shell takes for itself and nothing else.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// A variable.
#[derive(Debug, Clone, Deserialize)]
pub struct Variable {
    /// Its name: letters, digits and underscores, so that nothing takes it for an option.
    #[serde(deserialize_with = "variable_name")]
    pub name: String,
    /// Its value.
    pub value: String,
}

fn variable_name<'de, D: Deserializer<'de>>(given: D) -> Result<String, D::Error> {
    let name = String::deserialize(given)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(fits) {
        true => Ok(name),
        false => Err(D::Error::custom(format!("{name:?} is no name of a variable"))),
    }
}

/// What can be wanted of a command that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalRequest {
    /// What it printed.
    Output,
    /// How it ended, once it did.
    Exit,
    /// That it ends.
    Kill,
    /// That it ends and is forgotten.
    Release,
}

/// A piece of a prompt.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Block {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// In base64.
        data: String,
        /// What kind of image.
        mime_type: String,
    },
    /// A file by its address.
    ResourceLink {
        /// Its name.
        name: String,
        /// Its address.
        uri: String,
    },
    /// A text, or data, with its address.
    Resource {
        /// It.
        resource: Resource,
    },
}

/// A text, or data, with its address.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// What kind it is.
    pub mime_type: String,
    /// What it contains.
    #[serde(flatten)]
    pub content: ResourceContent,
}

/// What a resource contains.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceContent {
    /// Text.
    Text(String),
    /// Data in base64.
    Blob(String),
}

/// What is known of a tool call, or new about it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallUpdate {
    /// The program's id for it.
    pub tool_call_id: String,
    /// What it does, for people.
    pub title: Option<String>,
    /// The tool's name.
    pub name: Option<String>,
    /// `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch`, `switch_mode` or `other`.
    pub kind: Option<String>,
    /// `pending`, `in_progress`, `completed` or `failed`.
    pub status: Option<String>,
    /// What it brought so far; the whole of it.
    pub content: Option<Vec<CallContent>>,
    /// The files that it is about.
    pub locations: Option<Vec<Location>>,
    /// Its arguments.
    pub raw_input: Option<Value>,
    /// Its result.
    pub raw_output: Option<Value>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub others: Others,
}

/// Members of an object that this version does not know.
pub type Others = Map<String, Value>;

/// The members among them that say something, besides what each message of the protocol may have.
pub fn unknown(others: &Others) -> impl Iterator<Item = (&String, &Value)> {
    let frame = ["_meta", "sessionId", "sessionUpdate"];
    others
        .iter()
        .filter(move |(name, value)| !frame.contains(&name.as_str()) && !value.is_null())
}

impl CallUpdate {
    /// Takes in what is new. Says about how many bytes are gone with what it replaces, and how many came.
    pub fn update(&mut self, new: Self) -> (usize, usize) {
        fn take<T>(old: &mut Option<T>, new: Option<T>, size: impl Fn(&T) -> usize) -> (usize, usize) {
            let Some(new) = new else { return (0, 0) };
            let more = size(&new);
            (old.replace(new).as_ref().map_or(0, size), more)
        }
        let (mut less, mut more) = (0, 0);
        for (gone, came) in [
            take(&mut self.title, new.title, String::len),
            take(&mut self.name, new.name, String::len),
            take(&mut self.kind, new.kind, String::len),
            take(&mut self.status, new.status, String::len),
            take(&mut self.content, new.content, |all| {
                all.iter().map(CallContent::size).sum()
            }),
            take(&mut self.locations, new.locations, |all| {
                all.iter().map(Location::size).sum()
            }),
            take(&mut self.raw_input, new.raw_input, size_of),
            take(&mut self.raw_output, new.raw_output, size_of),
        ] {
            less += gone;
            more += came;
        }
        for (name, value) in new.others {
            more += size_of_member(&name, &value);
            if let Some(old) = self.others.get(&name) {
                less += size_of_member(&name, old);
            }
            self.others.insert(name, value);
        }
        (less, more)
    }

    /// About how many bytes it holds.
    pub fn size(&self) -> usize {
        let words = [&self.title, &self.name, &self.kind, &self.status];
        let words = words.into_iter().flatten().map(String::len);
        let values = [&self.raw_input, &self.raw_output].into_iter().flatten().map(size_of);
        let values = values.chain([size_of_members(&self.others)]);
        let content = self.content.iter().flatten().map(CallContent::size);
        let places = self.locations.iter().flatten().map(Location::size);
        self.tool_call_id.len() + content.chain(places).chain(words).chain(values).sum::<usize>()
    }

    /// The tool's name, or its kind.
    pub fn tool_name(&self) -> &str {
        self.name.as_deref().or(self.kind.as_deref()).unwrap_or("tool")
    }

    /// The changes of files that it shows: the file, what was there, and what is there.
    pub fn changes(&self) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
        self.content.iter().flatten().filter_map(|content| match content {
            CallContent::Diff {
                path,
                old_text,
                new_text,
                ..
            } => Some((path.as_str(), old_text.as_deref(), new_text.as_str())),
            _ => None,
        })
    }

    /// The files that it says it is about, besides its arguments.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let located = self.locations.iter().flatten().map(|place| place.path.as_str());
        self.changes().map(|(path, ..)| path).chain(located)
    }
}

/// About how many bytes a value holds.
fn size_of(value: &Value) -> usize {
    let inside: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(members) => size_of_members(members),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    std::mem::size_of::<Value>() + inside
}

fn size_of_members(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| size_of_member(name, value)).sum()
}

fn size_of_member(name: &str, value: &Value) -> usize {
    name.len() + size_of(value)
}

/// Each part of a call takes some bytes, however little it says.
const PART: usize = 64;

/// A file that a call is about.
#[derive(Debug, Clone, Deserialize)]
pub struct Location {
    /// Its path.
    pub path: String,
    /// Its other members.
    #[serde(flatten)]
    pub others: Others,
}

impl Location {
    fn size(&self) -> usize {
        PART + self.path.len() + size_of_members(&self.others)
    }
}

/// What a call brought.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CallContent {
    /// A block.
    Content {
        /// The block.
        content: Value,
        /// Members that this version does not know.
        #[serde(flatten)]
        others: Others,
    },
    /// A change of a file.
    Diff {
        /// The file.
        path: String,
        /// What was there.
        old_text: Option<String>,
        /// What is there.
        new_text: String,
        /// Members that this version does not know.
        #[serde(flatten)]
        others: Others,
    },
    /// A command that was run for the program.
    Terminal {
        /// Its id.
        terminal_id: String,
        /// Members that this version does not know.
        #[serde(flatten)]
        others: Others,
    },
    /// What later versions add.
    #[serde(untagged)]
    Other(Value),
}

impl CallContent {
    fn size(&self) -> usize {
        let inside = match self {
            Self::Content { content, others } => size_of(content) + size_of_members(others),
            Self::Diff {
                path,
                old_text,
                new_text,
                others,
            } => path.len() + old_text.as_ref().map_or(0, String::len) + new_text.len() + size_of_members(others),
            Self::Terminal { terminal_id, others } => terminal_id.len() + size_of_members(others),
            Self::Other(content) => size_of(content),
        };
        PART + inside
    }

    /// Its text, if it is a block of text and nothing else.
    pub fn plain_text(&self) -> Option<&str> {
        let Self::Content { content, others } = self else {
            return None;
        };
        let is_known = |name: &String| ["type", "text", "annotations", "_meta"].contains(&name.as_str());
        let is_plain = content["type"] == "text" && content.as_object()?.keys().all(is_known);
        content["text"]
            .as_str()
            .filter(|_| is_plain && unknown(others).next().is_none())
    }
}

/// Something to do.
#[derive(Debug, Clone, Deserialize)]
pub struct PlanEntry {
    /// What.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_have_names_that_can_be_typed_and_short_descriptions() {
        let long = "x".repeat(1000);
        let listed = Command::listed(&json!([
            { "name": "review", "description": "Reviews\nmuch", "input": { "hint": "[FILE]" } },
            { "name": "/git:commit", "description": long },
            { "name": "two words" },
            { "name": "" },
            { "description": "nameless" },
            7,
        ]));
        let names: Vec<&str> = listed.iter().map(|command| command.name.as_str()).collect();
        assert_eq!(names, ["review", "git:commit"]);
        assert_eq!(
            (listed[0].description.as_str(), listed[0].hint.as_deref()),
            ("Reviews", Some("[FILE]"))
        );
        assert_eq!(listed[1].description.len(), LONGEST_LINE);
        let many = vec![json!({ "name": "n" }); 1000];
        assert_eq!(Command::listed(&json!(many)).len(), MOST_COMMANDS);
    }

    #[test]
    fn the_size_of_a_call_follows_its_updates() {
        let call = |update: Value| serde_json::from_value::<CallUpdate>(update).unwrap();
        let mut known = call(json!({ "toolCallId": "c", "title": "one", "rawInput": { "a": "b" }, "later": [1] }));
        let mut size = known.size();
        for update in [
            json!({ "toolCallId": "c", "title": "longer", "rawInput": { "a": "long", "b": [1, 2] } }),
            json!({ "toolCallId": "c", "content": [{ "type": "diff", "path": "p", "newText": "new" },
                { "type": "content", "content": { "type": "text", "text": "words" } }, { "type": "x" }] }),
            json!({ "toolCallId": "c", "content": [{ "type": "terminal", "terminalId": "t" }], "later": { "x": "y" } }),
            json!({ "toolCallId": "c", "locations": [{ "path": "/a", "line": 3 }], "kind": "edit", "status": "failed" }),
            json!({ "toolCallId": "c", "rawInput": {}, "locations": [], "rawOutput": "out", "more": true }),
        ] {
            let (less, more) = known.update(call(update.clone()));
            size = size + more - less;
            assert_eq!(size, known.size(), "{update}");
        }
    }
}
