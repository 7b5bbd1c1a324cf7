//! Clients of the Agent Client Protocol that other people make, with `lodge acp` as their agent: acpx and acplint. What
//! docs/acp.md shows of them is compared with what they print.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Report, output};
use crate::sh;

pub(super) const ACPX: &str = "acpx@0.19.1";
const ACPLINT: &str = "acplint==0.1.0";
const DOCS: &str = "docs/acp.md";

/// A home with a directory to work in, and the clients that are installed.
struct Place<'a> {
    home: tempfile::TempDir,
    installed: &'a Path,
}

impl<'a> Place<'a> {
    fn new(installed: &'a Path) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let place = Self { home, installed };
        std::fs::create_dir(place.work())?;
        Ok(place)
    }

    fn work(&self) -> std::path::PathBuf {
        self.home.path().join("work")
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = sh::command(program);
        command
            .current_dir(self.work())
            .env("HOME", self.home.path())
            .env("LODGE_HOME", self.home.path().join("home"))
            .env("LODGE_HOST_LINGER", "3");
        command
    }

    fn acpx(&self, args: &[&str]) -> Command {
        let agent = format!("{} acp", sh::lodge("debug").display());
        let mut command = self.command(&self.installed.join("node_modules/.bin/acpx"));
        // The program that keeps a session open for the next prompt ends soon.
        command.args(["--agent", &agent, "--ttl", "2"]).args(args);
        command
    }

    fn sessions(&self) -> Result<String> {
        let mut listed = self.command(&sh::lodge("debug"));
        Ok(output(listed.args(["sessions", "list"]))?.1)
    }
}

pub(super) fn run(installed: &Path, report: &mut Report) -> Result<()> {
    let docs = std::fs::read_to_string(sh::root().join(DOCS))?;
    acpx(&Place::new(installed)?, &docs, report)?;
    // A home of its own: acpx stops every process below the agent that it started, and so the host.
    acplint(&Place::new(installed)?, &docs, report)
}

fn acpx(place: &Place<'_>, docs: &str, report: &mut Report) -> Result<()> {
    let (prompt, shown) = transcript(docs).with_context(|| format!("{DOCS} shows no turn of acpx"))?;
    let printed = place.acpx(&["--approve-all", "exec", prompt]).output()?;
    let printed = String::from_utf8_lossy(&printed.stdout).replace(&place.work().display().to_string(), "~/work");
    let same = trimmed(&printed) == trimmed(shown);
    report.line("acpx", same, &format!("shows the turn of {DOCS}"));
    if !same {
        println!("{printed}");
    }
    let refused = r#"call create {"path":"no.txt","file_text":"x"} then say over"#;
    let (_, text) = output(&mut place.acpx(&["--deny-all", "exec", refused]))?;
    let denied = text.contains("denied") && !place.work().join("no.txt").exists();
    report.line("acpx", denied, "denies a call");
    let made = output(&mut place.acpx(&["sessions", "new"]))?;
    let (first, _) = output(&mut place.acpx(&["prompt", "say one"]))?;
    let (second, text) = output(&mut place.acpx(&["prompt", "what did I say?"]))?;
    let listed = place.sessions()?;
    let kept = made.0 && first && second && text.contains("say one") && listed.matches("say one").count() == 1;
    report.line("acpx", kept, "goes on in a session that it made without a prompt");
    if !kept {
        println!("{}\n{text}\n{listed}", made.1);
    }
    let mut waiting = place.acpx(&["prompt", "say begun then wait 500 s"]);
    let mut waiting = waiting.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(waiting.stdout.take().context("a pipe")?).lines();
    let begun = lines.any(|line| line.is_ok_and(|line| line.contains("begun")));
    let (cancelled, _) = output(&mut place.acpx(&["cancel"]))?;
    let told = lines.any(|line| line.is_ok_and(|line| line.contains("cancelled")));
    waiting.wait()?;
    report.line("acpx", begun && cancelled && told, "cancels a turn");
    Ok(())
}

/// The prompt of the turn on the page, and what acpx prints.
fn transcript(docs: &str) -> Option<(&str, &str)> {
    let block = docs.split("````text\n").nth(1)?.split("\n````\n").next()?;
    let (prompt, rest) = block.split_once(" exec '")?.1.split_once("'\n")?;
    Some((prompt, rest.split_once("\n$ ")?.0))
}

fn trimmed(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn acplint(place: &Place<'_>, docs: &str, report: &mut Report) -> Result<()> {
    let python = place.installed.join("acplint");
    if !python.join("bin/acplint").exists() {
        sh::run(sh::command("python3").args(["-m", "venv"]).arg(&python))?;
        sh::run(sh::command(python.join("bin/pip")).args(["install", "--quiet", ACPLINT]))?;
    }
    let written = place.home.path().join("acplint.json");
    let mut command = place.command(&python.join("bin/acplint"));
    command
        .arg("--agent")
        .arg(sh::lodge("debug"))
        .args(["--agent-args", "acp"]);
    // It fails where a check does.
    let (_, text) = output(command.args(["--output", "json", "--output-file"]).arg(&written))?;
    let results = std::fs::read(&written).with_context(|| format!("acplint wrote nothing: {text}"))?;
    let results: Value = serde_json::from_slice(&results)?;
    let results = results["results"].as_array().context("acplint has no results")?;
    let not_passed = results.iter().filter(|result| result["status"] != "PASS");
    let failed: BTreeSet<&str> = not_passed.filter_map(|result| result["name"].as_str()).collect();
    let table = docs.split("| Check of acplint |").nth(1).unwrap_or_default();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let first_cells = rows.filter_map(|row| row.split('|').nth(1));
    let known: BTreeSet<&str> = first_cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let count = format!("{} of {} checks", results.len() - failed.len(), results.len());
    let as_documented = failed == known && docs.replace('\n', " ").contains(&count.replace("of", "of its"));
    report.line(
        "acplint",
        as_documented,
        &format!("passes {count}; {DOCS} explains the others"),
    );
    if !as_documented {
        println!("failed: {failed:?}\nexplained: {known:?}");
    }
    Ok(())
}
