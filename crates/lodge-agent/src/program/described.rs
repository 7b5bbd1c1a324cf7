//! Lodge's own description of a program's requests.
//!
//! A program describes its call: kind, arguments, changes, files, a title. None of this is shown as if it were ours. Instead,
//! everything in the request becomes [`Action`]s. An action is the only description: people are asked about it, the log
//! describes the call with it, and an approval covers exactly it. No other module makes one.
//!
//! A description is clear if it accounts for everything in the request: each member is taken from the request by whoever
//! knows what it means there (see [`Input`]), and something that is left makes the request unclear. Then people see the whole
//! request, in the program's own words, and no rule allows it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use lodge_events::{CustomToolPermission, PermissionRequest};
use lodge_external::{CallContent, CallUpdate, NewTerminal, Others, quoted, unknown};
use lodge_tools::{Located, Need, ToolCx, ToolError, paths, rules::Decision};
use serde_json::{Map, Value, json};

use super::{LONGEST_SHOWN, approved::Approved};
use crate::session::Shared;

const COMMANDS: &[&str] = &["command", "cmd"];
const FILES: &[&str] = &["path", "file_path", "filePath", "filepath", "abs_path", "absolute_path"];
const PLACES: &[&str] = &["cwd", "workdir", "directory"];
const URLS: &[&str] = &["url"];
/// The whole of a file's new text.
const CONTENTS: &[&str] = &["content", "contents", "file_text"];
/// The part of a file that is replaced, and what replaces it.
const OLD_PARTS: &[&str] = &["old_str", "old_string", "oldString", "oldText"];
const NEW_PARTS: &[&str] = &["new_str", "new_string", "newString", "newText"];
/// Texts that only explain.
const WORDS: &[&str] = &["description", "explanation", "intention", "reason", "summary", "title"];
/// Ids of the call, and of the turn that it belongs to.
const CALL_IDS: &[&str] = &["call_id", "callId"];
const TURN_IDS: &[&str] = &["turn_id", "turnId"];
/// What an agent reads in its own command.
const PARSED: &[&str] = &["parsed_cmd", "parsedCmd"];
/// How long somebody waits for a command or an address.
const LIMITS: &[&str] = &["timeout", "timeout_ms", "timeoutMs", "timeout_seconds", "initial_wait"];
/// Whether somebody waits for a command.
const BACKGROUND: &[&str] = &["background", "is_background", "isBackground", "run_in_background"];
/// Which part of a file is read.
const RANGES: &[&str] = &[
    "offset",
    "limit",
    "line",
    "start_line",
    "end_line",
    "startLine",
    "endLine",
    "view_range",
];
/// Longer data in blocks, such as images, is shown by its size.
const LONGEST_DATA: usize = 4096;
/// So many texts of an unclear request are compared with the rules that deny. A request with more is refused: the one that a
/// rule denies could be among the others.
const MOST_TEXTS: usize = 1024;
/// A request about more files is unclear.
const MOST_FILES: usize = 64;
/// So much text all changed files of a request may have, in bytes.
const MOST_CHANGED: usize = 16 << 20;
/// Faces show longer texts of files by the difference alone.
const LONGEST_TEXT: usize = 128 << 10;
/// So long the differences of an unclear request are looked for.
const PATIENCE: Duration = Duration::from_secs(1);

/// One thing that a program wants.
pub(super) struct Action {
    request: PermissionRequest,
    /// What the program may then have done once without another question.
    approves: Option<Approved>,
}

impl Action {
    fn new(request: PermissionRequest, approves: Option<Approved>) -> Self {
        let mut request = request.with_tool_call_id(None);
        if let PermissionRequest::Write(write) = &mut request {
            write.new_file_contents.take_if(|text| text.len() > LONGEST_TEXT);
        }
        Self { request, approves }
    }

    /// How many bytes people, clients and the log get of it.
    pub(super) fn shown(&self) -> usize {
        serde_json::to_string(&self.request).map_or(usize::MAX, |shown| shown.len())
    }

    /// As the log says it; of what is too long, how long it is.
    fn recorded(&self, is_whole: bool) -> Recorded {
        let (name, mut arguments) = self.request.call();
        if !is_whole {
            arguments = self.request.clone().without_text().call().1;
            arguments["leftOut"] = format!("about {} bytes", self.shown()).into();
        }
        Recorded {
            name: name.to_owned(),
            arguments,
            title: None,
        }
    }

