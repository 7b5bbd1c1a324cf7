//! `lodge tls init`: creates the host's own certificate, and the pin that identifies its key.

use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result};
use clap::Subcommand;
use jiff::ToSpan;
use lodge_files::replace;
use lodge_http::TlsFiles;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};

use super::{own_address, pin::Pin};
use crate::serve::print_line;

/// Some clients refuse certificates that are valid for longer.
const DAYS: i64 = 825;

/// `lodge tls`.
#[derive(Subcommand)]
pub(crate) enum TlsCommand {
    /// Create a certificate for this host. Run it again for new names or another 825 days; the key and its pin stay
    #[command(after_help = "Examples:
  lodge tls init
  lodge tls init --name machine.example")]
    Init {
        /// Another name or address of this machine
        #[arg(long = "name", value_name = "NAME")]
        names: Vec<String>,
    },
}

/// The certificate created for a home, if there is one.
pub(crate) fn own_files(home: &Path) -> Option<TlsFiles> {
    let files = files(home);
    (files.certificate.is_file() && files.key.is_file()).then_some(files)
}

fn files(home: &Path) -> TlsFiles {
    let dir = home.join("tls");
    TlsFiles {
        certificate: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    }
}

/// Runs `lodge tls`.
pub(crate) fn tls(home: &Path, command: TlsCommand) -> Result<ExitCode> {
    let TlsCommand::Init { names } = command;
    let files = files(home);
    let dir = home.join("tls");
    std::fs::create_dir_all(&dir).with_context(|| format!("Cannot create {}", dir.display()))?;
    let key = own_key(&files.key)?;
    let names = all_names(names);
    let certificate = certificate(&key, &names)?;
    replace(&files.certificate, certificate.pem().as_bytes())
        .with_context(|| format!("Cannot write {}", files.certificate.display()))?;
    let pin = Pin::of(certificate.der())?;
    let machine = names.first().map_or("machine", String::as_str);
    print_line(&format!(
        "Certificate  {} (for {} days)",
        files.certificate.display(),
        DAYS
    ));
    print_line(&format!("Names        {}", names.join(", ")));
    print_line(&format!("Pin          {pin}"));
    print_line("");
    print_line("Start the host so that other machines can reach it; it finds the certificate by itself:");
    print_line("  lodge serve --listen 0.0.0.0:8764");
    print_line("On the other machine, with this host's token (in the file `token` in the home):");
    print_line(&format!(
        "  lodge hosts add {} wss://{machine}:8764 --pin {pin} --token",
        short(machine)
    ));
    Ok(ExitCode::SUCCESS)
}

/// The existing key, or a new one.
fn own_key(path: &PathBuf) -> Result<KeyPair> {
    match std::fs::read_to_string(path) {
        Ok(text) => KeyPair::from_pem(&text).with_context(|| {
            format!(
                "{} is not a key. Delete it for a new one; other machines then need the new pin",
                path.display()
            )
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = KeyPair::generate().context("Cannot create a key")?;
            replace(path, key.serialize_pem().as_bytes())
                .with_context(|| format!("Cannot write {}", path.display()))?;
            Ok(key)
        }
        Err(error) => Err(error).with_context(|| format!("Cannot read {}", path.display())),
    }
}

fn certificate(key: &KeyPair, names: &[String]) -> Result<rcgen::Certificate> {
    let mut params = CertificateParams::new(names.to_vec()).context("A name is not valid in a certificate")?;
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, "Lodge");
    params.distinguished_name = subject;
    // For a server only: clients refuse a certificate that may sign others.
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let today = jiff::Zoned::now().date();
    // Clocks of other machines may be slow.
    let (from, until) = (today.saturating_sub(1.day()), today.saturating_add(DAYS.days()));
    let [from, until] = [from, until].map(|day| {
        let part = |number: i8| number.unsigned_abs();
        rcgen::date_time_ymd(day.year().into(), part(day.month()), part(day.day()))
    });
    (params.not_before, params.not_after) = (from, until);
    params.self_signed(key).context("The certificate cannot be signed")
}

/// The names of this machine, beginning with the given ones.
fn all_names(given: Vec<String>) -> Vec<String> {
    let mut names = given;
    let own = std::process::Command::new("uname").arg("-n").output();
    names.extend(
        own.ok()
            .and_then(|output| Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())),
    );
    names.extend(own_address().map(|address| address.to_string()));
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| !name.is_empty() && seen.insert(name.clone()));
    names
}

fn short(machine: &str) -> &str {
    match machine.parse::<IpAddr>() {
        Ok(_) => "home",
        Err(_) => machine.split('.').next().unwrap_or("home"),
    }
}
