//! Each answer fits what the owner can have held, and what it must have held.

use super::checker::{Fault, fault};
use super::history::{Action, Answer, Call, Wait, count};
use super::index::Index;
use super::life::{Life, TOLERANCE};
use std::ptr;

pub fn check(index: &Index<'_>, faults: &mut Vec<Fault>) {
    for (key, life, call) in index.each() {
        match call.action {
            Action::Acquire { .. } => {
                retry(index, life, call, faults);
                patience(index, call, faults);
            }
            _ if call.tells_of_a_hold() && !life.may_hold_before(call) => {
                fault!(faults, GoneIsGone, "{key}: {call:?}");
            }
            _ if call.tells_of_no_hold() && life.held_all_through(call) => {
                fault!(faults, HeldIsHeld, "{key}: {call:?}");
            }
            _ => {}
        }
    }
    for call in &index.history.calls {
        of_several(index, call, faults);
    }
}

/// How many of several locks were released fits how many were held, and so does whether all were
/// renewed.
fn of_several(index: &Index<'_>, call: &Call, faults: &mut Vec<Fault>) {
    let lives = || {
        let keys = call.keys().iter();
        keys.filter_map(|key| index.lives.get(&(*key, call.owner.as_str())))
    };
    let number_of = |is_such: &dyn Fn(&Life<'_>) -> bool| {
        let such = lives().filter(|life| is_such(life));
        i64::try_from(such.count()).unwrap()
    };
    match (&call.action, call.answer) {
        (Action::Release { keys }, Answer::Int(number)) if (1..count(keys)).contains(&number) => {
            if number > number_of(&|life| life.may_hold_before(call)) {
                fault!(faults, GoneIsGone, "{call:?}");
            }
            if number < number_of(&|life| life.held_all_through(call)) {
                fault!(faults, HeldIsHeld, "{call:?}");
            }
        }
        (Action::Renew { keys, .. }, Answer::Int(0)) if keys.len() > 1 => {
            let must = |life: &Life<'_>| life.held_all_through(call);
            if number_of(&must) == count(keys) {
                fault!(faults, HeldIsHeld, "{call:?}");
            }
        }
        _ => {}
    }
}

/// An owner that asks for what it certainly holds is answered with that, and the same number.
fn retry(index: &Index<'_>, life: &Life<'_>, call: &Call, faults: &mut Vec<Fault>) {
    let goes_on = |call: &Call| {
        let lives = (call.keys().iter()).map(|key| &index.lives[&(*key, call.owner.as_str())]);
        lives.into_iter().all(|life| life.held_all_through(call))
    };
    let Some(before) = latest_like(index, call) else {
        return;
    };
    if call.answer == Answer::Unknown || call.answer == before.answer || !goes_on(call) {
        return;
    }
    // A new number is right where the old hold may have been lost, or its number forgotten.
    let may_be_new = is_broken(index, call, before) || life.is_forgotten_between(before, call);
    if call.answer == Answer::Nil || call.tells_of_a_place() || !may_be_new {
        fault!(faults, RetryIsFree, "{call:?} after {before:?}");
    }
}

/// The owner's last grant before this call, if it has only ever asked for these locks in these words.
fn latest_like<'a>(index: &Index<'a>, call: &Call) -> Option<&'a Call> {
    let shape = |call: &Call| match &call.action {
        Action::Acquire { keys, mode, .. } => Some((keys.clone(), *mode)),
        _ => None,
    };
    let all = || {
        let lives = call.keys().iter().map(|key| &index.lives[&(*key, call.owner.as_str())]);
        lives.flat_map(|life| life.calls.iter().copied()).filter(|other| shape(other).is_some())
    };
    if all().any(|other| shape(other) != shape(call)) {
        return None;
    }
    let earlier = all().filter(|other| {
        !ptr::eq(*other, call) && other.fence().is_some() && other.was_over_by(call.start)
    });
    earlier.max_by_key(|other| other.end)
}

/// Whether the hold of the earlier call may have been lost, and another one got, before this call.
fn is_broken(index: &Index<'_>, call: &Call, before: &Call) -> bool {
    call.keys().iter().any(|key| {
        let holds = index.lives[&(*key, call.owner.as_str())].holds();
        // From the answer of the first on it must be certain without a gap.
        let mut until = before.end;
        while let Some(next) = (holds.iter())
            .filter(|hold| hold.from <= until && hold.until > until)
            .map(|hold| hold.until)
            .max()
        {
            until = next;
        }
        until < call.end
    })
}

/// Nil before the time is up is no answer to BLOCK, and none at all to QUEUE, but where the owner has released one of the
/// locks meanwhile.
fn patience(index: &Index<'_>, call: &Call, faults: &mut Vec<Fault>) {
    let life_at = |key: &&'static str| &index.lives[&(*key, call.owner.as_str())];
    let mut lives = call.keys().iter().map(life_at);
    let (Action::Acquire { wait, .. }, Answer::Nil) = (&call.action, call.answer) else {
        return;
    };
    let is_too_early = match wait {
        Wait::No => false,
        Wait::Block(block) => call.end + TOLERANCE < call.start + block,
        Wait::Queue { .. } => true,
    };
    if is_too_early && !lives.any(|life| is_released(life, call)) {
        fault!(faults, Patience, "{call:?}");
    }
}

/// Has this owner released the lock while the call was under way?
fn is_released(life: &Life<'_>, call: &Call) -> bool {
    let releases = |other: &&&Call| matches!(other.action, Action::Release { .. });
    let mut released = life.calls.iter().filter(releases);
    released.any(|other| other.start <= call.end && call.start <= other.end)
}
