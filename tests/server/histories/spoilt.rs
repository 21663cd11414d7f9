//! The histories in `tests/histories`: recorded on real servers, for others to judge. They are a lock's; and spoilt at
//! some place by chance, they are not.

use super::checker::check;
use super::history::{Action, Answer, Call, History, MS, Mode, Seen, Wait};
use super::judge::{self, Opinion};
use super::record;
use crate::support::Chance;
use std::fs;

fn published() -> Vec<(String, History)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/histories");
    let mut files: Vec<_> = (fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .collect();
    files.sort();
    let read = |file: &std::path::PathBuf| record::history(&fs::read_to_string(file).unwrap());
    let name = |file: &std::path::PathBuf| file.display().to_string();
    files.iter().map(|file| (name(file), read(file))).collect()
}

#[test]
fn the_published_histories_are_a_lock_s() {
    let all = published();
    assert!(all.len() > 9, "{}", all.len());
    for (name, history) in all {
        let faults = check(&history);
        assert!(faults.is_empty(), "{name}: {faults:#?}");
        let Opinion { refused, undecided } = judge::opinion(&history);
        assert!(refused.is_empty(), "{name}: {refused:?}");
        assert!(undecided.is_empty(), "{name}: {undecided:?}");
    }
}

/// Any of the calls that are such, changed.
fn change(
    history: &mut History,
    chance: &mut Chance,
    is_such: impl Fn(&Call) -> bool,
    change: impl FnOnce(&mut Call),
) -> Option<()> {
    let mut such: Vec<_> = history.calls.iter_mut().filter(|call| is_such(call)).collect();
    if such.is_empty() {
        return None;
    }
    let index = chance.below(such.len() as u64);
    change(such[usize::try_from(index).unwrap()]);
    Some(())
}

fn is_single(call: &Call) -> bool {
    call.keys().len() == 1
}

/// The first answer to its owner with this number, and of one lock.
fn is_grant(call: &Call) -> bool {
    is_single(call) && call.fence().is_some()
}

type Spoil = fn(&mut History, &mut Chance) -> Option<()>;

/// Who tried without success is granted the lock, by a number that is free.
fn a_second_holder(history: &mut History, chance: &mut Chance) -> Option<()> {
    // Between any two numbers there is room.
    for call in history.calls.iter_mut().filter(|call| call.fence().is_some()) {
        call.answer = Answer::Int(call.fence()? * 10);
    }
    let grants: Vec<_> =
        (history.calls.iter()).filter_map(|call| Some((call.end, call.fence()?))).collect();
    let is_such = |call: &Call| is_single(call) && call.is_acquire() && call.answer == Answer::Nil;
    change(history, chance, is_such, |call| {
        let before = grants.iter().filter(|(end, _)| *end < call.start);
        let last = before.map(|(_, fence)| *fence).max().unwrap_or(0);
        call.answer = Answer::Int(last + 5);
    })
}

fn a_number_that_another_had(history: &mut History, chance: &mut Chance) -> Option<()> {
    let grants: Vec<_> = (history.calls.iter())
        .filter_map(|call| Some((call.owner.clone(), call.fence()?)))
        .collect();
    let index = usize::try_from(chance.below(grants.len() as u64)).unwrap();
    let (owner, fence) = grants[index].clone();
    let is_another = |call: &Call| is_grant(call) && call.owner != owner;
    change(history, chance, is_another, |call| call.answer = Answer::Int(fence))
}

fn a_number_that_falls(history: &mut History, chance: &mut Chance) -> Option<()> {
    let fall = i64::try_from(1 + chance.below(1000)).unwrap() * 1000;
    change(history, chance, is_grant, |call| {
        call.answer = Answer::Int(call.fence().unwrap() - fall);
    })
}

fn a_release_of_what_is_not_held(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such = |call: &Call| {
        is_single(call)
            && matches!(call.action, Action::Release { .. })
            && call.answer == Answer::Int(0)
    };
    change(history, chance, is_such, |call| call.answer = Answer::Int(1))
}

/// CHECK, GUARD or RENEW knows a hold that is over.
fn a_hold_that_comes_back(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such = |call: &Call| is_single(call) && call.tells_of_no_hold() && !is_release(call);
    change(history, chance, is_such, |call| {
        let is_check = matches!(call.action, Action::Check { .. });
        call.answer = Answer::Int(if is_check { 5 } else { 1 });
    })
}

fn is_release(call: &Call) -> bool {
    matches!(call.action, Action::Release { .. })
}

