//! What is said: commands with words that fit, that nearly fit, and that don't fit at all.

use super::dice::Dice;
use super::treasure::{self, DATA};
use crate::support::*;

const KEYS: [&[u8]; 9] = [b"k", b"l", b"m", b"{t}a", b"{t}b", b"", b"\xff\0\r\n}", b"a}b{", b" "];
const OWNERS: [&[u8]; 8] = [b"a", b"b", b"c", b"d", b"*", b"", b"@lock:shared", b"\0\xfe\r\n"];
const SHORT_TIMES: [&str; 5] = ["1", "1", "2", "5", "30"];
/// At the edges of what a number can be, and beyond.
const NUMBERS: [&str; 24] = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "64",
    "65",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9005400000000000",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "99999999999999999999999",
    "1.5",
    "1e3",
    "nan",
    "inf",
    "+1",
    "01",
    "-0",
];
const OPTIONS: [&str; 18] = [
    "BLOCK", "block", "QUEUE", "NOTIFY", "SHARED", "LIMIT", "FAIR", "PER", "SESSION", "MAXQUEUE",
    "REPLICAS", "FORCE", "GRACE", "MATCH", "COUNT", "ALL", "NX", "BLOCK\0",
];
/// Of shares that others write: points in time, and what lies beyond all of them.
const SCORES: [&str; 8] = [
    "+inf",
    "-inf",
    "5",
    "9005400000000000",
    "9007199254740993",
    "9223372036854775807",
    "1e19",
    "1e300",
];
const COMMANDS: [&str; 12] = [
    "LOCK.ACQUIRE",
    "LOCK.RELEASE",
    "LOCK.RENEW",
    "LOCK.CHECK",
    "LOCK.GUARD",
    "LOCK.MACQUIRE",
    "LOCK.MRELEASE",
    "LOCK.MRENEW",
    "LOCK.INFO",
    "LOCK.SCAN",
    "LOCK.BREAK",
    "LOCK.LOG",
];
const MEGABYTE: usize = 1 << 20;

const CALL: &str = "return redis.call(unpack(ARGV))";
const PCALL: &str = "local r = redis.pcall(unpack(ARGV)) return r";
const FUNCTION: &str = "#!lua name=said
redis.register_function('say', function(keys, args) return redis.call(unpack(args)) end)";

/// The function that commands are sometimes said by.
pub fn load_function(client: &mut Client) {
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", FUNCTION), "said");
}

/// Commands that belong together: one, or a transaction.
pub fn something(dice: &mut Dice) -> Vec<Command> {
    match dice.below(24) {
        0 | 1 => {
            let mut bundle = vec![args!["MULTI"]];
            bundle.extend((0..dice.below(5)).map(|_| single(dice)));
            bundle.push(args![*dice.of(&[&"EXEC", &"EXEC", &"EXEC", &"DISCARD"])]);
            bundle
        }
        2 => vec![args!["WATCH", key(dice)]],
        3 => vec![connection_command(dice)],
        _ => vec![single(dice)],
    }
}

/// One command, as it may also stand in a transaction.
fn single(dice: &mut Dice) -> Command {
    match dice.below(20) {
        0 | 1 => by_script(dice),
        2 | 3 => setting(dice),
        4..6 => foreign(dice),
        6 => question(dice),
        _ => lock_command(dice),
    }
}

fn connection_command(dice: &mut Dice) -> Command {
    match dice.below(5) {
        0 => args!["HELLO", *dice.of(&[&"2", &"3", &"4"])],
        1 => args!["RESET"],
        2 => args!["UNWATCH"],
        _ => args!["SELECT", *dice.of(&[&"0", &"1", &"2", &"99999", &"x"])],
    }
}

fn by_script(dice: &mut Dice) -> Command {
    let inner = match dice.below(4) {
        0 => foreign(dice),
        _ => lock_command(dice),
    };
    let mut command = match dice.below(3) {
        0 => args!["FCALL", "say", 0],
        1 => args!["EVAL", PCALL, 0],
        _ => args!["EVAL", CALL, 0],
    };
    command.extend(inner);
    command
}

