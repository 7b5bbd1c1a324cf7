//! `lodge doctor`: one page that says what is configured, reachable and protected, and how to fix the rest.

use std::{path::Path, process::ExitCode, time::Duration};

use anyhow::Result;
use lodge_events::SkillSource;
use lodge_host::{
    AgentSource, CommandSource, Found, Home, HookFiles, Kind, Places, Trust, builtin_commands, command_files,
    disabled_skills, find_agents, find_skills, logins,
};
use lodge_log::Store;
use lodge_models::{Catalogue, ModelInfo};
use lodge_tools::{
    Environment,
    rules::{Policy, RuleSet},
};

use crate::{host_file, listing::count, mcp, serve::print_line, setup};

/// Time limit for a provider's answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The page, and whether anything on it is broken.
#[derive(Default)]
pub(crate) struct Page {
    broken: bool,
}

impl Page {
    pub(crate) fn head(&self, text: &str) {
        print_line(&format!("\n{text}"));
    }

    pub(crate) fn good(&self, text: impl AsRef<str>) {
        print_line(&format!("  ✓ {}", text.as_ref()));
    }

    /// Something that works, but could be better.
    pub(crate) fn hint(&self, text: impl AsRef<str>) {
        print_line(&format!("  · {}", text.as_ref()));
    }

    pub(crate) fn bad(&mut self, text: impl AsRef<str>) {
        self.broken = true;
        print_line(&format!("  ✗ {}", text.as_ref().trim_end().replace('\n', "\n    ")));
    }
}

impl Page {
    /// Reports one kind of files.
    fn found<T>(&mut self, head: &str, docs: &str, found: &Found<T>, name: impl Fn(&T) -> String) {
        self.head(head);
        let names: Vec<String> = found.all.iter().map(name).collect();
        match names.is_empty() {
            true => self.hint(format!("none found ({docs})")),
            false => self.good(names.join(", ")),
        }
        for odd in found.warnings.iter().chain(&found.hidden) {
            self.hint(odd);
        }
        for error in &found.errors {
            self.bad(error);
        }
    }
}

/// Prints the page.
pub(crate) async fn doctor(home: &Path) -> Result<ExitCode> {
    let mut page = Page::default();
    print_line(&format!("Lodge {}", env!("CARGO_PKG_VERSION")));
    place(&mut page, home);
    models(&mut page, home).await;
    host(&page, home);
    #[cfg(feature = "fleet")]
    crate::fleet::doctor(&mut page).await;
    protection(&mut page, home);
    hooks(&mut page, home);
    custom(&mut page, home);
    servers(&mut page, home).await;
    if page.broken {
        print_line("\nFix what is marked ✗, then run `lodge doctor` again.");
        return Ok(ExitCode::FAILURE);
    }
    print_line("\nNo problems found.");
    Ok(ExitCode::SUCCESS)
}

fn place(page: &mut Page, home: &Path) {
    page.head("Home");
    if !home.exists() {
        // The first existing parent must be writable.
        let above = home.ancestors().find(|above| above.exists()).unwrap_or(home);
        match try_writing(above) {
            Ok(()) => page.hint(format!("{} will be created with the first session", home.display())),
            Err(error) => page.bad(format!(
                "{} cannot be created, because {} is not writable: {error}",
                home.display(),
                above.display()
            )),
        }
        return;
    }
    if !home.is_dir() {
        return page.bad(format!(
            "{} is a file; name a directory with --home or LODGE_HOME",
            home.display()
        ));
    }
    if let Err(error) = try_writing(home) {
        page.bad(format!("{} is not writable: {error}", home.display()));
    }
    match Home::open_unlocked_read_only(home).and_then(|opened| opened.sessions().list()) {
        Ok(sessions) => page.good(format!("{}: {}", home.display(), count(sessions.len(), "session"))),
        Err(error) => page.bad(format!("{} cannot be read: {error}", home.display())),
    }
    #[cfg(unix)]
    if let Ok(meta) = std::fs::metadata(home) {
        use std::os::unix::fs::PermissionsExt;
        if meta.permissions().mode() & 0o077 != 0 {
            page.hint(format!(
                "other users of this machine can read it; run `chmod 700 {}`",
                home.display()
            ));
        }
    }
}

