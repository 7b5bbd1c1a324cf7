//! Which version a connection speaks, and which dialect follows from it.

use serde::{Deserialize, Serialize};

/// The spelling of the wire. Between 0.9.0 and 1.0.0 the protocol only grew, by fields that older clients leave alone, so both
/// are one dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// 0.9.0 and 1.0.0: channels, chats of their own.
    Modern,
    /// 0.1.0: sessions with one conversation, URIs inside the actions.
    Seed,
}

/// The lowest version of each served range, newest first. A range goes up to the next version that may break.
pub const SUPPORTED: [&str; 3] = ["1.0.0", "0.9.0", "0.1.0"];

/// The dialect of a version that [`negotiate`] chose.
pub fn dialect(version: &str) -> Dialect {
    if version.starts_with("0.1.") || version == "1" {
        Dialect::Seed
    } else {
        Dialect::Modern
    }
}

/// Picks the highest offered version inside a served range. `Err` names an entry that is no version.
pub fn negotiate(offered: &[String]) -> Result<Option<&str>, &str> {
    let mut best: Option<([u64; 3], &str)> = None;
    for text in offered {
        let version = parse(text).ok_or(text.as_str())?;
        let served = SUPPORTED
            .iter()
            .filter_map(|base| parse(base))
            .any(|base| within(version, base));
        if served && best.is_none_or(|(highest, _)| version > highest) {
            best = Some((version, text));
        }
    }
    Ok(best.map(|(_, text)| text))
}

/// What a client is told that offers nothing which is served: who has to be updated.
pub fn refusal(offered: &[String], host: &str) -> String {
    let served = "1.x, 0.9.x and 0.1.x";
    let newest = offered.iter().filter_map(|text| parse(text)).max();
    let advice = match newest {
        None => "Offer one of them in protocolVersions.",
        Some(newest) if Some(newest) > parse(SUPPORTED[0]) => "Update Lodge on this machine, or use an older client.",
        Some(_) => "Update the client.",
    };
    let offered = match offered {
        [] => "no version".to_owned(),
        some => some.join(", "),
    };
    format!("Lodge {host} speaks AHP {served}; the client offers {offered}. {advice}")
}

fn parse(text: &str) -> Option<[u64; 3]> {
    let mut parts = text.split('.').map(|part| {
        let plain = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (plain && (part == "0" || !part.starts_with('0')))
            .then(|| part.parse().ok())
            .flatten()
    });
    let version = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(version)
}

/// The caret rule: the leftmost number that is not zero must be the same.
fn within(version: [u64; 3], base: [u64; 3]) -> bool {
    version >= base && version[0] == base[0] && (base[0] > 0 || version[1] == base[1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_offered_version_in_a_served_range_is_chosen() {
        let check = |offered: &[&str], expected: Result<Option<&str>, &str>| {
            let offered: Vec<String> = offered.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(negotiate(&offered), expected, "{offered:?}");
        };
        check(&["1.0.0", "0.9.0"], Ok(Some("1.0.0")));
        check(&["0.9.0", "1.0.0"], Ok(Some("1.0.0")));
        check(&["0.9.3"], Ok(Some("0.9.3")));
        check(&["1.4.2"], Ok(Some("1.4.2")));
        check(&["0.1.0"], Ok(Some("0.1.0")));
        check(&["0.1.7", "0.9.0"], Ok(Some("0.9.0")));
        check(&["0.8.0", "2.0.0", "0.10.0"], Ok(None));
        check(&[], Ok(None));
        check(&["1.0.0", "latest"], Err("latest"));
        check(&["1.0"], Err("1.0"));
        check(&["01.0.0"], Err("01.0.0"));
    }

    #[test]
    fn who_offers_nothing_that_is_served_hears_whose_turn_it_is_to_update() {
        let told = |offered: &[&str]| {
            let offered: Vec<String> = offered.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(negotiate(&offered), Ok(None), "{offered:?}");
            refusal(&offered, "0.1.0")
        };
        let lodge = "Update Lodge on this machine, or use an older client.";
        assert_eq!(
            told(&["2.0.0"]),
            format!("Lodge 0.1.0 speaks AHP 1.x, 0.9.x and 0.1.x; the client offers 2.0.0. {lodge}")
        );
        assert!(told(&["0.8.0", "2.1.0"]).ends_with(lodge));
        assert!(told(&["0.8.0", "0.7.0"]).ends_with("the client offers 0.8.0, 0.7.0. Update the client."));
        assert!(told(&[]).ends_with("the client offers no version. Offer one of them in protocolVersions."));
    }

    #[test]
    fn the_official_helper_agrees_on_what_it_knows() {
        for version in ["1.0.0", "0.9.0", "1.2.3", "0.9.9", "0.8.0", "2.0.0"] {
            let offered = vec![version.to_owned()];
            assert_eq!(
                ahp_types::negotiate_protocol_version(&offered).unwrap(),
                negotiate(&offered).unwrap()
            );
        }
    }
}
