//! An instant model: a server on loopback that speaks OpenAI's chat completions and does what the prompt says.
//!
//! `bench:say`, `bench:deltas=N`, `bench:paced=N` (a delta each millisecond, its content the time it was sent),
//! `bench:tools=N` (N calls of the tool `probe`, one after the other), `bench:stall` (100 deltas, then nothing).

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::LazyLock,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::Value;

/// The beginning of time, for what is sent as content of paced deltas.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Nanoseconds since the beginning of time.
pub(super) fn now() -> u64 {
    START.elapsed().as_nanos() as u64
}

/// Starts the server; it lives as long as the process. Returns its base URL.
pub(super) fn start() -> Result<String> {
    now();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // A client that goes away in the middle of an answer is part of the measurement.
                let _ = serve(stream);
            });
        }
    });
    Ok(url)
}

fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        if first.starts_with("POST") {
            answer(&mut stream, &serde_json::from_slice(&body)?)?;
        } else {
            stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
        }
    }
}

fn answer(stream: &mut TcpStream, body: &Value) -> Result<()> {
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let from = messages
        .iter()
        .rposition(|message| message["role"] == "user")
        .unwrap_or(0);
    let results = messages[from..]
        .iter()
        .filter(|message| message["role"] == "tool")
        .count();
    let prompt = messages
        .get(from)
        .map(|message| message["content"].to_string())
        .unwrap_or_default();
    let command = prompt.rfind("bench:").map_or("", |at| &prompt[at + "bench:".len()..]);
    let command = command
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '='))
        .next()
        .unwrap_or_default();
    let (name, count) = command.split_once('=').unwrap_or((command, "1"));
    let count: usize = count.parse().unwrap_or(1);
    if body["stream"] != true {
        let text = r#"{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}"#;
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            text.len()
        );
        return Ok(stream.write_all(format!("{head}{text}").as_bytes())?);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    match name {
        "tools" if results < count => {
            let call = format!(
                r#"{{"tool_calls":[{{"index":0,"id":"call_{results}","type":"function","function":{{"name":"probe","arguments":"{{}}"}}}}]}}"#
            );
            send(stream, &format!("{}{}", delta(&call, "null"), end("tool_calls")))
        }
        "paced" => {
            for _ in 0..count {
                std::thread::sleep(Duration::from_millis(1));
                send(stream, &text(&format!("{} ", now())))?;
            }
            send(stream, &end("stop"))
        }
        "stall" => {
            for n in 1..=100 {
                send(stream, &text(&format!("{n} ")))?;
            }
            std::thread::sleep(Duration::from_secs(20));
            Ok(())
        }
        "deltas" => {
            let mut batch = String::new();
            for n in 1..=count {
                batch.push_str(&text(&format!("{n} ")));
                if batch.len() > 16 << 10 {
                    send(stream, &batch)?;
                    batch.clear();
                }
            }
            send(stream, &format!("{batch}{}", end("stop")))
        }
        _ => send(stream, &format!("{}{}", text("ok"), end("stop"))),
    }?;
    Ok(stream.write_all(b"0\r\n\r\n")?)
}

fn text(content: &str) -> String {
    delta(&format!(r#"{{"content":"{content}"}}"#), "null")
}

fn delta(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}

fn end(finish: &str) -> String {
    let usage = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9,\"total_tokens\":18}}\n\n";
    format!("{}{usage}data: [DONE]\n\n", delta("{}", &format!("\"{finish}\"")))
}

/// One chunk of the HTTP answer.
fn send(stream: &mut TcpStream, text: &str) -> Result<()> {
    Ok(stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())?)
}
