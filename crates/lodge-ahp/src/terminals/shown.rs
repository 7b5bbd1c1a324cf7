//! What a terminal prints, as actions.

use std::time::Instant;

use ahp_types::{
    StateAction,
    actions::{
        TerminalCommandDetectionAvailableAction, TerminalCommandExecutedAction, TerminalCommandFinishedAction,
        TerminalCwdChangedAction, TerminalDataAction, TerminalExitedAction, TerminalTitleChangedAction,
    },
};
use lodge_events::Timestamp;
use lodge_host::terminal::{Piece, screen};

use crate::{face::Inner, state::Uri, uri};

impl Inner {
    /// Shows what came from a terminal. It may be closed by now: then nobody is told.
    pub(super) fn show_pieces(&mut self, uri: &Uri, pieces: Vec<Piece>) {
        let mut listed = false;
        // A program that changes its title all the time is shown with the last one.
        let title = pieces.iter().rposition(|piece| matches!(piece, Piece::Title(_)));
        for (at, piece) in pieces.into_iter().enumerate() {
            let Some(entry) = self.terminals.entries.get_mut(uri) else {
                return;
            };
            let Some(state) = self.core.terminal(uri) else { return };
            let action = match piece {
                Piece::Text(data) => {
                    entry.kept += data.len();
                    StateAction::TerminalData(TerminalDataAction { data })
                }
                Piece::Query(query) => {
                    let (cols, rows) = super::size_of(state);
                    let content = || state.content.iter().map(super::scrollback::text);
                    let answer = query.answer(|| screen::cursor(content(), cols, rows));
                    if let Some(terminal) = entry
                        .terminal
                        .as_ref()
                        .filter(|terminal| terminal.has_room(answer.len()))
                    {
                        terminal.write(&answer);
                    }
                    continue;
                }
                Piece::Title(name) => {
                    let news = Some(at) == title && !entry.named && !name.is_empty() && name != state.title;
                    if !news {
                        continue;
                    }
                    listed = true;
                    StateAction::TerminalTitleChanged(TerminalTitleChangedAction { title: name })
                }
                Piece::Cwd(path) => {
                    let cwd = uri::file(path);
                    if state.cwd.as_ref() == Some(&cwd) {
                        continue;
                    }
                    StateAction::TerminalCwdChanged(TerminalCwdChangedAction { cwd })
                }
                Piece::Detected => {
                    StateAction::TerminalCommandDetectionAvailable(TerminalCommandDetectionAvailableAction {})
                }
                Piece::Started { command } => {
                    entry.commands += 1;
                    let command_id = format!("command-{}", entry.commands);
                    entry.running = Some((command_id.clone(), Instant::now()));
                    StateAction::TerminalCommandExecuted(TerminalCommandExecutedAction {
                        command_id,
                        command_line: command,
                        timestamp: Timestamp::now().as_millisecond(),
                    })
                }
                Piece::Finished { code } => {
                    let Some((command_id, since)) = entry.running.take() else {
                        continue;
                    };
                    StateAction::TerminalCommandFinished(TerminalCommandFinishedAction {
                        command_id,
                        exit_code: code.map(i64::from),
                        duration_ms: since.elapsed().as_millis().try_into().ok(),
                    })
                }
                Piece::Exited(code) => {
                    listed = true;
                    StateAction::TerminalExited(TerminalExitedAction {
                        exit_code: code.map(i64::from),
                    })
                }
            };
            self.core.publish(uri, &action, None);
        }
        if listed {
            self.terminals_changed();
        }
    }
}
