//! Takes what a terminal prints out of the kernel, on a thread of its own.
//!
//! The kernel hands over 4 KB at a time, and a program whose output is not taken at once stands still. On a thread of the
//! runtime every such piece would be a trip through its poller, and nothing would be read while the last batch is shown.
//! Here the next read follows the last one, and whoever shows the output is woken once per batch.

use std::{
    io::{self, PipeReader, PipeWriter},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
};

use parking_lot::{Condvar, Mutex};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::sync::Notify;

/// No more than this, and one read, is held: then programs wait.
pub(super) const BATCH: usize = 128 << 10;
/// More than the kernel gives at once.
const READ: usize = 16 << 10;
/// What the thread needs, by far.
const STACK: usize = 128 << 10;

/// What was printed and not yet taken.
#[derive(Debug)]
pub(super) struct Reader {
    shared: Arc<Shared>,
    /// Its end tells the thread to go, where the thread waits for output.
    _stop: PipeWriter,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<Held>,
    more: Notify,
    room: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    bytes: Vec<u8>,
    ended: bool,
    /// Nobody takes anything any more.
    gone: bool,
}

impl Reader {
    /// Starts to read. The terminal must not block.
    pub(super) fn start(pty: OwnedFd) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        thread::Builder::new()
            .name("terminal".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                read(&pty, &stopped, &theirs);
                theirs.held.lock().ended = true;
                theirs.more.notify_one();
            })?;
        Ok(Self { shared, _stop: stop })
    }

    /// Waits until there is something to take, or nothing will come any more.
    pub(super) async fn some(&self) {
        self.until(1).await;
    }

    /// Waits until there is a batch to take, or nothing will come any more.
    pub(super) async fn batch(&self) {
        self.until(BATCH).await;
    }

    async fn until(&self, bytes: usize) {
        loop {
            {
                let held = self.shared.held.lock();
                if held.ended || held.bytes.len() >= bytes {
                    return;
                }
            }
            self.shared.more.notified().await;
        }
    }

    /// Takes what is there, in exchange for room. Returns whether more may come.
    pub(super) fn take(&self, into: &mut Vec<u8>) -> bool {
        into.clear();
        let mut held = self.shared.held.lock();
        std::mem::swap(&mut held.bytes, into);
        self.shared.room.notify_one();
        !held.ended
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.held.lock().gone = true;
        self.shared.room.notify_one();
    }
}

/// Reads until the end, or until nobody wants it.
fn read(pty: &OwnedFd, stopped: &PipeReader, shared: &Shared) {
    let mut buffer = vec![0; READ];
    loop {
        match rustix::io::read(pty, &mut buffer) {
            Ok(0) => return,
            Ok(count) => {
                let mut held = shared.held.lock();
                shared
                    .room
                    .wait_while(&mut held, |held| held.bytes.len() >= BATCH && !held.gone);
                if held.gone {
                    return;
                }
                let before = held.bytes.len();
                held.bytes.extend_from_slice(&buffer[..count]);
                // Who waits for a batch is not disturbed before it is there.
                if before == 0 || held.bytes.len() >= BATCH {
                    shared.more.notify_one();
                }
            }
            Err(Errno::AGAIN) => {
                let mut both = [PollFd::new(pty, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
                let waited = poll(&mut both, None);
                if !both[1].revents().is_empty() || waited.is_err_and(|error| error != Errno::INTR) {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            // So a terminal ends.
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A reader of what is written to the other end.
    fn reader() -> (Reader, PipeWriter) {
        let (read, write) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        (Reader::start(read.into()).unwrap(), write)
    }

    #[tokio::test]
    async fn everything_comes_in_order_a_batch_at_a_time() {
        let (reader, mut write) = reader();
        let written: Vec<u8> = (0..5 * BATCH).map(|at| (at % 251) as u8).collect();
        let whole = written.clone();
        let writing = thread::spawn(move || write.write_all(&whole).unwrap());
        let (mut seen, mut taken) = (Vec::new(), Vec::new());
        loop {
            reader.batch().await;
            let open = reader.take(&mut taken);
            assert!(taken.len() < BATCH + READ, "{} bytes were held", taken.len());
            seen.extend_from_slice(&taken);
            if !open {
                break;
            }
        }
        writing.join().unwrap();
        assert!(seen == written);
    }

    #[tokio::test]
    async fn one_key_is_there_at_once() {
        let (reader, mut write) = reader();
        let mut taken = Vec::new();
        for key in b"ls" {
            write.write_all(&[*key]).unwrap();
            reader.some().await;
            assert!(reader.take(&mut taken));
            assert_eq!(taken, [*key]);
        }
    }

    #[tokio::test]
    async fn who_takes_no_more_lets_go_of_the_terminal() {
        for full in [false, true] {
            let (reader, mut write) = reader();
            let writing = thread::spawn(move || {
                // With the thread goes the only one that reads.
                let mut some = vec![b'x'; if full { 4 * BATCH } else { 1 }];
                while write.write_all(&some).is_ok() {
                    some.truncate(1);
                    thread::yield_now();
                }
            });
            if full {
                reader.batch().await;
            }
            drop(reader);
            writing.join().unwrap();
        }
    }
}
