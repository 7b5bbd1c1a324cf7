//! `cargo xtask soak vscode`: VS Code's own page in a headless browser against the built program. VS Code comes from npm
//! (`code-server`), below `target/clients`; the pictures of every step are in `target/vscode`.

use anyhow::Result;

use crate::{clients, sh};

/// Installs VS Code, builds the program and uses both as a person would.
pub(crate) fn run() -> Result<()> {
    clients::install_page()?;
    let browser = clients::unpack_browser()?;
    let installed = clients::install_vscode()?;
    sh::run(sh::cargo().args(["build", "--locked", "--package", "lodge"]))?;
    let shots = sh::target().join("vscode");
    sh::run(
        sh::command("node")
            .arg("soak.mjs")
            .current_dir(clients::vscode_source())
            .env("LODGE_BIN", sh::lodge("debug"))
            .env("LODGE_VSCODE_DIR", installed)
            .env("LODGE_SHOTS", &shots)
            .env("LODGE_CHROMIUM_DIR", &browser),
    )?;
    println!("the pictures are in {}", shots.display());
    Ok(())
}
