//! The stdio transport: one JSON-RPC message per line, over a program's standard streams.
//!
//! A line that is no message is skipped and never answered. Programs print other lines, too, and some print one for every
//! message that they get: an answer to each would go back and forth for ever.

use std::io;

use lodge_rpc::{Line, Lines, Peer};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{connection::MESSAGE_BYTES, tasks::TaskOnly};

/// A connection to a program.
pub(crate) struct StdioWire<R> {
    lines: Lines<R>,
    /// Its input has a queue, so that no call waits longer than its limit for a program that does not read.
    peer: Peer,
    tasks: TaskOnly,
}

impl<R: AsyncRead + Unpin> StdioWire<R> {
    /// Reads a program's output and writes its input.
    pub(crate) fn new(output: R, input: impl AsyncWrite + Send + Unpin + 'static, tasks: TaskOnly) -> Self {
        let peer = Peer::default();
        tokio::spawn(peer.clone().write_to(input));
        Self {
            lines: Lines::new(output, MESSAGE_BYTES),
            peer,
            tasks,
        }
    }
}

impl<R: AsyncRead + Send + Unpin> Transport<RoleClient> for StdioWire<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.peer.send(&item);
        std::future::ready(match self.peer.is_closed() {
            // The program closed its input, or is too far behind.
            true => Err(io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        })
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let line = match self.lines.next().await {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::TooLong)) => {
                    tracing::warn!("skipped a message of an MCP server that is longer than {MESSAGE_BYTES} bytes");
                    continue;
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "cannot read the output of an MCP server");
                    return None;
                }
            };
            self.tasks.observe(&line);
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(error) => tracing::debug!(%error, "skipped a line of an MCP server that is no message"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.peer.finish();
        Ok(())
    }
}

impl<R> Drop for StdioWire<R> {
    fn drop(&mut self) {
        self.peer.finish();
    }
}
