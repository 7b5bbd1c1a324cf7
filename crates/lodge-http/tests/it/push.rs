//! Who may be told by web push, and what is kept of them.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_door::Door;
use lodge_host::{Host, PushKeys, PushSubscription};
use lodge_http::Push;

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
