use super::*;
use crate::lock::print::Secret;
use crate::lock::words::Hold;

const SECRET: Secret = Secret(1, 2);
const KEY: &[u8] = b"lock";

fn at(ms: Ms) -> Now {
    Now::from_micros(ms * 1000)
}

/// This owner loses its hold with this fencing token at this time.
fn loses(log: &mut LossLog, key: &[u8], reason: Reason, owner: &[u8], fence: u64, ms: Ms) {
    let hold = LostHold {
        fence: Some(fence),
        hold: Hold::Exclusive,
        since: 0,
        ended: Some(ms),
        queue: 0,
        client: 7,
    };
    let loss = Loss { reason, count: 1, name: NameRef::new(0, key, SECRET), owner, hold };
    log.add_loss(&loss, at(ms));
}

fn comes_back(log: &mut LossLog, owner: &[u8], with: LateUse, ms: Ms) {
    log.note_comeback(NameRef::new(0, KEY, SECRET), owner, with, at(ms));
}

/// How many holds each line counts, and why they were lost; the newest line first.
fn said(log: &LossLog) -> Vec<(u64, Reason)> {
    let lines = log.newest();
    lines.map(|line| (line.count, line.reason)).collect()
}

#[test]
fn losses_of_one_lock_for_one_reason_are_one_line_if_no_minute_lies_between_them() {
    use Reason::{Broken, Expired};
    let mut log = LossLog::new(10, SECRET);
    loses(&mut log, KEY, Expired, b"a", 1, 0);
    loses(&mut log, KEY, Broken, b"b", 2, 10);
    loses(&mut log, b"other", Expired, b"c", 3, 20);
    loses(&mut log, KEY, Expired, b"d", 4, 60_000);
    assert_eq!(said(&log), [(2, Expired), (1, Expired), (1, Broken)]);
    let line = log.newest().next().unwrap();
    assert_eq!((line.id, line.created, line.updated), (0, at(0), at(60_000)));
    assert_eq!(line.lost.as_ref().unwrap().1.fence, Some(4));
    loses(&mut log, KEY, Expired, b"e", 5, 120_000);
    assert_eq!(said(&log)[0], (3, Expired));
    loses(&mut log, KEY, Expired, b"f", 6, 180_001);
    assert_eq!(said(&log)[..2], [(1, Expired), (3, Expired)]);
    assert_eq!(log.newest().next().unwrap().id, 3);
}

#[test]
fn the_oldest_lines_go_first_and_numbers_go_on() {
    let mut log = LossLog::new(3, SECRET);
    for number in 0..5 {
        loses(&mut log, &[number], Reason::Expired, b"a", 1, 0);
    }
    log.add_flush(None, 7, at(0));
    let ids = |log: &LossLog| log.newest().map(|line| line.id).collect::<Vec<_>>();
    assert_eq!(ids(&log), [5, 4, 3]);
    // A line becomes the newest when a loss is added to it.
    loses(&mut log, &[4], Reason::Expired, b"b", 2, 1);
    assert_eq!(ids(&log), [4, 5, 3]);
    log.set_most(1);
    assert_eq!(ids(&log), [4]);
    assert_eq!((log.lines.len(), log.of_key.len()), (1, 1));
    log.reset();
    assert_eq!((ids(&log), log.of_key.len()), (vec![], 0));
    loses(&mut log, KEY, Reason::Expired, b"a", 1, 0);
    assert_eq!(ids(&log), [6]);
    log.set_most(0);
    loses(&mut log, KEY, Reason::Expired, b"a", 1, 0);
    log.add_flush(None, 7, at(0));
    assert!(log.is_off() && ids(&log).is_empty());
}

#[test]
fn the_first_time_that_an_owner_comes_back_is_remembered() {
    let mut log = LossLog::new(10, SECRET);
    comes_back(&mut log, b"a", LateUse::Renew, 5);
    assert!(log.newest().next().is_none());
    loses(&mut log, KEY, Reason::Expired, b"a", 1, 10);
    loses(&mut log, KEY, Reason::Broken, b"b", 2, 20);
    comes_back(&mut log, b"c", LateUse::Renew, 25);
    comes_back(&mut log, b"a", LateUse::Renew, 30);
    comes_back(&mut log, b"a", LateUse::Release, 40);
    let came_back: Vec<_> = log.newest().map(|line| line.came_back).collect();
    let with = LateUse::Renew;
    assert_eq!(came_back, [None, Some(CameBack { with, late: Some(20) })]);
    // The loss that is added is of another hold.
    loses(&mut log, KEY, Reason::Expired, b"d", 3, 50);
    assert_eq!(log.newest().next().unwrap().came_back, None);
}

#[test]
fn of_a_key_and_of_an_owner_no_more_is_kept_than_is_shown() {
    let mut log = LossLog::new(10, SECRET);
    for length in [64, 65, 1024] {
        let long = vec![b'x'; length];
        loses(&mut log, &long, Reason::Expired, &long, 1, 0);
        let (about, _) = log.newest().next().unwrap().lost.as_ref().unwrap();
        for cut in [&about.key, &about.owner] {
            assert_eq!(cut.bytes(), &long[..length.min(65)]);
            assert_eq!(cut.whole().is_some(), length == 64);
        }
    }
    // They are different locks all the same.
    assert_eq!(log.newest().count(), 3);
}
