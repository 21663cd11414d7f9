//! The checker: may a lock have given this history? It knows no server, and it believes the clients'
//! clock alone. What is unknown is never held against the lock.

use super::history::History;
use super::index::Index;
use super::{answers, exclusion, guarded, limits, line, numbers, released};

/// What a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// An exclusive hold beside any other.
    Alone,
    /// LIMIT n was granted beside n others.
    Limit,
    /// A later grant has a smaller number.
    NumbersRise,
    /// One number for two holds.
    OneNumberOneHold,
    /// A retry is not answered with the hold that is there, and its number.
    RetryIsFree,
    /// RELEASE, RENEW, CHECK or GUARD speaks of a hold that is gone.
    GoneIsGone,
    /// RELEASE, RENEW, CHECK or GUARD knows nothing of a hold that is there.
    HeldIsHeld,
    /// A later waiter was served before an earlier one.
    Line,
    /// A wait ended without a grant before its time.
    Patience,
    /// An owner that has released the lock holds it, or waits for it.
    ReleasedIsGone,
    /// A write under LOCK.GUARD landed outside of its owner's hold.
    GuardedWrite,
}

#[derive(Clone, Debug)]
pub struct Fault {
    pub rule: Rule,
    pub words: String,
}

pub fn check(history: &History) -> Vec<Fault> {
    let index = Index::of(history);
    let mut faults = Vec::new();
    exclusion::check(&index, &mut faults);
    limits::check(&index, &mut faults);
    numbers::check(&index, &mut faults);
    answers::check(&index, &mut faults);
    line::check(&index, &mut faults);
    released::check(&index, &mut faults);
    guarded::check(&index, &mut faults);
    faults
}

/// Notes a fault with what shows it.
macro_rules! fault {
    ($faults:expr, $rule:ident, $($words:tt)+) => {
        $faults.push($crate::histories::checker::Fault {
            rule: $crate::histories::checker::Rule::$rule,
            words: ::std::format!($($words)+),
        })
    };
}

pub(super) use fault;
