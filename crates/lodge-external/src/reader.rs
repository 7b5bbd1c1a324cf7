//! Reads a program's messages: updates, requests, responses, and anything invalid.

use std::sync::{Arc, OnceLock};

use lodge_rpc::{Error, Line, Lines, METHOD_NOT_FOUND, Message, Peer, params};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

use crate::{
    reply::{Kind, Open, PermissionOption, Reply},
    said::{CallUpdate, Command, Elicitation, NewTerminal, Others, PlanEntry, Said, TerminalRequest, short, words},
};

/// Longer messages end the connection.
pub(crate) const LONGEST: usize = 16 << 20;
/// So much of what the program sent may wait to be taken or answered, in KiB: the longest message and more. The program waits
/// when it is more.
pub(crate) const ROOM: usize = 2 * (LONGEST >> 10);
/// So many lines in a row that are no messages are passed over: some programs print there what is not meant for anybody.
const MOST_NOISE: usize = 1000;

/// What came from the program, in its order.
pub(crate) enum Heard {
    /// Something that it says or wants, with its part of the room until it is taken; a wish has its part until it is answered.
    Said {
        said: Box<Said>,
        _room: Option<OwnedSemaphorePermit>,
    },
    /// Something that it was asked is answered.
    Answered,
}

/// The turn that listens. What comes while none does is dropped, and requests are answered as cancelled.
pub(crate) type Listener = Arc<watch::Sender<Option<mpsc::Sender<Heard>>>>;

pub(crate) struct Reader {
    pub(crate) peer: Peer,
    pub(crate) listener: Listener,
    /// The slash commands that it named last, whether a turn listened or not.
    pub(crate) commands: Arc<watch::Sender<Vec<Command>>>,
    /// What is left of [`ROOM`].
    pub(crate) room: Arc<Semaphore>,
    /// The one conversation that it may speak of, once that is known.
    pub(crate) session_id: Arc<OnceLock<String>>,
    /// Its requests that are not answered.
    pub(crate) open: Open,
}

impl Reader {
    /// Whether something is about the conversation that is held.
    fn concerns(&self, given: &Value) -> bool {
        self.session_id.get().is_none_or(|id| given["sessionId"] == id.as_str())
    }

    /// Reads until the program ends or cannot be listened to any more, and says why; nothing where it ended by itself.
    pub(crate) async fn read<R: tokio::io::AsyncRead + Unpin>(&self, mut lines: Lines<R>) -> String {
        let mut noise = 0;
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = self.peer.closed() => return String::new(),
            };
            let line = match line {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::TooLong)) => {
                    return format!("sent a message of more than {LONGEST} bytes and was stopped.");
                }
                Ok(None) | Err(_) => return String::new(),
            };
            let wanted = u32::try_from(line.len() / 1024 + 1).unwrap_or(u32::MAX);
            let room = tokio::select! {
                room = self.room.clone().acquire_many_owned(wanted) => room.ok(),
                () = self.peer.closed() => return String::new(),
            };
            let message = Message::read(&line);
            if message.is_ok() {
                noise = 0;
            }
            let heard = match message {
                Ok(Message::Response { id, result }) => {
                    let known = self.peer.answered(&id, result);
                    known.then_some(Heard::Answered)
                }
                Ok(Message::Notification { method, params }) if method == "$/cancel_request" => {
                    if let Some(withdrawn) = self.open.lock().get(&params["requestId"].to_string()) {
                        withdrawn.cancel();
                    }
                    continue;
                }
                Ok(Message::Notification { method, params }) => {
                    let known = method == "session/update" && self.concerns(&params);
                    let said = known.then(|| update(&params)).flatten();
                    if let Some(Said::Commands(commands)) = &said {
                        self.commands.send_replace(commands.clone());
                    }
                    said.map(|said| Heard::Said {
                        said: Box::new(said),
                        _room: room,
                    })
                }
                Ok(Message::Request { id, method, params }) => {
                    let wish = self.request(id, &method, params, room);
                    wish.map(|wish| Heard::Said {
                        said: Box::new(wish),
                        _room: None,
                    })
                }
                Err(_) => {
                    noise += 1;
                    if noise > MOST_NOISE {
                        return "does not speak ACP on its standard output and was stopped.".to_owned();
                    }
                    continue;
                }
            };
            let Some(heard) = heard else { continue };
            let turn = self.listener.borrow().clone();
            if let Some(turn) = turn {
                // A turn that ends meanwhile drops it.
                let _ = turn.send(heard).await;
            }
        }
    }

    fn request(&self, id: Value, method: &str, given: Value, room: Option<OwnedSemaphorePermit>) -> Option<Said> {
        let wanted = match self.concerns(&given) {
            true => wanted(method, given),
            false => Err(Error::params("There is no such session.")),
        };
        let (wanted, kind) = match wanted {
            Ok(wanted) => wanted,
            Err(error) => {
                self.peer.respond(&id, Err(error));
                return None;
            }
        };
        let reply = Reply::new(id, self.peer.clone(), self.open.clone(), kind, room);
        Some(match wanted {
            Wanted::Permission(call) => Said::Permission(call, reply),
            Wanted::Elicitation(elicitation) => Said::Elicitation(elicitation, reply),
            Wanted::Read(path, line, limit) => Said::Read(path, line, limit, reply),
            Wanted::Write(path, text) => Said::Write(path, text, reply),
            Wanted::Terminal(terminal) => Said::Terminal(terminal, reply),
            Wanted::OfTerminal(what, terminal) => Said::OfTerminal(what, terminal, reply),
        })
    }
}