fn setting(dice: &mut Dice) -> Command {
    let name = *dice.of(&[
        &"lock.max-ttl",
        &"lock.max-waiters",
        &"lock.max-waiters-total",
        &"lock.fence-lead",
        &"lock.quarantine",
        &"lock.drain",
        &"lock.none",
    ]);
    match dice.below(6) {
        0 => args!["CONFIG", "GET", "lock.*"],
        1 => args!["CONFIG", "SET", "lock.drain", *dice.of(&[&"yes", &"no", &"no", &"perhaps"])],
        // Back to where commands get through.
        2 => args!["CONFIG", "SET", "lock.max-ttl", 0, "lock.max-waiters", 20, "lock.drain", "no"],
        // Accepted, it would give an end to what is no lock.
        3 => args![
            "CONFIG",
            "SET",
            "lock.orphan-ttl",
            *dice.of(&[&"-1", &"x", &"9223372036854775807"])
        ],
        4 => args!["CONFIG", "SET", name, size(dice)],
        _ => args!["CONFIG", "SET", name, word(dice)],
    }
}

/// What other clients do to keys.
fn foreign(dice: &mut Dice) -> Command {
    let (key, other) = (lock_key(dice), lock_key(dice));
    let owner = dice.of(&OWNERS).to_vec();
    match dice.below(18) {
        0 => args!["SET", key, owner, "NX", "PX", time(dice)],
        1 => args!["SET", key, owner],
        2 => args!["DEL", key],
        3 => args!["UNLINK", key, other],
        4 => {
            let command = *dice.of(&[&"PEXPIRE", &"PEXPIREAT"]);
            args![command, key, time(dice)]
        }
        5 => args!["PERSIST", key],
        6 => args!["RENAME", key, other],
        7 => args!["COPY", key, other, "REPLACE"],
        8 => args!["MOVE", key, 1],
        9 => args!["ZADD", key, "+inf", MARKER],
        10 => {
            let mut command = args!["ZADD", key, *dice.of(&SCORES.each_ref()), owner];
            if dice.one_in(2) {
                command.extend(args!["+inf", MARKER]);
            }
            command
        }
        11 => args!["ZREM", key, *dice.of(&[&"a", &MARKER])],
        12 => args!["LPUSH", key, "x"],
        13 => args!["GETDEL", key],
        14 => args!["APPEND", key, owner],
        15 => args!["INCR", key],
        16 => args!["BLPOP", key, "0.01"],
        _ => args!["GET", key],
    }
}

fn question(dice: &mut Dice) -> Command {
    match dice.below(6) {
        0 => args!["INFO", "lock"],
        1 => args!["LOCK.SCAN", 0, "COUNT", 1000],
        2 => args!["COMMAND", "DOCS", *dice.of(&[&"lock.acquire", &"LOCK.GUARD", &"lock.none"])],
        3 => args!["COMMAND", "INFO", "lock.scan"],
        more => {
            let how = if more == 4 { "GETKEYS" } else { "GETKEYSANDFLAGS" };
            let mut command = args!["COMMAND", how];
            command.extend(lock_command(dice));
            command
        }
    }
}

fn lock_command(dice: &mut Dice) -> Command {
    let mut command = if dice.one_in(6) {
        let mut wild = args![*dice.of(&COMMANDS.each_ref())];
        wild.extend((0..dice.below(9)).map(|_| word(dice)));
        wild
    } else {
        fitting(dice)
    };
    // One word is lost, one is said twice, one is another.
    let place = dice.below(command.len());
    match dice.below(30) {
        0 if place > 0 => _ = command.remove(place),
        1 if place > 0 => command.insert(place, command[place].clone()),
        2 if place > 0 => command[place] = word(dice),
        3 => command.push(word(dice)),
        _ => {}
    }
    keep_data(command)
}

fn fitting(dice: &mut Dice) -> Command {
    let (key, owner) = (key(dice), owner(dice));
    match dice.below(20) {
        0..6 => {
            let mut command = args!["LOCK.ACQUIRE", key, owner, time(dice)];
            options(dice, &mut command);
            command
        }
        6..9 => args!["LOCK.RELEASE", key, owner],
        9 => args!["LOCK.RENEW", key, owner, time(dice)],
        10 => args!["LOCK.CHECK", key, owner],
        11 | 12 => {
            let mut command = args!["LOCK.GUARD", key, owner];
            command.extend(match dice.below(6) {
                0 => lock_command(dice),
                1 => args![*dice.of(&[&"MULTI", &"EVAL", &"WAIT", &"SUBSCRIBE", &"SELECT"]), 1, 1],
                2 => args!["BLPOP", "k", 0],
                _ => foreign(dice),
            });
            command
        }
        13 | 14 => {
            let mut command = keys(dice, "LOCK.MACQUIRE");
            command.extend(args![owner, time(dice)]);
            options(dice, &mut command);
            command
        }
        15 => {
            let mut command = keys(dice, "LOCK.MRELEASE");
            command.extend(args![owner]);
            command
        }
        16 => {
            let mut command = keys(dice, "LOCK.MRENEW");
            command.extend(args![owner, time(dice)]);
            command
        }
        17 => args!["LOCK.INFO", key],
        18 => args!["LOCK.SCAN", size(dice), "MATCH", "*", "COUNT", size(dice), "ALL"],
        _ => {
            let mut command = args!["LOCK.BREAK", key];
            if dice.one_in(2) {
                command.extend(args!["FORCE"]);
            }
            command
        }
    }
}

