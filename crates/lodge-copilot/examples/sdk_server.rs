//! The smallest program that an SDK can start.
use lodge_copilot::{ServerOptions, Transport, announcement, parse_cli_args, serve_stdio, serve_tcp};
use lodge_host::{Home, HomeOptions, Host, HostConfig};
use lodge_models::{Catalogue, ModelsConfig};
use std::time::Duration;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args = match parse_cli_args(&args) {
        Ok(Some(args)) => args,
        Ok(None) => panic!("not sdk"),
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(1)
        }
    };
    let var = |n: &str| std::env::var(n).ok().filter(|v| !v.is_empty());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(var("LODGE_LOG").unwrap_or("error".into()))
        .init();
    let home = Home::open(
        std::path::Path::new(&var("COPILOT_HOME").unwrap()),
        HomeOptions::default(),
    )
    .unwrap();
    let models = Catalogue::from(ModelsConfig::default(), |n| {
        std::env::var(n).ok().filter(|v| !v.is_empty())
    })
    .unwrap();
    let host = Host::new(HostConfig {
        home,
        models,
        sandbox: None,
        idle_after: Duration::from_secs(300),
        version: "0.1.0".into(),
    });
    let github_token = args.auth_token_env.as_deref().and_then(var).or_else(|| {
        if args.auto_login {
            var("GH_TOKEN").or_else(|| var("GITHUB_TOKEN"))
        } else {
            None
        }
    });
    let options = ServerOptions {
        connection_token: var("COPILOT_CONNECTION_TOKEN"),
        github_token,
        approve_all: args.approve_all,
        ..ServerOptions::default()
    };
    match args.transport {
        Transport::Stdio => serve_stdio(host.clone(), options).await.unwrap(),
        Transport::Tcp { port } => {
            let l = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
            println!("{}", announcement(l.local_addr().unwrap().port()));
            serve_tcp(host.clone(), l, options).await.unwrap()
        }
    }
    host.shutdown().await;
}
