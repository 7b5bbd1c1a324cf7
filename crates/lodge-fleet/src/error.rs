//! The one error type of this room.

use crate::Owner;

/// What can go wrong between a host and its fleet, in words that a person can act on.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// No server could be reached.
    #[error(
        "cannot connect to NATS at {servers}: {reason}. Check the address, the credentials and that the servers run."
    )]
    Connect {
        /// The addresses, without credentials.
        servers: String,
        /// What the client library said.
        reason: String,
    },
    /// A file with credentials will not do.
    #[error("cannot use the NATS credentials in {}: {reason}", path.display())]
    Credentials {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// JetStream did not answer in time: no leader, no quorum, or no way to it.
    #[error(
        "JetStream did not {action} within {seconds} s: {reason}. Check that most of the NATS servers run and reach each other."
    )]
    Unavailable {
        /// What was tried.
        action: String,
        /// For how long.
        seconds: u64,
        /// What came last.
        reason: String,
    },
    /// JetStream answered with an error of its own.
    #[error("JetStream refused to {action}: {description} (error {code})")]
    Refused {
        /// What was tried.
        action: String,
        /// The server's words.
        description: String,
        /// The server's number for them.
        code: u64,
    },
    /// A server is too old.
    #[error("NATS server {server} is version {found}, and a fleet needs {least} or newer: update it")]
    TooOld {
        /// The server's name.
        server: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        least: String,
    },
    /// The servers acknowledge what is not on the disk yet.
    #[error(
        "NATS server {server} acknowledges writes before they are on its disk, so a power cut can lose accepted \
         messages: set `sync_interval: always` in the jetstream block of its configuration"
    )]
    LazySync {
        /// The server's name.
        server: String,
    },
    /// Whether the servers sync cannot be seen without a user of the system account.
    #[error(
        "cannot tell whether the NATS servers write to disk before they acknowledge: {reason}, or turn this check off with --fleet-unchecked-sync"
    )]
    SyncUnknown {
        /// Why it cannot be told, and what to do.
        reason: String,
    },
    /// Too few copies are kept.
    #[error(
        "stream {stream} keeps {found} of the {wanted} copies that a fleet needs, so losing one server can lose sessions: run \
         three servers, or raise the stream's replicas"
    )]
    TooFewReplicas {
        /// The stream.
        stream: String,
        /// How many copies it keeps.
        found: usize,
        /// How many it needs.
        wanted: usize,
    },
    /// A stream of the fleet's name has other settings than a fleet needs.
    #[error(
        "stream {stream} does not fit a fleet: {field} is {found}, not {wanted}. Another program created or changed it."
    )]
    ForeignStream {
        /// The stream.
        stream: String,
        /// The setting.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it has to be.
        wanted: String,
    },
    /// A later version wrote it, in a format that this one cannot read.
    #[error("{what} has a newer format than this version of Lodge knows: upgrade this host")]
    NewerFormat {
        /// What has it.
        what: String,
    },
    /// An earlier version made the stream.
    #[error(
        "stream {stream} was made by an earlier version of Lodge: upgrade the fleet with `lodge fleet upgrade`, as a user who \
         may change streams"
    )]
    OlderFormat {
        /// The stream.
        stream: String,
    },
    /// Two hosts want one name.
    #[error(
        "a host of the fleet is called {name:?} already ({other}), and serves another home: give one of them another name"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The id of the host that has it.
        other: String,
    },
    /// Somebody else writes to the session now. Nothing was written.
    #[error("session {session:?} is now written by {by}: this host must not write to it any more")]
    Fenced {
        /// The session.
        session: String,
        /// Who wrote instead.
        by: Owner,
    },
    /// The writer failed before; what it holds is no longer known to be the end of the log.
    #[error("an earlier write to the log of session {session:?} failed: open the session again")]
    Poisoned {
        /// The session.
        session: String,
    },
    /// Another host owns the session, and its lease has not run out.
    #[error("session {session:?} belongs to host {}, which is alive", owner.host)]
    Owned {
        /// The session.
        session: String,
        /// The owner.
        owner: Owner,
    },
    /// The session was deleted.
    #[error("session {session:?} was deleted")]
    Deleted {
        /// The session.
        session: String,
    },
    /// There is such a session already.
    #[error("session {session:?} is already in the fleet")]
    Exists {
        /// The session.
        session: String,
    },
    /// There is no such session.
    #[error("session {session:?} is not in the fleet")]
    NotFound {
        /// The session.
        session: String,
    },
    /// The log is not what was written.
    #[error(
        "the log of session {session:?} is damaged at sequence {sequence}: {reason}. Restore the stream, or export what is before it."
    )]
    Damaged {
        /// The session.
        session: String,
        /// The message in the stream.
        sequence: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The local copy of a log and its stream have different events at the same place.
    #[error(
        "the local copy of session {session:?} differs from the fleet's log at event {event}: {reason}. Move the local copy \
         away to continue with the fleet's log."
    )]
    Diverged {
        /// The session.
        session: String,
        /// Which event, counted from 0.
        event: u64,
        /// What differs.
        reason: String,
    },
    /// The copy of a log in this home cannot be read or written.
    #[error(transparent)]
    Copy(#[from] lodge_log::LogError),
    /// The files that a session keeps beside its log cannot be read or written.
    #[error("the files in {} cannot be read or written: {source}", dir.display())]
    Files {
        /// The session's directory.
        dir: std::path::PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// A file of a session cannot be fetched.
    #[error("the file {path:?} of session {session:?} cannot be fetched: {reason}")]
    BadFile {
        /// The session.
        session: String,
        /// Its way from the session's directory.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More than one append may hold.
    #[error("{bytes} bytes are more than the {most} bytes that one append may hold")]
    TooLarge {
        /// How many.
        bytes: usize,
        /// How many are allowed.
        most: usize,
    },
    /// An event that would tear the run of events in two.
    #[error("an event of session {session:?} is not one line of JSON")]
    NotOneLine {
        /// The session.
        session: String,
    },
    /// A session's id cannot be part of a subject.
    #[error("the session id is {length} bytes long; a fleet takes 1 to {most}")]
    BadName {
        /// The length of the id.
        length: usize,
        /// The longest.
        most: usize,
    },
}
