//! Who may be told by web push, and what is kept of them.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_door::{Door, Role};
use lodge_host::{Host, PushKeys, PushSubscription};
use lodge_http::{Outcome, Push};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
};

use crate::host;

fn push(host: &Host) -> Push {
    Push::new(host.push_subscriptions().clone(), Arc::new(Door::with_token("t")))
}

fn keys(p256dh: usize, auth: usize) -> PushKeys {
    PushKeys {
        p256dh: URL_SAFE_NO_PAD.encode(vec![4; p256dh]),
        auth: URL_SAFE_NO_PAD.encode(vec![1; auth]),
    }
}

#[tokio::test]
async fn a_subscription_is_for_a_secure_place_and_has_whole_keys() {
    let home = tempfile::tempdir().unwrap();
    let host = host(home.path());
    let push = push(&host);
    let check = |endpoint: &str, keys: PushKeys, trusted: bool, fine: bool| {
        let endpoint = endpoint.to_owned();
        let made = push.subscribe("d", PushSubscription { endpoint, keys }, trusted);
        assert_eq!(made.is_ok(), fine, "{made:?}");
    };
    check("https://push.example/x", keys(65, 16), false, true);
    check("http://127.0.0.1:9/x", keys(65, 16), true, true);
    check("http://127.0.0.1:9/x", keys(65, 16), false, false);
    check("http://127.0.0.1.evil.example/x", keys(65, 16), true, false);
    check("http://127.0.0.1:9@evil.example/x", keys(65, 16), true, false);
    check("http://push.example/x", keys(65, 16), true, false);
    check("file:///etc/passwd", keys(65, 16), true, false);
    check("", keys(65, 16), true, false);
    let long = format!("https://push.example/{}", "x".repeat(3000));
    check(&long, keys(65, 16), true, false);
    check("https://push.example/x", keys(64, 16), true, false);
    check("https://push.example/x", keys(65, 15), true, false);
}

#[tokio::test]
async fn the_key_stays_over_a_restart_and_so_do_those_who_subscribed() {
    let home = tempfile::tempdir().unwrap();
    let first = host(home.path());
    let key = push(&first).public_key().unwrap();
    let wanted = PushSubscription {
        endpoint: "https://push.example/x".into(),
        keys: keys(65, 16),
    };
    push(&first).subscribe("d", wanted.clone(), false).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let registers = "registers.jsonl";
    std::fs::copy(home.path().join(registers), copy.path().join(registers)).unwrap();
    let second = host(copy.path());
    assert_eq!(push(&second).public_key().unwrap(), key);
    assert_eq!(second.push_subscriptions().all(), [("d".to_owned(), wanted)]);
    assert!(!home.path().join("ahp/push.json").exists());
}

/// The generator of the curve: a public key as good as any.
const POINT: &str = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
                     4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

/// A push service of this machine.
async fn service() -> (TcpListener, PushSubscription) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/x", listener.local_addr().unwrap());
    let digits = POINT.as_bytes().chunks(2);
    let point: Vec<u8> = digits
        .map(|digits| u8::from_str_radix(str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect();
    let keys = PushKeys {
        p256dh: URL_SAFE_NO_PAD.encode(point),
        ..keys(65, 16)
    };
    (listener, PushSubscription { endpoint, keys })
}

#[tokio::test]
async fn a_push_service_that_hangs_keeps_nobody_from_hearing_of_other_sessions() {
    let home = tempfile::tempdir().unwrap();
    let host = host(home.path());
    let door = Arc::new(Door::open(home.path()).unwrap());
    let push = Arc::new(Push::new(host.push_subscriptions().clone(), door.clone()));
    push.public_key().unwrap();
    let (hanging, first) = service().await;
    let (answering, second) = service().await;
    for wanted in [first, second] {
        let ticket = door.ticket(Role::Full, None).unwrap();
        let device = door.pair(&ticket.text, None).unwrap().device;
        push.subscribe(&device.id, wanted, true).unwrap();
    }
    let (outcomes, heard) = mpsc::unbounded_channel();
    tokio::spawn(push.tell_all(heard));
    outcomes.send(("one".into(), Outcome::Waiting)).unwrap();
    let (mut asked, _) = hanging.accept().await.unwrap();
    asked.read_exact(&mut [0; 4]).await.unwrap();
    outcomes.send(("two".into(), Outcome::Done)).unwrap();
    for _ in ["one", "two"] {
        let (mut told, _) = answering.accept().await.unwrap();
        told.read_exact(&mut [0; 4]).await.unwrap();
        told.write_all(b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
    }
    // The first still waits for an answer: nobody gave it up in the meantime.
    let mut rest = vec![0; 64 << 10];
    while let Ok(read) = asked.try_read(&mut rest) {
        assert_ne!(read, 0, "its connection was closed");
    }
}