/// CHECK, GUARD, RENEW or RELEASE does not know a hold that is there.
fn a_hold_that_vanishes(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such = |call: &Call| is_single(call) && !call.is_acquire() && call.tells_of_a_hold();
    change(history, chance, is_such, |call| {
        let is_check = matches!(call.action, Action::Check { .. });
        call.answer = if is_check { Answer::Nil } else { Answer::Int(0) };
    })
}

/// Who retries, and holds the lock, gets another number.
fn a_retry_that_gets_a_new_number(history: &mut History, chance: &mut Chance) -> Option<()> {
    let first = history.clone();
    let is_such = |call: &Call| {
        let is_earlier = |other: &Call| other.owner == call.owner && other.end < call.start;
        let mut earlier = first.calls.iter().filter(|other| is_earlier(other));
        is_grant(call) && earlier.any(|other| other.fence() == call.fence())
    };
    let highest = (first.calls.iter()).filter_map(Call::fence).max().unwrap_or(0);
    change(history, chance, is_such, |call| call.answer = Answer::Int(highest + 1))
}

/// What is granted lasts for longer than its ttl.
fn a_hold_that_lasts_too_long(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such =
        |call: &Call| matches!((&call.action, call.answer), (Action::Check { .. }, Answer::Int(_)));
    change(history, chance, is_such, |call| call.answer = Answer::Int(5_000))
}

/// Who tries a lock that is free is refused.
fn a_free_lock_that_is_refused(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such = |call: &Call| {
        let is_try =
            matches!(call.action, Action::Acquire { wait: Wait::No, mode: Mode::Exclusive, .. });
        is_try && is_grant(call) && call.end < call.start + 5 * MS
    };
    change(history, chance, is_such, |call| call.answer = Answer::Nil)
}

/// Of two that are granted a lock, one that was seen to wait before the other was sent gets it later.
fn a_waiter_that_is_passed_by(history: &mut History, chance: &mut Chance) -> Option<()> {
    let is_such = |first: &Call, second: &Call| {
        let is_before = |seen: &Seen| {
            seen.waiting.contains(&first.owner)
                && seen.start >= first.start
                && seen.end < second.start
        };
        is_grant(first)
            && is_grant(second)
            && first.keys() == second.keys()
            && first.fence() < second.fence()
            && second.start < first.end
            && history.seen.iter().any(is_before)
    };
    let mut pairs = Vec::new();
    for (first, one) in history.calls.iter().enumerate() {
        for (second, other) in history.calls.iter().enumerate() {
            if is_such(one, other) {
                pairs.push((first, second));
            }
        }
    }
    let index = chance.below(u64::try_from(pairs.len()).unwrap().max(1));
    let (first, second) = *pairs.get(usize::try_from(index).unwrap())?;
    let answer = history.calls[first].answer;
    history.calls[first].answer = history.calls[second].answer;
    history.calls[second].answer = answer;
    Some(())
}

/// A place by chance is not always one where a lock could not have answered so: least of all where a client is granted a
/// lock that it tried without success, since it is not known from when to when it was held.
#[test]
fn the_published_histories_are_refused_when_they_are_spoilt() {
    const TIMES: u64 = 100;
    let all = published();
    // Of a hundred so many must be refused.
    let kinds: [(&str, Spoil, usize); 10] = [
        ("a second holder", a_second_holder, 50),
        ("a number twice", a_number_that_another_had, 95),
        ("a number falls", a_number_that_falls, 60),
        ("a release of what is not held", a_release_of_what_is_not_held, 65),
        ("a hold comes back", a_hold_that_comes_back, 40),
        ("a hold vanishes", a_hold_that_vanishes, 65),
        ("a retry gets a new number", a_retry_that_gets_a_new_number, 80),
        ("a hold lasts too long", a_hold_that_lasts_too_long, 80),
        ("a free lock is refused", a_free_lock_that_is_refused, 50),
        ("a waiter is passed by", a_waiter_that_is_passed_by, 80),
    ];
    let mut chance = Chance::new(1);
    for (name, spoil, least) in kinds {
        let (mut spoilt, mut ours, mut theirs, mut both) = (0, 0, 0, 0);
        for time in 0..TIMES {
            let mut history = all[usize::try_from(time).unwrap() % all.len()].1.clone();
            if spoil(&mut history, &mut chance).is_none() {
                continue;
            }
            let (by_us, by_them) = (!check(&history).is_empty(), !judge::accepts(&history));
            spoilt += 1;
            ours += usize::from(by_us);
            theirs += usize::from(by_them);
            both += usize::from(by_us && by_them);
        }
        println!("{name}: of {spoilt} refused by them {theirs}, by us {ours}, by both {both}");
        assert!(spoilt > 0 && theirs * 100 >= spoilt * least, "{name}: {theirs} of {spoilt}");
    }
}
