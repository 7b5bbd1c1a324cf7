//! An action as it is sent, but for its number.

use std::sync::Arc;

use lodge_host::Counter;

use super::{Uri, ring::Sent};
use crate::{
    dialect::seed,
    wire::{Frame, Unnumbered},
};

#[derive(Debug)]
pub(crate) struct Spelt {
    /// Absent: only the seed's dialect says it.
    modern: Option<Unnumbered>,
    /// The name under which the seed's dialect shows the channel. Absent: it does not.
    session: Option<Uri>,
    /// In the seed's dialect, where that is known already.
    seed: Option<Vec<Unnumbered>>,
    /// Only for this client, when given.
    to: Option<Arc<str>>,
}

impl Spelt {
    pub(super) fn new(modern: Unnumbered, session: Option<Uri>) -> Self {
        Self {
            modern: Some(modern),
            session,
            seed: None,
            to: None,
        }
    }

    /// What only the seed's dialect says.
    pub(super) fn in_seed(seed: Vec<Unnumbered>) -> Self {
        Self {
            modern: None,
            session: None,
            seed: Some(seed),
            to: None,
        }
    }

    /// With a spelling for the seed's dialect that follows from more than the action itself.
    pub(super) fn with_seed(self, seed: Option<Vec<Unnumbered>>) -> Self {
        Self { seed, ..self }
    }

    /// For one client alone.
    pub(super) fn only_to(self, client: Arc<str>) -> Self {
        Self {
            to: Some(client),
            ..self
        }
    }

    /// Spells it for listeners of the seed's dialect, too.
    pub(super) fn translate(&mut self) {
        if let (None, Some(modern), Some(session)) = (&self.seed, &self.modern, &self.session) {
            let translated = seed::translate(&modern.clone().frame(0), session);
            self.seed = Some(translated.into_iter().map(|(spelt, _)| spelt).collect());
        }
    }

    /// Gives it its number. In the seed's dialect each action has one of its own, so that a client cut off between two of
    /// them gets the rest; the last of them has the one that it has for everybody else.
    pub(super) fn number(self, seq: &mut Counter) -> Sent {
        let seed = self.seed.map(|mut seed| {
            let last = seed.pop();
            let frames: Vec<Frame> = seed.into_iter().map(|spelt| spelt.frame(seq.next())).collect();
            (frames, last)
        });
        let number = seq.next();
        let modern = self.modern.map(|modern| modern.frame(number));
        let mut sent = Sent::new(number, modern.unwrap_or_default(), self.session);
        if let Some((mut frames, last)) = seed {
            frames.extend(last.map(|last| last.frame(number)));
            sent = sent.with_seed(frames);
        }
        match self.to {
            Some(client) => sent.only_to(client),
            None => sent,
        }
    }
}
