//! VS Code finds the host, and one whose protocol is too old or too new is told what to do.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::{Home, Running};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Message;

use crate::door::settle;

/// A home whose host is to be listed in VS Code's user data directory, which is returned.
fn furnished() -> (Home, PathBuf) {
    let home = Home::new();
    // `~` is the home of the person who starts the host.
    let user_data = home.work().parent().unwrap().join(".config/Code");
    std::fs::create_dir_all(&user_data).unwrap();
    std::fs::create_dir_all(home.path()).unwrap();
    std::fs::write(home.path().join("lodge.toml"), "[ahp]\nvscode = [\"~/.config/Code\"]\n").unwrap();
    (home, user_data)
}

fn start(home: &Home) -> Running {
    let mut running = home.start(["--port", "0", "--sdk-port", "0"]);
    running.line_with("Ctrl-C stops");
    running
}

/// The entries of the list that VS Code believes: those in a file that is named after them.
fn listed(user_data: &Path) -> Vec<(PathBuf, Value)> {
    let Ok(entries) = std::fs::read_dir(user_data.join("agent-host/local-endpoint/entries")) else {
        return Vec::new();
    };
    let files = entries.map(|entry| entry.unwrap().path());
    let json = files.filter(|file| file.extension().is_some_and(|end| end == "json"));
    json.map(|file| {
        let entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let word = |key: &str| entry[key].as_str().unwrap().to_owned();
        let identity = format!("{}\0{}\0{}", word("type"), entry["pid"], word("instanceId"));
        let sum = ring::digest::digest(&ring::digest::SHA256, identity.as_bytes());
        let name: String = sum.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file.file_stem().unwrap().to_str(), Some(&*name));
        (file, entry)
    })
    .collect()
}

/// Connects as VS Code does, by what an entry says, and offers these versions.
async fn initialize(entry: &Value, versions: &[&str]) -> Value {
    assert_eq!(entry["endpoint"]["type"], "socket");
    let stream = UnixStream::connect(entry["endpoint"]["path"].as_str().unwrap())
        .await
        .unwrap();
    let address = format!("ws://localhost/?tkn={}", entry["connectionToken"].as_str().unwrap());
    let (mut socket, _) = tokio_tungstenite::client_async(address, stream).await.unwrap();
    let params = json!({ "channel": "ahp-root://", "clientId": "code-cli", "protocolVersions": versions });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    socket.send(Message::text(hello.to_string())).await.unwrap();
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return serde_json::from_str(&text).unwrap();
        }
    }
}

#[tokio::test]
async fn vs_code_of_any_version_finds_the_host_and_works_or_is_told_what_to_do() {
    let (home, user_data) = furnished();
    let host = start(&home);
    let [(file, entry)] = &listed(&user_data)[..] else {
        panic!("{:?}", listed(&user_data))
    };
    assert_eq!(
        (&entry["schemaVersion"], &entry["type"]),
        (&json!(2), &json!("standalone"))
    );
    assert_eq!(
        (&entry["pid"], &entry["protocolVersion"]),
        (&json!(host.id()), &json!("1.0.0"))
    );
    // Whoever reads it learns no secret.
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert!(!entry.to_string().contains(token.trim()), "{entry}");
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(file), mode(file.parent().unwrap())), (0o600, 0o700));
    for (offered, chosen) in [
        (&["0.9.0", "0.7.0", "0.6.0", "0.5.2", "0.5.1"][..], "0.9.0"),
        (&["1.0.0", "0.9.0"], "1.0.0"),
        (&["2.0.0", "1.1.0", "1.0.0"], "1.1.0"),
    ] {
        let answer = initialize(entry, offered).await;
        assert_eq!(answer["result"]["protocolVersion"], chosen, "{answer}");
    }
    for (offered, advice) in [
        ("0.8.0", "the client offers 0.8.0. Update the client."),
        (
            "2.0.0",
            "the client offers 2.0.0. Update Lodge on this machine, or use an older client.",
        ),
    ] {
        let answer = initialize(entry, &[offered]).await;
        assert_eq!(answer["error"]["code"], -32005, "{answer}");
        assert_eq!(
            answer["error"]["data"]["supportedVersions"],
            json!(["1.0.0", "0.9.0", "0.1.0"])
        );
        assert!(
            answer["error"]["message"].as_str().unwrap().ends_with(advice),
            "{answer}"
        );
    }
}

#[test]
fn an_entry_goes_with_its_host_and_comes_back_if_somebody_deletes_it() {
    let (home, user_data) = furnished();
    let mut host = start(&home);
    let [(file, entry)] = &listed(&user_data)[..] else {
        panic!("{:?}", listed(&user_data))
    };
    std::fs::remove_file(file).unwrap();
    settle("the entry is not back", || file.exists());
    assert_eq!(&listed(&user_data)[0].1, entry);
    let _ = home.run(["serve", "--stop"]).ok();
    host.finish();
    assert_eq!(listed(&user_data), []);
    // VS Code removes the entry of a host that was killed: its process is gone.
    host = start(&home);
    host.kill();
    host.finish();
    let _host = start(&home);
    let found = listed(&user_data);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_ne!(found[0].1["pid"], found[1].1["pid"]);
}

#[test]
fn a_directory_that_is_not_there_is_named_and_keeps_no_host_from_starting() {
    let (home, user_data) = furnished();
    std::fs::remove_dir(&user_data).unwrap();
    let host = start(&home);
    let _ = home.run(["serve", "--stop"]).ok();
    let said = host.finish().stderr;
    assert!(said.contains("VS Code does not find this host"), "{said}");
    assert!(said.contains("`vscode` in [ahp] of lodge.toml"), "{said}");
    assert!(!user_data.exists());
}

#[test]
fn a_person_is_told_what_vs_code_needs() {
    let home = Home::new();
    let none = home.run(["vscode"]);
    assert!(!none.status.success(), "{none:?}");
    assert!(none.stderr.contains("lodge serve"), "{none:?}");
    let _host = start(&home);
    let said = home.run(["vscode"]).ok().lines.join("\n");
    let (from, to) = (said.find('{').unwrap(), said.find("\n}\n").unwrap());
    let settings: Value = serde_json::from_str(&said[from..to + 2]).unwrap();
    let entry = &settings["chat.remoteAgentHosts"][0];
    let token = std::fs::read_to_string(home.path().join("token")).unwrap();
    assert_eq!(entry["connectionToken"], token.trim());
    let note: Value = serde_json::from_slice(&std::fs::read(home.path().join("host.json")).unwrap()).unwrap();
    assert_eq!(note["ahp"], format!("ws://{}/", entry["address"].as_str().unwrap()));
    let socket = note["socket"].as_str().unwrap();
    assert!(said.contains(&format!("--agent-host-bridge-path {socket}")), "{said}");
}
