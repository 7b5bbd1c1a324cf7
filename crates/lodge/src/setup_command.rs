//! `lodge setup`: asks for a provider, a key and a model, tests them, and writes `lodge.toml`.

use std::{
    io::{BufRead, IsTerminal, Read, Write},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use lodge_files::replace;
use lodge_models::ModelsConfig;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, tcgetattr, tcsetattr};

use crate::{join, keyring, serve::print_line, setup};

/// Local servers, and the ports on which they listen by default.
const LOCAL: [(&str, u16); 5] = [
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("llama.cpp", 8080),
    ("vLLM", 8000),
    ("LocalAI", 8081),
];
/// Names other local servers, as in `Ollama=11434,vLLM=8000`.
const LOCAL_VARIABLE: &str = "LODGE_LOCAL_SERVERS";
/// How long a port of this machine is knocked at, and a list of models waited for.
const KNOCK: Duration = Duration::from_millis(300);
const LISTING: Duration = Duration::from_secs(20);
/// Models that are shown to choose from.
const SHOWN: usize = 40;

/// Where models come from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Provider {
    name: String,
    kind: &'static str,
    base_url: String,
    wants_key: bool,
}

impl Provider {
    fn new(name: &str, kind: &'static str, base_url: &str, wants_key: bool) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            base_url: base_url.to_owned(),
            wants_key,
        }
    }
}

