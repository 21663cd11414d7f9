//! The small worlds. Each has its own trouble: one with everything would be walked through to a lesser
//! depth. Times are a few milliseconds, so that moments meet.

use crate::lock::tests::simulated::{Answers, Flavour};
use crate::lock::{Mode, Ms};

use super::action::{Action, Ask, LockNo, OWNERS, OwnerNo, Wait};

pub struct Setting {
    pub name: &'static str,
    pub flavour: Flavour,
    pub actions: Vec<Action>,
    /// By how much servers' clocks may differ.
    pub skew: Ms,
    /// May writes be lost that replicas have not heard of?
    pub loses_tails: bool,
    /// Histories of so many steps are all judged rightly. Among longer ones there are a few that the book
    /// takes for wrong, and states that are taken for each other.
    pub judged_to: usize,
}

const X: &[LockNo] = &[0];
const Y: &[LockNo] = &[1];
const BOTH: &[LockNo] = &[0, 1];
const ELSEWHERE: &[LockNo] = &[2];

const ALONE: Mode = Mode::Exclusive;
const SHARED: Mode = Mode::Shared;

/// Says how a server keeps its promises to clients: as Redis 7.0, 7.2, 7.4 or Valkey 8 does.
fn like(answers: Answers, notes_late: bool) -> Flavour {
    Flavour {
        answers,
        notes_late,
        says_how: !notes_late,
        ..Flavour::default()
    }
}

fn ask(owner: OwnerNo, locks: &'static [LockNo], mode: Mode, ttl: Ms, wait: Wait) -> Action {
    Action::Acquire(Ask {
        owner,
        locks,
        mode,
        ttl,
        wait,
        session: false,
    })
}

fn ask_in_session(
    owner: OwnerNo,
    locks: &'static [LockNo],
    mode: Mode,
    ttl: Ms,
    wait: Wait,
) -> Action {
    Action::Acquire(Ask {
        owner,
        locks,
        mode,
        ttl,
        wait,
        session: true,
    })
}

fn place(lease: Ms) -> Wait {
    Wait::Place {
        lease,
        notify: false,
    }
}

fn told(lease: Ms) -> Wait {
    Wait::Place {
        lease,
        notify: true,
    }
}

/// What each of so many owners may do, and what else may happen.
fn each(owners: usize, does: impl Fn(OwnerNo) -> Vec<Action>, else_: &[Action]) -> Vec<Action> {
    assert!(owners <= OWNERS.len());
    let mut actions: Vec<Action> = (0..owners).flat_map(does).collect();
    actions.extend_from_slice(else_);
    actions
}

/// All of them.
pub fn worlds() -> Vec<Setting> {
    vec![
        exclusive(),
        places(),
        others(),
        shared(),
        two_locks(),
        session(),
        steps(),
        failover(),
        refusals(),
        databases(),
        crowd(),
    ]
}

fn setting(name: &'static str, flavour: Flavour, actions: Vec<Action>) -> Setting {
    assert!(actions.len() < 256, "a link has room for so many");
    Setting {
        name,
        flavour,
        actions,
        skew: 5,
        loses_tails: false,
        judged_to: 6,
    }
}

/// One lock that is held by one at a time, and the ends of those who wait.
pub fn exclusive() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 1, Wait::Try),
            ask(owner, X, ALONE, 2, Wait::Forever),
            ask(owner, X, ALONE, 2, Wait::For(1)),
            Action::Release(owner, X),
            Action::Renew(owner, X, 2),
            Action::Check(owner, 0),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Kill(1),
        Action::Doom(0),
        Action::Unblock(0),
        Action::Turn,
        Action::Pass(1),
        Action::Late(2),
        Action::Break(0, 0),
        Action::Break(0, 1),
    ];
    setting(
        "exclusive",
        like(Answers::Straight, false),
        each(3, does, &happens),
    )
}

/// The same with places in the queue, messages, and messages that are lost.
fn places() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 1, Wait::Try),
            ask(owner, X, ALONE, 2, Wait::Forever),
            ask(owner, X, ALONE, 3, place(2)),
            ask(owner, X, ALONE, 3, told(4)),
            Action::Release(owner, X),
            Action::Renew(owner, X, 2),
            Action::Check(owner, 0),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Pass(2),
        Action::Deafen,
        Action::Del(0),
    ];
    setting(
        "exclusive with places",
        like(Answers::Straight, false),
        each(3, does, &happens),
    )
}

/// What others write.
fn others() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 1, Wait::Try),
            ask(owner, X, ALONE, 2, Wait::Forever),
            ask(owner, X, SHARED, 2, Wait::Forever),
            Action::Release(owner, X),
            Action::Renew(owner, X, 2),
            Action::Guard(owner, 0),
            Action::Set(0, owner, Some(1)),
            Action::Set(0, owner, None),
        ]
    };
    let happens = [
        Action::SetNoLock(0),
        Action::Del(0),
        Action::PExpire(0, 3),
        Action::Persist(0),
        Action::Rename(0, 1),
        Action::Rename(1, 0),
        Action::Break(0, 0),
        Action::Turn,
        Action::Pass(1),
    ];
    setting(
        "what others write",
        like(Answers::Late, true),
        each(2, does, &happens),
    )
}

/// A lock that owners share, LIMIT, and upgrades.
fn shared() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, SHARED, 1, Wait::Try),
            ask(owner, X, SHARED, 2, Wait::Forever),
            ask(owner, X, Mode::Limit(1), 2, Wait::Forever),
            ask(owner, X, Mode::Limit(2), 2, Wait::Try),
            ask(owner, X, ALONE, 2, Wait::Forever),
            Action::Release(owner, X),
            Action::Renew(owner, X, 2),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Break(0, 0),
        Action::Break(0, 1),
        Action::Del(0),
    ];
    setting(
        "shared with upgrade",
        like(Answers::Kept, false),
        each(3, does, &happens),
    )
}

