//! What the server tells us where we can't act on it.
//!
//! There are two such places. One is another thread: the server reads and parses on threads of its own,
//! and other modules run commands on theirs. The other is the middle of a change to the locks
//! (`Module::change`), where the server may call us back. Either way a note is left here. The notes are
//! read in the order in which they came, on the server's own thread, when the change is done, and
//! before anything else of ours runs. None is ever dropped.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::module::Module;
use crate::lock::{Db, Now};

/// Something that the server has told us, and that is still to be acted on.
pub enum Note {
    /// Something has happened to these keys.
    Touched(BTreeSet<(Db, Vec<u8>)>),
    /// Something else: what the log calls it, and what is done about it.
    Other(&'static str, Box<Act>),
}

/// How a note is acted on. Nothing is written in it, and no other module is called: the server may be in the middle of
/// anything.
pub type Act = dyn FnOnce(&Module, Now) + Send;

static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());
/// Is there any note? Asked each time that the server enters the module.
static ANY: AtomicBool = AtomicBool::new(false);

/// Leaves a note.
pub fn leave(place: &'static str, act: Box<Act>) {
    notes().push(Note::Other(place, act));
    ANY.store(true, Ordering::Release);
}

/// Leaves a note that something has happened to this key. One that is touched again and again, with nothing else in
/// between, is one note.
pub fn leave_touched(db: Db, key: &[u8]) {
    let mut notes = notes();
    let key = (db, key.to_vec());
    match notes.last_mut() {
        Some(Note::Touched(keys)) => _ = keys.insert(key),
        _ => notes.push(Note::Touched(BTreeSet::from([key]))),
    }
    ANY.store(true, Ordering::Release);
}

pub fn take() -> Vec<Note> {
    let mut notes = notes();
    ANY.store(false, Ordering::Relaxed);
    std::mem::take(&mut *notes)
}

#[inline]
pub fn is_empty() -> bool {
    !ANY.load(Ordering::Acquire)
}

fn notes() -> MutexGuard<'static, Vec<Note>> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_keep_their_order_and_a_key_that_is_touched_a_thousand_times_is_one() {
        assert!(is_empty());
        for _ in 0..1000 {
            leave_touched(0, b"k");
            leave_touched(0, b"l");
        }
        leave("a flush", Box::new(|_, _| ()));
        leave_touched(0, b"k");
        assert!(!is_empty());
        let both = [(0, b"k".to_vec()), (0, b"l".to_vec())];
        let [Note::Touched(before), Note::Other("a flush", _), Note::Touched(after)] = &*take()
        else {
            panic!("other notes, or in another order");
        };
        assert!(before.iter().eq(&both) && after.iter().eq(&both[..1]));
        assert!(is_empty());
    }
}