enum Key<'a> {
    /// In the configuration itself; empty where there is none.
    Written(&'a str),
    /// In the system's keyring, under this name.
    InKeyring(&'a str),
    /// In a variable of this name.
    InVariable(&'a str),
}

/// The variable in which a key is while it is tried.
const TRIED: &str = "LODGE_SETUP_KEY";

/// Walks through it.
pub(crate) async fn run(home: &Path) -> Result<ExitCode> {
    if !std::io::stdin().is_terminal() {
        bail!("`lodge setup` asks questions, so it needs a terminal. See docs/models.md to write lodge.toml by hand.");
    }
    std::fs::create_dir_all(home).with_context(|| format!("Cannot create {}", home.display()))?;
    // What cannot be understood is not written over.
    setup::config(home)?;
    let Some(provider) = choose_provider().await? else {
        return Ok(ExitCode::FAILURE);
    };
    let key = match provider.wants_key {
        true => secret("Key (not shown; leave empty for none): ")?,
        false => String::new(),
    };
    let Some(model) = choose_model(&provider, &key).await? else {
        return Ok(ExitCode::FAILURE);
    };
    let path = home.join("lodge.toml");
    let before = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("Cannot read {}", path.display()))?,
    };
    print_line(&format!("Trying {model} …"));
    if let Err(error) = try_out(&provider, &key, &model) {
        print_line(&format!("The model did not answer: {}", crate::describe(&error)));
        if !yes("Save these settings anyway?", false)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    // Homes have keys of their own.
    let account = format!("{}-{}", provider.name, uuid::Uuid::new_v4());
    let in_keyring = !key.is_empty() && keyring::store(&account, &key).is_ok();
    let kept = if in_keyring {
        Key::InKeyring(&account)
    } else {
        Key::Written(&key)
    };
    let text = with_model(&before, &provider, &kept, &model)?;
    crate::settings_file::write(home, &text)?;
    match in_keyring {
        true => print_line(&format!(
            "Saved to {}; the key is in the system's keyring.",
            path.display()
        )),
        false => print_line(&format!("Saved to {}, readable only by you.", path.display())),
    }
    for name in ["LODGE_MODEL", "COPILOT_MODEL"] {
        if let Some(other) = std::env::var(name).ok().filter(|value| !value.trim().is_empty()) {
            print_line(&format!(
                "{name} is set to {other:?} here, and overrides this default until you unset it."
            ));
        }
    }
    if join::reload(home).await? {
        print_line("The running host uses it from now on.");
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(question: &str) -> Result<String> {
    let mut out = std::io::stdout();
    write!(out, "{question}")?;
    out.flush()?;
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line)? == 0 {
        bail!("Nothing was changed.");
    }
    Ok(line.trim().to_owned())
}

fn yes(question: &str, default: bool) -> Result<bool> {
    let choices = if default { "Y/n" } else { "y/N" };
    loop {
        match ask(&format!("{question} [{choices}] "))?.to_lowercase().as_str() {
            "" => return Ok(default),
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => print_line("Please answer y or n."),
        }
    }
}

/// Asks for something that the terminal does not show. Ctrl-C is a key here: it must not end the program before the terminal shows
/// again what is typed.
fn secret(question: &str) -> Result<String> {
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    hidden.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    hidden.special_codes[SpecialCodeIndex::VMIN] = 1;
    hidden.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(&stdin, OptionalActions::Now, &hidden)?;
    let mut out = std::io::stdout();
    let asked = write!(out, "{question}").and_then(|()| out.flush());
    let typed = asked.and_then(|()| line(stdin.lock().bytes()));
    tcsetattr(&stdin, OptionalActions::Now, &before)?;
    print_line("");
    match typed? {
        Some(line) => Ok(line),
        None => bail!("Nothing was changed."),
    }
}

/// A line that is typed key by key. Nothing if it is given up.
fn line(keys: impl Iterator<Item = std::io::Result<u8>>) -> std::io::Result<Option<String>> {
    let mut typed = Vec::new();
    for key in keys {
        match key? {
            b'\r' | b'\n' => return Ok(Some(String::from_utf8_lossy(&typed).trim().to_owned())),
            // Ctrl-C, Ctrl-D.
            3 | 4 => break,
            // Ctrl-U.
            21 => typed.clear(),
            // Backspace, as terminals have it. A letter may be several bytes.
            8 | 127 => while typed.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            key if key.is_ascii_control() => {}
            key => typed.push(key),
        }
    }
    Ok(None)
}

/// The number of a choice.
fn choose(count: usize) -> Result<usize> {
    loop {
        match ask("Number: ")?.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => return Ok(number - 1),
            _ => print_line(&format!("Please give a number from 1 to {count}.")),
        }
    }
}

async fn choose_provider() -> Result<Option<Provider>> {
    let mut providers = Vec::new();
    if yes("Look for model servers on this machine?", true)? {
        providers = local_servers().await;
        if providers.is_empty() {
            print_line("No server answers on the usual ports.");
        }
    }
    providers.push(Provider::new("openai", "openai", "https://api.openai.com/v1", true));
    providers.push(Provider::new(
        "anthropic",
        "anthropic",
        "https://api.anthropic.com",
        true,
    ));
    for (number, provider) in providers.iter().enumerate() {
        print_line(&format!("  {}. {} ({})", number + 1, provider.name, provider.base_url));
    }
    print_line(&format!("  {}. another address", providers.len() + 1));
    let chosen = choose(providers.len() + 1)?;
    if chosen < providers.len() {
        return Ok(Some(providers.swap_remove(chosen)));
    }
    let base_url = ask("Address, such as http://127.0.0.1:9000/v1: ")?;
    if !["http://", "https://"]
        .iter()
        .any(|scheme| base_url.starts_with(scheme))
    {
        print_line("An address begins with http:// or https://.");
        return Ok(None);
    }
    let kind = match yes("Is this an Anthropic API? (n: OpenAI-compatible)", false)? {
        true => "anthropic",
        false => "openai",
    };
    Ok(Some(Provider::new("own", kind, &base_url, true)))
}

/// The local servers to look for.
fn known_servers() -> Vec<(String, u16)> {
    match std::env::var(LOCAL_VARIABLE) {
        Ok(named) => named
            .split(',')
            .filter_map(|server| server.split_once('='))
            .filter_map(|(name, port)| Some((name.to_owned(), port.parse().ok()?)))
            .collect(),
        Err(_) => LOCAL.map(|(name, port)| (name.to_owned(), port)).to_vec(),
    }
}

/// The local servers that listen.
async fn local_servers() -> Vec<Provider> {
    let mut found = Vec::new();
    for (name, port) in known_servers() {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let knocked = tokio::time::timeout(KNOCK, tokio::net::TcpStream::connect(address)).await;
        if matches!(knocked, Ok(Ok(_))) {
            let own = name.to_lowercase().replace([' ', '.'], "-");
            found.push(Provider::new(&own, "openai", &format!("http://{address}/v1"), false));
        }
    }
    found
}

async fn choose_model(provider: &Provider, key: &str) -> Result<Option<String>> {
    let text = with_model("", provider, &Key::Written(key), "x")?;
    let config: ModelsConfig = toml::from_str(&text).context("These settings are invalid")?;
    let catalogue = lodge_models::Catalogue::from(config, |_| None).context("These settings cannot be used")?;
    let found = tokio::time::timeout(LISTING, catalogue.discover()).await;
    let mut models = Vec::new();
    for listed in found.unwrap_or_default() {
        match listed.models {
            Ok(listed) => models.extend(listed.into_iter().map(|model| {
                let own = model.id.strip_prefix(&format!("{}/", provider.name));
                own.map_or_else(|| model.id.clone(), str::to_owned)
            })),
            Err(error) => print_line(&format!("Cannot list the models: {error}")),
        }
    }
    if models.is_empty() {
        let model = ask("Name of the model: ")?;
        return Ok(Some(model).filter(|model| !model.is_empty()));
    }
    models.sort();
    for (number, model) in models.iter().take(SHOWN).enumerate() {
        print_line(&format!("  {}. {}", number + 1, lodge_terminal::plain_line(model)));
    }
    if models.len() > SHOWN {
        print_line(&format!(
            "  … and {} more; type a name to choose one.",
            models.len() - SHOWN
        ));
    }
    let typed = ask("Number or name: ")?;
    let numbered = typed
        .parse::<usize>()
        .ok()
        .and_then(|number| models.get(number.checked_sub(1)?));
    Ok(numbered.cloned().or(Some(typed)).filter(|model| !model.is_empty()))
}

/// The configuration with a provider and its model as the default; everything else stays as somebody wrote it.
fn with_model(before: &str, provider: &Provider, key: &Key, model: &str) -> Result<String> {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let name = unused_name(before, &provider.name)?;
    let default = format!("default_model = {}\n", quoted(&format!("{name}/{model}")));
    // Settings without a table stand before the first table.
    let (mut head, mut rest) = (String::new(), String::new());
    for line in before.split_inclusive('\n') {
        match rest.is_empty() && !line.trim_start().starts_with('[') {
            true if line.trim_start().starts_with("default_model") => {}
            true => head.push_str(line),
            false => rest.push_str(line),
        }
    }
    let mut text = format!("{default}{head}{rest}");
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!(
        "\n[[provider]]\nname = {}\ntype = {}\nbase_url = {}\n",
        quoted(&name),
        quoted(provider.kind),
        quoted(&provider.base_url)
    ));
    match key {
        Key::Written("") => {}
        Key::Written(key) => text.push_str(&format!("api_key = {}\n", quoted(key))),
        Key::InKeyring(account) => text.push_str(&format!("api_key_keyring = {}\n", quoted(account))),
        Key::InVariable(name) => text.push_str(&format!("api_key_env = {}\n", quoted(name))),
    }
    Ok(text)
}

