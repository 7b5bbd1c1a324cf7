//! llama.cpp's server as a neighbour: the Python package that has it built in, with a model that is made here.

use std::path::Path;

use anyhow::Result;

use crate::{
    neighbours::{ANSWER, Report, free_port, listening, lodge, output},
    sh,
};

const SCRIPT: &str = include_str!("llama_cpp.py");
const PACKAGES: [&str; 2] = ["xllamacpp==2026.10.11549", "gguf==0.19.0"];
/// The name that the server gives the model: that of its file.
const MODEL: &str = "chain.gguf";

pub(crate) fn check(dir: &Path, report: &mut Report) -> Result<()> {
    let python = dir.join("llama-cpp");
    if !python.join("bin/gguf-dump").exists() {
        sh::run(sh::command("python3").args(["-m", "venv"]).arg(&python))?;
        sh::run(
            sh::command(python.join("bin/pip"))
                .args(["install", "--quiet"])
                .args(PACKAGES),
        )?;
    }
    let port = free_port()?;
    let mut command = sh::command(python.join("bin/python"));
    command
        .args(["-c", SCRIPT])
        .arg(dir.join(MODEL))
        .args([&port.to_string(), ANSWER]);
    let _running = listening(&mut command, port)?;
    let home = tempfile::tempdir()?;
    let with = |args: &[&str], model: &str| {
        let mut command = lodge(home.path(), args);
        command
            .env("LODGE_PROVIDER_BASE_URL", format!("http://127.0.0.1:{port}/v1"))
            .env("LODGE_MODEL", model);
        output(&mut command)
    };
    let name = "llama.cpp";
    let (done, text) = with(&["run", "hello"], MODEL)?;
    report.line(name, done && text.contains(ANSWER), "answers a message");
    let (_, text) = with(&["models"], MODEL)?;
    let listed = text
        .lines()
        .any(|line| line.contains(MODEL) && line.contains("16384 tokens"));
    report.line(
        name,
        listed,
        "lists its model with the context that it gives a conversation",
    );
    let (sound, _) = with(&["doctor"], MODEL)?;
    report.line(name, sound, "the doctor finds nothing wrong");
    // It answers whatever name it is asked by.
    let (sound, text) = with(&["doctor"], "no-such-model")?;
    let told = text.contains("does not list no-such-model");
    report.line(name, !sound && told, "the doctor notices a model that it does not list");
    Ok(())
}