/// Writes a file and removes it. Some bytes have to reach the disk, or a full disk would go unnoticed.
fn try_writing(directory: &Path) -> std::io::Result<()> {
    let path = directory.join(format!(".lodge-doctor-{}", std::process::id()));
    let written = std::fs::File::create_new(&path).and_then(|mut file| {
        std::io::Write::write_all(&mut file, &[b'x'; 4096])?;
        file.sync_all()
    });
    let _ = std::fs::remove_file(&path);
    written
}

async fn models(page: &mut Page, home: &Path) {
    page.head("Models");
    let models = match setup::config(home).and_then(|config| setup::models(&config, &Environment::default())) {
        Ok(models) => models,
        Err(error) => return page.bad(format!("{error:#}")),
    };
    let default = models.default_model();
    let usable = models.resolve(None);
    let mut lacks = None;
    match tokio::time::timeout(PATIENCE, models.discover()).await {
        Ok(found) => {
            for provider in found {
                if let Ok(list) = &provider.models {
                    lacks = lacks.or_else(|| lacking(&models, &default, &provider.provider, list));
                }
                match provider.models {
                    Ok(list) if list.len() == 1 => page.good(format!("{} answers and has 1 model", provider.provider)),
                    Ok(list) => page.good(format!("{} answers and has {} models", provider.provider, list.len())),
                    Err(error) => page.bad(format!("{}: {error}", provider.provider)),
                }
            }
        }
        Err(_) => page.bad(format!("a provider did not answer within {} s", PATIENCE.as_secs())),
    }
    match (usable, lacks) {
        (Err(error), _) => page.bad(format!("new sessions cannot start: {error}")),
        (Ok(_), Some(lacks)) => page.bad(lacks),
        (Ok(_), None) => page.good(format!("new sessions use {default}")),
    }
    if default == "rehearsal" {
        page.hint("that is the offline model; run `lodge setup`, or see docs/models.md, to use your own");
    }
}

/// Whether the model of new sessions is missing from its provider's list, with the text that says so.
fn lacking(models: &Catalogue, default: &str, provider: &str, list: &[ModelInfo]) -> Option<String> {
    let (of, name) = models.at_provider(default)?;
    // A provider that lists nothing has no list.
    if of != provider || list.is_empty() {
        return None;
    }
    let ids = || list.iter().map(|model| model.id.as_str());
    let strip = |id: &str| id.strip_prefix(&format!("{provider}/")).unwrap_or(id).to_owned();
    if ids().any(|id| strip(id) == name) {
        return None;
    }
    let shown: Vec<String> = ids().take(5).map(strip).collect();
    let more = if list.len() > shown.len() { ", …" } else { "" };
    Some(format!(
        "new sessions use {default}, and {provider} does not list {name}; it has {}{more}. Choose one with LODGE_MODEL or \
         default_model in lodge.toml",
        shown.join(", ")
    ))
}

fn host(page: &Page, home: &Path) {
    page.head("Host");
    match host_file::running(home).ok().flatten() {
        Some(note) => {
            page.good(format!(
                "process {} listens on {}; connect with `lodge attach`",
                note.pid, note.ahp
            ));
            match note.socket {
                Some(socket) => page.good(format!(
                    "your programs connect through {} without a token; programs that agents start cannot",
                    socket.display()
                )),
                None => page.hint("there is no local socket, so your programs need the token"),
            }
        }
        None => page.hint("no host is running; `lodge` starts one, and `lodge run` needs none"),
    }
}

fn protection(page: &mut Page, home: &Path) {
    page.head("Protection");
    let report = lodge_tools::sandbox::report();
    let config = setup::config(home).unwrap_or_default();
    let off = config.sandbox == setup::Sandbox::Off;
    match &report.jail {
        (true, line) => page.good(line),
        (false, line) => page.hint(line),
    }
    for line in &report.lines {
        match report.available && !off {
            true => page.good(line),
            false => page.hint(line),
        }
    }
    if let Some(why) = lodge_tools::sandbox::cannot_hide(home) {
        page.bad(format!("no shell command can start: {why}. Move the home with --home."));
    }
    if off {
        page.hint("`sandbox = \"off\"` in lodge.toml: approved shell commands are not sandboxed");
    }
    match setup::network_stays_open(&config) {
        Some(why) => page.bad(format!(
            "`sandbox_network = \"off\"` in lodge.toml cannot be enforced: {why}"
        )),
        None if config.sandbox_network == setup::SandboxNetwork::Off => {
            page.good("`sandbox_network = \"off\"` in lodge.toml: the network is closed to shell commands");
        }
        None => {}
    }
    let cwd = std::env::current_dir().unwrap_or_default();
    match RuleSet::load(home, &cwd, Policy::default()) {
        Ok(rules) => {
            page.good("the permission rules are valid; what they do not cover needs your approval");
            rules.notes().iter().for_each(|note| page.hint(note));
        }
        Err(error) => page.bad(format!("the permission rules cannot be used: {error}")),
    }
}

