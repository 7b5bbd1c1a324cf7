//! Lodge behind the Copilot SDK for Rust: five small things an app does.
//!
//! ```sh
//! LODGE_BIN=/path/to/lodge cargo run
//! ```
//!
//! No key and no network are needed: the prompts below are for the built-in rehearsal model, which does what it is told
//! in plain words (docs/rehearsal.md). With a real model, ask in your own words.

use std::{
    collections::HashSet,
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use github_copilot_sdk::{
    Client, ClientOptions, Error, Transport,
    handler::{ApproveAllHandler, PermissionHandler, PermissionResult},
    session::Session,
    tool::ToolHandler,
    types::{
        PermissionRequestData, RequestId, ResumeSessionConfig, SessionConfig, SessionId, Tool, ToolInvocation, ToolResult,
    },
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn approving() -> SessionConfig {
    SessionConfig::default().with_permission_handler(Arc::new(ApproveAllHandler))
}

async fn send(session: &Session, prompt: &str) -> Outcome<String> {
    let answer = session.send_and_wait(prompt).await?.ok_or("no answer")?;
    Ok(answer.data["content"].as_str().unwrap_or_default().to_owned())
}

async fn stream_an_answer(client: &Client) -> Outcome {
    let session = client.create_session(approving().with_streaming(true)).await?;
    let mut events = session.subscribe();
    let text = tokio::spawn(async move {
        let mut text = String::new();
        while let Ok(event) = events.recv().await {
            match event.event_type.as_str() {
                "assistant.message_delta" => text += event.data["deltaContent"].as_str().unwrap_or_default(),
                "session.idle" => break,
                _ => {}
            }
        }
        text
    });
    send(&session, "say streamed word by word").await?;
    println!("stream: {}", text.await?);
    Ok(())
}

struct Weather;

#[async_trait]
impl ToolHandler for Weather {
    async fn call(&self, call: ToolInvocation) -> Result<ToolResult, Error> {
        let city = call.arguments["city"].as_str().unwrap_or("nowhere");
        Ok(ToolResult::Text(format!("21 degrees in {city}")))
    }
}

async fn call_our_tool(client: &Client) -> Outcome {
    let weather = Tool::new("weather")
        .with_description("The weather in a city")
        .with_parameters(json!({"type": "object", "properties": {"city": {"type": "string"}}}))
        .with_handler(Arc::new(Weather));
    let session = client.create_session(approving().with_tools([weather])).await?;
    println!("tool: {}", send(&session, r#"call weather {"city":"Oslo"}"#).await?);
    Ok(())
}

struct Ask;

#[async_trait]
impl PermissionHandler for Ask {
    async fn handle(&self, _: SessionId, _: RequestId, data: PermissionRequestData) -> PermissionResult {
        let command = data.extra["permissionRequest"]["fullCommandText"].as_str().unwrap_or_default();
        println!("permission: may it run `{command}`? yes");
        PermissionResult::approve_once()
    }
}

async fn ask_for_permission(client: &Client) -> Outcome {
    let session = client.create_session(SessionConfig::default().with_permission_handler(Arc::new(Ask))).await?;
    let answer = send(&session, r#"call bash {"command":"touch made && echo allowed"}"#).await?;
    println!("permission: {answer}");
    Ok(())
}

fn lodge() -> PathBuf {
    std::env::var_os("LODGE_BIN").unwrap_or_else(|| "lodge".into()).into()
}

/// A host of its own, which any number of clients can reach by its address.
async fn start_host(home: &std::path::Path) -> Outcome<(Child, u16)> {
    let mut host = Command::new(lodge())
        .args(["--headless", "--port", "0"])
        .env("COPILOT_HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(host.stdout.take().ok_or("no output")?).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some((_, port)) = line.split_once("listening on port ") {
            return Ok((host, port.trim().parse()?));
        }
    }
    Err("the host did not start".into())
}

async fn connect(port: u16) -> Outcome<Client> {
    let transport = Transport::External { host: "127.0.0.1".into(), port, connection_token: None };
    Ok(Client::start(ClientOptions::default().with_program(lodge()).with_transport(transport)).await?)
}

fn resuming(session: &Session) -> ResumeSessionConfig {
    ResumeSessionConfig::new(session.id().clone()).with_permission_handler(Arc::new(ApproveAllHandler))
}

async fn kill_the_host_and_resume(home: &std::path::Path) -> Outcome {
    let (mut host, port) = start_host(home).await?;
    let client = connect(port).await?;
    let session = client.create_session(approving().with_streaming(true)).await?;
    let mut events = session.subscribe();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (mid_turn, reached) = tokio::sync::oneshot::channel();
    let watching = tokio::spawn({
        let seen = seen.clone();
        async move {
            let mut mid_turn = Some(mid_turn);
            while let Ok(event) = events.recv().await {
                if event.ephemeral != Some(true) {
                    seen.lock().expect("nobody panics here").push(event.id.clone());
                }
                if event.event_type == "assistant.message_delta"
                    && let Some(mid_turn) = mid_turn.take()
                {
                    let _ = mid_turn.send(());
                }
            }
        }
    });
    session.send(r#"call bash {"command":"echo hello"} then slowly 2 ms, stream 2000 chunks"#).await?;
    reached.await?;
    host.kill().await?;
    client.force_stop();
    watching.abort();

    let (_host, port) = start_host(home).await?;
    let client = connect(port).await?;
    let resumed = client.resume_session(resuming(&session)).await?;
    let kept: HashSet<String> = resumed.get_events().await?.into_iter().map(|event| event.id).collect();
    let lost = seen.lock().expect("nobody panics here").iter().filter(|id| !kept.contains(*id)).count();
    println!("resume: {lost} events lost; {}", send(&resumed, "say and on it goes").await?);
    Ok(())
}

async fn two_clients(home: &std::path::Path) -> Outcome {
    let (_host, port) = start_host(home).await?;
    let (one, two) = (connect(port).await?, connect(port).await?);
    let mine = one.create_session(approving()).await?;
    let yours = two.resume_session(resuming(&mine)).await?;
    let mut events = yours.subscribe();
    let heard = tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            if event.event_type == "assistant.message" {
                return event.data["content"].as_str().unwrap_or_default().to_owned();
            }
        }
        String::new()
    });
    send(&mine, "say hello to both of you").await?;
    println!("two clients: the other one heard \"{}\"", heard.await?);
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let home = tempfile::tempdir()?;
    let options = ClientOptions::default().with_program(lodge()).with_base_directory(home.path());
    let client = Client::start(options).await?;
    stream_an_answer(&client).await?;
    call_our_tool(&client).await?;
    ask_for_permission(&client).await?;
    client.stop().await?;
    kill_the_host_and_resume(home.path()).await?;
    two_clients(home.path()).await
}
