//! What a conversation owns alone. It lives in a cell of its own, so that a delta needs no lock that other sessions
//! want; whoever holds the state's lock borrows it, and has it until that lock is released. So all that is done under
//! the state's lock is one step for everybody who looks, and the two ways never wait for each other's locks.

use std::{cell::OnceCell, sync::Arc};

use parking_lot::Mutex;

use super::Uri;

/// What the holder of the state's lock has borrowed, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Borrowed(Arc<Mutex<Vec<Uri>>>);

impl Borrowed {
    /// The names of all that is to be put back.
    pub(crate) fn take(&self) -> Vec<Uri> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// The cell; empty while its contents are borrowed, and for good when their owner is gone.
type Cell<T> = Arc<Mutex<Option<Box<T>>>>;

/// Something that belongs to the state.
#[derive(Debug)]
pub(crate) struct Lent<T> {
    name: Uri,
    cell: Cell<T>,
    here: OnceCell<Box<T>>,
    borrowed: Borrowed,
}

impl<T> Lent<T> {
    pub(crate) fn new(name: Uri, value: T, borrowed: Borrowed) -> Self {
        Self {
            name,
            cell: Arc::new(Mutex::new(Some(Box::new(value)))),
            here: OnceCell::new(),
            borrowed,
        }
    }

    /// The way to it that does not lead through the state.
    pub(crate) fn handle(&self) -> Handle<T> {
        Handle(self.cell.clone())
    }

    /// Borrows it.
    pub(crate) fn get(&self) -> &T {
        self.here.get_or_init(|| {
            self.borrowed.0.lock().push(self.name.clone());
            let value = self.cell.lock().take();
            value.expect("it is in its cell unless it is here: nobody else takes it out")
        })
    }

    /// Borrows it to change it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.get();
        self.here.get_mut().expect("it was just borrowed")
    }

    /// Puts it back into its cell.
    pub(crate) fn put_back(&mut self) {
        if let Some(value) = self.here.take() {
            *self.cell.lock() = Some(value);
        }
    }
}

impl<T> Drop for Lent<T> {
    /// What the state has let go nobody changes any more.
    fn drop(&mut self) {
        self.cell.lock().take();
    }
}

/// The way to something that belongs to the state, without the state's lock.
#[derive(Debug)]
pub(crate) struct Handle<T>(Cell<T>);

impl<T> Handle<T> {
    /// Does something to it, unless the holder of the state's lock has it or it is gone.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.lock().as_deref_mut().map(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_borrowed_cannot_be_reached_until_it_is_back_and_never_when_it_is_gone() {
        let borrowed = Borrowed::default();
        let mut lent = Lent::new("a".into(), 1, borrowed.clone());
        let handle = lent.handle();
        assert_eq!(handle.with(|value| std::mem::replace(value, 2)), Some(1));
        assert_eq!(*lent.get(), 2);
        *lent.get_mut() += 1;
        assert_eq!(handle.with(|value| *value), None);
        assert_eq!(borrowed.take(), ["a".into()]);
        lent.put_back();
        assert_eq!(handle.with(|value| *value), Some(3));
        drop(lent);
        assert_eq!(handle.with(|value| *value), None);
    }
}