/// Starts the servers as a session would: only that shows whether they work.
async fn servers(page: &mut Page, home: &Path) {
    page.head("MCP servers");
    let known = match mcp::known(home) {
        Ok(known) => known,
        Err(_) => return page.hint("fix lodge.toml first"),
    };
    if known.is_empty() {
        return page.hint("none found (docs/mcp.md)");
    }
    let logins = logins(home);
    let signed_in: Vec<String> = known
        .iter()
        .filter(|server| {
            let remote = server.config.as_ref().ok().and_then(|config| config.remote());
            remote.is_some_and(|remote| logins.token(&remote.url).is_some())
        })
        .map(|server| server.name.clone())
        .collect();
    for (server, tools) in mcp::try_out(home, known).await {
        let line = mcp::state(&server, tools);
        page.broken |= line.starts_with('✗');
        let login = if signed_in.contains(&server.name) {
            "; signed in"
        } else {
            ""
        };
        print_line(&format!("  {line}{login}"));
    }
}

/// Reports skills, agents and commands that files bring to sessions here.
fn custom(page: &mut Page, home: &Path) {
    let cwd = std::env::current_dir().unwrap_or_default();
    let places = Places::of_user(home);
    let skills = find_skills(&places.all(Kind::Skills, &cwd));
    let whose = |project: bool| if project { "this project's" } else { "yours" };
    page.found("Skills", "docs/agents.md", &skills, |skill| {
        let project = matches!(skill.source, SkillSource::Project | SkillSource::Inherited);
        format!("{} ({})", skill.name, whose(project))
    });
    match disabled_skills(home) {
        Ok(off) => {
            for skill in skills.all.iter().filter(|skill| off.contains(&skill.name)) {
                page.hint(format!("{} is off in new sessions", skill.name));
            }
        }
        Err(error) => page.bad(format!("{error}; no skill is off")),
    }
    let agents = find_agents(&places.all(Kind::Agents, &cwd));
    page.found("Agents", "docs/agents.md", &agents, |agent| {
        let project = matches!(agent.source, AgentSource::Project | AgentSource::Inherited);
        format!("{} ({})", agent.name, whose(project))
    });
    for agent in &agents.all {
        let missing = |wanted: &&String| !skills.all.iter().any(|skill| skill.name == **wanted);
        for wanted in agent.skills.iter().filter(missing) {
            page.hint(format!("{} needs the skill {wanted}, which does not exist", agent.name));
        }
    }
    let mut commands = command_files(home, &cwd);
    let built_in = builtin_commands();
    commands.all.retain(|command| {
        let free = !built_in.iter().any(|other| other.name == command.name);
        if let (false, CommandSource::File(path)) = (free, &command.source) {
            let hidden = format!("{} is not used: /{} is built in", path.display(), command.name);
            commands.hidden.push(hidden);
        }
        free
    });
    page.found("Commands", "docs/commands.md", &commands, |command| {
        format!("/{}", command.name)
    });
}

fn hooks(page: &mut Page, home: &Path) {
    page.head("Hooks");
    let cwd = std::env::current_dir().unwrap_or_default();
    if Trust::at(home).covers(&cwd) {
        page.good("this folder is trusted: its hooks and MCP servers run as you accepted them");
    }
    let hooks = Trust::at(home).hooks(&cwd, HookFiles::Trusted);
    match hooks.len() {
        0 => page.hint("none found (docs/hooks.md)"),
        1 => page.good("1 hook runs here"),
        count => page.good(format!("{count} hooks run here")),
    }
    for problem in &hooks.problems {
        match problem.contains("lodge trust") {
            true => page.hint(problem),
            false => page.bad(problem),
        }
    }
}
