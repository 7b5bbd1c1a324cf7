//! Rewinds a session to before a message, with or without its files, and undoes that. `LogHalf` explains how files and log
//! reach the same end, whatever happens in between.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use lodge_agent::{AgentError, may_go};
use lodge_events::{Event, Payload, SessionInfo, Timestamp};
use lodge_log::{LogError, Store};
use lodge_tools::changes::{Changes, ChangesError, Restoration, Restored, Skip};
use uuid::Uuid;

use crate::{Host, HostError, Session, changes::Span};

/// A message to which a session can be rewound.
#[derive(Debug, Clone)]
pub struct RewindPoint {
    /// The message's event; it is removed, too.
    pub event: Uuid,
    /// The message's text.
    pub text: String,
    /// When.
    pub time: Timestamp,
    /// Whether autopilot sent it.
    pub is_continuation: bool,
}

/// The result of a rewind.
#[derive(Debug, Clone, Default)]
pub struct Rewound {
    /// How many events were removed.
    pub events: u64,
    /// The result for the files, if they were rewound, too.
    pub files: Restored,
}

impl Rewound {
    /// The files that were left alone, and the reasons.
    pub fn left_alone(&self) -> Vec<(&Path, &Skip)> {
        self.files
            .skipped
            .iter()
            .map(|(path, why)| (path.as_path(), why))
            .collect()
    }
}

/// A message of a person, or of autopilot.
fn point(event: &Event) -> Option<RewindPoint> {
    let Payload::UserMessage(message) = event.payload() else {
        return None;
    };
    let is_continuation = message.is_autopilot_continuation == Some(true);
    (message.source.is_none() || is_continuation).then(|| RewindPoint {
        event: event.id(),
        text: message.content.clone(),
        time: event.timestamp(),
        is_continuation,
    })
}

impl Session {
    /// The messages to which it can be rewound, oldest first.
    pub async fn rewind_points(&self) -> Result<Vec<RewindPoint>, HostError> {
        let history = self.history()?;
        tokio::task::spawn_blocking(move || {
            let mut points = Vec::new();
            for event in history.events() {
                points.extend(point(&event?));
            }
            Ok(points)
        })
        .await
        .map_err(|_| HostError::Invalid("The messages could not be read.".into()))?
    }

    /// Rewinds the conversation to before an event; with `files`, also the later changes to files: both or neither.
    pub async fn rewind(&self, to: Uuid, files: bool) -> Result<Rewound, HostError> {
        if self.is_busy() {
            return Err(AgentError::Busy.into());
        }
        self.finish_interrupted().await?;
        let (begun, mut report) = match files {
            true => {
                let head = self.agent().paused(|log| log.last_id());
                let half = LogHalf::TakeBack { to, head };
                self.begin_restoration(Span::Since(to.to_string()), &half).await?
            }
            false => (None, Restored::default()),
        };
        let Some(begun) = begun else {
            let events = self.truncate(to).await?;
            self.keep_undo(to, None);
            return Ok(Rewound { events, files: report });
        };
        let begun = Arc::new(begun);
        let done = match self.apply(&begun).await {
            Ok(done) => done,
            Err(error) => {
                self.abandon(&begun, None).await?;
                return Err(error);
            }
        };
        let events = match self.truncate(to).await {
            Ok(events) => events,
            Err(error) => {
                self.abandon(&begun, None).await?;
                return Err(error.into());
            }
        };
        self.settle_files(&begun, &done, Some(to)).await;
        add(&mut report, done);
        Ok(Rewound { events, files: report })
    }

    /// Undoes the last rewind, of the conversation and of files. `None` if there is nothing to undo.
    pub async fn undo_rewind(&self) -> Result<Option<Restored>, HostError> {
        self.finish_interrupted().await?;
        let Some(first) = first_kept(self.dir()) else {
            // If the conversation cannot be restored, the files stay, too.
            return Ok(self.agent().put_back().await?.then(Restored::default));
        };
        let half = LogHalf::PutBack { first };
        let (begun, mut report) = match self.kept_undo(first) {
            Some(id) => self.begin_restoration(Span::Turn(id), &half).await?,
            None => (None, Restored::default()),
        };
        let Some(begun) = begun else {
            return Ok(self.agent().put_back().await?.then_some(report));
        };
        let begun = Arc::new(begun);
        match self.agent().put_back().await {
            Ok(true) => {}
            Ok(false) => {
                self.abandon(&begun, None).await?;
                return Ok(None);
            }
            Err(error) => {
                self.abandon(&begun, None).await?;
                return Err(error.into());
            }
        }
        let done = match self.apply(&begun).await {
            Ok(done) => done,
            Err(error) => {
                self.abandon(&begun, Some(half)).await?;
                return Err(error);
            }
        };
        self.settle_files(&begun, &done, None).await;
        add(&mut report, done);
        Ok(Some(report))
    }