    /// What people are asked, about this call of the log or about none.
    pub(super) fn question(&self, call: Option<String>) -> PermissionRequest {
        self.request.clone().with_tool_call_id(call)
    }

    pub(super) fn approves(&self) -> Option<Approved> {
        self.approves.clone()
    }
}

/// What the log says of a call.
#[derive(Clone, PartialEq)]
pub(super) struct Recorded {
    pub(super) name: String,
    pub(super) arguments: Value,
    /// The program's own words, if nobody was asked about the call.
    pub(super) title: Option<String>,
}

impl Recorded {
    /// What people are asked, in one entry of the log.
    pub(super) fn of(actions: &[Action]) -> Self {
        let is_whole = shown(actions) <= LONGEST_SHOWN;
        let mut all: Vec<Self> = actions.iter().map(|action| action.recorded(is_whole)).collect();
        if all.len() == 1 {
            return all.remove(0);
        }
        let name = all
            .first()
            .map_or_else(|| "tool".to_owned(), |first| first.name.clone());
        let parts = if name == "view" { "files" } else { "changes" };
        let all: Vec<Value> = all.into_iter().map(|recorded| recorded.arguments).collect();
        Self {
            name,
            arguments: json!({ parts: all }),
            title: None,
        }
    }

    /// A call that nobody is asked about: what the program does by itself, as it says.
    pub(super) fn claimed(known: &CallUpdate) -> Self {
        let command = Input::of(known).filter(|_| known.kind.as_deref() == Some("execute"));
        let command = command.and_then(|mut input| input.command().filter(|_| input.is_used_up()));
        if let Some((command, ".")) = command {
            return Self {
                name: "bash".to_owned(),
                arguments: json!({ "command": command }),
                title: None,
            };
        }
        if known.size() > LONGEST_SHOWN {
            return Self {
                name: "tool".to_owned(),
                arguments: json!({ "leftOut": format!("about {} bytes", known.size()) }),
                title: None,
            };
        }
        Self {
            name: known.tool_name().to_owned(),
            arguments: match &known.raw_input {
                Some(input) if input.is_object() => input.clone(),
                Some(Value::Null) | None => json!({}),
                Some(other) => json!({ "input": other }),
            },
            title: known.title.clone(),
        }
    }
}

/// The arguments of a call that nobody has accounted for yet.
struct Input<'a> {
    members: BTreeMap<&'a str, &'a Value>,
    /// The program's id of the call.
    call: &'a str,
}

impl<'a> Input<'a> {
    /// `None` if they are no members of an object.
    fn of(known: &'a CallUpdate) -> Option<Self> {
        let members = match &known.raw_input {
            None | Some(Value::Null) => BTreeMap::new(),
            Some(Value::Object(members)) => {
                let members = members.iter();
                members.map(|(name, value)| (name.as_str(), value)).collect()
            }
            Some(_) => return None,
        };
        let call = &known.tool_call_id;
        Some(Self { members, call })
    }

    /// Takes the members of these names that are of the expected form.
    fn take(&mut self, names: &[&str], fits: impl Fn(&Value) -> bool) -> Vec<&'a Value> {
        let names = names.iter();
        names
            .filter_map(|name| match self.members.get(*name) {
                Some(value) if fits(value) => self.members.remove(*name),
                _ => None,
            })
            .collect()
    }

    fn texts(&mut self, names: &[&str]) -> Vec<&'a str> {
        let texts = self.take(names, Value::is_string).into_iter();
        texts.filter_map(Value::as_str).collect()
    }

    /// The text that stands under one of these names. Under several it must be the same, or it stays unaccounted for.
    fn text(&mut self, names: &[&str]) -> Option<&'a str> {
        let first = names.iter().find_map(|name| self.members.get(*name)?.as_str())?;
        self.take(names, |value| value == first);
        Some(first)
    }

    /// A line for a shell, which stands under one of these names as a text or as a list of words.
    fn line(&mut self, names: &[&str]) -> Option<Cow<'a, str>> {
        if let Some(text) = self.text(names) {
            return Some(text.into());
        }
        let words = names
            .iter()
            .find_map(|name| self.members.get(*name).copied().filter(|value| value.is_array()))?;
        let line = line_of(words)?;
        self.take(names, |value| value == words);
        Some(line.into())
    }

    fn pass_over(&mut self, names: &[&str], fits: impl Fn(&Value) -> bool) {
        self.take(names, fits);
    }

    /// A command, and where it runs.
    fn command(&mut self) -> Option<(Cow<'a, str>, &'a str)> {
        let command = self.line(COMMANDS)?;
        self.pass_over(&["commands"], |value| is_list(value, |item| *item == *command));
        let call = self.call;
        self.pass_over(CALL_IDS, |value| value == call);
        self.pass_over(TURN_IDS, |value| value.as_str().is_some_and(is_number));
        self.pass_over(PARSED, |value| is_list(value, |part| is_reading_of(part, &command)));
        self.pass_over(LIMITS, Value::is_number);
        self.pass_over(BACKGROUND, Value::is_boolean);
        let place = self.text(PLACES).filter(|place| !place.is_empty());
        Some((command, place.unwrap_or(".")))
    }

    /// Whether nothing is left that says something.
    fn is_used_up(&mut self) -> bool {
        self.pass_over(WORDS, Value::is_string);
        self.members.values().all(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        })
    }
}

