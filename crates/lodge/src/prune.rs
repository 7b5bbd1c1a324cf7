//! `lodge sessions prune` and `[retention]`: deleting sessions by rules.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use lodge_host::{Expired, Expiry, Host, Retention};
use serde::{Deserialize, Deserializer, de::Error};

use crate::{console::Console, listing::count, sessions, setup};

/// How often a host applies the rules.
const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// `[retention]` of `lodge.toml`.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rules {
    /// Such as `"90d"`: sessions without activity for longer are deleted.
    #[serde(deserialize_with = "age")]
    max_age: Option<Duration>,
    /// How many sessions are kept.
    max_sessions: Option<usize>,
    /// Such as `"10GB"`: the size of all sessions together.
    #[serde(deserialize_with = "size")]
    max_size: Option<u64>,
}

impl Rules {
    pub(crate) fn retention(self) -> Retention {
        Retention {
            max_age: self.max_age,
            max_sessions: self.max_sessions,
            max_bytes: self.max_size,
        }
    }
}

/// `lodge sessions prune`.
#[derive(Args)]
pub(crate) struct PruneArgs {
    /// Show what would be deleted and why, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Delete sessions without activity for this long, such as 12h, 90d or 8w [default: `[retention]` in lodge.toml]
    #[arg(long, value_name = "AGE", value_parser = parse_age)]
    max_age: Option<Duration>,
    /// Keep this many of the newest sessions [default: `[retention]` in lodge.toml]
    #[arg(long, value_name = "N")]
    max_sessions: Option<usize>,
    /// Keep the newest sessions that fit into this size, such as 500MB or 10GB [default: `[retention]` in lodge.toml]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_size: Option<u64>,
}

/// Runs `lodge sessions prune`. Rules on the command line replace those in the configuration.
pub(crate) async fn prune(host: &Host, args: &PruneArgs, console: &mut Console) -> Result<u8> {
    let given = Retention {
        max_age: args.max_age,
        max_sessions: args.max_sessions,
        max_bytes: args.max_size,
    };
    let rules = match given.is_empty() {
        true => setup::config(host.home().path())?.retention.retention(),
        false => given,
    };
    if rules.is_empty() {
        bail!(
            "There is no retention rule. Give one, such as --max-age 90d, or put it into lodge.toml:\n\n[retention]\nmax_age = \"90d\""
        );
    }
    let expired = host.expired(rules).await?;
    if expired.is_empty() {
        console.say("There is nothing to delete.")?;
        return Ok(0);
    }
    let bytes: u64 = expired.iter().map(|found| found.bytes).sum();
    for found in &expired {
        console.say(&format!(
            "{}  {}  {:>9}  {}",
            found.session.id,
            found.session.modified.strftime("%Y-%m-%d"),
            shown_size(found.bytes),
            match found.why {
                Expiry::Age => "too old",
                Expiry::Number => "more than max_sessions",
                Expiry::Size => "more than max_size",
            }
        ))?;
    }
    let sum = format!("{}, {}", count(expired.len(), "session"), shown_size(bytes));
    if args.dry_run {
        console.say(&format!("{sum}. Nothing was deleted."))?;
        return Ok(0);
    }
    console.flush().await?;
    if !args.yes && !sessions::agrees(console, &format!("Delete these {sum}? [y]es, [n]o: ")).await? {
        return Ok(1);
    }
    for found in expired {
        delete(host, &found).await?;
    }
    host.catalogue().flush();
    console.say(&format!("Deleted {sum}."))?;
    Ok(0)
}

/// Deletes a session, unless somebody used it meanwhile. Answers whether it did.
async fn delete(host: &Host, found: &Expired) -> Result<bool> {
    let deleted = host.prune(&found.session).await;
    deleted.with_context(|| format!("{} cannot be deleted", found.session.id))
}

/// Applies the configured rules once a day, until the future is dropped.
pub(crate) async fn keep_to(host: Host, rules: Retention) {
    if rules.is_empty() {
        return std::future::pending().await;
    }
    let mut tick = tokio::time::interval(PAUSE);
    loop {
        tick.tick().await;
        let expired = match host.expired(rules).await {
            Ok(expired) => expired,
            Err(error) => {
                tracing::warn!(%error, "the rules of [retention] cannot be applied");
                continue;
            }
        };
        for found in expired {
            match delete(&host, &found).await {
                Ok(true) => tracing::info!(session = found.session.id, why = ?found.why, "deleted by [retention]"),
                Ok(false) => {}
                Err(error) => tracing::warn!("{}", crate::describe(&error)),
            }
        }
    }
}

fn parse_age(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err("an age is a number followed by m, h, d or w, such as 90d".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a whole number"))?;
    number
        .checked_mul(seconds)
        .map(Duration::from_secs)
        .ok_or_else(|| "it is too long".to_owned())
}

fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let bytes: u64 = match unit.to_uppercase().as_str() {
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        "TB" => 1 << 40,
        _ => return Err("a size is a number followed by KB, MB, GB or TB, such as 10GB".to_owned()),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a whole number"))?;
    number.checked_mul(bytes).ok_or_else(|| "it is too large".to_owned())
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..at], text[at..].trim())
}

fn age<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_age(&text).map(Some).map_err(D::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    parse_size(&text).map(Some).map_err(D::Error::custom)
}

fn shown_size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KB", bytes.div_ceil(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{} MB", bytes.div_ceil(1 << 20)),
        _ => format!("{} GB", bytes.div_ceil(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_numbers_with_a_unit() {
        let hour = Duration::from_secs(3600);
        for (text, expected) in [
            ("90d", hour * 24 * 90),
            ("1 h", hour),
            ("2w", hour * 24 * 14),
            ("0m", Duration::ZERO),
        ] {
            assert_eq!(parse_age(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("10GB", 10 << 30), ("1 kb", 1 << 10), ("5mb", 5 << 20)] {
            assert_eq!(parse_size(text), Ok(expected), "{text}");
        }
        for wrong in [
            "",
            "d",
            "90",
            "-1d",
            "1.5d",
            "1y",
            "99999999999999999999d",
            "18446744073709551615w",
        ] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "10", "GB", "10B", "18446744073709551615TB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
