//! `cargo xtask`: the project's own commands. Nothing here ships; it may know everything, and runs the rest as a
//! person would: through cargo, the built binary and the clients' own tools.
#![allow(clippy::print_stdout, reason = "a program whose work is to print")]

mod bench;
mod clients;
mod deps;
mod dist;
mod docs;
mod features;
mod llama_cpp;
mod neighbours;
mod pictures;
mod sh;
mod soak;
mod test;
mod vscode;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask test [--only STEP,STEP]   everything that must hold; steps: clients deps fmt clippy docs rust fleet node
                                      page python go java rust-sdk rust-acp packages
cargo xtask bench [--peer copilot]    measures against the budgets, beside the peers when asked; --only, --quick,
                                      --record keeps the numbers for the chart in docs/
cargo xtask bench --binary A --binary B   measures two builds in turn, and lists what is worse in B by more than a tenth
cargo xtask bench fleet [--quick]     measures a fleet, on servers and hosts that it starts
cargo xtask docs [--check]            writes the generated pages in docs/, or says which are stale
cargo xtask soak crash [ROUNDS]       kills the binary in the middle of turns, thousands of times
cargo xtask soak accepted [ROUNDS]    kills the binary right after it accepted something, by each wire
cargo xtask soak loaded [ROUNDS]      a test of the list of sessions, 200 times while all processors are busy
cargo xtask soak sync [ROUNDS]        random clients of one host, thousands of histories
cargo xtask soak agent [ROUNDS]       random tools, failures and aborts, about ten minutes
cargo xtask soak fleet [FAULTS]       NATS servers, hosts and the network fail while sessions are written, about an hour
cargo xtask soak hosts [FAULTS]       the same below running programs that apps talk to, with damaged logs
cargo xtask soak neighbours           other people's model servers, MCP servers and agents, installed below target/neighbours
cargo xtask soak vscode               VS Code's own page in a headless browser, installed below target/clients
cargo xtask dist [--binary PATH]      packages: tarball, .deb, wheel, npm, checksums, SBOM; --glibc, --out, --pages-by;
                                      --twice builds them again in another directory, and compares
cargo xtask walk [--binary PATH]      installs, uses, upgrades and removes each package in a bare Debian 11, timed; --root,
                                      --mirror
cargo xtask pictures                  draws the pictures in docs/pictures again: the terminal as a film, the page
cargo xtask clients                   installs the clients that the tests use, below target/clients
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["docs"] => docs::write(),
        ["docs", "--check"] => docs::check(),
        ["bench", rest @ ..] => bench::run(rest),
        ["soak", "neighbours"] => neighbours::run(),
        ["soak", "vscode"] => vscode::run(),
        ["soak", rest @ ..] => soak::run(rest),
        ["dist", rest @ ..] => dist::run(rest),
        ["walk", rest @ ..] => dist::walk(rest),
        ["pictures"] => pictures::draw(),
        ["clients"] => clients::install_all(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(anyhow::anyhow!(
            "unknown command `cargo xtask {}`\n\n{HELP}",
            other.join(" ")
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
