//! The small worlds. Each has its own trouble: one with everything would be walked through to a lesser
//! depth. Times are a few milliseconds, so that moments meet.

use crate::lock::tests::simulated::{Answers, Flavour};
use crate::lock::{Mode, Ms};

use super::action::Action::{self, *};
use super::action::Wait::{self, For, Forever, Try};
use super::action::{Ask, LockNo, OWNERS, OwnerNo};

pub struct Setting {
    pub name: &'static str,
    pub flavour: Flavour,
    pub actions: Vec<Action>,
    /// So many steps go by without an alarm. What is found beyond has to be looked at: it may be the book that
    /// is wrong.
    pub judged_to: usize,
    /// By how much servers' clocks may differ.
    pub lead: Ms,
    /// May writes be lost that replicas have not heard of?
    pub loses_tails: bool,
}

const JUDGED_TO: [(&str, usize); 15] = [
    ("exclusive", 8),
    ("exclusive with places", 7),
    ("shared with upgrade", 7),
    ("two locks and deadlocks", 6),
    ("session", 7),
    ("steps of the clock", 8),
    ("failover with a lost tail", 8),
    ("two masters", 11),
    ("refused writes", 7),
    ("databases", 6),
    ("two may share", 7),
    ("fair between groups", 7),
    ("fair places", 7),
    ("slots", 6),
    ("what others write", 8),
];

const X: &[LockNo] = &[0];
const Y: &[LockNo] = &[1];
const BOTH: &[LockNo] = &[0, 1];
const ELSEWHERE: &[LockNo] = &[2];

const ALONE: Mode = Mode::Exclusive;
const SHARED: Mode = Mode::Shared;

/// All of them; the largest last, so that it has the time that the others leave.
pub fn worlds() -> Vec<Setting> {
    vec![
        exclusive(),
        places(),
        shared(),
        two_locks(),
        session(),
        steps(),
        failover(),
        two_masters(),
        refusals(),
        databases(),
        two_may_share(),
        fair(),
        fair_places(),
        slots(),
        others(),
    ]
}

/// What is known of a world in which each of so many owners asks for this, and does this beside, and in which
/// this happens.
fn setting(
    name: &'static str,
    flavour: Flavour,
    owners: usize,
    asks: &[Ask],
    does: impl Fn(OwnerNo) -> Vec<Action>,
    happens: &[Action],
) -> Setting {
    assert!(owners <= OWNERS.len());
    let mut actions = Vec::new();
    for owner in 0..owners {
        actions.extend(asks.iter().map(|&ask| Acquire(Ask { owner, ..ask })));
        actions.extend(does(owner));
    }
    actions.extend_from_slice(happens);
    assert!(actions.len() < 256, "a link has room for so many");
    Setting {
        name,
        flavour,
        actions,
        judged_to: JUDGED_TO.iter().find(|(of, _)| *of == name).unwrap().1,
        lead: 5,
        loses_tails: false,
    }
}

/// Says how a server keeps its promises to clients: as Redis 7.0, 7.2, 7.4 or Valkey 8 does.
fn like(answers: Answers, notes_late: bool) -> Flavour {
    Flavour { answers, notes_late, says_how: !notes_late, ..Flavour::default() }
}

fn ask(locks: &'static [LockNo], mode: Mode, ttl: Ms, wait: Wait) -> Ask {
    Ask { owner: 0, locks, mode, ttl, wait, session: false }
}

/// What is asked for ends with the connection.
fn tied(ask: Ask) -> Ask {
    Ask { session: true, ..ask }
}

fn place(lease: Ms) -> Wait {
    let notify = false;
    Wait::Place { lease, notify }
}

fn told(lease: Ms) -> Wait {
    let notify = true;
    Wait::Place { lease, notify }
}

/// One lock that is held by one at a time, and the ends of those who wait.
fn exclusive() -> Setting {
    setting(
        "exclusive",
        like(Answers::Straight, false),
        3,
        &[ask(X, ALONE, 1, Try), ask(X, ALONE, 2, Forever), ask(X, ALONE, 2, For(1))],
        |owner| vec![Release(owner, X), Renew(owner, X, 2), Check(owner, 0)],
        &[Kill(0), Kill(1), Doom(0), Unblock(0), Turn, Pass(1), Late(2), Break(0)],
    )
}

