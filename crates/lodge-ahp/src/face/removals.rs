//! Sessions that the face itself removes: it need not hear of them from the host.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;

/// The sessions that are being removed by their ids.
#[derive(Debug, Default)]
pub(crate) struct Removals(Arc<Mutex<HashSet<String>>>);

/// A session that is being removed. Dropped, it counts as not removed by the face, whatever went wrong.
#[derive(Debug)]
pub(crate) struct Removal {
    all: Arc<Mutex<HashSet<String>>>,
    id: Option<String>,
}

impl Removals {
    pub(crate) fn begin(&self, id: &str) -> Removal {
        self.0.lock().insert(id.to_owned());
        Removal {
            all: self.0.clone(),
            id: Some(id.to_owned()),
        }
    }

    /// The host says that a session is gone. Whether the face removed it.
    pub(crate) fn is_own(&self, id: &str) -> bool {
        self.0.lock().remove(id)
    }
}

impl Removal {
    /// It is gone: the host says so once.
    pub(crate) fn done(mut self) {
        self.id = None;
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.all.lock().remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_that_fails_does_not_hide_the_next_one() {
        let removals = Removals::default();
        removals.begin("one").done();
        assert!(removals.is_own("one") && !removals.is_own("one"));
        let failed = || -> Result<(), ()> {
            let removal = removals.begin("two");
            Err(())?;
            removal.done();
            Ok(())
        };
        assert!(failed().is_err());
        assert!(!removals.is_own("two"));
    }
}