    /// Completes a rewind or restoration that another process began: forwards if that is still possible, otherwise
    /// backwards.
    pub(crate) fn finish_interrupted<'a>(&'a self) -> BoxFuture<'a, Result<(), HostError>> {
        Box::pin(async move {
            let Some(found) = self.with_changes(|changes| Ok(changes.interrupted()?)).await? else {
                return Ok(());
            };
            let found = Arc::new(found);
            let half = found.note().and_then(LogHalf::parse);
            // Nobody knows what else belongs to one with an unreadable note, so it must be abandoned.
            let is_known = half.is_some() || found.note().is_none();
            let forward = is_known && !found.goes_back() && self.put_log_forward(half).await?;
            let done = match forward {
                true => self.carry_on(&found, half).await,
                false => self.abandon(&found, half).await.map(|left| (BACK, left)),
            };
            let (text, left) = match done {
                // It is as if nothing had begun.
                Err(HostError::Changes(error @ ChangesError::RolledBack { .. })) => {
                    self.abandon(&found, half).await?;
                    (BACK, vec![(PathBuf::new(), Skip::Failed(error.to_string()))])
                }
                done => done?,
            };
            let mut message = text.to_owned();
            for (path, why) in left {
                let _ = match why {
                    Skip::Failed(why) => write!(message, "\n- {why}"),
                    why => write!(message, "\n- {} is left alone: {why}", path.display()),
                };
            }
            let info = SessionInfo {
                info_type: "rewind_recovered".into(),
                message,
                ..SessionInfo::default()
            };
            self.record(info).await?;
            Ok(())
        })
    }

    async fn carry_on(&self, found: &Arc<Restoration>, half: Option<LogHalf>) -> Result<Ended, HostError> {
        let done = self.apply(found).await?;
        let taken_back = match half {
            Some(LogHalf::TakeBack { to, .. }) => {
                if self.has_event(to).await? {
                    self.truncate(to).await?;
                }
                Some(to)
            }
            _ => None,
        };
        self.settle_files(found, &done, taken_back).await;
        Ok(("A rewind that was interrupted has been finished.", done.skipped))
    }

    /// Returns files and log to their earlier state.
    async fn abandon(
        &self,
        begun: &Arc<Restoration>,
        half: Option<LogHalf>,
    ) -> Result<Vec<(PathBuf, Skip)>, HostError> {
        let left = self.roll_back(begun).await?;
        if let Some(LogHalf::PutBack { first }) = half
            && first_kept(self.dir()).is_none()
            && self.has_event(first).await?
        {
            self.truncate(first).await?;
        }
        let begun = begun.clone();
        self.with_changes(move |changes| Ok(changes.close(&begun)?)).await?;
        Ok(left)
    }

    /// Whether the log still allows an interrupted restoration to continue. An undo restores the log here.
    async fn put_log_forward(&self, half: Option<LogHalf>) -> Result<bool, HostError> {
        match half {
            None => Ok(true),
            Some(LogHalf::TakeBack { to, head }) => {
                if !self.has_event(to).await? {
                    return Ok(true);
                }
                // Later messages must not be removed with the rewound ones.
                let back = self.agent().paused(|log| log.read_back())?;
                let moved = tokio::task::spawn_blocking(move || {
                    for event in back.events() {
                        let event = event?;
                        if Some(event.id()) == head {
                            return Ok(false);
                        }
                        if !event.is_beside() && !may_go(&event) {
                            return Ok(true);
                        }
                    }
                    Ok::<_, LogError>(true)
                });
                Ok(!moved.await.map_err(|_| unreadable())??)
            }
            Some(LogHalf::PutBack { first }) => match self.agent().put_back().await {
                Ok(true) => Ok(true),
                Ok(false) => self.has_event(first).await,
                Err(AgentError::Refused(_)) => Ok(false),
                Err(error) => Err(error.into()),
            },
        }
    }

    async fn has_event(&self, wanted: Uuid) -> Result<bool, HostError> {
        let back = self.agent().paused(|log| log.read_back())?;
        let found = tokio::task::spawn_blocking(move || {
            for event in back.events() {
                if event?.id() == wanted {
                    return Ok(true);
                }
            }
            Ok::<_, LogError>(false)
        });
        Ok(found.await.map_err(|_| unreadable())??)
    }

    async fn begin_restoration(
        &self,
        span: Span,
        half: &LogHalf,
    ) -> Result<(Option<Restoration>, Restored), HostError> {
        let scope = self.scope(span).await?;
        let note = Some(half.to_string());
        self.with_changes(move |changes| Ok(changes.begin_restoration(&scope, None, false, note)?))
            .await
    }

    async fn apply(&self, begun: &Arc<Restoration>) -> Result<Restored, HostError> {
        let begun = begun.clone();
        self.with_changes(move |changes| Ok(changes.apply(&begun)?)).await
    }

    async fn roll_back(&self, begun: &Arc<Restoration>) -> Result<Vec<(PathBuf, Skip)>, HostError> {
        let begun = begun.clone();
        self.with_changes(move |changes| Ok(changes.roll_back(&begun)?)).await
    }

    /// Files and log are in their final state; the rest is bookkeeping. If that fails, the journal stays, and it is
    /// done when the session is next opened.
    async fn settle_files(&self, begun: &Arc<Restoration>, done: &Restored, taken_back: Option<Uuid>) {
        match taken_back {
            Some(to) => self.keep_undo(to, Some(begun.id())),
            None => drop(std::fs::remove_file(self.undo_file())),
        }
        let (begun, done) = (begun.clone(), done.clone());
        let finished = self
            .with_changes(move |changes| Ok(changes.finish(&begun, &done)?))
            .await;
        if let Err(error) = finished {
            tracing::warn!(session = self.id(), %error, "a rewind is done but could not be recorded");
        }
    }

    /// Stores the restoration of files that belongs to the last rewind, together with the first removed event, so that
    /// it is never mistaken for that of an earlier rewind.
    fn undo_file(&self) -> PathBuf {
        self.dir().join("rewound-files")
    }

    fn keep_undo(&self, to: Uuid, restoration: Option<&str>) {
        let kept = self.undo_file();
        let written = match restoration {
            Some(id) => lodge_files::replace(&kept, format!("{to} {id}").as_bytes()),
            None => std::fs::remove_file(&kept).or(Ok(())),
        };
        if let Err(error) = written {
            tracing::warn!(path = %kept.display(), %error, "this rewind of files cannot be undone later");
        }
    }

    fn kept_undo(&self, first: Uuid) -> Option<String> {
        let text = std::fs::read_to_string(self.undo_file()).ok()?;
        match text.split_once(' ') {
            Some((event, id)) => (event.parse() == Ok(first)).then(|| id.to_owned()),
            // Written by a version that did not store the event.
            None => Some(text),
        }
    }
}

