//! A disk that fails: clients hear of it, and nothing is accepted that is not safe.

use std::{
    io::{self, IoSlice},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use lodge_events::Payload;
use lodge_host::{Approval, Change, Home, HomeOptions, NewSession};
use lodge_log::{Disk, DiskFile, Mode, RealDisk, Stat};

use crate::kit::{Probe, host_at, host_on, house, log_of};

/// The real disk, but that nothing can be brought to it while it fails.
#[derive(Debug, Clone, Default)]
struct Unsynced(Arc<AtomicBool>);

#[derive(Debug)]
struct UnsyncedFile(Arc<AtomicBool>, Arc<dyn DiskFile>);

impl Disk for Unsynced {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(UnsyncedFile(self.0.clone(), RealDisk.open(path, mode)?)))
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir(path)
    }
    fn dirs(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.dirs(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealDisk.exists(path)
    }
}

impl DiskFile for UnsyncedFile {
    fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.1.write(parts)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.read_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        match self.0.load(SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.1.sync(),
        }
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.1.set_len(len)
    }
    fn stat(&self) -> io::Result<Stat> {
        self.1.stat()
    }
}

#[tokio::test]
async fn a_sync_that_fails_reaches_the_clients_and_nothing_is_accepted_until_it_works() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Unsynced::default();
    let options = HomeOptions {
        disk: Arc::new(disk.clone()),
        ..HomeOptions::default()
    };
    let host = host_on(
        Home::open(dir.path().join("home"), options).unwrap(),
        Duration::from_secs(600),
    );
    let session = host.create(NewSession::default()).await.unwrap();
    let mut probe = Probe::on(session);
    probe.turn("say one").await;
    disk.0.store(true, SeqCst);
    probe.send("say two").await;
    let message = probe
        .until(|payload| match payload {
            Payload::SessionError(error) if error.error_type == "storage" => Some(error.message.clone()),
            _ => None,
        })
        .await;
    assert!(message.contains("Input/output error"), "{message}");
    // Let the turn come to its end, one way or the other.
    while probe.session.is_busy() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = log_of(&probe.session).len();
    let refused = probe
        .session
        .record(lodge_events::SessionInfo::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("cannot sync"), "{refused}");
    assert_eq!(log_of(&probe.session).len(), before);
    disk.0.store(false, SeqCst);
    let mut probe = Probe::on(probe.session.clone());
    assert_eq!(probe.turn("say three").await, "three");
    log_of(&probe.session);
}

#[tokio::test]
async fn a_setting_that_cannot_be_recorded_does_not_hold_unless_it_is_stricter() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Unsynced::default();
    let options = HomeOptions {
        disk: Arc::new(disk.clone()),
        ..HomeOptions::default()
    };
    let home = Home::open(dir.path().join("home"), options).unwrap();
    let host = host_on(home, Duration::from_secs(600));
    let session = host.create(NewSession::default()).await.unwrap();
    let mut probe = Probe::on(session.clone());
    probe.turn("say one").await;
    disk.0.store(true, SeqCst);
    probe.send("say two").await;
    probe
        .until(|payload| matches!(payload, Payload::SessionError(error) if error.error_type == "storage").then_some(()))
        .await;
    while session.is_busy() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held = || {
        let now = session.settings();
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            now.mode, now.approval, now.reasoning_effort, now.limit, now.cwd, now.name
        )
    };
    let before = held();
    for change in [
        Change::Mode(lodge_host::Mode::Plan),
        Change::Approval(Approval::ApproveAll),
        Change::ReasoningEffort(Some("high".into())),
        Change::Limit(Some(1.0)),
        Change::Cwd(dir.path().to_owned()),
    ] {
        let refused = session.configure(change.clone()).await;
        assert!(refused.is_err(), "{change:?}");
        assert_eq!(held(), before, "{change:?}");
    }
    session.rename(Some("Named".into())).await.unwrap_err();
    assert_eq!(held(), before);
    // Who forbids something is not made to wait for a disk.
    let stricter = || session.configure(Change::Approval(Approval::DenyAll));
    stricter().await.unwrap_err();
    assert_eq!(session.settings().approval, Approval::DenyAll);
    assert_eq!(session.state().approval, None);
    disk.0.store(false, SeqCst);
    stricter().await.unwrap();
    assert_eq!(session.state().approval, Some(Approval::DenyAll.into()));
}

#[tokio::test]
async fn a_garbled_queue_is_set_aside_and_told() {
    let mut house = house();
    let probe = house.session().await;
    let (id, dir) = (probe.session.id().to_owned(), probe.session.dir().to_owned());
    drop(probe);
    house.host.shutdown().await;
    std::fs::write(
        dir.join("queue.json"),
        "{\"pid\":1,\"waiting\":[{\"text\":\"half a mess",
    )
    .unwrap();
    let home = house.dir.path().join("home");
    house.host = {
        drop(std::mem::replace(
            &mut house.host,
            host_at(&house.dir.path().join("other"), Duration::from_secs(600)),
        ));
        host_at(&home, Duration::from_secs(600))
    };
    let session = house.host.open_session(&id).await.unwrap();
    let log = log_of(&session);
    let warning = log
        .iter()
        .find_map(|event| event.get::<lodge_events::SessionWarning>())
        .unwrap();
    assert_eq!(warning.warning_type, "queue_damaged");
    let kept = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let kept = kept
        .into_iter()
        .find(|path| path.to_string_lossy().contains("damaged"))
        .unwrap();
    assert!(
        warning.message.contains(&kept.display().to_string()),
        "{}",
        warning.message
    );
    assert!(std::fs::read_to_string(kept).unwrap().contains("half a mess"));
}
