//! What asynchronous replication loses when a replica takes over, and what its four remedies make
//! of that. The link to the replica stands still for a moment before the master dies or is cut off,
//! so that there is something to lose.
//!
//! With `LOCK_SOAK_SECONDS` each measurement goes on for so long, and prints what it has counted.

use super::history::{MS, Micros};
use super::life::TOLERANCE;
use super::run::soak;
use crate::support::*;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 12;
const LOCKS: u64 = 8;
/// The longest that a client holds a lock.
const TTL: Micros = 400 * MS;
/// For how long nothing reaches the replica before it takes over.
const STANDSTILL: Duration = Duration::from_millis(60);

/// How a client makes sure of its grant before it works.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Care {
    None,
    /// `WAIT 1` right after the answer.
    Wait,
    /// `LOCK.CHECK` and `WAIT 1`: WAIT is for what was written by this client's last command, and
    /// one that waited for the lock was granted it later, by another's command.
    CheckAndWait,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Dies,
    /// It lives on, and half of its clients stay with it.
    IsCutOff,
}

/// What was counted.
#[derive(Clone, Copy, Default)]
struct Loss {
    takeovers: usize,
    /// Grants that clients relied on when the replica took over.
    relied_on: usize,
    /// Those of them that the new master did not know.
    lost: usize,
    /// Grants by the new master, while the holder of one by the old one still relied on it.
    doubled: usize,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { takeovers, relied_on, lost, doubled } = self;
        write!(
            f,
            "{takeovers} takeovers, {relied_on} grants relied on, {lost} of them unknown to the \
             new master, {doubled} given to a second holder"
        )
    }
}

/// From one moment to the other this owner relied on its hold, by its own clock.
#[derive(Clone)]
struct Reliance {
    key: String,
    owner: String,
    from: Micros,
    until: Micros,
    server: SocketAddr,
}

struct Stage {
    began: Instant,
    addresses: Mutex<Vec<SocketAddr>>,
    is_over: AtomicBool,
    numbers: AtomicU64,
    reliances: Mutex<Vec<Reliance>>,
    care: Care,
    /// The server that has a replica: the other one can't acknowledge anything.
    old: SocketAddr,
}

impl Stage {
    fn now(&self) -> Micros {
        self.began.elapsed().as_micros().try_into().unwrap()
    }

    /// One client's work until the end.
    fn work(&self, number: u64, mut chance: Chance) {
        let mut connection: Option<Client> = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let address = {
                let addresses = self.addresses.lock().unwrap();
                addresses[usize::try_from(number).unwrap() % addresses.len()]
            };
            let open = connection.take().filter(|open| open.address() == address);
            let Some(mut client) = open.or_else(|| Client::try_connect(address).ok()) else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            client.give_up_after(Duration::from_millis(500));
            if self.hold_once(&mut client, &mut chance).is_ok() {
                connection = Some(client);
            }
        }
    }

    /// An error is the end of the connection.
    fn hold_once(&self, client: &mut Client, chance: &mut Chance) -> io::Result<()> {
        let key = format!("loss{}", chance.below(LOCKS));
        let owner = format!("o{}", self.numbers.fetch_add(1, Ordering::Relaxed));
        let start = self.now();
        let ask = args!["LOCK.ACQUIRE", key, owner, TTL / MS, "BLOCK", 30];
        if !matches!(client.try_run(&ask)?, Value::Int(_)) {
            thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        let release = args!["LOCK.RELEASE", key, owner];
        if !self.is_sure(client, &key, &owner)? {
            client.try_run(&release)?;
            return Ok(());
        }
        let reliance = Reliance {
            key,
            owner,
            from: self.now(),
            until: start + TTL - TOLERANCE,
            server: client.address(),
        };
        let index = {
            let mut all = self.reliances.lock().unwrap();
            all.push(reliance);
            all.len() - 1
        };
        // Few hold it to its end.
        thread::sleep(Duration::from_millis(chance.below(60) * chance.below(5)));
        let now = self.now();
        let until = &mut self.reliances.lock().unwrap()[index].until;
        *until = now.min(*until);
        client.try_run(&release).map(drop)
    }

    fn is_sure(&self, client: &mut Client, key: &str, owner: &str) -> io::Result<bool> {
        if self.care == Care::None || client.address() != self.old {
            return Ok(true);
        }
        if self.care == Care::CheckAndWait && client.try_run(&["LOCK.CHECK", key, owner])?.is_nil()
        {
            return Ok(false);
        }
        Ok(matches!(client.try_run(&["WAIT", "1", "20"])?, Value::Int(1..)))
    }

    /// Those whom this moment finds at work.
    fn relied_on_now(&self) -> Vec<Reliance> {
        let now = self.now();
        let all = self.reliances.lock().unwrap();
        all.iter().filter(|held| held.until > now).cloned().collect()
    }
}

