//! What a turn, a session or a work tree changed, as channels that follow it. A channel is opened by the first who
//! subscribes, kept up to date while somebody listens, and closed a while after the last has left.

mod content;
mod files;
mod follow;
mod operations;

use ahp_types::state::{Changeset, ChangesetCapabilities};
use serde_json::Map;

pub(crate) use self::{
    content::{is_content, read},
    follow::Followers,
    operations::invoke,
};

/// Between a session's address and what is meant of its changes, spelt as editors spell it.
const SEGMENT: &str = "/changeset/";

/// Which changes a channel shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The work tree against the branch it left.
    Branch,
    /// The work tree against the last commit.
    Uncommitted,
    /// What the session's turns did.
    Session,
    /// What one turn did.
    Turn(String),
    /// What the turns after the first did, up to the second.
    Compare(String, String),
}

impl Kind {
    /// The session and the changes that a channel's address names.
    pub(crate) fn parse(uri: &str) -> Option<(&str, Self)> {
        let (session, rest) = uri.rsplit_once(SEGMENT)?;
        let named = |id: &str| (!id.is_empty() && !id.contains(['/', '{', '}'])).then(|| id.to_owned());
        let kind = match rest.split_once('/') {
            None if rest == "branch" => Self::Branch,
            None if rest == "uncommitted" => Self::Uncommitted,
            None if rest == "session" => Self::Session,
            Some(("turn", id)) => Self::Turn(named(id)?),
            Some(("compare", ids)) => {
                let (first, last) = ids.split_once('/')?;
                Self::Compare(named(first)?, named(last)?)
            }
            _ => return None,
        };
        Some((session, kind))
    }

    /// Whether people can mark its files as seen.
    pub(crate) fn is_reviewed(&self) -> bool {
        matches!(self, Self::Branch | Self::Session)
    }

    /// Whether it is about what git says, and changes when anybody changes a file.
    fn is_of_git(&self) -> bool {
        matches!(self, Self::Branch | Self::Uncommitted)
    }
}

/// What a session offers to look at. One that has not begun has nothing of its own to show yet.
pub(crate) fn catalogue(session: &str, has_git: bool, begun: bool) -> Vec<Changeset> {
    let entry = |label: &str, description: &str, path: &str, kind: &str| Changeset {
        label: label.to_owned(),
        uri_template: format!("{session}{SEGMENT}{path}"),
        description: Some(description.to_owned()),
        change_kind: kind.to_owned(),
        capabilities: None,
    };
    let reviewed = |changeset: Changeset| Changeset {
        capabilities: Some(ChangesetCapabilities {
            review: Some(Map::new().into_iter().collect()),
        }),
        ..changeset
    };
    let uncommitted = entry(
        "Uncommitted Changes",
        "Uncommitted changes",
        "uncommitted",
        "uncommitted",
    );
    let own = [
        reviewed(entry("All Changes", "Changes of this session", "session", "session")),
        entry("This Turn", "Changes of one turn", "turn/{turnId}", "turn"),
        entry(
            "Compare Turns",
            "Changes between two turns",
            "compare/{originalTurnId}/{modifiedTurnId}",
            "compare-turns",
        ),
    ];
    match (has_git, begun) {
        (true, false) => vec![uncommitted],
        (true, true) => {
            let branch = entry("Branch Changes", "Changes of this branch", "branch", "branch");
            [reviewed(branch), uncommitted].into_iter().chain(own).collect()
        }
        (false, _) => own.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_a_session_and_its_changes_or_nothing() {
        let check = |uri: &str, expected: Option<Kind>| {
            let found = Kind::parse(uri);
            assert_eq!(found, expected.map(|kind| ("lodge:/a", kind)), "{uri}");
        };
        let turn = |id: &str| Kind::Turn(id.to_owned());
        check("lodge:/a/changeset/branch", Some(Kind::Branch));
        check("lodge:/a/changeset/uncommitted", Some(Kind::Uncommitted));
        check("lodge:/a/changeset/session", Some(Kind::Session));
        check("lodge:/a/changeset/turn/t1", Some(turn("t1")));
        let compared = Kind::Compare("t1".to_owned(), "t2".to_owned());
        check("lodge:/a/changeset/compare/t1/t2", Some(compared));
        for nothing in [
            "",
            "turn",
            "turn/",
            "turn/{turnId}",
            "turn/a/b",
            "compare/a",
            "compare/a/b/c",
            "other",
        ] {
            check(&format!("lodge:/a/changeset/{nothing}"), None);
        }
        assert_eq!(Kind::parse("lodge:/a"), None);
    }

    #[test]
    fn what_is_offered_can_be_subscribed_to() {
        let kinds = |git, begun| {
            let offered = catalogue("lodge:/a", git, begun).into_iter();
            offered.map(|changeset| changeset.change_kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(true, false), ["uncommitted"]);
        assert_eq!(
            kinds(true, true),
            ["branch", "uncommitted", "session", "turn", "compare-turns"]
        );
        assert_eq!(kinds(false, false), ["session", "turn", "compare-turns"]);
        for changeset in catalogue("lodge:/a", true, true) {
            let expanded = changeset.uri_template.replace(['{', '}'], "");
            let (session, kind) = Kind::parse(&expanded).unwrap();
            let reviewed = changeset.capabilities.is_some_and(|can| can.review.is_some());
            assert_eq!((session, reviewed), ("lodge:/a", kind.is_reviewed()), "{expanded}");
        }
    }
}