/// The line that a command given as a text, or as its words, comes to.
fn line_of(command: &Value) -> Option<String> {
    match command {
        Value::String(text) => Some(text.clone()),
        Value::Array(words) if !words.is_empty() => {
            let words: Option<Vec<String>> = words.iter().map(|word| word.as_str().map(quoted)).collect();
            Some(words?.join(" "))
        }
        _ => None,
    }
}

/// Whether an id says nothing: numbers, and UUIDs.
fn is_number(id: &str) -> bool {
    id.len() <= 64 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Whether whoever reads a command has read all that an agent says it is made of.
fn is_reading_of(part: &Value, command: &str) -> bool {
    let is_shown = |(name, value): (&String, &Value)| match value {
        Value::String(kind) if name == "type" => ["unknown", "read", "list_files", "search"].contains(&kind.as_str()),
        Value::String(text) => command.contains(text.as_str()),
        other => other.is_null(),
    };
    part.as_object().is_some_and(|members| members.iter().all(is_shown))
}

fn is_list(value: &Value, fits: impl Fn(&Value) -> bool) -> bool {
    value.as_array().is_some_and(|items| items.iter().all(fits))
}

/// A text of a file, where there was one, and the text that replaces it.
type Replaced<'a> = (Option<&'a str>, &'a str);

/// Everything in a request that an action can be made of. What says something else is not here, and makes it unclear.
struct Request<'a> {
    input: Input<'a>,
    changes: Vec<(&'a str, Replaced<'a>)>,
    /// The files that it is about.
    locations: Vec<&'a str>,
}

impl<'a> Request<'a> {
    /// `None` if parts of it are beyond this version.
    fn read(known: &'a CallUpdate) -> Option<Self> {
        let is_known = |others: &Others| unknown(others).next().is_none();
        let mut changes = Vec::new();
        for content in known.content.iter().flatten() {
            match content {
                CallContent::Diff {
                    path,
                    old_text,
                    new_text,
                    others,
                } if is_known(others) => changes.push((path.as_str(), (old_text.as_deref(), new_text.as_str()))),
                CallContent::Terminal { others, .. } if is_known(others) => {}
                text if text.plain_text().is_some() => {}
                _ => return None,
            }
        }
        let mut locations = Vec::new();
        for location in known.locations.iter().flatten() {
            let is_line = |(name, value): (&String, &Value)| name == "line" && value.is_number();
            if !unknown(&location.others).all(is_line) {
                return None;
            }
            locations.push(location.path.as_str());
        }
        if changes.len() + locations.len() > MOST_FILES {
            return None;
        }
        let request = Self {
            input: Input::of(known)?,
            changes,
            locations,
        };
        is_known(&known.others).then_some(request)
    }

    fn command(mut self, by: &Describer) -> Option<Vec<Action>> {
        let (command, place) = self.input.command().filter(|(command, _)| is_short(command))?;
        let cx = &by.cx;
        let directory = cx.directory(place).ok()?;
        // Some agents say which files a command is about. Who reads the command sees those that are words of it.
        let words = command.split(|c: char| c.is_whitespace() || "'\"`;&|<>()=:,".contains(c));
        let words = words.filter(|word| !word.is_empty() && !self.locations.is_empty());
        let mentioned: BTreeSet<PathBuf> = words.map(|word| paths::absolute(&directory, word)).collect();
        let is_seen = |path: &&str| mentioned.contains(&paths::absolute(&cx.cwd, path));
        let is_clear = self.changes.is_empty() && self.locations.iter().all(is_seen) && self.input.is_used_up();
        let (_, action) = by.command(&command, place).ok().filter(|_| is_clear)?;
        Some(vec![action])
    }

