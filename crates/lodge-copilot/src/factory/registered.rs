//! Factories that clients offer, for as long as they are connected.

use std::{collections::HashSet, sync::Arc};

use lodge_events::FactoryPhase;
use serde::Deserialize;

use super::{Factories, Limits, refused};
use crate::{board::Board, peer::Peer, rpc::RpcError};

/// How many factories a client can offer.
const MOST: usize = 256;

/// A factory as a client declares it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FactoryConfig {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    #[serde(default)]
    pub(super) phases: Vec<FactoryPhase>,
    #[serde(default)]
    pub(super) limits: Option<Limits>,
}

/// A client that offers factories.
pub(super) struct Provider {
    number: u64,
    peer: Peer,
    factories: Arc<[FactoryConfig]>,
}

/// The factories that a client offers, while this exists.
pub(crate) struct Registered {
    board: Arc<Board>,
    number: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut state = self.board.factories().state.lock();
        state.providers.retain(|provider| provider.number != self.number);
    }
}

impl Factories {
    /// Adds the factories of a client.
    pub(crate) fn register(
        board: &Arc<Board>,
        peer: Peer,
        factories: &[FactoryConfig],
    ) -> Result<Option<Registered>, RpcError> {
        if factories.is_empty() {
            return Ok(None);
        }
        if factories.len() > MOST {
            let message = format!("{} factories are too many: the limit is {MOST}", factories.len());
            return Err(RpcError::params(message));
        }
        let mut names = HashSet::new();
        for factory in factories {
            if factory.name.trim().is_empty() || !names.insert(&factory.name) {
                return Err(RpcError::params(format!(
                    "factories: every factory needs a unique name; {:?} is empty or repeated",
                    factory.name
                )));
            }
            factory.limits.unwrap_or_default().check()?;
        }
        let mut state = board.factories().state.lock();
        state.last += 1;
        let number = state.last;
        state.providers.push(Provider {
            number,
            peer,
            factories: factories.into(),
        });
        Ok(Some(Registered {
            board: Arc::clone(board),
            number,
        }))
    }

    /// The factory of this name, and the client that offers it. The newest client counts.
    pub(super) fn find(&self, name: &str) -> Result<(Peer, FactoryConfig), RpcError> {
        let state = self.state.lock();
        let mut found = state.providers.iter().rev().filter_map(|provider| {
            let factory = provider.factories.iter().find(|factory| factory.name == name)?;
            Some((provider.peer.clone(), factory.clone()))
        });
        found.next().ok_or_else(|| {
            refused(
                "factory_not_found",
                format!("No factory is registered with the name \"{name}\""),
            )
        })
    }
}