/// The log's part of a rewind with files. It is in the journal of the files' restoration, which is written before anything
/// changes, so that a crash in between ends with both or neither:
///
/// - A rewind restores the files, then rewinds the log. An interrupted one is completed, unless messages were added since:
///   then the files go back.
/// - An undo restores the log, which can be refused, then the files. An interrupted one is completed; if the files cannot be
///   restored, the log is rewound again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogHalf {
    TakeBack {
        to: Uuid,
        /// The last event when it began.
        head: Option<Uuid>,
    },
    PutBack {
        first: Uuid,
    },
}

impl LogHalf {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let (kind, event) = (words.next()?, words.next()?.parse().ok()?);
        match kind {
            "take-back" => Some(Self::TakeBack {
                to: event,
                head: words.next().and_then(|head| head.parse().ok()),
            }),
            "put-back" => Some(Self::PutBack { first: event }),
            _ => None,
        }
    }
}

impl std::fmt::Display for LogHalf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TakeBack { to, head: Some(head) } => write!(f, "take-back {to} {head}"),
            Self::TakeBack { to, head: None } => write!(f, "take-back {to}"),
            Self::PutBack { first } => write!(f, "put-back {first}"),
        }
    }
}

/// How an interrupted rewind ended, and the files that were left alone.
type Ended = (&'static str, Vec<(PathBuf, Skip)>);

const BACK: &str = "A rewind that was interrupted has been undone.";

fn unreadable() -> HostError {
    HostError::Invalid("The session's log could not be read.".into())
}

fn add(report: &mut Restored, done: Restored) {
    report.id = done.id;
    report.restored.extend(done.restored);
    report.skipped.extend(done.skipped);
}

/// The first event that the last rewind removed.
fn first_kept(dir: &Path) -> Option<Uuid> {
    let mut line = Vec::new();
    let mut file = BufReader::new(File::open(kept(dir)).ok()?);
    file.read_until(b'\n', &mut line).ok()?;
    Some(Event::parse(line.into()).ok()?.id())
}

fn kept(dir: &Path) -> PathBuf {
    dir.join("rewound.jsonl")
}

/// Whether the last rewind of the session in this directory can be undone.
pub fn can_put_back(dir: &Path) -> bool {
    kept(dir).metadata().is_ok_and(|about| about.len() > 0)
}

/// Completes the rewinds that the last host left unfinished, in all sessions.
pub(crate) async fn finish_all_interrupted(host: Host) {
    let inner = host.0.clone();
    let found = tokio::task::spawn_blocking(move || {
        let names = Changes::interrupted_sessions(inner.home_path())?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let sessions = inner.home.sessions().list().map_err(std::io::Error::other)?;
        let of = |name: &OsString| {
            let session = sessions.iter().find(|session| session.dir.file_name() == Some(name));
            session.map(|session| session.id.clone())
        };
        Ok::<_, std::io::Error>(names.iter().filter_map(of).collect::<Vec<_>>())
    });
    match found.await {
        Ok(Ok(ids)) => {
            for id in ids {
                // Opening the session completes it.
                if let Err(error) = host.open_session(&id).await {
                    tracing::warn!(session = id, %error, "a rewind was interrupted and cannot be finished");
                }
            }
        }
        Ok(Err(error)) => tracing::warn!(%error, "cannot look for interrupted rewinds"),
        Err(_) => {}
    }
}
