//! GitHub accounts: whoever signs in does so for itself.

use lodge_copilot::{ServerOptions, serve_tcp};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::client::House;

fn account(host: &str, login: &str, token: &str) -> Value {
    json!({"host": host, "login": login, "token": token})
}

#[tokio::test]
async fn an_account_belongs_to_the_app_that_signed_in_with_it_and_to_nobody_else() {
    let house = House::new();
    let options = ServerOptions {
        connection_token: Some("sesame".into()),
        github_token: Some("of-the-host".into()),
        ..ServerOptions::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_tcp(house.host.clone(), listener, options));
    let (mut one, mut two) = (house.client_of(address).await, house.client_of(address).await);
    for client in [&mut one, &mut two] {
        client.call("connect", json!({"token": "sesame"})).await;
    }
    one.call("account.login", account("https://github.com", "one", "secret-of-one"))
        .await;
    assert_eq!(
        one.call("account.getCurrentAuth", json!({})).await["authInfo"]["login"],
        "one"
    );
    assert_eq!(
        one.call("account.getAllUsers", json!({})).await[0]["token"],
        "secret-of-one"
    );
    // The other app has no account, and works with the token of the host.
    assert_eq!(two.call("account.getAllUsers", json!({})).await, json!([]));
    let current = two.call("account.getCurrentAuth", json!({})).await;
    assert_eq!(current["authInfo"]["token"], "of-the-host");
    let someone = json!({"authInfo": {"type": "user", "host": "https://github.com", "login": "one"}});
    let (_, refused) = two.fail("account.logout", someone.clone()).await;
    assert!(refused.contains("not signed in"), "{refused}");
    assert_eq!(one.call("account.logout", someone).await["hasMoreUsers"], false);
}

#[tokio::test]
async fn a_token_of_another_github_is_refused() {
    let mut client = House::new().client();
    let (_, refused) = client
        .fail("account.login", account("https://ghe.example", "me", "theirs"))
        .await;
    assert!(refused.contains("works with https://github.com"), "{refused}");
    assert_eq!(client.call("account.getAllUsers", json!({})).await, json!([]));
    for spelt in ["https://github.com/", "GitHub.com"] {
        client.call("account.login", account(spelt, "me", "mine")).await;
        let all = client.call("account.getAllUsers", json!({})).await;
        assert_eq!(
            (all.as_array().unwrap().len(), &all[0]["authInfo"]["host"]),
            (1, &json!("https://github.com"))
        );
    }
}
