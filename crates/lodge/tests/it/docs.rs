//! The pages say what is so: their commands run, their examples are read, their links lead somewhere.
//!
//! A block marked `sh` is run, page by page, in a home of its own, without a host and beside one. One marked `sh syntax` cannot be run by a
//! test (it needs another machine, a terminal, or an id that a person has to look up): of these, each `lodge` command must at least be
//! understood. `sh syntax fleet` is the same for a program that is built with `--features fleet`.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, Stdio},
};

use testkit::{Home, Running, lodge_bin, model_server::ModelServer, target, workspace};

/// Where the examples of `docs/models.md` expect a server.
const LOCAL_SERVER: &str = "http://127.0.0.1:11434/v1";
/// Pages whose commands need a running host.
const WITH_A_HOST: &[&str] = &["automations.md", "page.md", "terminal.md"];
/// What blocks that are not run may call besides `lodge`.
const OTHER_PROGRAMS: &[&str] = &[
    "cargo",
    "cd",
    "export",
    "node",
    "npm",
    "pip",
    "sh",
    "ssh",
    "sudo",
    "tailscale",
    "uvx",
];

struct Page {
    name: String,
    path: PathBuf,
    text: String,
}

fn page(path: PathBuf) -> Page {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&path).unwrap();
    Page { name, path, text }
}

fn pages() -> Vec<Page> {
    let entries = std::fs::read_dir(workspace().join("docs")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<Page> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(page)
        .collect();
    pages.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(pages.len() > 20, "{}", pages.len());
    pages
}

/// The pages, and the one that people see first.
fn pages_with_commands() -> Vec<Page> {
    let mut pages = pages();
    pages.push(page(workspace().join("README.md")));
    pages
}

impl Page {
    /// The blocks with this mark, without the indentation that a list gives them.
    fn blocks(&self, mark: &str) -> Vec<String> {
        let (mut blocks, mut open) = (Vec::new(), None::<(usize, bool, String)>);
        for line in self.text.lines() {
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(found)) => {
                    open = Some((line.len() - line.trim_start().len(), found == mark, String::new()))
                }
                (Some((_, wanted, text)), Some(_)) => {
                    if *wanted {
                        blocks.push(std::mem::take(text));
                    }
                    open = None;
                }
                (Some((indent, _, text)), None) => {
                    text.push_str(line.get(*indent..).unwrap_or_default());
                    text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.name);
        blocks
    }
}

/// Runs a page's commands one after the other, as a person who pastes them.
fn run(page: &Page, beside_a_host: bool) {
    let blocks = page.blocks("sh");
    if blocks.is_empty() {
        return;
    }
    let node_modules = target().join("clients/node/node_modules");
    if page.text.contains("npm install @") && !node_modules.is_dir() {
        return testkit::skip("the clients are not installed; `cargo xtask clients` installs them");
    }
    let home = Home::new();
    let _host = beside_a_host.then(|| {
        let mut host = home.start(["--port", "0", "--sdk-port", "0"]);
        host.line_with("Ctrl-C stops");
        host
    });
    let server = ModelServer::rehearsing();
    server.set_models(serde_json::json!({ "data": [{ "id": "qwen3-coder" }] }));
    let script = blocks.join("\n").replace(LOCAL_SERVER, &server.openai_url());
    // Nothing is downloaded: what `npm install` would bring is there already.
    let script = format!("set -euo pipefail\nnpm() {{ ln -sfn {node_modules:?} node_modules; }}\n{script}");
    let path = std::env::join_paths(
        lodge_bin()
            .parent()
            .map(PathBuf::from)
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    )
    .unwrap();
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &script])
        .current_dir(home.work())
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.work().parent().unwrap())
        .env("LODGE_HOME", home.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    let done = Running::start(&mut shell).finish();
    let host = if beside_a_host {
        "beside a host"
    } else {
        "without a host"
    };
    assert!(done.status.success(), "{} {host}: {done:#?}", page.name);
}

#[test]
fn the_commands_of_every_page_run() {
    for page in pages_with_commands() {
        if !WITH_A_HOST.contains(&page.name.as_str()) {
            run(&page, false);
        }
        run(&page, true);
    }
}

#[test]
fn commands_that_no_test_can_run_are_understood() {
    let home = Home::new();
    let mut checked = 0;
    for page in pages_with_commands() {
        let mut blocks = page.blocks("sh syntax");
        if cfg!(feature = "fleet") {
            blocks.extend(page.blocks("sh syntax fleet"));
        }
        let blocks: Vec<String> = blocks.iter().map(|block| block.replace("\\\n", " ")).collect();
        for line in blocks.iter().flat_map(|block| block.lines()) {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let words = line.split_whitespace().skip_while(|word| word.contains('='));
            let words: Vec<&str> = words.collect();
            let mut understood = |arguments: &[&str]| {
                let done = home.run(arguments.iter().copied().chain(["--help"]));
                assert!(done.status.success(), "{}: {line}: {done:?}", page.name);
                checked += 1;
            };
            match words.split_first() {
                None => {}
                // What comes after two dashes is for the host, which has its options without a command.
                Some((&"lodge", words)) => words.split(|word| *word == "--").for_each(&mut understood),
                Some((&"cargo", words)) if words.contains(&"--") => {
                    words.split(|word| *word == "--").skip(1).for_each(&mut understood);
                }
                Some((program, _)) => {
                    assert!(
                        OTHER_PROGRAMS.contains(program),
                        "{}: {line} is not run by any test",
                        page.name
                    );
                }
            }
        }
    }
    assert!(checked > 20, "{checked}");
}

