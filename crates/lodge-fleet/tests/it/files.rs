//! What a session keeps beside its log, in the homes of several hosts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use futures_util::StreamExt as _;
use lodge_fleet::{Fleet, FleetError, MovingFiles, Options, SessionFiles, Writer};
use testkit::nats::{Cluster, Settings};

use crate::{
    copies::Place,
    kit::{self, MOVING, host, host_of, listed},
};

async fn fleet() -> Option<(Cluster, Fleet)> {
    let settings = Settings {
        servers: 1,
        sync_always: true,
    };
    let cluster = Cluster::start_with(settings).await?;
    let options = Options {
        replicas: 1,
        ..kit::options(&cluster)
    };
    let fleet = Fleet::connect(&options).await.unwrap();
    Some((cluster, fleet))
}

fn dir(place: &Place) -> PathBuf {
    place.dir.path().join("session-state/s")
}

fn put(place: &Place, path: &str, contents: &[u8]) {
    let file = dir(place).join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, contents).unwrap();
}

fn get(place: &Place, path: &str) -> Option<Vec<u8>> {
    fs::read(dir(place).join(path)).ok()
}

async fn take(host: &lodge_fleet::Host, place: &Place) -> (Writer, SessionFiles) {
    let taken = host.open_with_copy("s", place.files(), MOVING).await;
    taken.unwrap_or_else(|error| panic!("the session cannot be taken: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_move_with_their_session_and_nothing_stays_that_was_removed() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let (here, there) = (Place::new(), Place::new());
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    here.write("s", &["1"]);
    put(&here, "plan.md", b"first");
    put(&here, "files/large", &large);
    put(&here, "files/deep/same", b"first");
    put(&here, "files/empty", b"");
    let (mut writer, mut files) = take(&one, &here).await;
    files.sync(&mut writer, true).await.unwrap();

    // Replaced, removed, and one that is only read later.
    put(&here, "plan.md", b"second");
    fs::remove_file(dir(&here).join("files/deep/same")).unwrap();
    put(&here, "files/new", b"new");
    files.sync(&mut writer, false).await.unwrap();
    one.release(writer).await.unwrap();
    put(&there, "files/of-another-time", b"old");
    let (mut writer, mut files) = take(&two, &there).await;
    assert_eq!(there.read("s"), ["1"]);
    let mut names: Vec<String> = listed(&dir(&there)).into_keys().collect();
    names.sort();
    assert_eq!(names, ["files/empty", "files/large", "files/new", "plan.md"]);
    assert_eq!(get(&there, "plan.md").unwrap(), b"second");
    assert!(get(&there, "files/large").unwrap() == large);
    assert_eq!(get(&there, "files/empty").unwrap(), b"");

    // And back, over what the first host still has.
    put(&there, "plan.md", b"third");
    fs::remove_file(dir(&there).join("files/large")).unwrap();
    files.sync(&mut writer, true).await.unwrap();
    two.release(writer).await.unwrap();
    let (writer, _) = take(&one, &here).await;
    assert_eq!(get(&here, "plan.md").unwrap(), b"third");
    assert_eq!(get(&here, "files/large"), None);
    writer.delete().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_lost_the_session_changes_no_file_and_one_that_had_it_last_keeps_its_own() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let (here, there) = (Place::new(), Place::new());
    here.write("s", &["1"]);
    put(&here, "plan.md", b"first");
    let (mut writer, mut files) = take(&one, &here).await;
    files.sync(&mut writer, false).await.unwrap();

    // It goes down before its last words are in the fleet, comes back, and still has them.
    put(&here, "plan.md", b"second");
    one.leave().await.unwrap();
    let again = host(&fleet, "one").await;
    let (mut second, mut kept) = take(&again, &here).await;
    assert_eq!(get(&here, "plan.md").unwrap(), b"second");
    kept.sync(&mut second, false).await.unwrap();

    // What the process before it sends now changes nothing.
    put(&here, "plan.md", b"stale");
    let refused = files.sync(&mut writer, false).await.expect_err("it is not the owner");
    assert!(matches!(refused, FleetError::Fenced { .. }), "{refused}");
    again.release(second).await.unwrap();
    take(&two, &there).await;
    assert_eq!(get(&there, "plan.md").unwrap(), b"second");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_another_home_count_also_when_its_host_has_the_same_name() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let (here, there) = (Place::new(), Place::new());
    here.write("s", &["1"]);
    // The machine that has the name is replaced by another, and comes back.
    for (place, home, plan) in [(&here, "first", "first"), (&there, "second", "second")] {
        let host = host_of(&fleet, "one", home).await;
        let (mut writer, mut files) = take(&host, place).await;
        put(place, "plan.md", plan.as_bytes());
        files.sync(&mut writer, true).await.unwrap();
        host.release(writer).await.unwrap();
        host.leave().await.unwrap();
    }
    let first = host_of(&fleet, "one", "first").await;
    take(&first, &here).await;
    assert_eq!(get(&here, "plan.md").unwrap(), b"second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_exported_to_a_plain_home_while_it_is_in_use() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let one = host(&fleet, "one").await;
    let (here, plain) = (Place::new(), Place::new());
    here.write("s", &["1", "2"]);
    put(&here, "plan.md", b"a plan");
    let (mut writer, mut files) = take(&one, &here).await;
    files.sync(&mut writer, true).await.unwrap();
    assert_eq!(fleet.export("s", plain.files(), MOVING).await.unwrap(), 2);
    assert_eq!(plain.read("s"), ["1", "2"]);
    assert_eq!(get(&plain, "plan.md").unwrap(), b"a plan");
    let refused = fleet.export("s", plain.files(), MOVING).await.expect_err("it is there");
    assert!(
        matches!(refused, FleetError::Copy(lodge_log::LogError::Exists { .. })),
        "{refused}"
    );
    one.release(writer).await.expect("it was never asked for");
}

/// A file that takes no room, and that is too long to be stored.
fn put_huge(place: &Place, path: &str) {
    put(place, path, b"");
    let file = fs::File::options().write(true).open(dir(place).join(path)).unwrap();
    file.set_len((64 << 20) + 1).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_stored_once_and_those_that_are_too_long_stay_where_they_are() {
    let Some((cluster, fleet)) = fleet().await else { return };
    let control = async_nats::ConnectOptions::with_user_and_password("lodge".into(), "lodge".into());
    let control = control.connect(cluster.urls()).await.unwrap();
    let mut bodies = control.subscribe("lodge.body.>").await.unwrap();
    control.flush().await.unwrap();
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let (here, there) = (Place::new(), Place::new());
    here.write("s", &["1"]);
    put(&here, "files/large", &vec![b'x'; 1_500_000]);
    put_huge(&here, "files/huge");
    put(&here, "files/grown", b"small");
    let (mut writer, mut files) = take(&one, &here).await;
    files.sync(&mut writer, false).await.unwrap();
    files.sync(&mut writer, true).await.unwrap();
    put_huge(&here, "files/grown");
    files.sync(&mut writer, true).await.unwrap();

    // The small one, and the parts of the large one.
    let mut stored = Vec::new();
    for _ in 0..4 {
        stored.push(bodies.next().await.unwrap().payload.len());
    }
    stored.sort_unstable();
    assert_eq!(stored[0], "small".len());
    assert_eq!(stored[1..].iter().sum::<usize>(), 1_500_000);
    control.publish("lodge.body.end", "".into()).await.unwrap();
    assert_eq!(bodies.next().await.unwrap().subject.as_str(), "lodge.body.end");

    // What is too long is nowhere else, and still there when the session comes back.
    one.release(writer).await.unwrap();
    let (mut writer, mut files) = take(&two, &there).await;
    assert_eq!(listed(&dir(&there)).into_keys().collect::<Vec<_>>(), ["files/large"]);
    put(&there, "plan.md", b"of two");
    files.sync(&mut writer, true).await.unwrap();
    two.release(writer).await.unwrap();
    take(&one, &here).await;
    assert_eq!(get(&here, "plan.md").unwrap(), b"of two");
    for path in ["files/huge", "files/grown"] {
        let about = fs::metadata(dir(&here).join(path)).expect("it stays");
        assert_eq!(about.len(), (64 << 20) + 1);
    }
}

/// How often all files were listed.
static LISTED: AtomicUsize = AtomicUsize::new(0);

fn listed_and_counted(dir: &Path) -> BTreeMap<String, PathBuf> {
    LISTED.fetch_add(1, Ordering::Relaxed);
    listed(dir)
}

fn record_alone(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = listed(dir);
    found.retain(|path, _| path == "record");
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn all_files_are_listed_only_after_one_that_tells_of_them_changed() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let one = host(&fleet, "one").await;
    let here = Place::new();
    here.write("s", &["1"]);
    let moving = MovingFiles {
        list: listed_and_counted,
        list_telling: record_alone,
        ..MOVING
    };
    let (mut writer, mut files) = one.open_with_copy("s", here.files(), moving).await.unwrap();
    files.sync(&mut writer, false).await.unwrap();
    let count = || LISTED.load(Ordering::Relaxed);
    let before = count();
    for _ in 0..3 {
        files.sync(&mut writer, false).await.unwrap();
    }
    assert_eq!(count(), before);

    // Contents, and then what names them.
    put(&here, "contents/a", b"a");
    files.sync(&mut writer, false).await.unwrap();
    assert_eq!(count(), before);
    put(&here, "record", b"a");
    files.sync(&mut writer, false).await.unwrap();
    one.release(writer).await.unwrap();
    let there = Place::new();
    let two = host(&fleet, "two").await;
    take(&two, &there).await;
    assert_eq!(get(&there, "contents/a").unwrap(), b"a");
    assert_eq!(get(&there, "record").unwrap(), b"a");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_come_follow_no_link_and_replace_what_is_in_their_way() {
    let Some((_cluster, fleet)) = fleet().await else { return };
    let (one, two) = (host(&fleet, "one").await, host(&fleet, "two").await);
    let (here, there) = (Place::new(), Place::new());
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("theirs"), "theirs").unwrap();
    here.write("s", &["1"]);
    put(&here, "files/theirs", b"ours");
    put(&here, "plan.md", b"a plan");
    let (mut writer, mut files) = take(&one, &here).await;
    files.sync(&mut writer, true).await.unwrap();
    one.release(writer).await.unwrap();

    there.write("s", &[]);
    std::os::unix::fs::symlink(elsewhere.path(), dir(&there).join("files")).unwrap();
    put(&there, "plan.md/old", b"old");
    take(&two, &there).await;
    assert_eq!(get(&there, "files/theirs").unwrap(), b"ours");
    assert_eq!(get(&there, "plan.md").unwrap(), b"a plan");
    assert_eq!(fs::read_to_string(elsewhere.path().join("theirs")).unwrap(), "theirs");
}
