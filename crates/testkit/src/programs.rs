//! Programs that tests write and have run.

use std::{path::Path, process::Command};

/// Writes the same script under each of these names, ready to be run.
///
/// Another process writes them: a file that a test itself has open for writing cannot be run ("text file busy"), and a child that
/// another test has just forked keeps it open a little longer.
///
/// # Panics
///
/// If they cannot be written.
pub fn write_programs(dir: &Path, names: &[&str], script: &str) {
    let each = r#"for name; do printf %s "$SCRIPT" > "$name" && chmod 755 "$name" || exit 1; done"#;
    let written = Command::new("sh")
        .args(["-c", each, "sh"])
        .args(names)
        .env("SCRIPT", script)
        .current_dir(dir)
        .status();
    assert!(
        written.is_ok_and(|status| status.success()),
        "{names:?} cannot be written"
    );
}
