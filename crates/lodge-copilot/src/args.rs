//! The arguments with which SDKs start the program.

use std::{path::PathBuf, time::Duration};

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// On its own standard input and output.
    Stdio,
    /// On a TCP port; 0 lets the system choose one.
    Tcp {
        /// The port.
        port: u16,
    },
}

/// The arguments with which an SDK starts the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerArgs {
    /// Where to listen.
    pub transport: Transport,
    /// The address to bind, loopback when absent.
    pub host: Option<String>,
    /// `none`, `error`, `warning`, `info`, `debug`, `all` or `default`.
    pub log_level: Option<String>,
    /// Directory for log files.
    pub log_dir: Option<String>,
    /// Name of the variable that holds the GitHub token.
    pub auth_token_env: Option<String>,
    /// Whether credentials found on the machine may be used.
    pub auto_login: bool,
    /// When an idle session leaves memory.
    pub session_idle_timeout: Option<Duration>,
    /// Whether sessions may be steered remotely.
    pub remote: bool,
    /// Whether everything is approved without asking.
    pub approve_all: bool,
    /// The model for sessions that name none.
    pub model: Option<String>,
    /// Directories of plugins that every session gets.
    pub plugin_directories: Vec<PathBuf>,
    /// Whether other machines may reach the server without encryption.
    pub insecure_plaintext: bool,
}

/// Parses the arguments (without the program's own name). `None` if this is not how an SDK starts the program.
pub fn parse_cli_args<S: AsRef<str>>(args: &[S]) -> Result<Option<ServerArgs>, String> {
    let args: Vec<&str> = args.iter().map(AsRef::as_ref).collect();
    if !args.iter().any(|arg| matches!(*arg, "--headless" | "--server")) {
        return Ok(None);
    }
    let mut parsed = ServerArgs {
        transport: Transport::Tcp { port: 0 },
        host: None,
        log_level: None,
        log_dir: None,
        auth_token_env: None,
        auto_login: true,
        session_idle_timeout: None,
        remote: false,
        approve_all: false,
        model: None,
        plugin_directories: Vec::new(),
        insecure_plaintext: false,
    };
    let mut rest = args.into_iter();
    while let Some(arg) = rest.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value)),
            _ => (arg, None),
        };
        let mut value = || {
            inline
                .or_else(|| rest.next())
                .map(str::to_owned)
                .ok_or_else(|| format!("error: option '{name} <value>' argument missing"))
        };
        match name {
            "--headless" | "--server" | "--no-auto-update" | "--no-color" | "--no-remote" => {}
            "--stdio" => parsed.transport = Transport::Stdio,
            "--port" => {
                parsed.transport = Transport::Tcp {
                    port: number(name, &value()?)?,
                }
            }
            "--host" => parsed.host = Some(value()?),
            "--log-level" => parsed.log_level = Some(value()?),
            "--log-dir" => parsed.log_dir = Some(value()?),
            "--auth-token-env" => parsed.auth_token_env = Some(value()?),
            "--no-auto-login" => parsed.auto_login = false,
            "--session-idle-timeout" => {
                let seconds = number(name, &value()?)?;
                parsed.session_idle_timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
            }
            "--remote" => parsed.remote = true,
            "--yolo" | "--allow-all" | "--allow-all-tools" => parsed.approve_all = true,
            "--insecure-plaintext" => parsed.insecure_plaintext = true,
            "--model" => parsed.model = Some(value()?),
            "--plugin-dir" => parsed.plugin_directories.push(value()?.into()),
            _ if arg.starts_with('-') => return Err(format!("error: unknown option '{arg}'")),
            _ => return Err(format!("error: unexpected argument '{arg}'")),
        }
    }
    Ok(Some(parsed))
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("error: option '{name}' argument '{value}' is invalid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> ServerArgs {
        ServerArgs {
            transport: Transport::Stdio,
            host: None,
            log_level: None,
            log_dir: None,
            auth_token_env: None,
            auto_login: true,
            session_idle_timeout: None,
            remote: false,
            approve_all: false,
            model: None,
            plugin_directories: Vec::new(),
            insecure_plaintext: false,
        }
    }

    fn check(line: &str, expected: Result<Option<ServerArgs>, &str>) {
        let args: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(parse_cli_args(&args), expected.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn every_way_in_which_an_sdk_starts_the_program_is_understood() {
        let tcp = |port| ServerArgs {
            transport: Transport::Tcp { port },
            ..base()
        };
        check("", Ok(None));
        check("serve --port 80", Ok(None));
        check("--headless --no-auto-update --stdio", Ok(Some(base())));
        check("--server --stdio --no-auto-update", Ok(Some(base())));
        check("--headless --no-auto-update", Ok(Some(tcp(0))));
        check("--server --port 0 --no-auto-update", Ok(Some(tcp(0))));
        check("--headless --port=4000", Ok(Some(tcp(4000))));
        check(
            "--yolo --headless --no-auto-update --log-level debug --stdio --auth-token-env COPILOT_SDK_AUTH_TOKEN \
             --no-auto-login --session-idle-timeout 30 --remote",
            Ok(Some(ServerArgs {
                log_level: Some("debug".into()),
                auth_token_env: Some("COPILOT_SDK_AUTH_TOKEN".into()),
                auto_login: false,
                session_idle_timeout: Some(Duration::from_secs(30)),
                remote: true,
                approve_all: true,
                ..base()
            })),
        );
        check(
            "--plugin-dir ./one --headless --stdio --plugin-dir=/two",
            Ok(Some(ServerArgs {
                plugin_directories: vec!["./one".into(), "/two".into()],
                ..base()
            })),
        );
        check(
            "--headless --host 0.0.0.0 --port 1 --insecure-plaintext",
            Ok(Some(ServerArgs {
                host: Some("0.0.0.0".into()),
                insecure_plaintext: true,
                ..tcp(1)
            })),
        );
        check(
            "--nonexistent-flag --headless --stdio",
            Err("error: unknown option '--nonexistent-flag'"),
        );
        check("--headless --x=1", Err("error: unknown option '--x=1'"));
        check(
            "--headless --port",
            Err("error: option '--port <value>' argument missing"),
        );
        check(
            "--headless --port eighty",
            Err("error: option '--port' argument 'eighty' is invalid"),
        );
        check(
            "--headless --port 70000",
            Err("error: option '--port' argument '70000' is invalid"),
        );
        check("--headless stray", Err("error: unexpected argument 'stray'"));
    }
}