/// The name, with a number behind it where the configuration has it already.
fn unused_name(before: &str, name: &str) -> Result<String> {
    let known: ModelsConfig = toml::from_str(before).context("lodge.toml is invalid")?;
    let taken = |name: &str| known.providers.iter().any(|entry| entry.name == name);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let names = std::iter::once(name.to_owned()).chain(numbered);
    Ok(names.into_iter().find(|name| !taken(name)).unwrap_or_default())
}

/// One message, in a home of its own. The key is in no file of it: should somebody stop this program, the home stays.
fn try_out(provider: &Provider, key: &str, model: &str) -> Result<()> {
    let kept = match key {
        "" => Key::Written(""),
        _ => Key::InVariable(TRIED),
    };
    let config = with_model("", provider, &kept, model)?;
    let home = std::env::temp_dir().join(format!("lodge-setup-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&home).with_context(|| format!("Cannot create {}", home.display()))?;
    let tried = || -> Result<()> {
        replace(&home.join("lodge.toml"), config.as_bytes())?;
        let program = crate::launch::program()?;
        let said = std::process::Command::new(program)
            .args(["run", "--approve", "none", "--model"])
            // By name: variables may choose another default.
            .arg(format!("{}/{model}", provider.name))
            .arg("Answer with the single word: ready")
            .env("LODGE_HOME", &home)
            .env(TRIED, key)
            .current_dir(&home)
            .stdin(std::process::Stdio::null())
            .output()?;
        let text = |bytes: &[u8]| lodge_terminal::plain(String::from_utf8_lossy(bytes).trim());
        anyhow::ensure!(said.status.success(), "{}", text(&said.stderr));
        print_line(&format!("It answers: {}", text(&said.stdout)));
        Ok(())
    };
    let outcome = tried();
    let _ = std::fs::remove_dir_all(&home);
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_not_shown_can_be_corrected_and_given_up() {
        for (keys, expected) in [
            ("key\r", Some("key")),
            ("kez\x7fy\n", Some("key")),
            ("w\u{f6}\x7f\x08key\r", Some("key")),
            ("wrong\x15key\r", Some("key")),
            ("\x7f\x1bkey \r", Some("key")),
            ("\r", Some("")),
            ("key\x03\r", None),
            ("key", None),
        ] {
            let typed = line(keys.bytes().map(Ok)).unwrap();
            assert_eq!(typed.as_deref(), expected, "{keys:?}");
        }
    }

    #[test]
    fn a_model_is_added_and_everything_else_stays() {
        let provider = Provider::new("openai", "openai", "https://api.openai.com/v1", true);
        let before = "# mine\ndefault_model = \"old\"\nsandbox = \"off\"\n\n[[provider]]\nname = \"openai\"\nbase_url = \"http://x/v1\"\n";
        let text = with_model(before, &provider, &Key::Written("se\"cret"), "gpt").unwrap();
        let config: ModelsConfig = toml::from_str(&text).unwrap();
        assert_eq!(config.default_model.as_deref(), Some("openai-2/gpt"));
        assert_eq!(config.providers.len(), 2);
        assert!(text.contains("# mine\nsandbox = \"off\"\n"), "{text}");
        let fresh = with_model("", &provider, &Key::Written(""), "gpt").unwrap();
        let config: ModelsConfig = toml::from_str(&fresh).unwrap();
        assert_eq!(config.default_model.as_deref(), Some("openai/gpt"));
    }
}
