//! What hosts believe of sessions that is not so any more, and what was left half done.

use serde_json::json;
use testkit::nats::Cluster;

use super::elsewhere::start;
use crate::accepted::Client;

#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_another_host_is_not_taken_for_one_of_this() {
    let Some(cluster) = Cluster::start().await else { return };
    let (one, two) = (start(&cluster, "one"), start(&cluster, "two"));
    let root = "ahp-root://";
    let hello = json!({ "channel": root, "protocolVersions": ["1.0.0"], "clientId": "me",
        "initialSubscriptions": [root] });
    let mut seen = Vec::new();
    for host in [&one, &two] {
        let mut client = Client::connect_raw(&host.ahp_url()).await;
        seen.push(
            client.request("initialize", hello.clone()).await["serverSeq"]
                .as_u64()
                .unwrap(),
        );
    }
    // It was with the second host last, and knows what that said up to there.
    for (number, kind) in [(seen[0], "snapshot"), (seen[1], "replay")] {
        let mut client = Client::connect_raw(&two.ahp_url()).await;
        let back = json!({ "channel": root, "clientId": "me", "lastSeenServerSeq": number, "subscriptions": [root] });
        assert_eq!(client.request("reconnect", back).await["type"], kind);
    }
}