/// Two locks, several at once, and deadlocks.
fn two_locks() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 2, Wait::Forever),
            ask(owner, Y, ALONE, 2, Wait::Forever),
            ask(owner, BOTH, ALONE, 2, Wait::Forever),
            ask(owner, BOTH, SHARED, 1, Wait::Try),
            ask(owner, Y, SHARED, 2, place(3)),
            Action::Release(owner, X),
            Action::Release(owner, Y),
            Action::Release(owner, BOTH),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Del(0),
    ];
    let flavour = Flavour {
        leaves_late: true,
        ..like(Answers::Straight, false)
    };
    setting("two locks and deadlocks", flavour, each(3, does, &happens))
}

/// Holds and places that end with connections.
fn session() -> Setting {
    let does = |owner| {
        vec![
            ask_in_session(owner, X, ALONE, 2, Wait::Try),
            ask_in_session(owner, X, ALONE, 4, Wait::Forever),
            ask_in_session(owner, X, SHARED, 4, Wait::Forever),
            ask_in_session(owner, X, ALONE, 4, place(3)),
            ask(owner, X, ALONE, 2, Wait::Try),
            Action::Release(owner, X),
            Action::Close(owner),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Doom(0),
        Action::Turn,
        Action::Pass(1),
        Action::Del(0),
    ];
    setting(
        "session",
        like(Answers::Late, false),
        each(3, does, &happens),
    )
}

/// The wall clock is stepped.
fn steps() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 6, Wait::Try),
            ask(owner, X, ALONE, 12, Wait::Forever),
            Action::Release(owner, X),
            Action::Renew(owner, X, 12),
            Action::Check(owner, 0),
        ]
    };
    let happens = [
        Action::Step(9),
        Action::Step(-9),
        Action::PExpire(0, 30),
        Action::Set(0, 1, Some(6)),
        Action::Del(0),
        Action::Turn,
        Action::Pass(1),
        Action::Pass(7),
        Action::Pause,
        Action::Resume,
    ];
    setting(
        "steps of the clock",
        like(Answers::Straight, false),
        each(3, does, &happens),
    )
}

/// Others take over, with a clock that differs and without the last that was written.
fn failover() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 2, Wait::Try),
            ask(owner, X, ALONE, 4, Wait::Forever),
            ask(owner, X, SHARED, 4, Wait::Try),
            ask(owner, X, ALONE, 4, place(3)),
            Action::Release(owner, X),
            Action::Renew(owner, X, 4),
        ]
    };
    let happens = [
        Action::Failover { lost: 1, by: -1 },
        Action::Failover { lost: 0, by: 2 },
        Action::Restart { lost: 0 },
        Action::Restart { lost: 1 },
        Action::Demote,
        Action::Promote,
        Action::Turn,
        Action::Pass(1),
        Action::Kill(0),
    ];
    let actions = each(3, does, &happens);
    let flavour = like(Answers::Straight, false);
    Setting {
        skew: 2,
        loses_tails: true,
        ..setting("failover with a lost tail", flavour, actions)
    }
}

/// Writes are refused for a while.
fn refusals() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 1, Wait::Try),
            ask(owner, X, ALONE, 20, Wait::Forever),
            ask(owner, X, SHARED, 20, Wait::For(2)),
            ask(owner, BOTH, ALONE, 20, Wait::Forever),
            Action::Release(owner, X),
            Action::Release(owner, BOTH),
        ]
    };
    let happens = [
        Action::Pause,
        Action::Resume,
        Action::Forbid(0),
        Action::Forbid(1),
        Action::Permit,
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Pass(10),
        Action::Del(0),
    ];
    setting(
        "refused writes",
        like(Answers::Kept, true),
        each(3, does, &happens),
    )
}

/// Databases are emptied, and change places.
fn databases() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, ALONE, 2, Wait::Forever),
            ask(owner, X, SHARED, 2, Wait::Try),
            ask(owner, X, ALONE, 3, place(2)),
            ask(owner, ELSEWHERE, ALONE, 2, Wait::Forever),
            Action::Release(owner, X),
            Action::Release(owner, ELSEWHERE),
        ]
    };
    let happens = [
        Action::Flush,
        Action::Swap,
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Set(2, 0, None),
    ];
    let flavour = like(Answers::Late, true);
    Setting {
        judged_to: 5,
        ..setting("databases", flavour, each(3, does, &happens))
    }
}

/// Two that share a lock are a crowd already: what is done to each of its holds is done one by one.
fn crowd() -> Setting {
    let does = |owner| {
        vec![
            ask(owner, X, SHARED, 1, Wait::Try),
            ask(owner, X, SHARED, 3, Wait::Forever),
            ask(owner, X, Mode::Limit(2), 2, Wait::Forever),
            ask(owner, X, ALONE, 2, Wait::Forever),
            Action::Release(owner, X),
        ]
    };
    let happens = [
        Action::Kill(0),
        Action::Turn,
        Action::Pass(1),
        Action::Break(0, 0),
        Action::Break(0, 1),
        Action::Del(0),
        Action::Rename(0, 1),
    ];
    let flavour = Flavour {
        crowd: Some(1),
        ..like(Answers::Kept, false)
    };
    setting("a crowd", flavour, each(3, does, &happens))
}