enum Wanted {
    Permission(Box<CallUpdate>),
    Elicitation(Elicitation),
    Read(String, Option<u64>, Option<u64>),
    Write(String, String),
    Terminal(NewTerminal),
    OfTerminal(TerminalRequest, String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Permission {
    tool_call: CallUpdate,
    options: Vec<PermissionOption>,
    #[serde(flatten)]
    others: Others,
}

#[derive(Deserialize)]
struct File {
    path: String,
    line: Option<u64>,
    limit: Option<u64>,
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTerminal {
    terminal_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    mode: String,
    message: String,
    requested_schema: Option<Value>,
    url: Option<String>,
    tool_call_id: Option<String>,
}

impl Asked {
    fn read(self) -> Result<Elicitation, Error> {
        let (schema, url) = match self.mode.as_str() {
            "form" => (self.requested_schema.and_then(whole_schema), None),
            "url" => (
                None,
                self.url
                    .filter(|url| url.starts_with("https://") || url.starts_with("http://")),
            ),
            other => return Err(Error::params(format!("There is no mode `{other}`."))),
        };
        if schema.is_none() && url.is_none() {
            return Err(Error::params(
                "It needs a form with a schema, or a page with an address.",
            ));
        }
        Ok(Elicitation {
            message: self.message,
            schema,
            url,
            tool_call_id: self.tool_call_id,
        })
    }
}

/// The schema of a form with what may be left out of it.
fn whole_schema(mut schema: Value) -> Option<Value> {
    let members = schema.as_object_mut()?;
    members.entry("type").or_insert_with(|| "object".into());
    members
        .entry("properties")
        .or_insert_with(|| Value::Object(Others::new()));
    (schema["type"] == "object" && schema["properties"].is_object()).then_some(schema)
}

fn wanted(method: &str, given: Value) -> Result<(Wanted, Kind), Error> {
    let of_terminal = match method {
        "terminal/output" => Some(TerminalRequest::Output),
        "terminal/wait_for_exit" => Some(TerminalRequest::Exit),
        "terminal/kill" => Some(TerminalRequest::Kill),
        "terminal/release" => Some(TerminalRequest::Release),
        _ => None,
    };
    if let Some(what) = of_terminal {
        let OfTerminal { terminal_id } = params(given)?;
        return Ok((Wanted::OfTerminal(what, terminal_id), Kind::Other));
    }
    match method {
        "session/request_permission" => {
            let asked: Permission = params(given)?;
            let mut call = asked.tool_call;
            // What stands beside the call is asked for, too.
            call.others.extend(asked.others);
            Ok((Wanted::Permission(Box::new(call)), Kind::Permission(asked.options)))
        }
        "elicitation/create" => {
            let asked: Asked = params(given)?;
            Ok((Wanted::Elicitation(asked.read()?), Kind::Elicitation))
        }
        "fs/read_text_file" => {
            let file: File = params(given)?;
            Ok((Wanted::Read(file.path, file.line, file.limit), Kind::Other))
        }
        "fs/write_text_file" => {
            let file: File = params(given)?;
            let text = file.content.ok_or_else(|| Error::params("`content` is missing."))?;
            Ok((Wanted::Write(file.path, text), Kind::Other))
        }
        "terminal/create" => Ok((Wanted::Terminal(params(given)?), Kind::Other)),
        _ => Err(Error::new(METHOD_NOT_FOUND, format!("There is no method `{method}`."))),
    }
}

/// What an update says; nothing for what Lodge has no use for.
fn update(given: &Value) -> Option<Said> {
    let update = given.get("update")?;
    let text = || {
        let content = &update["content"];
        let text = words(content).map(std::borrow::Cow::into_owned);
        let text = text.or_else(|| content["type"].as_str().map(|kind| format!("[{kind}]")));
        text.map(|text| (text, update["messageId"].as_str().map(str::to_owned)))
    };
    match update["sessionUpdate"].as_str()? {
        "agent_message_chunk" => text().map(|(text, id)| Said::Text(text, id)),
        "agent_thought_chunk" => text().map(|(text, id)| Said::Thought(text, id)),
        "session_info_update" => {
            let title = short(update["title"].as_str()?.trim());
            (!title.is_empty()).then_some(Said::Title(title))
        }
        "tool_call" | "tool_call_update" => serde_json::from_value(update.clone())
            .ok()
            .map(Box::new)
            .map(Said::Call),
        "plan" => {
            let entries: Vec<PlanEntry> = serde_json::from_value(update["entries"].clone()).ok()?;
            Some(Said::Plan(entries))
        }
        "available_commands_update" => Some(Said::Commands(Command::listed(&update["availableCommands"]))),
        "usage_update" => Some(Said::Usage {
            used: update["used"].as_u64()?,
            size: update["size"].as_u64()?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::said::{CallContent, unknown};

    #[test]
    fn what_stands_beside_a_call_that_is_asked_about_belongs_to_it() {
        let asked = serde_json::json!({ "sessionId": "s", "_meta": {}, "options": [], "then": "rm",
            "toolCall": { "toolCallId": "c", "later": 1, "content": [{ "type": "diff", "path": "/a" }] } });
        let (Wanted::Permission(call), _) = wanted("session/request_permission", asked).ok().unwrap() else {
            panic!("it is a question")
        };
        let others: Vec<&String> = unknown(&call.others).map(|(name, _)| name).collect();
        assert_eq!(others, ["later", "then"]);
        assert!(
            matches!(call.content.as_deref(), Some([CallContent::Other(_)])),
            "a diff without a text is none"
        );
    }

    #[tokio::test]
    async fn what_waits_for_an_answer_takes_room_until_it_has_one() {
        let (mut program, output) = tokio::io::duplex(1 << 20);
        let (sender, mut said) = mpsc::channel(8);
        let listener = Listener::new(watch::Sender::new(Some(sender)));
        let reader = Reader {
            peer: Peer::default(),
            listener: listener.clone(),
            commands: Arc::default(),
            room: Arc::new(Semaphore::new(5)),
            session_id: Arc::default(),
            open: Open::default(),
        };
        let reading = tokio::spawn(async move { reader.read(Lines::new(output, LONGEST)).await });
        let wish = |id: u64, text: &str| {
            let wish = serde_json::json!({ "jsonrpc": "2.0", "id": id, "method": "fs/write_text_file",
                "params": { "path": "/a", "content": text } });
            format!("{wish}\n")
        };
        let text = "x".repeat(3 << 10);
        for id in 0..2 {
            program.write_all(wish(id, &text).as_bytes()).await.unwrap();
        }
        let first = said.recv().await.unwrap();
        tokio::task::yield_now().await;
        assert!(said.try_recv().is_err(), "there is no room for the second");
        assert!(matches!(&first, Heard::Said { said, .. } if matches!(**said, Said::Write(..))));
        drop(first);
        assert!(said.recv().await.is_some(), "there is room again");
        // Nobody listens between turns, so nothing is kept for the next one.
        listener.send_replace(None);
        program.write_all(wish(2, "between").as_bytes()).await.unwrap();
        let (sender, mut said) = mpsc::channel(8);
        drop(program);
        reading.await.unwrap();
        listener.send_replace(Some(sender));
        assert!(said.try_recv().is_err());
    }

    #[tokio::test]
    async fn stray_lines_matter_only_if_there_is_nothing_else() {
        for (is_acp, expected) in [(true, ""), (false, "does not speak ACP")] {
            let reader = Reader {
                peer: Peer::default(),
                listener: Listener::default(),
                commands: Arc::default(),
                room: Arc::new(Semaphore::new(ROOM)),
                session_id: Arc::default(),
                open: Open::default(),
            };
            let message = if is_acp {
                r#"{"jsonrpc":"2.0","method":"x"}"#
            } else {
                "noise"
            };
            let text = format!("{}{message}\n", "noise\n".repeat(MOST_NOISE)).repeat(2);
            let why = reader.read(Lines::new(text.as_bytes(), LONGEST)).await;
            assert!(why.starts_with(expected) && why.is_empty() == is_acp, "{why}");
        }
    }
}
