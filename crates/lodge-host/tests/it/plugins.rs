//! Plugins that the user installed, and the marketplaces that they come from.

use std::{fs, path::Path, process::Command};

use lodge_host::{Clock, NewSession, PluginError};
use serde_json::json;

use crate::kit::{host_after, house};

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill(root: &Path, name: &str) {
    let text = format!("---\nname: {name}\ndescription: Greets\n---\nSay hello.\n");
    write(&root.join("skills").join(name).join("SKILL.md"), &text);
}

/// A marketplace with one plugin of this version.
fn marketplace(root: &Path, version: &str) {
    let plugins = json!([
        {"name": "pack", "source": "./pack", "description": "Packs", "version": version},
        {"name": "escape", "source": "../outside"},
    ]);
    let list = json!({"name": "market", "owner": {"name": "me"}, "plugins": plugins});
    write(&root.join(".claude-plugin/marketplace.json"), &list.to_string());
    skill(&root.join("pack"), "greet");
}

fn git(directory: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(directory)
        .args([
            "-c",
            "user.name=me",
            "-c",
            "user.email=me@example.com",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn new_sessions_have_the_plugins_that_are_installed_and_on_also_after_a_restart() {
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    marketplace(dir.path(), "1.0.0");
    let plugins = house.host.plugins().clone();
    assert_eq!(plugins.add_marketplace(".", dir.path()).unwrap(), "market");
    let offered: Vec<String> = plugins
        .browse("market")
        .unwrap()
        .into_iter()
        .map(|offer| offer.name)
        .collect();
    assert_eq!(offered, ["pack", "escape"]);
    let done = plugins.install("pack@market", dir.path()).unwrap();
    assert_eq!((done.skills, done.plugin.version.as_deref()), (1, Some("1.0.0")));

    let names = async |host: &lodge_host::Host| -> Vec<String> {
        let session = host.create(NewSession::default()).await.unwrap();
        let found = session.settings().customization;
        found.installed_plugins.into_iter().map(|plugin| plugin.name).collect()
    };
    assert_eq!(names(&house.host).await, ["pack"]);
    plugins.set_enabled(&["pack@market".to_owned()], false).unwrap();
    assert!(names(&house.host).await.is_empty());
    plugins.set_enabled(&["pack".to_owned()], true).unwrap();

    // What is installed is a copy: it changes when it is updated, and not before.
    marketplace(dir.path(), "2.0.0");
    skill(&dir.path().join("pack"), "second");
    let updated = plugins.update("pack").unwrap();
    assert_eq!((updated.previous.as_deref(), updated.skills), (Some("1.0.0"), 2));
    assert_eq!(updated.plugin.version.as_deref(), Some("2.0.0"));

    house.host.shutdown().await;
    drop((plugins, house.host));
    let host = host_after(&house.dir.path().join("home"), &Clock::default()).await;
    assert_eq!(names(&host).await, ["pack"]);
    let plugins = host.plugins();
    let left = plugins.remove_marketplace("market", false).unwrap();
    assert_eq!(left.len(), 1, "a marketplace stays while something of it is installed");
    assert!(plugins.remove_marketplace("market", true).unwrap().is_empty());
    assert!(plugins.list().is_empty());
    assert!(plugins.marketplaces().iter().all(|known| known.built_in));
}

#[tokio::test]
async fn a_plugin_comes_from_a_repository_at_the_version_that_was_named() {
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("repo");
    write(
        &repository.join("sub/plugin.json"),
        r#"{"name": "told", "version": "1"}"#,
    );
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "one"]);
    git(&repository, &["tag", "v1"]);
    write(&repository.join("plugin.json"), r#"{"name": "told", "version": "2"}"#);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "-m", "two"]);

    let plugins = house.host.plugins();
    let url = format!("file://{}", repository.display());
    assert_eq!(
        plugins.install(&url, dir.path()).unwrap().plugin.version.as_deref(),
        Some("2")
    );
    // At the first version the plugin is not at the top.
    let old = plugins.install(&format!("{url}#v1"), dir.path());
    assert!(matches!(old, Err(PluginError::Plugin(_))), "{old:?}");

    let entry = json!({"name": "old", "source": {"source": "url", "url": url, "ref": "v1", "path": "sub"}});
    let list = json!({"name": "market", "plugins": [entry]});
    write(&dir.path().join("market/marketplace.json"), &list.to_string());
    plugins.add_marketplace("./market", dir.path()).unwrap();
    let old = plugins.install("old@market", dir.path()).unwrap();
    assert_eq!(old.plugin.version.as_deref(), Some("1"));
    // Two are installed; the one without a marketplace is told by where it comes from.
    let direct = plugins.list().into_iter().find_map(|plugin| plugin.direct_source_id());
    plugins.uninstall("told", direct.as_deref()).unwrap();
    assert_eq!(plugins.list().len(), 1);
}

#[tokio::test]
async fn nothing_outside_of_a_plugin_is_copied_and_bad_sources_are_refused() {
    let house = house();
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("outside/plugin.json"), "{}");
    write(&dir.path().join("secret"), "secret");
    let market = dir.path().join("market");
    marketplace(&market, "1");
    let pack = market.join("pack");
    std::os::unix::fs::symlink(dir.path().join("secret"), pack.join("leak")).unwrap();
    std::os::unix::fs::symlink(&pack, pack.join("circle")).unwrap();
    let plugins = house.host.plugins();
    plugins.add_marketplace("./market", dir.path()).unwrap();
    let circle = plugins.install("pack@market", dir.path());
    assert!(matches!(circle, Err(PluginError::TooLarge)), "{circle:?}");
    fs::remove_file(pack.join("circle")).unwrap();
    let done = plugins.install("pack@market", dir.path()).unwrap();
    assert!(!plugins.directory(&done.plugin).join("leak").exists());

    let escape = plugins.install("escape@market", dir.path());
    assert!(matches!(escape, Err(PluginError::Outside(_))), "{escape:?}");
    for wrong in ["", "nothing", "./nowhere", "pack@unknown", "none@market", "./market"] {
        assert!(plugins.install(wrong, dir.path()).is_err(), "{wrong}");
    }
    assert!(plugins.add_marketplace("./outside", dir.path()).is_err());
    assert!(plugins.remove_marketplace("awesome-copilot", true).is_err());
    assert_eq!(plugins.list().len(), 1);
    // Failed attempts leave nothing behind.
    let left: Vec<_> = fs::read_dir(house.dir.path().join("home/installed-plugins"))
        .unwrap()
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
