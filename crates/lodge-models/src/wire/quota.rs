//! Quotas from headers of the Copilot API: `x-quota-snapshot-<kind>: ent=300&ov=0.0&ovPerm=true&rem=87.5&rst=…`.

use std::collections::BTreeMap;

use crate::{HttpResponse, Quota};

const HEADER: &str = "x-quota-snapshot-";

/// The quotas after a call, by their kind. A header that cannot be read says nothing.
pub(super) fn quotas(response: &HttpResponse) -> BTreeMap<String, Quota> {
    let named = response.headers.iter().filter_map(|(name, value)| {
        let name = name.to_ascii_lowercase();
        Some((name.strip_prefix(HEADER)?.to_owned(), read(value)?))
    });
    named.collect()
}

fn read(value: &str) -> Option<Quota> {
    let fields: BTreeMap<&str, &str> = value.split('&').filter_map(|field| field.split_once('=')).collect();
    let number = |name: &str| fields.get(name).and_then(|value| value.parse::<f64>().ok());
    // A date is all that is escaped, and these are all the signs of a date that are.
    let plain = |date: &str| {
        date.replace("%3A", ":")
            .replace("%3a", ":")
            .replace("%2B", "+")
            .replace("%2b", "+")
    };
    let entitlement = number("ent")?;
    let remaining = number("rem").unwrap_or_default();
    Some(Quota {
        entitlement,
        remaining_percentage: remaining,
        used: (entitlement * (1.0 - remaining / 100.0)).round().max(0.0),
        overage: number("ov").unwrap_or_default(),
        overage_allowed: fields.get("ovPerm") == Some(&"true"),
        resets: fields
            .get("rst")
            .filter(|date| !date.is_empty())
            .map(|date| plain(date)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_is_left() {
        let quota = read("ent=300&ov=1.5&ovPerm=true&rem=75&rst=2026-12-01T00%3A00%3A00Z").unwrap();
        assert_eq!((quota.entitlement, quota.used, quota.overage), (300.0, 75.0, 1.5));
        assert_eq!((quota.overage_allowed, quota.remaining_percentage), (true, 75.0));
        assert_eq!(quota.resets.as_deref(), Some("2026-12-01T00:00:00Z"));
        assert_eq!(read("ent=-1&rem=100").unwrap().used, 0.0);
        assert!(read("nothing").is_none());
    }
}