/// One takeover.
#[track_caller]
fn take_over(care: Care, quarantine: bool, end: End, seed: u64) -> Loss {
    let master = Server::start();
    let link = Proxy::before(master.address());
    let to_link = format!("replicaof 127.0.0.1 {}", link.address().port());
    let replica = Server::with().config(&to_link).start();
    replica.wait_until_in_sync_with(&master);
    if quarantine {
        let set = cmd!(replica.client(), "CONFIG", "SET", "lock.quarantine", TTL / MS);
        assert_eq!(set, "OK");
    }
    let stage = Stage {
        began: Instant::now(),
        addresses: Mutex::new(vec![master.address()]),
        is_over: AtomicBool::new(false),
        numbers: AtomicU64::new(0),
        reliances: Mutex::default(),
        care,
        old: master.address(),
    };
    let mut loss = Loss { takeovers: 1, ..Loss::default() };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stage, chance) = (&stage, Chance::new(seed.wrapping_add(number)));
            scope.spawn(move || stage.work(number, chance));
        }
        let finish = Finish(&stage);
        thread::sleep(Duration::from_millis(250));
        link.forget_all();
        thread::sleep(STANDSTILL);
        if end == End::Dies {
            master.kill_9();
        }
        replica.promote();
        ask_for_those(&stage, &replica, &mut loss);
        *stage.addresses.lock().unwrap() = match end {
            End::Dies => vec![replica.address()],
            End::IsCutOff => vec![replica.address(), master.address()],
        };
        // Until all that the old master has granted must be over, and longer than any quarantine.
        thread::sleep(Duration::from_micros(2 * TTL));
        drop(finish);
    });
    let all = stage.reliances.into_inner().unwrap();
    assert!(
        all.iter().any(|held| held.server == replica.address()),
        "the new master has granted nothing"
    );
    loss.doubled = doubled(&all, replica.address());
    loss
}

/// Ends the work also after a panic.
struct Finish<'a>(&'a Stage);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// Asks the new master for each grant that a client relies on, before any other has come to it.
#[track_caller]
fn ask_for_those(stage: &Stage, replica: &Server, loss: &mut Loss) {
    let mut client = replica.client();
    for held in stage.relied_on_now() {
        let is_lost = cmd!(client, "LOCK.CHECK", held.key, held.owner).is_nil();
        // One that has ended meanwhile tells nothing.
        if (stage.relied_on_now().iter()).any(|still| still.owner == held.owner) {
            loss.relied_on += 1;
            loss.lost += usize::from(is_lost);
        }
    }
}

fn doubled(all: &[Reliance], new: SocketAddr) -> usize {
    let (by_new, by_old): (Vec<_>, Vec<_>) = all.iter().partition(|held| held.server == new);
    let beside = |held: &Reliance, other: &Reliance| {
        held.key == other.key && held.from < other.until && other.from < held.until
    };
    let is_second = |held: &&&Reliance| by_old.iter().any(|other| beside(held, other));
    by_new.iter().filter(is_second).count()
}

/// So many takeovers, or as many as there is time for.
#[track_caller]
fn measure(care: Care, quarantine: bool, end: End, least: usize) -> Loss {
    let began = Instant::now();
    let mut sum = Loss::default();
    while sum.takeovers < least || soak().is_some_and(|long| began.elapsed() < long) {
        let seed = u64::try_from(sum.takeovers).unwrap() * 1000;
        let one = take_over(care, quarantine, end, seed);
        sum.takeovers += one.takeovers;
        sum.relied_on += one.relied_on;
        sum.lost += one.lost;
        sum.doubled += one.doubled;
    }
    if soak().is_some() {
        let how = format!("{care:?}, quarantine {quarantine}, the master {end:?}");
        let _ = writeln!(io::stderr(), "\n{how}: {sum}");
    }
    sum
}

/// This is what the others are measured against; and it shows that they would see a loss.
#[test]
fn a_failover_loses_what_no_replica_has_heard_of() {
    let mut loss = measure(Care::None, false, End::Dies, 1);
    for _ in 0..20 {
        if loss.lost > 0 && loss.doubled > 0 {
            break;
        }
        loss = measure(Care::None, false, End::Dies, 1);
    }
    assert!(loss.lost > 0 && loss.doubled > 0, "{loss}");
}

#[test]
fn what_a_replica_has_acknowledged_is_not_lost_when_it_takes_over() {
    for end in [End::Dies, End::IsCutOff] {
        let loss = measure(Care::CheckAndWait, false, end, 1);
        assert!(loss.lost == 0 && loss.doubled == 0, "{end:?}: {loss}");
    }
}

#[test]
fn a_quarantine_lets_no_other_hold_a_lock_beside_the_holder_of_a_lost_grant() {
    let loss = measure(Care::None, true, End::Dies, 1);
    assert_eq!(loss.doubled, 0, "{loss}");
}

#[test]
fn acknowledged_and_with_a_quarantine_nothing_is_lost_or_given_twice() {
    let loss = measure(Care::CheckAndWait, true, End::Dies, 1);
    assert!(loss.lost == 0 && loss.doubled == 0, "{loss}");
}

/// Figures alone: what is not promised is measured.
#[test]
#[ignore = "a measurement: LOCK_SOAK_SECONDS=60 scripts/test --test server -- --ignored loss"]
fn what_is_not_promised_is_measured() {
    measure(Care::Wait, false, End::Dies, 1);
    measure(Care::Wait, true, End::Dies, 1);
    measure(Care::None, false, End::IsCutOff, 1);
    measure(Care::None, true, End::IsCutOff, 1);
    measure(Care::CheckAndWait, true, End::IsCutOff, 1);
}
