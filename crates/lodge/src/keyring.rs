//! Keys in the system's keyring, through its command-line program: `secret-tool` (Secret Service) or macOS's `security`.

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use lodge_models::Secret;
use parking_lot::Mutex;

/// How long the keyring may take: it may have to ask a person to open it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// A failure that took longer is one of a person who was asked, or of a keyring that does not answer. It is repeated for a while
/// before the keyring is asked again.
const QUICK: Duration = Duration::from_secs(1);
const REPEATED: Duration = Duration::from_secs(60);
const SERVICE: &str = "lodge";

/// Puts a key into the keyring, and makes sure that it is found there.
pub(crate) fn store(account: &str, key: &str) -> Result<()> {
    ensure!(
        !key.contains(['\n', '"', '\\']),
        "The key has characters that the keyring program cannot store"
    );
    if cfg!(target_os = "macos") {
        // On its standard input, so that no list of processes shows it.
        let words = format!("add-generic-password -U -s {SERVICE} -a {account} -w \"{key}\"\n");
        run("security", &["-i"], &words)?;
    } else {
        let label = format!("--label=Lodge: {account}");
        run(
            "secret-tool",
            &["store", &label, "service", SERVICE, "account", account],
            key,
        )?;
    }
    ensure!(find(account)? == key, "The keyring did not keep the key");
    Ok(())
}

/// What is known of a key.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    Key(Secret),
    /// Why it could not be read, and when that was.
    Failure(String, Instant),
}

/// A key of the keyring. It is asked for once while the program runs, however many want it at the same time.
pub(crate) fn read(account: &str) -> Result<Secret> {
    static READ: Mutex<BTreeMap<String, Arc<Mutex<Known>>>> = Mutex::new(BTreeMap::new());
    let known = READ.lock().entry(account.to_owned()).or_default().clone();
    // While a person is asked to open the keyring, the sessions of the host go on.
    tokio::task::block_in_place(|| look_up(account, &mut known.lock()))
        .with_context(|| format!("Cannot read the key {account:?} of the keyring"))
}

fn look_up(account: &str, known: &mut Known) -> Result<Secret> {
    match known {
        Known::Key(key) => return Ok(key.clone()),
        Known::Failure(why, when) if when.elapsed() < REPEATED => bail!("{why}"),
        Known::Failure(..) | Known::Nothing => {}
    }
    let begun = Instant::now();
    match find(account) {
        Ok(key) => {
            let key = Secret::from(key);
            *known = Known::Key(key.clone());
            Ok(key)
        }
        Err(error) => {
            if begun.elapsed() > QUICK {
                *known = Known::Failure(crate::describe(&error), Instant::now());
            }
            Err(error)
        }
    }
}

fn find(account: &str) -> Result<String> {
    let key = match cfg!(target_os = "macos") {
        true => run(
            "security",
            &["find-generic-password", "-s", SERVICE, "-a", account, "-w"],
            "",
        )?,
        false => run("secret-tool", &["lookup", "service", SERVICE, "account", account], "")?,
    };
    let key = key.trim_end_matches('\n');
    ensure!(!key.is_empty(), "The key was not found in the keyring");
    Ok(key.to_owned())
}

/// Runs a program of the keyring and returns what it says.
fn run(program: &str, args: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("Cannot start `{program}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    let patience = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() > patience {
            child.kill()?;
            child.wait()?;
            bail!("`{program}` does not answer");
        }
        std::thread::sleep(LOOK);
    }
    // What it says is a key, which a pipe holds.
    let done = child.wait_with_output()?;
    ensure!(done.status.success(), "`{program}` ended with {}", done.status);
    Ok(String::from_utf8(done.stdout)?)
}
