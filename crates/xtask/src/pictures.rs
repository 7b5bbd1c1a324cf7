//! `cargo xtask pictures`: draws the pictures in `docs/pictures` again, from the built program.

use anyhow::Result;

use crate::{clients, sh};

/// Films the terminal and photographs the page.
pub(crate) fn draw() -> Result<()> {
    let drawn = [
        "--package",
        "lodge",
        "--test",
        "it",
        "--",
        "--ignored",
        "--exact",
        "pictures::draw",
    ];
    sh::run(sh::cargo().args(["test", "--locked"]).args(drawn))?;
    clients::install_page()?;
    let to = sh::root().join("docs/pictures");
    let mut node = sh::command("node");
    sh::run(
        node.arg("pictures.mjs")
            .arg(&to)
            .current_dir(clients::page_source())
            .env("LODGE_BIN", sh::lodge("debug"))
            .env("LODGE_CHROMIUM_DIR", clients::unpack_browser()?),
    )?;
    println!("drew {}", to.display());
    Ok(())
}