    fn reads(mut self, by: &Describer) -> Option<Vec<Action>> {
        let mut names = self.input.texts(FILES);
        names.append(&mut self.locations);
        let is_range = |value: &Value| value.is_number() || is_list(value, Value::is_number);
        self.input.pass_over(RANGES, is_range);
        if names.is_empty() || !self.changes.is_empty() || !self.input.is_used_up() {
            return None;
        }
        let read = |(name, _): (&str, Located)| Some(Action::new(by.need("view", json!({ "path": name }))?, None));
        Places::new(&by.cx).files(names)?.into_iter().map(read).collect()
    }

    fn fetch(mut self, by: &Describer) -> Option<Vec<Action>> {
        let url = self.input.text(URLS)?;
        self.input.pass_over(LIMITS, Value::is_number);
        let request = by.need("web_fetch", json!({ "url": url })).filter(|_| is_short(url))?;
        // Other spellings of an address are not read alike by all programs.
        let is_spelt = matches!(&request, PermissionRequest::Url(asked) if asked.url.trim_end_matches('/') == url.trim_end_matches('/'));
        let names_no_file = self.changes.is_empty() && self.locations.is_empty();
        let is_clear = is_spelt && names_no_file && self.input.is_used_up();
        is_clear.then(|| vec![Action::new(request, None)])
    }

    fn edits(mut self, by: &Describer) -> Option<Vec<Action>> {
        let cx = &by.cx;
        let mut places = Places::new(cx);
        let mut names = self.input.texts(FILES);
        names.append(&mut self.locations);
        if self.changes.is_empty() {
            if names.is_empty() || !self.input.is_used_up() {
                return None;
            }
            let write = |(name, _): (&str, Located)| Some(Action::new(cx.writing_unknown(name).ok()?, None));
            return places.files(names)?.into_iter().map(write).collect();
        }
        let files = places.files(self.changes.iter().map(|(name, _)| *name))?;
        let mut is_changed = |name: &&'a str| {
            let place = places.of(name);
            place.is_some_and(|place| files.iter().any(|(_, known)| *known == place))
        };
        if !names.iter().all(&mut is_changed) {
            return None;
        }
        let mut changed: Vec<(&str, String)> = Vec::new();
        let mut room = MOST_CHANGED;
        for (name, place) in &files {
            let of_file = self.changes.iter();
            let of_file = of_file.filter(|(name, _)| places.of(name).as_ref() == Some(place));
            let changes: Vec<Replaced<'_>> = of_file.map(|(_, change)| *change).collect();
            let text = cx.changed(name, &changes)?;
            room = room.checked_sub(text.len())?;
            changed.push((name, text));
        }
        // Arguments that say what is written have to come to the same.
        let old = self.input.text(OLD_PARTS);
        let new = self.input.text(NEW_PARTS);
        let whole = self.input.text(CONTENTS);
        self.input
            .pass_over(&["replace_all", "replaceAll"], |value| *value == json!(false));
        let same = |change: Replaced<'_>| match &changed[..] {
            [(name, text)] => cx.changed(name, &[change]).as_ref() == Some(text),
            _ => false,
        };
        let is_same = match (old, new, whole) {
            (None, None, None) => true,
            (None, None, Some(whole)) => same((None, whole)),
            (Some(old), Some(new), None) => same((Some(old), new)),
            _ => false,
        };
        if !(is_same && self.input.is_used_up()) {
            return None;
        }
        let write = |(name, text): &(&str, String)| writing(cx, name, text).ok().map(|(_, action)| action);
        changed.iter().map(write).collect()
    }
}

/// The places that names mean, each looked up once.
struct Places<'a, 'c> {
    cx: &'c ToolCx,
    known: HashMap<&'a str, Option<Located>>,
}

impl<'a, 'c> Places<'a, 'c> {
    fn new(cx: &'c ToolCx) -> Self {
        Self {
            cx,
            known: HashMap::new(),
        }
    }

    /// `None` if the meaning is not clear.
    fn of(&mut self, name: &'a str) -> Option<Located> {
        let look = || self.cx.named(name).ok();
        self.known.entry(name).or_insert_with(look).clone()
    }