/// BREAK with FORCE may end what is another client's data, and GUARD runs what may do so. That is what they
/// are for.
fn keep_data(mut command: Command) -> Command {
    let by_force = (command.iter()).any(|word| word.eq_ignore_ascii_case(b"FORCE"));
    let is_guard = command[0] == b"LOCK.GUARD";
    for (place, word) in command.iter_mut().enumerate() {
        let is_treasure = treasure::KEYS.iter().any(|key| word == key.as_bytes());
        if (by_force && word == DATA.as_bytes()) || (is_guard && place > 2 && is_treasure) {
            *word = b"k".to_vec();
        }
    }
    command
}

fn options(dice: &mut Dice, command: &mut Command) {
    match dice.below(6) {
        0..=2 => command.extend(args!["BLOCK", time(dice)]),
        3 => command.extend(args!["QUEUE", time(dice)]),
        4 => command.extend(args!["QUEUE", time(dice), "NOTIFY", key(dice), size(dice)]),
        _ => {}
    }
    match dice.below(5) {
        0 => command.extend(args!["SHARED"]),
        1 => command.extend(args!["LIMIT", size(dice)]),
        2 => command.extend(args!["LIMIT", size(dice), "FAIR", "PER", size(dice)]),
        _ => {}
    }
    if dice.one_in(4) {
        command.extend(args!["SESSION"]);
    }
}

fn keys(dice: &mut Dice, name: &str) -> Command {
    let count = match dice.below(40) {
        0 => 64,
        1 => 65,
        _ => dice.below(4) + 1,
    };
    let keys: Vec<_> = (0..count).map(|_| key(dice)).collect();
    let mut command = counted(name, &keys);
    if dice.one_in(10) {
        command[1] = size(dice);
    }
    command
}

fn key(dice: &mut Dice) -> Vec<u8> {
    match dice.below(5) {
        0 => dice.of(&treasure::KEYS).as_bytes().to_vec(),
        _ => lock_key(dice),
    }
}

fn lock_key(dice: &mut Dice) -> Vec<u8> {
    match dice.below(400) {
        0 => vec![b'k'; MEGABYTE],
        1..5 => vec![b'k'; 5000],
        _ => dice.of(&KEYS).to_vec(),
    }
}

fn owner(dice: &mut Dice) -> Vec<u8> {
    match dice.below(400) {
        0 => vec![b'o'; MEGABYTE],
        1 => vec![b'o'; 1025],
        2..6 => vec![b'o'; 1024],
        6..200 => dice.of(&OWNERS[..3]).to_vec(),
        _ => dice.of(&OWNERS).to_vec(),
    }
}

fn time(dice: &mut Dice) -> Vec<u8> {
    match dice.below(6) {
        0 => size(dice),
        _ => dice.of(&SHORT_TIMES).as_bytes().to_vec(),
    }
}

fn size(dice: &mut Dice) -> Vec<u8> {
    match dice.below(200) {
        0 => vec![b'9'; MEGABYTE],
        1..100 => dice.of(&NUMBERS[..6]).as_bytes().to_vec(),
        _ => dice.of(&NUMBERS).as_bytes().to_vec(),
    }
}

fn word(dice: &mut Dice) -> Vec<u8> {
    match dice.below(6) {
        0 => key(dice),
        1 => owner(dice),
        2 => time(dice),
        3 => size(dice),
        4 => dice.of(&OPTIONS).as_bytes().to_vec(),
        _ => (0..dice.below(20)).map(|_| u8::try_from(dice.below(256)).unwrap()).collect(),
    }
}
