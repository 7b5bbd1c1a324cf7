//! `lodge pair` and `lodge devices`: pairs, lists and revokes browsers and phones.

use std::{io::IsTerminal, net::SocketAddr, path::Path, process::ExitCode};

use ahp::ClientError;
use anyhow::{Context, Result, anyhow, bail};
use lodge_door::{Device, Role};
use qrcode::{QrCode, render::unicode::Dense1x2};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    link::{Link, reason},
    place::Place,
};
use crate::{
    cli::{DevicesCommand, PairArgs},
    host_file,
    serve::{print_line, print_styled},
};
use lodge_terminal::plain;

/// Pairs a new device.
pub(crate) async fn pair(home: &Path, args: &PairArgs) -> Result<ExitCode> {
    #[derive(Deserialize)]
    struct Ticket {
        ticket: String,
    }
    let link = connect(home).await?;
    let page = match &args.address {
        Some(address) => page_of(address)?,
        None => {
            let note = host_file::find(home)?.context("The host has just stopped")?;
            page_of(&note.ahp)?
        }
    };
    let params = json!({ "role": args.role, "name": args.name });
    let made: Ticket = ask(&link, "lodge/createTicket", params).await?;
    let url = format!("{page}/pair#{}", made.ticket);
    print_line("Open this link in the browser to pair, or scan the code with a phone:");
    print_line("");
    print_line(&format!("  {url}"));
    print_line("");
    if std::io::stdout().is_terminal() {
        let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        print_styled(&code(&url, coloured)?);
    }
    print_line(&format!(
        "It works once, within 10 minutes. The device gets the role {}.",
        args.role
    ));
    if is_loopback(&page) {
        print_line(
            "This address works on this machine only. For a phone, run `lodge tls init` and \
             `lodge serve --listen 0.0.0.0:8764`; see docs/remote.md. Behind a proxy or tunnel, name its address with --address.",
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists or revokes devices.
pub(crate) async fn devices(home: &Path, command: Option<&DevicesCommand>) -> Result<ExitCode> {
    #[derive(Deserialize)]
    struct List {
        devices: Vec<Device>,
    }
    let link = connect(home).await?;
    match command {
        None | Some(DevicesCommand::List) => {
            let List { devices } = ask(&link, "lodge/listDevices", json!({})).await?;
            if devices.is_empty() {
                print_line("No device is paired. Pair one with `lodge pair`.");
            }
            for device in devices {
                print_line(&format!(
                    "{}  {:<12}  {}  paired {}  last seen {}",
                    device.id,
                    device.role.name(),
                    plain(&device.name),
                    minute(device.created),
                    minute(device.last_seen),
                ));
            }
        }
        Some(DevicesCommand::Revoke { id }) => {
            let List { devices } = ask(&link, "lodge/listDevices", json!({})).await?;
            let device = find(&devices, id)?;
            let _: Value = ask(&link, "lodge/revokeDevice", json!({ "id": device.id })).await?;
            let name = plain(&device.name);
            print_line(&format!("Revoked {name} ({}); its connections are closed.", device.id));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The device of this id, or of the only id that begins so.
fn find<'a>(devices: &'a [Device], id: &str) -> Result<&'a Device> {
    let begun: Vec<_> = devices
        .iter()
        .filter(|device| !id.is_empty() && device.id.starts_with(id))
        .collect();
    match (devices.iter().find(|device| device.id == id), begun.as_slice()) {
        (Some(device), _) => Ok(device),
        (None, [device]) => Ok(device),
        (None, []) => bail!("There is no device {id:?}; `lodge devices` lists them."),
        (None, many) => bail!("{} devices begin with {id:?}; give more of the id.", many.len()),
    }
}

fn minute(time: jiff::Timestamp) -> String {
    time.to_zoned(jiff::tz::TimeZone::system())
        .strftime("%Y-%m-%d %H:%M")
        .to_string()
}

async fn connect(home: &Path) -> Result<Link> {
    let me = format!("lodge-devices-{}", Uuid::new_v4());
    Ok(Link::connect(&Place::of_home(home), &me).await?.0)
}

async fn ask<T: DeserializeOwned>(link: &Link, method: &str, params: Value) -> Result<T> {
    let answer = link.client.request(method, params).await;
    answer.map_err(|error: ClientError| anyhow!("{}", reason(&error)))
}

/// The address of the page, for a host that listens on this address.
fn page_of(address: &str) -> Result<String> {
    let (scheme, rest) = match address.split_once("://") {
        Some(("ws" | "http", rest)) => ("http", rest),
        Some(("wss" | "https", rest)) => ("https", rest),
        _ if address.starts_with("unix:") => {
            bail!("The host listens only on a socket, which browsers cannot reach. Start it with --port or --listen.")
        }
        _ => bail!("{address:?} is not the address of a host; it begins with http:// or https://."),
    };
    let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // A wildcard address is not a destination.
    let place = match place.parse::<SocketAddr>() {
        Ok(bound) if bound.ip().is_unspecified() => {
            let own = crate::remote::own_address()
                .context("This machine has no address that others can reach; name one with --address")?;
            SocketAddr::new(own, bound.port()).to_string()
        }
        _ => place.to_owned(),
    };
    Ok(format!("{scheme}://{place}"))
}

fn is_loopback(page: &str) -> bool {
    let place = page.split_once("://").map_or(page, |(_, place)| place);
    let bound: Option<SocketAddr> = place.parse().ok();
    bound.map_or(place.starts_with("localhost"), |bound| bound.ip().is_loopback())
}

/// The link as a QR code: dark on light, in any colours of the terminal.
fn code(url: &str, coloured: bool) -> Result<String> {
    let code = QrCode::new(url).context("The link is too long for a QR code")?;
    let mut drawn = code.render::<Dense1x2>();
    if coloured {
        let lines = drawn.build();
        let lines = lines.lines().map(|line| format!("\x1b[38;5;16;48;5;231m{line}\x1b[0m"));
        return Ok(lines.collect::<Vec<_>>().join("\n"));
    }
    // Most terminals show light text on a dark background.
    Ok(drawn.dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

/// Parses `--role`.
pub(crate) fn parse_role(text: &str) -> Result<Role, String> {
    text.parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_where_the_host_listens() {
        for (address, expected) in [
            ("ws://127.0.0.1:8764/", "http://127.0.0.1:8764"),
            ("wss://192.0.2.7:8764/?tkn=x", "https://192.0.2.7:8764"),
            ("https://lodge.example", "https://lodge.example"),
            ("http://[::1]:1/x", "http://[::1]:1"),
        ] {
            assert_eq!(page_of(address).unwrap(), expected);
        }
        assert!(page_of("unix:/run/x").is_err());
        assert!(page_of("lodge.example").is_err());
        assert!(
            is_loopback("http://127.0.0.1:1") && is_loopback("http://[::1]:1") && is_loopback("http://localhost:1")
        );
        assert!(!is_loopback("https://192.0.2.7:1") && !is_loopback("https://lodge.example"));
    }

    #[test]
    fn a_link_becomes_a_square_code() {
        let url = "https://192.0.2.7:8764/pair#0123456789abcdef0123456789abcdef";
        let drawn = code(url, false).unwrap();
        let width = drawn.lines().next().unwrap().chars().count();
        assert!(drawn.lines().all(|line| line.chars().count() == width), "{drawn}");
        assert!(width <= 60 && drawn.lines().count() <= 31, "{width}");
        assert!(code(url, true).unwrap().contains("\x1b[38;5;16;48;5;231m"));
    }
}