/// The same with places in the queue, messages, and messages that are lost.
fn places() -> Setting {
    setting(
        "exclusive with places",
        like(Answers::Straight, false),
        3,
        &[
            ask(X, ALONE, 1, Try),
            ask(X, ALONE, 2, Forever),
            ask(X, ALONE, 3, place(2)),
            ask(X, ALONE, 3, told(4)),
        ],
        |owner| vec![Release(owner, X), Renew(owner, X, 2), Check(owner, 0)],
        &[Kill(0), Turn, Pass(1), Pass(2), Deafen, Del(0)],
    )
}

/// What others write.
fn others() -> Setting {
    setting(
        "what others write",
        like(Answers::Late, true),
        2,
        &[ask(X, ALONE, 1, Try), ask(X, ALONE, 2, Forever), ask(X, SHARED, 2, Forever)],
        |owner| {
            vec![
                Release(owner, X),
                Renew(owner, X, 2),
                Guard(owner, 0),
                Set(0, owner, Some(1)),
                Set(0, owner, None),
            ]
        },
        &[
            SetNoLock(0),
            Del(0),
            PExpire(0, 3),
            Persist(0),
            Rename(0, 1),
            Rename(1, 0),
            Break(0),
            Turn,
            Pass(1),
        ],
    )
}

/// A lock that owners share, LIMIT, and upgrades.
fn shared() -> Setting {
    setting(
        "shared with upgrade",
        like(Answers::Kept, false),
        3,
        &[
            ask(X, SHARED, 1, Try),
            ask(X, SHARED, 2, Forever),
            ask(X, Mode::Limit(1), 2, Forever),
            ask(X, Mode::Limit(2), 2, Try),
            ask(X, ALONE, 2, Forever),
        ],
        |owner| vec![Release(owner, X), Renew(owner, X, 2)],
        &[Kill(0), Turn, Pass(1), Break(0), Del(0)],
    )
}

/// Two locks, several at once, and deadlocks.
fn two_locks() -> Setting {
    let flavour = like(Answers::Straight, false);
    setting(
        "two locks and deadlocks",
        flavour,
        3,
        &[
            ask(X, ALONE, 2, Forever),
            ask(Y, ALONE, 2, Forever),
            ask(BOTH, ALONE, 2, Forever),
            ask(BOTH, SHARED, 1, Try),
            ask(Y, SHARED, 2, place(3)),
            ask(X, Mode::Limit(2), 2, Forever),
        ],
        |owner| vec![Release(owner, X), Release(owner, Y), Release(owner, BOTH)],
        &[Kill(0), Turn, Pass(1), Del(0)],
    )
}

/// Holds and places that end with connections.
fn session() -> Setting {
    setting(
        "session",
        like(Answers::Late, false),
        3,
        &[
            tied(ask(X, ALONE, 2, Try)),
            tied(ask(X, ALONE, 4, Forever)),
            tied(ask(X, SHARED, 4, Forever)),
            tied(ask(X, ALONE, 4, place(3))),
            ask(X, ALONE, 2, Try),
        ],
        |owner| vec![Release(owner, X), Close(owner)],
        &[Kill(0), Doom(0), Turn, Pass(1), Del(0)],
    )
}

/// The wall clock is stepped.
fn steps() -> Setting {
    setting(
        "steps of the clock",
        like(Answers::Straight, false),
        3,
        &[ask(X, ALONE, 6, Try), ask(X, ALONE, 12, Forever)],
        |owner| vec![Release(owner, X), Renew(owner, X, 12), Check(owner, 0)],
        &[
            Step(9),
            Step(-9),
            PExpire(0, 30),
            Set(0, 1, Some(6)),
            Del(0),
            Turn,
            Pass(1),
            Pass(7),
            Pause,
            Resume,
        ],
    )
}

/// Others take over, with a clock that differs and without the last that was written.
fn failover() -> Setting {
    Setting {
        lead: 2,
        loses_tails: true,
        ..setting(
            "failover with a lost tail",
            like(Answers::Straight, false),
            3,
            &[
                ask(X, ALONE, 2, Try),
                ask(X, ALONE, 4, Forever),
                ask(X, SHARED, 4, Try),
                ask(X, ALONE, 4, place(3)),
            ],
            |owner| vec![Release(owner, X), Renew(owner, X, 4)],
            &[
                Failover { lost: 1, by: -1 },
                Failover { lost: 0, by: 2 },
                Restart { lost: 0 },
                Restart { lost: 1 },
                Demote,
                Promote,
                Turn,
                Pass(1),
                Kill(0),
            ],
        )
    }
}

