//! A server of our own with a bad character. It is this very test program, started again: what the test harness prints
//! before is the first thing that the client has to bear.

use std::{cell::Cell, io::Write, time::Duration};

use serde_json::{Value, json};

/// What makes this test the server.
pub(crate) const TEMPER: &str = "MCP_TEST_TEMPER";

#[test]
fn serve() {
    if let Ok(temper) = std::env::var(TEMPER) {
        let server = Server {
            temper,
            ..Server::default()
        };
        server.run();
    }
}

fn next_line() -> Option<String> {
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line).ok()?;
    (read > 0).then_some(line)
}

#[derive(Default)]
struct Server {
    temper: String,
    /// Whether it has one tool more than at first.
    grown: Cell<bool>,
}

impl Server {
    fn is(&self, temper: &str) -> bool {
        self.temper == temper
    }

    fn run(&self) {
        let mut out = std::io::stdout();
        match self.temper.as_str() {
            "ends at once" => {
                eprintln!("no such luck");
                std::process::exit(3);
            }
            "fills its pipe without a line" => loop {
                let _ = out.write_all(&[b'x'; 1 << 16]);
            },
            "floods standard error" => {
                std::thread::spawn(|| {
                    loop {
                        eprintln!("{}", "e".repeat(1000));
                    }
                });
            }
            "will not end" => {
                // A descendant that outlives everything but the whole group's end.
                let _ = std::process::Command::new("sleep").arg("1000").spawn();
            }
            _ => {}
        }
        // Line by line, so that a question in the middle of a call can read its answer.
        while let Some(line) = next_line() {
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            // Each piece of nonsense may be answered with an error. Whoever answers those, too, never comes to an end.
            if self.is("talks nonsense between") && message.get("error").is_none() {
                let _ = writeln!(
                    out,
                    "{{\"half\": \nnot json at all\n\u{1F980}\n[]\n{{\"jsonrpc\":\"2.0\"}}"
                );
            }
            if let Some(answer) = self.answer(&message) {
                let _ = writeln!(out, "{answer}");
                let _ = out.flush();
            }
        }
        if self.is("will not end") {
            std::thread::sleep(Duration::from_secs(1000));
        }
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let id = message.get("id")?;
        let result = match message["method"].as_str()? {
            "initialize" if self.is("never answers") => return None,
            "initialize" if self.is("answers with the wrong number") => {
                return Some(json!({"jsonrpc": "2.0", "id": 4711, "result": {}}));
            }
            "initialize" if self.is("lies about the handshake") => {
                json!({"protocolVersion": 7, "capabilities": "many"})
            }
            "initialize" => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": self.temper, "version": "1"},
                "instructions": "Be kind.",
            }),
            "tools/list" if self.is("lies about its tools") => json!({"tools": [
                7, {}, {"name": 5}, {"name": ""}, {"name": "echo"}, {"name": "echo"}, {"name": "odd", "inputSchema": "none"},
            ]}),
            "tools/list" if self.is("has pages without end") => json!({
                "tools": [{"name": format!("t{id}"), "inputSchema": {"type": "object"}}], "nextCursor": "more",
            }),
            "tools/list" if self.is("cannot list its tools") => {
                return Some(json!({"jsonrpc": "2.0", "id": id,
                    "error": {"code": -32603, "message": "the database is locked"}}));
            }
            "tools/list" if self.is("works in tasks") => json!({"tools": [
                {"name": "echo", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
                {"name": "research", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
            ]}),
            "tools/list" if self.grown.get() => {
                // Long enough for whoever does not wait to be too early.
                std::thread::sleep(Duration::from_millis(300));
                json!({"tools": [{"name": "grown", "inputSchema": {"type": "object"}}]})
            }
            "tools/list" => json!({"tools": [
                {"name": "echo", "title": "Echo", "description": "Says it again.", "inputSchema": {"type": "object"},
                 "annotations": {"readOnlyHint": true}},
                {"name": "do", "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}}},
            ]}),
            "tools/call" => return self.call(id, &message["params"]),
            "ping" => json!({}),
            method => {
                return Some(json!({"jsonrpc": "2.0", "id": id,
                    "error": {"code": -32601, "message": format!("no {method} here")}}));
            }
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Asks the model.
    fn sample(&self, number: u64, arguments: &Value) {
        let mut params = json!({
            "messages": [{"role": "user", "content": {"type": "text", "text": arguments["text"]}}], "maxTokens": 10,
        });
        if arguments["tools"] == true {
            params["tools"] = json!([{"name": "t", "inputSchema": {"type": "object"}}]);
        }
        let mut out = std::io::stdout();
        let _ = writeln!(
            out,
            "{}",
            json!({"jsonrpc": "2.0", "id": format!("s{number}"), "method": "sampling/createMessage", "params": params})
        );
        let _ = out.flush();
    }

    fn call(&self, id: &Value, params: &Value) -> Option<Value> {
        let mut out = std::io::stdout();
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        let token = &params["_meta"]["progressToken"];
        let result = match params["arguments"]["what"].as_str() {
            Some("crash") => {
                eprintln!("out of cheese");
                std::process::exit(9)
            }
            Some("hang") => return None,
            Some("babble") => {
                for step in 0..20_000 {
                    let told = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": step, "message": format!("step {step}")}});
                    let _ = writeln!(out, "{told}");
                }
                text("said it all".into())
            }
            Some("change") => {
                for _ in 0..1_000 {
                    let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                    let _ = writeln!(out, "{told}");
                }
                text("changed".into())
            }
            Some("grow") => {
                self.grown.set(true);
                let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                let _ = writeln!(out, "{told}");
                text("grown".into())
            }
            Some("roots") => {
                let ask = json!({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"});
                let _ = writeln!(out, "{ask}");
                let _ = out.flush();
                text(next_line().unwrap_or_default().trim().to_owned())
            }
            Some("huge") => text("x".repeat(20 << 20)),
            Some("lie") => json!(42),
            Some("refuse") => {
                return Some(
                    json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "I would rather not"}}),
                );
            }
            Some("fail") => json!({"content": [{"type": "text", "text": "it broke"}], "isError": true}),
            Some("ask") => {
                let ask = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {
                    "message": "Which colour?",
                    "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
                }});
                let _ = writeln!(out, "{ask}");
                let _ = out.flush();
                text(next_line().unwrap_or_default().trim().to_owned())
            }
            Some("visit") => {
                let ask = json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {
                    "mode": "url", "message": "Look there", "url": params["arguments"]["url"], "elicitationId": "e1",
                }});
                let _ = writeln!(out, "{ask}");
                let _ = out.flush();
                text(next_line().unwrap_or_default().trim().to_owned())
            }
            Some("sample") => {
                let times = params["arguments"]["times"].as_u64().unwrap_or(1);
                for number in 0..times {
                    self.sample(number, &params["arguments"]);
                }
                let answers = (0..times).map(|_| next_line().unwrap_or_default().trim().to_owned());
                text(answers.collect::<Vec<_>>().join("\n"))
            }
            Some("sample behind one's back") => {
                let done = json!({"jsonrpc": "2.0", "id": id, "result": text("nothing more".into())});
                let _ = writeln!(out, "{done}");
                std::thread::sleep(Duration::from_millis(100));
                self.sample(0, &params["arguments"]);
                let _ = std::fs::write(params["arguments"]["file"].as_str()?, next_line().unwrap_or_default());
                return None;
            }
            _ => text(json!({"meta": params.get("_meta"), "arguments": params.get("arguments")}).to_string()),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}
