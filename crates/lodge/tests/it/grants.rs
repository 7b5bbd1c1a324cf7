//! `lodge grants`: what clients were allowed to reach, seen and taken back by a person at a terminal.

use lodge_files::{Grant, Grants};
use testkit::Home;

#[test]
fn grants_are_listed_allowed_and_taken_back() {
    let home = Home::new();
    assert!(home.run(["grants"]).ok().stdout().contains("No grants"));
    let grants = Grants::of_home(&home.path());
    let asked = Grant {
        client: "phone".into(),
        uri: "file:///srv/wool".into(),
        read: true,
        write: true,
        allowed: false,
        lasting: false,
    };
    let id = grants.put(&asked).unwrap();
    let listed = |state: &str| {
        let listed = home.run(["grants", "list"]).ok().stdout();
        let words: Vec<&str> = listed.split_whitespace().collect();
        assert_eq!(words[0], id, "{listed}");
        assert!(
            listed.contains(state) && listed.contains("file:///srv/wool") && listed.contains("phone"),
            "{listed}"
        );
    };
    listed("asked");
    // The beginning of an id will do.
    let allowed = home.run(["grants", "allow", &id[..4]]).ok();
    assert_eq!(
        allowed.stdout().trim(),
        "Allowed until the host stops: file:///srv/wool for phone."
    );
    listed("until stop");
    let _ = home.run(["grants", "allow", &id, "--always"]).ok();
    listed("always");
    let revoked = home.run(["grants", "revoke", &id[..4]]).ok();
    assert_eq!(revoked.stdout().trim(), "Revoked: file:///srv/wool for phone.");
    assert_eq!(grants.list(), []);
    for command in ["allow", "revoke"] {
        for id in [id.as_str(), "../seq", ""] {
            let refused = home.run(["grants", command, id]);
            assert!(!refused.status.success(), "{command} {id:?}: {refused:#?}");
        }
    }
}
