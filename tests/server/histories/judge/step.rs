//! What was done at one lock, as the other judge sees it.

use super::super::history::{Micros, Mode};
use std::sync::Arc;

pub type Id = usize;

/// What was done, and how it was answered.
#[derive(Clone, Debug)]
pub enum Step {
    Granted(Granted),
    // A try, or a wait: nil. Must another owner have held the lock?
    Denied { owner: Id, same_words: bool, needs_another: bool },
    // The last is a number that had been given before, here and below.
    Placed { owner: Id, several: bool, lease: Micros, above: i64 },
    // CHECK, with what is left, or GUARD.
    Held { owner: Id, left: Option<Micros>, alone: bool },
    // A renewal may have had the hold end at this time, and have waited for replicas until then.
    NotHeld { owner: Id, renewed_end: Option<Micros> },
    // Whether it was held, if this is known.
    Released { owner: Id, held: Option<bool>, alone: bool },
    // Perhaps it claims what may be tied to a connection.
    Renewed { owner: Id, ttl: Micros, alone: bool, may_be_tied: bool },
    HungUp { owner: Id, connection: u64 },
    // A call without an answer: from now on it may be done at any time, or never.
    Unheard { owner: Id, call: Unheard, above: i64 },
    // All holds end.
    Ended,
    // From now on any hold may end at any time.
    Doubted,
    // Which number or connection belongs to which hold may be forgotten, and the holds may last longer.
    // An owner with a place on a server to which the lock comes back may have it still, whatever it has said elsewhere.
    Forgotten { by: Micros, placed: Arc<[Id]> },
    // Another server has taken over and may have missed anything. These may hold the lock there. If it keeps a
    // quarantine, no other does until what was lost is over.
    TakenOver { owners: Arc<[Id]>, longest: Micros, quarantine: bool },
}

#[derive(Clone, Copy, Debug)]
pub struct Granted {
    pub owner: Id,
    pub mode: Mode,
    pub ttl: Micros,
    pub number: i64,
    pub tie: Option<Tie>,
    /// No other request of its owner says otherwise of the connection.
    pub is_tie_sure: bool,
    /// For how long its place may have been kept for it, if it asked for one.
    pub lease: Micros,
    /// Whether its owner has only ever asked in these words.
    pub same_words: bool,
}

/// A hold that ends with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tie {
    pub connection: u64,
    /// When that was certainly there for the last time.
    pub alive: Micros,
}

#[derive(Clone, Copy, Debug)]
pub enum Unheard {
    Ask { tie: Option<Tie>, alone: bool },
    Renew { ttl: Micros },
    End,
}
