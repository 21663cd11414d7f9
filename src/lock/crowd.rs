//! A crowd: very many owners that share one lock. No command walks through them all: what the search for
//! deadlocks has to know of them it asks the ledger, and what has to be done to each of them is done in
//! portions.

/// So many owners share a lock at most before they are a crowd.
const CROWD: usize = 512;

/// To so many of them something is done at once: that takes about a millisecond.
const PORTION: usize = 128;

/// Are so many owners a crowd?
#[inline]
pub fn is_crowd(shares: usize) -> bool {
    shares > crowd()
}

/// So many of a crowd are seen to at once.
pub fn portion() -> usize {
    PORTION.min(crowd())
}

#[cfg(not(test))]
fn crowd() -> usize {
    CROWD
}

#[cfg(test)]
thread_local! {
    static UNDER_TEST: std::cell::Cell<usize> = const { std::cell::Cell::new(CROWD) };
}

#[cfg(test)]
fn crowd() -> usize {
    UNDER_TEST.get()
}

/// From now on more than so many are a crowd, in this thread.
#[cfg(test)]
pub fn set_crowd(most: Option<usize>) {
    UNDER_TEST.set(most.unwrap_or(CROWD));
}

/// How far it is known who shares a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survey {
    /// Something may have happened to the key that we do not know.
    #[default]
    Due,
    /// Those who share it are looked at, from this place on.
    OfMembers(u64),
    /// Of so many that are remembered it has still to be seen whether they share it.
    OfEntries(usize),
    /// What is remembered is what is there.
    Done,
}
