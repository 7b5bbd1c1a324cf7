//! The official client crates against this host.

use std::time::Duration;

use ahp::{Client, ClientConfig, SubscriptionEvent, reducers::apply_action_to_chat};
use ahp_types::{
    StateAction,
    actions::{ChatToolCallConfirmedAction, ChatTurnStartedAction},
    commands::{CreateSessionParams, ReconnectResult},
    state::{ChatState, Message, MessageKind, MessageOrigin, ResponsePart, SnapshotState, ToolCallState, TurnState},
};
use serde_json::Value;

use crate::kit::{House, ROOT, house, uuid};

async fn connect(house: &House, name: &str) -> Client {
    let transport = ahp_ws::WebSocketTransport::connect(&house.url()).await.unwrap();
    let client = Client::connect(transport, ClientConfig::default()).await.unwrap();
    let versions = ahp_types::SUPPORTED_PROTOCOL_VERSIONS
        .iter()
        .map(|version| (*version).to_owned())
        .collect();
    let result = client
        .initialize(name.to_owned(), versions, vec![ROOT.to_owned()])
        .await
        .unwrap();
    assert_eq!(result.protocol_version, "1.0.0");
    assert!(matches!(result.snapshots[0].state, SnapshotState::Root(_)));
    client
}

fn started(turn: &str, text: &str) -> StateAction {
    StateAction::ChatTurnStarted(ChatTurnStartedAction {
        turn_id: turn.to_owned(),
        started_at: "2026-11-15T10:00:00.000Z".to_owned(),
        message: Message {
            text: text.to_owned(),
            origin: MessageOrigin {
                kind: MessageKind::User,
            },
            attachments: None,
            model: None,
            agent: None,
            meta: None,
        },
        queued_message_id: None,
        meta: None,
    })
}

async fn next(subscription: &mut ahp::SessionSubscription) -> ahp_types::ActionEnvelope {
    loop {
        let event = tokio::time::timeout(Duration::from_secs(20), subscription.recv())
            .await
            .unwrap()
            .unwrap();
        if let SubscriptionEvent::Action(envelope) = event {
            return envelope;
        }
    }
}

#[tokio::test]
async fn the_official_client_creates_converses_approves_and_comes_back() {
    let house = house().await;
    let client = connect(&house, "official").await;
    client.ping().await.unwrap();
    let session = format!("ahp-session:/{}", uuid(1));
    let params = CreateSessionParams {
        channel: session.clone(),
        meta: None,
        provider: Some("lodge".to_owned()),
        working_directories: Some(vec![lodge_ahp::uri::file(house.work())]),
        config: None,
        active_client: None,
        progress_token: Some("p".to_owned()),
    };
    client.request::<_, Value>("createSession", params).await.unwrap();
    let (result, _events) = client.subscribe(session.clone()).await.unwrap();
    let SnapshotState::Session(state) = result.snapshot.unwrap().state else {
        panic!("not a session")
    };
    let chat = state.default_chat.unwrap();
    let (result, mut events) = client.subscribe(chat.clone()).await.unwrap();
    let SnapshotState::Chat(state) = result.snapshot.unwrap().state else {
        panic!("not a chat")
    };
    let mut state: ChatState = *state;

    let script = "call bash {\"command\":\"touch official\"} then say done";
    client.dispatch(chat.clone(), started("t1", script)).await.unwrap();
    let mut last = 0;
    loop {
        let envelope = next(&mut events).await;
        assert!(envelope.server_seq > last);
        last = envelope.server_seq;
        assert!(!matches!(envelope.action, StateAction::Unknown(_)), "{envelope:?}");
        apply_action_to_chat(&mut state, &envelope.action);
        let parts = state.active_turn.iter().flat_map(|turn| &turn.response_parts);
        let mut pending = parts.filter_map(|part| match part {
            ResponsePart::ToolCall(call) => match &call.tool_call {
                ToolCallState::PendingConfirmation(pending) => Some(pending.tool_call_id.clone()),
                _ => None,
            },
            _ => None,
        });
        if let (StateAction::ChatToolCallReady(_), Some(call)) = (&envelope.action, pending.next_back()) {
            let action = ChatToolCallConfirmedAction {
                turn_id: "t1".to_owned(),
                tool_call_id: call,
                meta: None,
                approved: true,
                confirmed: None,
                reason: None,
                edited_tool_input: None,
                user_suggestion: None,
                reason_message: None,
                selected_option_id: Some("allow-once".to_owned()),
            };
            client
                .dispatch(chat.clone(), StateAction::ChatToolCallConfirmed(action))
                .await
                .unwrap();
        }
        if state.active_turn.is_none() {
            break;
        }
    }
    assert_eq!(state.turns[0].state, TurnState::Complete);
    assert!(house.work().join("official").exists());
    client.shutdown().await;

    // A new connection takes up where the old one was.
    let transport = ahp_ws::WebSocketTransport::connect(&house.url()).await.unwrap();
    let back = Client::connect(transport, ClientConfig::default()).await.unwrap();
    let result = back
        .reconnect("official".to_owned(), last as i64, vec![chat.clone()])
        .await
        .unwrap();
    let ReconnectResult::Replay(replay) = result else {
        panic!("the gap is small: {result:?}")
    };
    for envelope in &replay.actions {
        apply_action_to_chat(&mut state, &envelope.action);
    }
    let (result, _) = back.subscribe(chat).await.unwrap();
    let SnapshotState::Chat(now) = result.snapshot.unwrap().state else {
        panic!("not a chat")
    };
    assert_eq!(*now, state);
}

