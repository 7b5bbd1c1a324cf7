//! Users that may do what a host does and nothing else, by each way in which NATS knows users; and connections over TLS.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use lodge_fleet::{Access, Fleet, FleetError, Options, SyncCheck};
use nkeys::KeyPair;
use serde_json::{Value, json};
use testkit::nats::{Cluster, Settings};

use crate::kit::{self, create, event, host, open};

const ONE: Settings = Settings {
    servers: 1,
    sync_always: true,
};

/// All that a host publishes and hears.
const PUBLISH: [&str; 14] = [
    "$JS.API.STREAM.INFO.*",
    "$JS.API.STREAM.CREATE.*",
    "$JS.API.STREAM.PURGE.*",
    "$JS.API.STREAM.MSG.GET.*",
    "$JS.API.STREAM.LEADER.STEPDOWN.*",
    "$JS.API.DIRECT.GET.*",
    "$KV.lodge-hosts.*",
    "$KV.lodge-owners.*",
    "$KV.lodge-sessions.*",
    "lodge.ev.>",
    "lodge.body.>",
    "lodge.cmd.*",
    "lodge.link.>",
    "_INBOX.>",
];
const SUBSCRIBE: [&str; 4] = ["lodge.listed.*", "lodge.cmd.*", "lodge.link.>", "_INBOX.>"];

fn options(access: Access) -> Options {
    Options {
        access,
        replicas: 1,
        sync: SyncCheck::Skipped,
        ..kit::options_by(Vec::new())
    }
}

/// Does all that a host does.
async fn works(access: Access) {
    let fleet = Fleet::connect(&options(access)).await.expect("the user is let in");
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let mut requests = one.requests().await.expect("it hears what others ask");
    let answering = tokio::spawn(async move {
        let (_, asker) = requests.next().await.expect("a request");
        asker.answer(&lodge_fleet::Reply::InUse).await;
    });
    let mut writer = create(&one, "s").await;
    let large = event(&"x".repeat(2 << 20));
    writer.append(&[event("1"), large]).await.expect("it may write");
    let read = fleet.log("s").unwrap().read(lodge_fleet::Tip::START).await;
    let (events, _) = read.unwrap().events().await.expect("it may read");
    assert_eq!(events.len(), 2);
    let entry = lodge_fleet::Entry {
        host: one.id().into(),
        epoch: 1,
        deleted: false,
        about: Value::Null,
    };
    assert!(fleet.describe("s", &entry).await.expect("it may list"));
    let asked = fleet
        .ask(one.id(), &lodge_fleet::Request::Drain)
        .await
        .expect("it may ask");
    assert_eq!(asked, Some(lodge_fleet::Reply::InUse));
    answering.await.unwrap();
    one.release(writer).await.unwrap();
    let writer = open(&two, "s").await.expect("it may take over");
    writer.delete().await.expect("it may delete");
    assert!(
        fleet
            .streams()
            .await
            .expect("it may look")
            .iter()
            .all(|stream| stream.behind.is_empty())
    );
    for host in [one, two] {
        host.leave().await.unwrap();
    }
}

fn quoted(subjects: &[&str]) -> String {
    json!(subjects).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_the_subjects_that_the_docs_name_runs_a_host_and_can_do_nothing_else() {
    let users = format!(
        "accounts {{ LODGE {{ jetstream: enabled, users: [ {{ user: lodge, password: lodge, permissions: {{
           publish: {}, subscribe: {} }} }} ] }} }}",
        quoted(&PUBLISH),
        quoted(&SUBSCRIBE)
    );
    let Some(cluster) = Cluster::start_for(ONE, &users).await else {
        return;
    };
    works(Access::new(cluster.urls())).await;
    let plain = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    let client = plain.connect(cluster.urls()).await.unwrap();
    for forbidden in [
        "$JS.API.STREAM.DELETE.LODGE_EV_00",
        "$JS.API.STREAM.UPDATE.LODGE_EV_00",
        "$JS.API.CONSUMER.CREATE.LODGE_EV_00",
    ] {
        let request = async_nats::Request::new().timeout(Some(std::time::Duration::from_millis(500)));
        let answer = client.send_request(forbidden, request.payload("{}".into())).await;
        assert!(answer.is_err(), "{forbidden}: {answer:?}");
    }
}

