//! Taking a session back to before a message, with its files or without, and undoing that.

use std::path::{Path, PathBuf};

use lodge_agent::AgentError;
use lodge_events::{Event, Payload, Timestamp};
use lodge_tools::changes::{Restored, Skip};
use uuid::Uuid;

use crate::{HostError, Session, changes::Span};

/// A message that a session can be taken back to.
#[derive(Debug, Clone)]
pub struct RewindPoint {
    /// The event of the message; it goes, too.
    pub event: Uuid,
    /// What was said.
    pub text: String,
    /// When.
    pub time: Timestamp,
    /// Whether autopilot said it.
    pub is_continuation: bool,
}

/// What taking back did.
#[derive(Debug, Clone, Default)]
pub struct Rewound {
    /// How many events went.
    pub events: u64,
    /// What became of the files, where they were meant too.
    pub files: Restored,
}

impl Rewound {
    /// The files that could not be put back, and why, for people.
    pub fn left_alone(&self) -> Vec<(&Path, &Skip)> {
        self.files
            .skipped
            .iter()
            .map(|(path, why)| (path.as_path(), why))
            .collect()
    }
}

/// A message that a person, or autopilot in their place, said.
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
    /// The messages that it can be taken back to, oldest first.
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

    /// Takes the conversation back to before an event; with `files`, also what was done to files since. Files first: when
    /// they cannot be looked at, nothing has happened.
    pub async fn rewind(&self, to: Uuid, files: bool) -> Result<Rewound, HostError> {
        if self.is_busy() {
            return Err(AgentError::Busy.into());
        }
        let restored = match files {
            true => self.restore(Span::Since(to.to_string()), None, false).await?,
            false => Restored::default(),
        };
        let events = self.truncate(to).await?;
        let kept = self.undo_file();
        let written = match &restored.id {
            Some(id) => std::fs::write(&kept, id),
            None => std::fs::remove_file(&kept).or(Ok(())),
        };
        if let Err(error) = written {
            tracing::warn!(path = %kept.display(), %error, "taking back files cannot be undone later");
        }
        Ok(Rewound {
            events,
            files: restored,
        })
    }

    /// Undoes the last taking back, of the conversation and of files. `None` when there is nothing to undo.
    pub async fn undo_rewind(&self) -> Result<Option<Restored>, HostError> {
        if !self.put_back().await? {
            return Ok(None);
        }
        let kept = self.undo_file();
        let Ok(id) = std::fs::read_to_string(&kept) else {
            return Ok(Some(Restored::default()));
        };
        let restored = self.restore(Span::Turn(id), None, false).await?;
        let _ = std::fs::remove_file(kept);
        Ok(Some(restored))
    }

    /// Names the restoration of files that belongs to the last taking back.
    fn undo_file(&self) -> PathBuf {
        self.dir().join("rewound-files")
    }
}

/// Whether something was taken back from the session in this directory that can be put back.
pub fn can_put_back(dir: &Path) -> bool {
    dir.join("rewound.jsonl").is_file()
}
