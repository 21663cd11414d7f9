//! Any words to any of the commands, found by libFuzzer. On a server without keys that takes no write: what a command does
//! is judged elsewhere, here it is what it reads.
#![no_main]
#![allow(dead_code, unused_imports, missing_docs)]

#[path = "../../../src/command/mod.rs"]
mod command;
#[path = "../../../src/lock/mod.rs"]
mod lock;
#[path = "../../../src/protocol/mod.rs"]
mod protocol;

use command::{
    acquire::Acquire, breaking::Break, check::Check, guard::Guard, info::Info, log::Log,
    macquire::Macquire, mrelease::Mrelease, mrenew::Mrenew, release::Release, renew::Renew,
    scan::Scan,
};
use libfuzzer_sys::fuzz_target;
use lock::{
    AskedBy, Asker, Epoch, Glance, Keyspace, LockEvent, Locks, Ms, Name, NameRef, Notify, Now,
    Secret, Share, SlotState, Stored, Ticket, Turn,
};
use protocol::{Args, Call, Caller, Command, Connection, Fault, counted, escaped, integer};
use std::rc::Rc;

/// What a byte from `FIRST` on stands for: so a chain of options is as many bytes, and is found.
const KNOWN: [&[u8]; 23] = [
    b"BLOCK",
    b"QUEUE",
    b"NOTIFY",
    b"SHARED",
    b"LIMIT",
    b"SESSION",
    b"FAIR",
    b"FORCE",
    b"MATCH",
    b"COUNT",
    b"ALL",
    b"RESET",
    b"0",
    b"1",
    b"9",
    b"100",
    b"-1",
    b"k",
    b"ann",
    b"*",
    b"MAXQUEUE",
    b"PER",
    b"REPLICAS",
];
const FIRST: u8 = 0x80;

/// Words end with a line.
fn words(said: &[u8]) -> Vec<&[u8]> {
    let mut words = Vec::new();
    for line in said.split(|byte| *byte == b'\n') {
        let mut rest = line;
        let known = |byte: &u8| KNOWN.get(usize::from(byte.wrapping_sub(FIRST)));
        while let Some(at) = rest.iter().position(|byte| known(byte).is_some()) {
            let (before, after) = rest.split_at(at);
            if !before.is_empty() {
                words.push(before);
            }
            words.extend(after.first().and_then(known));
            rest = after.get(1..).unwrap_or_default();
        }
        if !rest.is_empty() || line.is_empty() {
            words.push(rest);
        }
    }
    words
}

// The first byte is the command.
fuzz_target!(|bytes: &[u8]| {
    let Some((which, said)) = bytes.split_first() else {
        return;
    };
    let words = words(said);
    for word in &words {
        let number = str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok());
        let as_written = number.filter(|number| number.to_string().as_bytes() == *word);
        assert_eq!(integer(word), as_written);
        assert!(escaped(word).bytes().all(|byte| matches!(byte, b' '..=b'~')));
    }
    assert!(counted(&words).all(|place| words.get(place).is_some()));
    match which % 12 {
        0 => run::<Acquire>(&words),
        1 => run::<Release>(&words),
        2 => run::<Renew>(&words),
        3 => run::<Check>(&words),
        4 => run::<Guard>(&words),
        5 => run::<Macquire>(&words),
        6 => run::<Mrelease>(&words),
        7 => run::<Mrenew>(&words),
        8 => run::<Info>(&words),
        9 => run::<Scan>(&words),
        10 => run::<Break>(&words),
        _ => run::<Log>(&words),
    }
});

fn run<C: Command>(words: &[&[u8]]) {
    // The server counts them before it calls.
    let arity = C::SPEC.arity();
    let (least, said) = (arity.unsigned_abs() as usize, words.len() + 1);
    if said < least || (said > least && arity > 0) {
        return;
    }
    let now = Now::from_micros(1_000_000);
    let mut keys = Nothing;
    let mut locks = Locks::new(now, Secret(1, 2), false);
    let mut call = Call {
        words: Args::new("lock.acquire", words),
        locks: &mut locks,
        turn: Turn::new(&mut keys, now),
        db: 0,
        client: 1,
        caller: &Anybody,
    };
    let _ = C::run(&mut call);
}

struct Anybody;

impl Caller for Anybody {
    fn may_wait(&self) -> bool {
        true
    }
    fn may_tie(&self) -> bool {
        true
    }
    fn may_notify(&self, _: AskedBy, _: &[u8], _: &Notify<'_>) -> Result<(), Fault> {
        Ok(())
    }
    fn has_place(&self) {}
    fn may_read(&self, _: NameRef<'_>) -> bool {
        true
    }
    fn connection(&self, _: u64) -> Option<Connection> {
        None
    }
}

/// No keys.
struct Nothing;

impl Keyspace for Nothing {
    fn look(&mut self, _: NameRef<'_>) -> Stored<'_> {
        Stored::Nothing
    }
    fn glance(&mut self, _: NameRef<'_>) -> Glance {
        Glance::NoLock
    }
    fn has_expired(&self, _: NameRef<'_>) -> bool {
        false
    }
    fn deadline(&mut self, _: NameRef<'_>) -> Option<Ms> {
        None
    }
    fn share_of(&mut self, _: NameRef<'_>, _: &[u8]) -> Option<Share> {
        None
    }
    fn each_share(&mut self, _: NameRef<'_>, _: &mut dyn FnMut(&[u8], Share) -> bool) {}
    fn hold(&mut self, _: NameRef<'_>, _: &[u8], _: Ms) {}
    fn move_deadline(&mut self, _: NameRef<'_>, _: Ms) -> bool {
        false
    }
    fn repeat_deadline(&mut self, _: NameRef<'_>) {}
    fn share(&mut self, _: NameRef<'_>, _: &[u8], _: Ms) {}
    fn unshare(&mut self, _: NameRef<'_>, _: &[u8]) {}
    fn unshare_over(&mut self, _: NameRef<'_>, _: &[Box<[u8]>]) {}
    fn remove(&mut self, _: NameRef<'_>) {}
    fn announce(&mut self, _: NameRef<'_>, _: LockEvent) {}
    fn epoch(&mut self, _: Now) -> Epoch {
        Epoch::default()
    }
    fn slot_state(&mut self, _: NameRef<'_>) -> SlotState {
        SlotState::Settled
    }
    fn is_writable(&mut self) -> bool {
        false
    }
    fn may_write(&mut self, _: NameRef<'_>) -> bool {
        false
    }
    fn denial(&mut self, _: Ticket, _: &[Name]) -> Option<Rc<str>> {
        None
    }
    fn asker(&mut self, command: AskedBy) -> Rc<Asker> {
        Rc::new(Asker { user: Box::from(&b"anybody"[..]), command })
    }
}