/// The published crate that is nearest to the seed, with the seed's handshake.
#[tokio::test]
async fn the_oldest_official_client_converses() {
    use ahp_seed::ahp_types::state::SnapshotState as SeedState;
    let house = house().await;
    let transport = seed_transport(&house.url()).await;
    let client = ahp_seed::Client::connect(transport, ahp_seed::ClientConfig::default())
        .await
        .unwrap();
    let params = serde_json::json!({ "protocolVersions": ["0.1.0"], "clientId": "oldest", "initialSubscriptions": ["agenthost:/root"] });
    let result: Value = client.request("initialize", params).await.unwrap();
    assert_eq!(result["protocolVersion"], "0.1.0");
    let session = format!("copilot:/{}", uuid(1));
    let _: Value = client
        .request("createSession", serde_json::json!({ "session": session }))
        .await
        .unwrap();
    let (result, mut events) = client.subscribe(session.clone()).await.unwrap();
    let SeedState::Session(state) = result.snapshot.state else {
        panic!("not a session")
    };
    let mut state = *state;
    let action = serde_json::json!({ "type": "session/turnStarted", "session": session, "turnId": "t1", "userMessage": { "text": "say hello" } });
    client.dispatch(serde_json::from_value(action).unwrap()).await.unwrap();
    while state.turns.is_empty() {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv())
            .await
            .unwrap()
            .unwrap();
        if let ahp_seed::SubscriptionEvent::Action(envelope) = event {
            ahp_seed::reducers::apply_action_to_session(&mut state, &envelope.action);
        }
    }
    let said = serde_json::to_value(&state.turns[0]).unwrap();
    assert_eq!(said["responseParts"][0]["content"], "hello");
}

/// The old crates have no transport of their own that builds with today's; this is the smallest one.
async fn seed_transport(url: &str) -> SeedTransport {
    let (socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    SeedTransport(socket)
}

struct SeedTransport(tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>);

impl ahp_seed::Transport for SeedTransport {
    async fn send(&mut self, message: ahp_seed::TransportMessage) -> Result<(), ahp_seed::TransportError> {
        use futures_util::SinkExt;
        let ahp_seed::TransportMessage::Text(text) = message else {
            panic!("the client sends text")
        };
        self.0
            .send(tokio_tungstenite::tungstenite::Message::Text(text.into()))
            .await
            .unwrap();
        Ok(())
    }

    async fn recv(&mut self) -> Result<Option<ahp_seed::TransportMessage>, ahp_seed::TransportError> {
        use futures_util::StreamExt;
        loop {
            match self.0.next().await {
                Some(Ok(tokio_tungstenite::tungstenite::Message::Text(text))) => {
                    return Ok(Some(ahp_seed::TransportMessage::Text(text.to_string())));
                }
                Some(Ok(_)) => {}
                _ => return Ok(None),
            }
        }
    }

    async fn close(&mut self) -> Result<(), ahp_seed::TransportError> {
        Ok(())
    }
}
