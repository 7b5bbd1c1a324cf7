//! Keys in the system's keyring, through its command-line program: `secret-tool` (Secret Service) or macOS's `security`.

use std::{
    collections::BTreeMap,
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use lodge_models::Secret;
use parking_lot::Mutex;

/// How long the keyring may take: it may have to ask a person to open it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
const SERVICE: &str = "lodge";

/// Puts a key into the keyring, and makes sure that it is found there.
pub(crate) fn store(account: &str, key: &str) -> Result<()> {
    ensure!(
        !key.contains(['\n', '"', '\\']),
        "The key has letters that a keyring's program cannot take"
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

/// A key of the keyring. It is asked for once while the program runs.
pub(crate) fn read(account: &str) -> Result<Secret> {
    static READ: Mutex<BTreeMap<String, Secret>> = Mutex::new(BTreeMap::new());
    if let Some(key) = READ.lock().get(account) {
        return Ok(key.clone());
    }
    // While a person is asked to open the keyring, the sessions of the host go on.
    let found = tokio::task::block_in_place(|| find(account));
    let key = Secret::from(found.with_context(|| format!("Cannot read the key {account:?} of the keyring"))?);
    READ.lock().insert(account.to_owned(), key.clone());
    Ok(key)
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
    ensure!(!key.is_empty(), "It does not exist");
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