    /// The files that names mean, each once under its first name. `None` if the meaning of one is not clear.
    fn files(&mut self, names: impl IntoIterator<Item = &'a str>) -> Option<Vec<(&'a str, Located)>> {
        let mut files: Vec<(&str, Located)> = Vec::new();
        for name in names {
            let place = self.of(name)?;
            if files.iter().all(|(_, known)| *known != place) {
                files.push((name, place));
            }
        }
        Some(files)
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= LONGEST_SHOWN
}

/// What the agent is advised whose request is too long.
const ASK_FOR_LESS: &str = " Ask for less at once.";

/// Why a request is refused that nobody could judge.
fn too_long(bytes: usize) -> String {
    format!("it is {bytes} bytes long when it is shown, and at most {LONGEST_SHOWN} are.{ASK_FOR_LESS}")
}

/// Why a request was refused, for people.
pub(super) fn for_people(why: &str) -> String {
    match why.strip_suffix(ASK_FOR_LESS) {
        Some(why) => format!("{why} Tell the agent to do it in smaller steps."),
        None => why.to_owned(),
    }
}

/// Describes requests. Looks at files, so it works away from the turn.
pub(super) struct Describer {
    pub(super) shared: Arc<Shared>,
    pub(super) agent: String,
    pub(super) cx: ToolCx,
}

impl Describer {
    /// What a call of the program is about: one action or several, all of which have to be allowed. An error says why nobody is
    /// asked.
    pub(super) fn describe(&self, known: &CallUpdate) -> Result<Vec<Action>, String> {
        let clear = Request::read(known).and_then(|request| match known.kind.as_deref() {
            Some("execute") => request.command(self),
            Some("edit") => request.edits(self),
            Some("read") => request.reads(self),
            Some("fetch") => request.fetch(self),
            _ => None,
        });
        let mut actions = match clear {
            Some(actions) => actions,
            None => {
                let unclear = bounded_to_shown(vec![self.unclear(known)])?;
                self.forbidden_part(known)?.map_or(unclear, |forbidden| vec![forbidden])
            }
        };
        // Nobody is asked about the rest of what a rule forbids.
        let is_forbidden = |action: &Action| self.shared.forbidden(&action.request).is_some();
        if let Some(at) = actions.iter().position(is_forbidden) {
            actions = vec![actions.swap_remove(at)];
        }
        // How much people would be shown of changes matters only if they are asked.
        let is_allowed = |action: &Action| {
            let is_change = matches!(action.request, PermissionRequest::Write(_));
            is_change && matches!(self.shared.decide(&action.request), Decision::Allow { .. })
        };
        match shown(&actions) > LONGEST_SHOWN && actions.iter().all(is_allowed) {
            true => Ok(actions),
            false => bounded_to_shown(actions),
        }
    }

    /// Running a line in a directory of the session. The directory is part of the line, so whoever sees or judges the line sees
    /// where it runs.
    pub(super) fn command(&self, line: &str, place: &str) -> Result<(String, Action), String> {
        if !is_short(line) {
            return Err(too_long(line.len()));
        }
        let cx = &self.cx;
        let at = |place: &str| cx.directory(place).map_err(|error| error.to_string());
        let (here, place) = (at(".")?, at(place)?);
        let line = match here == place {
            true => line.to_owned(),
            false => format!("cd {} && {line}", quoted(&place.to_string_lossy())),
        };
        let approves = Approved::command(&line, &cx.cwd);
        let need = self.need("bash", json!({ "command": line, "description": "" }));
        let request = need.ok_or_else(|| "Commands cannot be run here.".to_owned())?;
        let action = Action::new(request, Some(approves));
        match action.shown() {
            bytes if bytes > LONGEST_SHOWN => Err(too_long(bytes)),
            _ => Ok((line, action)),
        }
    }

    /// Reading a file for the program.
    pub(super) fn reading(&self, path: &str) -> Result<(Located, Action), String> {
        let (place, request) = self.cx.reading(path).map_err(|error| error.to_string())?;
        Ok((place, Action::new(request, None)))
    }