/// The page about fleets.
fn page() -> String {
    fs::read_to_string(testkit::workspace().join("docs/fleet.md")).unwrap()
}

#[test]
fn the_page_names_the_subjects_that_a_host_needs() {
    let page = page();
    let listed = |what: &str| {
        let (_, list) = page.split_once(&format!("{what}: [")).expect("a list");
        let (list, _) = list.split_once(']').expect("its end");
        let subjects = list.split('"').skip(1).step_by(2);
        subjects.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(listed("publish"), PUBLISH);
    assert_eq!(listed("subscribe"), SUBSCRIBE);
    assert!(page.contains("publish to `$SYS.REQ.SERVER.PING.JSZ` and to subscribe to `_INBOX.>`"));
}

#[test]
fn servers_understand_the_configuration_of_the_page() {
    let Some(program) = testkit::nats::server_program() else {
        return;
    };
    let page = page();
    let mut blocks = page.split("```text").filter_map(|block| block.split_once("```"));
    let (text, _) = blocks
        .find(|(block, _)| block.contains("server_name: one"))
        .expect("a configuration");
    let (_, permissions) = page.split_once("permissions: {").expect("the permissions of a host");
    let (permissions, _) = permissions.split_once("```").unwrap();
    let dir = tempfile::tempdir().unwrap();
    let with_permissions = text.replace(
        "password: CHANGE-ME }",
        &format!("password: CHANGE-ME, permissions: {{{permissions} }}"),
    );
    assert_ne!(text, with_permissions);
    for text in [text, &with_permissions] {
        let path = dir.path().join("one.conf");
        fs::write(&path, text).unwrap();
        let checked = std::process::Command::new(&program)
            .arg("-t")
            .arg("-c")
            .arg(&path)
            .output()
            .unwrap();
        assert!(
            checked.status.success(),
            "{text}{}",
            String::from_utf8_lossy(&checked.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_the_system_account_needs_what_the_page_names_and_no_more() {
    let users = "accounts {
      LODGE { jetstream: enabled, users: [ { user: lodge, password: lodge } ] }
      $SYS { users: [ { user: system, password: system,
        permissions: { publish: \"$SYS.REQ.SERVER.PING.JSZ\", subscribe: \"_INBOX.>\" } } ] }
    }";
    let Some(cluster) = Cluster::start_for(ONE, users).await else {
        return;
    };
    let options = Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    Fleet::connect(&options).await.expect("the servers say that they sync");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_comes_with_an_nkey() {
    let (user, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!(
        "accounts {{ LODGE {{ jetstream: enabled, users: [ {{ nkey: {} }} ] }} }}",
        user.public_key()
    );
    let Some(cluster) = Cluster::start_for(ONE, &users).await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let access = |seed: &str| {
        let path = dir.path().join("seed");
        fs::write(&path, seed).unwrap();
        Access {
            credentials: Some(path),
            ..Access::new(cluster.plain_urls("nats"))
        }
    };
    works(access(&format!("{}\n", user.seed().unwrap()))).await;

    let mut strange = options(access(&stranger.seed().unwrap()));
    strange.patience = std::time::Duration::ZERO;
    let refused = Fleet::connect(&strange).await.expect_err("nobody knows it");
    assert!(matches!(refused, FleetError::Connect { .. }), "{refused}");
    strange.access = access("nothing of use");
    let refused = Fleet::connect(&strange).await.expect_err("there is no seed");
    assert!(matches!(refused, FleetError::Credentials { .. }), "{refused}");
    assert!(refused.to_string().contains("seed"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_that_were_replaced_are_used_without_a_new_start() {
    let (old, new) = (KeyPair::new_user(), KeyPair::new_user());
    let users = |user: &KeyPair| {
        format!(
            "accounts {{ LODGE {{ jetstream: enabled, users: [ {{ nkey: {} }} ] }} }}",
            user.public_key()
        )
    };
    let Some(mut cluster) = Cluster::start_for(ONE, &users(&old)).await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seed");
    fs::write(&path, old.seed().unwrap()).unwrap();
    let access = Access {
        credentials: Some(path.clone()),
        ..Access::new(cluster.plain_urls("nats"))
    };
    let fleet = Fleet::connect(&options(access)).await.unwrap();
    fs::write(&path, new.seed().unwrap()).unwrap();
    cluster.restart_for(0, &users(&new)).await;
    host(&fleet, "one").await;
}

/// A claim that a key signed, as NATS has it.
fn jwt(issuer: &KeyPair, subject: &KeyPair, about: Value) -> String {
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let claims = json!({ "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(),
        "name": "test", "sub": subject.public_key(), "nats": about });
    let text = format!(
        "{}.{}",
        part(json!({ "typ": "JWT", "alg": "ed25519-nkey" })),
        part(claims)
    );
    let signature = URL_SAFE_NO_PAD.encode(issuer.sign(text.as_bytes()).unwrap());
    format!("{text}.{signature}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_comes_with_a_credentials_file() {
    let (operator, account, user) = (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_user());
    let system = KeyPair::new_account();
    let limits = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1 });
    let plain = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
        "leaf": -1 });
    let account_of = |limits: &Value| json!({ "limits": limits, "type": "account", "version": 2 });
    let users = format!(
        "operator: {}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{ {}: {}, {}: {} }}",
        jwt(&operator, &operator, json!({ "type": "operator", "version": 2 })),
        system.public_key(),
        account.public_key(),
        jwt(&operator, &account, account_of(&limits)),
        system.public_key(),
        jwt(&operator, &system, account_of(&plain)),
    );
    let Some(cluster) = Cluster::start_for(ONE, &users).await else {
        return;
    };
    let about = json!({ "pub": { "allow": PUBLISH }, "sub": { "allow": SUBSCRIBE }, "subs": -1, "data": -1, "payload": -1,
        "type": "user", "version": 2 });
    let text = format!(
        "-----BEGIN NATS USER JWT-----\n{}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        jwt(&account, &user, about),
        user.seed().unwrap()
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("host.creds");
    fs::write(&path, text).unwrap();
    works(Access {
        credentials: Some(path),
        ..Access::new(cluster.plain_urls("nats"))
    })
    .await;
}

/// An authority, and certificates that it signed for a server and for a host.
fn certificates(dir: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    fs::write(dir.join("ca.pem"), authority.pem()).unwrap();
    for name in ["server", "host"] {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["127.0.0.1".into(), name.into()]).unwrap();
        let certificate = certificate.signed_by(&key, &authority).unwrap();
        fs::write(dir.join(format!("{name}.pem")), certificate.pem()).unwrap();
        fs::write(dir.join(format!("{name}-key.pem")), key.serialize_pem()).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_comes_over_tls_with_a_certificate_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    certificates(dir.path());
    let users = format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}
         accounts {{ LODGE {{ jetstream: enabled, users: [ {{ user: lodge, password: lodge }} ] }} }}",
        file("server.pem"),
        file("server-key.pem"),
        file("ca.pem")
    );
    let Some(cluster) = Cluster::start_for(ONE, &users).await else {
        return;
    };
    let urls = cluster.urls().into_iter().map(|url| url.replace("nats://", "tls://"));
    let access = Access {
        authorities: Some(file("ca.pem")),
        certificate: Some((file("host.pem"), file("host-key.pem"))),
        ..Access::new(urls)
    };
    works(access.clone()).await;

    // Neither a server that nobody vouches for, nor a host without a certificate.
    for missing in [
        Access {
            authorities: None,
            ..access.clone()
        },
        Access {
            certificate: None,
            ..access
        },
    ] {
        let mut options = options(missing);
        options.patience = std::time::Duration::ZERO;
        let refused = Fleet::connect(&options)
            .await
            .expect_err("they do not trust each other");
        assert!(matches!(refused, FleetError::Connect { .. }), "{refused}");
    }
}