/// Masters are cut off, and go on granting while their successors do; two in a row.
fn two_masters() -> Setting {
    Setting {
        lead: 5,
        loses_tails: true,
        ..setting(
            "two masters",
            like(Answers::Straight, false),
            2,
            &[ask(X, ALONE, 2, Try), ask(X, ALONE, 4, Forever)],
            |owner| vec![Release(owner, X)],
            &[
                Split { lost: 0, by: 0 },
                Split { lost: 1, by: -2 },
                Split { lost: 0, by: 2 },
                GrantElsewhere,
                Turn,
                Pass(1),
            ],
        )
    }
}

/// Writes are refused for a while.
fn refusals() -> Setting {
    setting(
        "refused writes",
        like(Answers::Kept, true),
        3,
        &[
            ask(X, ALONE, 1, Try),
            ask(X, ALONE, 20, Forever),
            ask(X, SHARED, 20, For(2)),
            ask(BOTH, ALONE, 20, Forever),
        ],
        |owner| vec![Release(owner, X), Release(owner, BOTH)],
        &[Pause, Resume, Forbid(0), Forbid(1), Permit, Kill(0), Turn, Pass(1), Pass(10), Del(0)],
    )
}

/// Databases are emptied, and change places.
fn databases() -> Setting {
    setting(
        "databases",
        like(Answers::Late, true),
        3,
        &[
            ask(X, ALONE, 2, Forever),
            ask(X, SHARED, 2, Try),
            ask(X, ALONE, 3, place(2)),
            ask(ELSEWHERE, ALONE, 2, Forever),
        ],
        |owner| vec![Release(owner, X), Release(owner, ELSEWHERE)],
        &[Flush, Swap, Kill(0), Turn, Pass(1), Set(2, 0, None)],
    )
}

/// No more than two may share the lock.
fn two_may_share() -> Setting {
    let flavour = Flavour { max_sharers: Some(2), ..like(Answers::Kept, false) };
    setting(
        "two may share",
        flavour,
        3,
        &[
            ask(X, SHARED, 1, Try),
            ask(X, SHARED, 3, Forever),
            ask(X, Mode::Limit(2), 2, Forever),
            ask(X, ALONE, 2, Forever),
        ],
        |owner| vec![Release(owner, X)],
        &[Kill(0), Turn, Pass(1), Break(0), Del(0), Rename(0, 1)],
    )
}

/// A limit that is fair between groups, also beside requests without FAIR.
fn fair() -> Setting {
    let fair = |limit, per| Mode::Fair { limit, per };
    setting(
        "fair between groups",
        like(Answers::Kept, false),
        3,
        &[
            ask(X, fair(2, None), 2, Forever),
            ask(X, fair(2, Some(1)), 3, Forever),
            ask(X, fair(1, None), 2, For(1)),
            ask(X, fair(2, Some(1)), 1, Try),
            ask(X, Mode::Limit(2), 2, Forever),
        ],
        |owner| vec![Release(owner, X)],
        &[Kill(0), Turn, Pass(1), Del(0)],
    )
}

/// The same with places, of two groups with two owners each.
fn fair_places() -> Setting {
    let fair = |per| Mode::Fair { limit: 2, per };
    setting(
        "fair places",
        like(Answers::Straight, false),
        4,
        &[
            ask(X, fair(None), 3, place(2)),
            ask(X, fair(Some(1)), 3, told(4)),
            ask(X, Mode::Limit(2), 2, place(3)),
        ],
        |owner| vec![Release(owner, X)],
        &[Turn, Pass(1), Pass(2), Deafen, Del(0)],
    )
}

/// In a cluster slots leave for another server and come back.
fn slots() -> Setting {
    let back = |held, by| ComeBack { lock: 0, held, by };
    let flavour = Flavour { in_cluster: true, ..like(Answers::Straight, false) };
    Setting {
        lead: 2,
        ..setting(
            "slots",
            flavour,
            3,
            &[
                ask(X, ALONE, 4, Try),
                ask(X, ALONE, 4, Forever),
                ask(X, ALONE, 4, place(3)),
                tied(ask(X, SHARED, 4, Forever)),
                ask(Y, ALONE, 4, Forever),
            ],
            |owner| vec![Release(owner, X), Renew(owner, X, 4)],
            &[
                Leave(0),
                Leave(1),
                back(None, 1),
                back(Some(0), 0),
                ComeBack { lock: 1, held: None, by: 1 },
                Kill(0),
                Close(0),
                Turn,
                Pass(1),
            ],
        )
    }
}