    /// Giving a file a text for the program. How much people would be shown of it matters only if they are asked.
    pub(super) fn writing(&self, path: &str, text: &str) -> Result<(Located, Action), String> {
        let (place, action) = writing(&self.cx, path, text).map_err(|error| error.to_string())?;
        let is_allowed = matches!(self.shared.decide(&action.request), Decision::Allow { .. });
        match action.shown() {
            bytes if bytes > LONGEST_SHOWN && !is_allowed => Err(too_long(bytes)),
            _ => Ok((place, action)),
        }
    }

    fn need(&self, tool: &str, arguments: Value) -> Option<PermissionRequest> {
        let tool = self.shared.builtins.iter().find(|known| known.name() == tool)?;
        match tool.need(&arguments, &self.cx) {
            Ok(Need::Ask(request)) => Some(*request),
            _ => None,
        }
    }

    /// A request that is not clear: people are shown all of it, and told whose words these are. No rule can be made of it
    /// (`lodge_tools::rules`), so an answer counts once.
    fn unclear(&self, known: &CallUpdate) -> Action {
        let request = CustomToolPermission {
            tool_name: lodge_tools::rules::agent_request(&self.agent),
            tool_description: format!("What the agent {} asks for, in its own words.", self.agent),
            args: Some(said(known)),
            ..CustomToolPermission::default()
        };
        Action::new(request.into(), None)
    }

    /// A part of a request that a rule forbids, as far as the request can be understood. An error if it says too much to be
    /// compared with the rules.
    fn forbidden_part(&self, known: &CallUpdate) -> Result<Option<Action>, String> {
        let member = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| known.raw_input.as_ref()?.get(name)?.as_str())
        };
        let input = known.raw_input.as_ref();
        let line = input.and_then(|input| serde_json::from_value::<NewTerminal>(input.clone()).ok());
        let line = line.map(|command| command.line());
        let line = line.or_else(|| COMMANDS.iter().find_map(|name| line_of(input?.get(name)?)));
        let command = line.and_then(|line| self.need("bash", json!({ "command": line, "description": "" })));
        let url = member(URLS).and_then(|url| self.need("web_fetch", json!({ "url": url })));
        let kind = known.kind.as_deref();
        let changes_files = !matches!(kind, Some("read" | "search" | "think" | "fetch" | "execute"));
        let mut texts: Vec<&str> = known.files().collect();
        match kind {
            // What is searched for is no file.
            Some("search" | "think") => texts.extend(member(FILES)),
            _ => known.raw_input.iter().for_each(|input| texts_in(input, &mut texts)),
        }
        for content in known.content.iter().flatten() {
            if let CallContent::Content { content, .. } | CallContent::Other(content) = content {
                texts.extend(content["uri"].as_str().or(content["resource"]["uri"].as_str()));
            }
        }
        let is_path = |text: &&str| !text.is_empty() && text.len() < 4096 && !text.contains(char::is_control);
        let texts: BTreeSet<&str> = texts.into_iter().filter(is_path).collect();
        if texts.len() > MOST_TEXTS {
            return Err(format!(
                "it says {} things that may be files, and at most {MOST_TEXTS} are compared with your rules.{ASK_FOR_LESS}",
                texts.len()
            ));
        }
        let files = texts.into_iter().flat_map(|text| {
            let of_address = lodge_files::uri::path(text).map(|path| path.to_string_lossy().into_owned());
            let path = of_address.unwrap_or_else(|| text.to_owned());
            let read = self.need("view", json!({ "path": path }));
            let written = self.cx.writing_unknown(&path).ok().filter(|_| changes_files);
            written.into_iter().chain(read)
        });
        let mut parts = command.into_iter().chain(url).chain(files);
        let forbidden = parts.find(|part| self.shared.forbidden(part).is_some());
        Ok(forbidden.map(|forbidden| Action::new(forbidden, None)))
    }
}

fn shown(actions: &[Action]) -> usize {
    actions.iter().map(Action::shown).fold(0, usize::saturating_add)
}

/// Actions that people can judge. Nobody reads more than that, and clients are dropped by it.
fn bounded_to_shown(actions: Vec<Action>) -> Result<Vec<Action>, String> {
    let bytes = shown(&actions);
    match bytes > LONGEST_SHOWN {
        true => Err(too_long(bytes)),
        false => Ok(actions),
    }
}

