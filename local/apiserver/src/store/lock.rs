//! The lock that gives the store's file to one process, and within it to one store.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a store that is just being closed may take: its last transaction, then the log's checkpoint.
const PATIENCE: Duration = Duration::from_secs(1);
/// Another process tells nobody when it ends.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Told whenever this process frees a lock.
static FREED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());

/// Held until dropped or the process dies.
#[derive(Debug)]
pub struct Lock(Option<File>);

impl Lock {
    /// `None` when somebody else keeps holding it. Blocks for a moment when it is held.
    pub fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = File::create(path)?;
        let deadline = Instant::now() + PATIENCE;
        let (freed, told) = &FREED;
        let mut waiting = freed.lock();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(Self(Some(file)))),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return Ok(None),
                Err(TryLockError::WouldBlock) => told.wait_for(&mut waiting, LOOK_AGAIN),
            };
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _telling = FREED.0.lock();
        drop(self.0.take());
        FREED.1.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_taken_once_its_holder_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path).unwrap().unwrap();
        let waiter = std::thread::spawn({
            let path = path.clone();
            move || Lock::take(&path).unwrap().is_some()
        });
        drop(first);
        assert!(waiter.join().unwrap());
    }

    #[test]
    fn is_refused_while_its_holder_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _first = Lock::take(&path).unwrap().unwrap();
        assert!(Lock::take(&path).unwrap().is_none());
    }
}