/// The test that checks this for all other commands is not run with this feature.
#[cfg(feature = "fleet")]
#[test]
fn every_fleet_command_shows_examples_that_work() {
    let home = Home::new();
    let help = home.run(["fleet", "--help"]).ok().stdout();
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = commands.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.len() > 2, "{help}");
    for name in names {
        let help = home.run(["fleet", name, "--help"]).ok().stdout();
        let examples = help.split("Examples:\n").nth(1);
        let examples = examples.unwrap_or_else(|| panic!("`lodge fleet {name} --help` has no examples"));
        let examples = examples.lines().filter_map(|line| line.trim().strip_prefix("lodge "));
        let examples: Vec<&str> = examples.collect();
        assert!(!examples.is_empty(), "{help}");
        for example in examples {
            let example = example.split("  ").next().unwrap_or_default();
            let _ = home.run(example.split_whitespace().chain(["--help"])).ok();
        }
    }
}

/// `lodge.toml` has such a test beside the code that reads it.
#[test]
fn rules_and_json_in_the_pages_are_read_as_written() {
    let mut checked = 0;
    for page in pages() {
        let rules = page.blocks("toml").into_iter().filter(|text| text.contains("[[deny]]"));
        for text in rules {
            let home = Home::new();
            std::fs::create_dir_all(home.path()).unwrap();
            std::fs::write(home.path().join("permissions.toml"), &text).unwrap();
            let doctor = home.run(["doctor"]).ok().stdout();
            assert!(doctor.contains("✓ the permission rules"), "{}: {doctor}", page.name);
            checked += 1;
        }
        for text in page.blocks("json") {
            let read = serde_json::from_str::<serde_json::Value>(&text);
            assert!(read.is_ok(), "{}: {read:?}: {text}", page.name);
            checked += 1;
        }
    }
    assert!(checked > 4, "{checked}");
}

/// What GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of the links in a text, code left out.
fn links(text: &str) -> Vec<String> {
    let mut in_block = false;
    let prose = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    let mut found = Vec::new();
    for line in prose {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let (target, after) = after.split_once(')').unwrap_or((after, ""));
            found.push(target.to_owned());
            rest = after;
        }
    }
    found
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let root = workspace();
    let mut pages = pages();
    pages.extend(["README.md", "ARCHITECTURE.md", "CHANGELOG.md"].map(|name| page(root.join(name))));
    let mut checked = 0;
    for Page { path, text, .. } in &pages {
        for link in links(text) {
            if link.starts_with("https://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            assert!(target.exists(), "{}: {link} leads nowhere", path.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target).unwrap();
                let found = text
                    .lines()
                    .any(|line| line.starts_with('#') && anchor(line) == heading);
                assert!(found, "{}: {link} names no heading", path.display());
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn the_index_names_every_page() {
    let root = workspace();
    let index: BTreeSet<String> = links(&page(root.join("docs/README.md")).text).into_iter().collect();
    for page in pages() {
        assert!(
            page.name == "README.md" || index.contains(&page.name),
            "docs/README.md does not name {}",
            page.name
        );
    }
}

/// Messages of the program send people to pages.
#[test]
fn pages_that_the_sources_name_exist() {
    let root = workspace();
    let mut directories = vec![root.join("crates"), root.join("examples"), root.join("web/src")];
    let mut checked = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                let skipped = ["tests", "node_modules", "target"]
                    .iter()
                    .any(|name| path.ends_with(name));
                directories.extend((!skipped).then_some(path));
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            for rest in text.split("docs/").skip(1) {
                let end = rest.find(|c: char| !c.is_ascii_lowercase() && !matches!(c, '-' | '.'));
                let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
                if name.ends_with(".md") {
                    assert!(
                        root.join("docs").join(name).is_file(),
                        "{} names docs/{name}",
                        path.display()
                    );
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 10, "{checked}");
}

#[test]
fn the_page_about_tools_names_every_tool() {
    let home = Home::new();
    let request = home.run(["run", "--mode", "autopilot", "describe the request"]).ok();
    let line = request.lines.iter().find_map(|line| line.split_once(" tools: "));
    let given = line.expect("the tools are listed").1.trim_end_matches('.').split(", ");
    let page = page(workspace().join("docs/tools.md"));
    let rows = page.text.lines().filter_map(|line| line.strip_prefix("| `"));
    let named: BTreeSet<&str> = rows
        .flat_map(|row| row.split(" | ").next().unwrap_or_default().split("`, `"))
        .map(|name| name.trim_matches('`'))
        .collect();
    for tool in given {
        assert!(named.contains(tool), "docs/tools.md does not name {tool}");
    }
}

#[test]
fn the_page_about_commands_names_every_command() {
    let home = Home::new();
    let help = home.run(["run", "/help"]).ok();
    let given = help
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix("- `")?.split('`').next());
    let given: BTreeSet<String> = given.map(|command| command.replace('|', "\\|")).collect();
    let page = page(workspace().join("docs/commands.md"));
    let rows = page.text.lines().filter_map(|line| line.strip_prefix("| `/"));
    let named: BTreeSet<String> = rows
        .filter_map(|row| Some(format!("/{}", row.split('`').next()?)))
        .collect();
    assert!(given.len() > 15, "{given:?}");
    assert_eq!(named, given);
}