/// All texts of a value, names of members among them.
fn texts_in<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(members) => {
            for (name, value) in members {
                texts.push(name);
                texts_in(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn writing(cx: &ToolCx, path: &str, text: &str) -> Result<(Located, Action), ToolError> {
    let (place, request) = cx.writing(path, text)?;
    let approves = Approved::write(&place.path, text);
    Ok((place, Action::new(request, Some(approves))))
}

/// All that a program says of a call.
fn said(known: &CallUpdate) -> Value {
    let (mut changes, mut texts, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
    let until = Instant::now() + PATIENCE;
    for content in known.content.iter().flatten() {
        match content {
            CallContent::Diff {
                path,
                old_text,
                new_text,
                others,
            } => {
                let diff = lodge_tools::difference(path, old_text.as_deref(), new_text, until);
                changes.push(with_others(json!({ "path": path, "diff": diff }), others));
            }
            CallContent::Content { content: block, others } => match content.plain_text() {
                Some(text) => texts.push(text),
                None => blocks.push(with_others(bounded(block), others)),
            },
            CallContent::Terminal { terminal_id, others } => {
                blocks.push(with_others(json!({ "terminal": terminal_id }), others));
            }
            CallContent::Other(content) => blocks.push(bounded(content)),
        }
    }
    let files = known.locations.iter().flatten();
    let files: Vec<Value> = files
        .map(|location| {
            let mut others = location.others.clone();
            let place = match others.remove("line") {
                Some(line) => json!({ "path": location.path, "line": line }),
                None => json!(location.path),
            };
            with_others(place, &others)
        })
        .collect();
    let parts = [
        ("title", json!(known.title)),
        ("tool", json!(known.name)),
        ("kind", json!(known.kind)),
        ("input", known.raw_input.clone().unwrap_or_default()),
        ("files", json!(files)),
        ("changes", json!(changes)),
        ("text", json!(texts)),
        ("blocks", json!(blocks)),
        ("others", others_of(&known.others)),
    ];
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let parts = parts.into_iter().filter(|(_, value)| !is_empty(value));
    parts
        .map(|(name, value)| (name.to_owned(), value))
        .collect::<Map<_, _>>()
        .into()
}

/// What is shown of a part, and beside it the members of that part that this version does not know. They are not mixed: they
/// could take the place of what Lodge shows.
fn with_others(shown: Value, others: &Others) -> Value {
    match others_of(others) {
        Value::Object(others) if !others.is_empty() => json!({ "content": shown, "others": others }),
        _ => shown,
    }
}

fn others_of(others: &Others) -> Value {
    let others = unknown(others).map(|(name, value)| (name.clone(), value.clone()));
    Value::Object(others.collect())
}

/// A block that is no text. Of long data, such as images, only the size is shown.
fn bounded(block: &Value) -> Value {
    let shown = |(name, value): (&String, &Value)| {
        let data = value.as_str().filter(|_| ["data", "blob"].contains(&name.as_str()));
        let size = data.map(str::len).filter(|size| *size > LONGEST_DATA);
        let value = size.map_or_else(|| bounded(value), |size| json!(format!("({size} bytes)")));
        (name.clone(), value)
    };
    match block {
        Value::Array(items) => items.iter().map(bounded).collect(),
        Value::Object(members) => Value::Object(members.iter().map(shown).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(update: Value) -> CallUpdate {
        serde_json::from_value(update).unwrap()
    }

    #[test]
    fn an_unclear_request_is_shown_whole() {
        let said = said(&call(
            json!({ "toolCallId": "c", "title": "Tidy up", "name": "bash", "kind": "other",
            "rawInput": { "command": "ls", "then": "rm" }, "locations": [{ "path": "/b", "line": 3, "as": "root" }],
            "content": [{ "type": "diff", "path": "/a", "newText": "new", "mode": "setuid", "diff": "harmless" },
                { "type": "content", "content": { "type": "text", "text": "words" } },
                { "type": "content", "content": { "type": "resource", "resource": { "uri": "file:///c", "text": "inside" } } },
                { "type": "terminal", "terminalId": "t9" },
                { "type": "spell", "words": "abracadabra" }],
            "later": { "x": 1 }, "_meta": { "own": "note" } }),
        ));
        let shown = [
            "Tidy up",
            "bash",
            "other",
            "rm",
            "/b",
            "root",
            "/a",
            "+new",
            "setuid",
            "words",
            "file:///c",
            "inside",
            "t9",
            "abracadabra",
            "later",
        ];
        for part in shown {
            assert!(said.to_string().contains(part), "{part}: {said}");
        }
        assert_eq!(super::said(&call(json!({ "toolCallId": "c" }))), json!({}));
    }
}
