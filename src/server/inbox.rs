//! What the server tells us where we can't act on it.
//!
//! There are two such places. One is another thread: the server reads and parses on threads of its own,
//! and other modules run commands on theirs. The other is the middle of a change to the locks
//! (`Module::change`), where the server may call us back. Either way a note is left here. The notes are
//! read in the order in which they came, on the server's own thread, when the change is done, and
//! before anything else of ours runs. None is ever dropped.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lock::{Db, Ticket, slot};

/// Something that the server has told us, and that is still to be acted on.
#[derive(Debug, PartialEq, Eq)]
pub enum Note {
    /// Something has happened to these keys.
    Touched(BTreeSet<(Db, Vec<u8>)>),
    /// A database was emptied, or all of them.
    Flushed(Option<Db>),
    /// Two databases have changed places.
    Swapped(Db, Db),
    /// The keys have been read from a file or from a master.
    Loaded,
    /// A connection has closed.
    ConnectionClosed(u64),
    /// This key is to be looked at again.
    Again(Db, Box<[u8]>),
    /// A waiter has come to its end.
    WaiterEnded {
        ticket: Ticket,
        /// May it have been cut off before it received its grant?
        cut_off: bool,
    },
    /// These slots have left for another server.
    SlotsLeft(Vec<RangeInclusive<slot::Slot>>),
    /// A module was loaded, or unloaded.
    ModuleChange { name: CString, loaded: bool },
    /// A setting of the server's, or of a module's, has another value.
    SettingsChanged,
    /// The server is a master now, or a replica.
    RoleChanged { master: bool },
}

impl Note {
    /// Something has happened to this key.
    pub fn touched(db: Db, key: &[u8]) -> Self {
        Self::Touched(BTreeSet::from([(db, key.to_vec())]))
    }

    /// What the log calls it.
    pub fn place(&self) -> &'static str {
        match self {
            Self::Touched(_) | Self::Again(..) => "a key's event",
            Self::Flushed(_) => "a flush",
            Self::Swapped(..) => "a swap",
            Self::Loaded => "loading",
            Self::ConnectionClosed(_) => "a connection's end",
            Self::WaiterEnded { .. } => "a waiter's end",
            Self::SlotsLeft(_) => "slots that move",
            Self::ModuleChange { .. } => "a change of modules",
            Self::SettingsChanged => "changed settings",
            Self::RoleChanged { .. } => "a change of roles",
        }
    }
}

static NOTES: Mutex<Vec<Note>> = Mutex::new(Vec::new());
/// Is there any note? Asked each time that the server enters the module.
static ANY: AtomicBool = AtomicBool::new(false);

/// Leaves a note. A key that is touched again and again, with nothing else in between, is one.
pub fn leave(note: Note) {
    let mut notes = notes();
    match (notes.last_mut(), note) {
        (Some(Note::Touched(keys)), Note::Touched(more)) => keys.extend(more),
        (_, note) => notes.push(note),
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

/// How many notes there are; keys that were touched count one by one.
pub fn len() -> usize {
    (notes().iter())
        .map(|note| match note {
            Note::Touched(keys) => keys.len(),
            _ => 1,
        })
        .fold(0, usize::saturating_add)
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
            leave(Note::touched(0, b"k"));
            leave(Note::touched(0, b"l"));
        }
        assert_eq!(len(), 2);
        leave(Note::Flushed(None));
        leave(Note::touched(0, b"k"));
        assert!(!is_empty());
        let keys = Note::Touched([(0, b"k".to_vec()), (0, b"l".to_vec())].into());
        let expected = vec![keys, Note::Flushed(None), Note::touched(0, b"k")];
        assert_eq!(take(), expected);
        assert!(is_empty());
    }
}
