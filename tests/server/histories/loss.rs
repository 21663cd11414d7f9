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
pub(super) const TTL: Micros = 400 * MS;
/// For how long nothing reaches the replica before it takes over.
pub(super) const STANDSTILL: Duration = Duration::from_millis(60);

/// How a client makes sure of its grant before it works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Care {
    None,
    /// `REPLICAS n`, in renewals too.
    Replicas(usize),
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
pub(super) struct Loss {
    pub takeovers: usize,
    /// Grants that clients relied on when the replica took over.
    pub relied_on: usize,
    /// Those of them that the new master did not know, or not until the end that their clients relied on.
    pub lost: usize,
    /// Grants by the new master, while the holder of one by the old one still relied on it.
    pub doubled: usize,
    /// Requests that the old master granted when the new one had taken over.
    pub late: usize,
}

impl Loss {
    pub fn is_none(&self) -> bool {
        self.lost == 0 && self.doubled == 0
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Loss { takeovers, relied_on, lost, doubled, late } = self;
        write!(
            f,
            "{takeovers} takeovers, {relied_on} grants relied on, {lost} of them unknown to the \
             new master, {doubled} given to a second holder, {late} granted by the old master later"
        )
    }
}

/// From one moment to the other this owner relied on its hold, by its own clock.
#[derive(Clone)]
struct Reliance {
    key: String,
    owner: String,
    asked: Micros,
    from: Micros,
    until: Micros,
    server: SocketAddr,
}

pub(super) struct Stage {
    began: Instant,
    addresses: Mutex<Vec<SocketAddr>>,
    is_over: AtomicBool,
    /// The old master's time is up.
    is_failing: AtomicBool,
    numbers: AtomicU64,
    reliances: Mutex<Vec<Reliance>>,
    care: Care,
    ttl: Micros,
    /// The server that has a replica: the other one can't acknowledge anything.
    old: SocketAddr,
}

impl Stage {
    pub fn new(old: SocketAddr, care: Care, ttl: Micros) -> Stage {
        Stage {
            began: Instant::now(),
            addresses: Mutex::new(vec![old]),
            is_over: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            numbers: AtomicU64::new(0),
            reliances: Mutex::default(),
            care,
            ttl,
            old,
        }
    }

    /// The old master goes, or is about to hand over.
    pub fn fail(&self) {
        self.is_failing.store(true, Ordering::Relaxed);
    }

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
        let ttl = self.ttl / MS;
        let replicas = self.replicas_of(client);
        let ask = args!["LOCK.ACQUIRE", key, owner, ttl, "BLOCK", 30, "REPLICAS", replicas];
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
            key: key.clone(),
            owner: owner.clone(),
            asked: start,
            from: self.now(),
            until: start + self.ttl - TOLERANCE,
            server: client.address(),
        };
        let index = {
            let mut all = self.reliances.lock().unwrap();
            all.push(reliance);
            all.len() - 1
        };
        self.use_it(client.address(), index, chance);
        if replicas > 0 {
            let start = self.now();
            let renew = args!["LOCK.RENEW", key, owner, ttl, "REPLICAS", replicas];
            if client.try_run(&renew)? == 1 {
                self.reliances.lock().unwrap()[index].until = start + self.ttl - TOLERANCE;
                self.use_it(client.address(), index, chance);
            }
        }
        let now = self.now();
        let until = &mut self.reliances.lock().unwrap()[index].until;
        *until = now.min(*until);
        client.try_run(&release).map(drop)
    }

    /// Few hold a lock to its end, but for those whom a failover finds at work.
    fn use_it(&self, server: SocketAddr, index: usize, chance: &mut Chance) {
        thread::sleep(Duration::from_millis(chance.below(60) * chance.below(5)));
        let until = self.reliances.lock().unwrap()[index].until;
        while self.is_failing.load(Ordering::Relaxed) && server == self.old && self.now() < until {
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn replicas_of(&self, client: &Client) -> usize {
        match self.care {
            Care::Replicas(replicas) if client.address() == self.old => replicas,
            _ => 0,
        }
    }

    fn is_sure(&self, client: &mut Client, key: &str, owner: &str) -> io::Result<bool> {
        if matches!(self.care, Care::None | Care::Replicas(_)) || client.address() != self.old {
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
    let stage = Stage::new(master.address(), care, TTL);
    let lives_on = end == End::IsCutOff;
    count(stage, seed, &replica, lives_on, |stage| {
        link.forget_all();
        thread::sleep(STANDSTILL);
        stage.fail();
        if !lives_on {
            master.kill_9();
        }
        replica.promote();
    })
}

/// What is lost of what clients have been granted by the old master, when another takes over; half of the clients stay
/// with the old one if it lives on.
#[track_caller]
pub(super) fn count(
    stage: Stage,
    seed: u64,
    new: &Server,
    lives_on: bool,
    take_over: impl FnOnce(&Stage),
) -> Loss {
    let mut loss = Loss { takeovers: 1, ..Loss::default() };
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stage, chance) = (&stage, Chance::new(seed.wrapping_add(number)));
            scope.spawn(move || stage.work(number, chance));
        }
        let finish = Finish(&stage);
        thread::sleep(Duration::from_millis(250));
        take_over(&stage);
        let taken_over = stage.now();
        ask_for_those(&stage, new, &mut loss);
        *stage.addresses.lock().unwrap() =
            if lives_on { vec![new.address(), stage.old] } else { vec![new.address()] };
        // Until all that the old master has granted must be over, and longer than any quarantine.
        thread::sleep(Duration::from_micros(stage.ttl + TTL));
        let is_new = |held: &Reliance| held.server == new.address();
        eventually("the new master grants locks", || {
            stage.reliances.lock().unwrap().iter().any(is_new)
        });
        let all = stage.reliances.lock().unwrap();
        let is_late = |held: &&Reliance| held.server == stage.old && held.asked > taken_over;
        loss.late = all.iter().filter(is_late).count();
        drop(all);
        drop(finish);
    });
    let all = stage.reliances.into_inner().unwrap();
    loss.doubled = doubled(&all, new.address());
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
fn ask_for_those(stage: &Stage, new: &Server, loss: &mut Loss) {
    let mut client = new.client();
    for held in stage.relied_on_now() {
        let left = cmd!(client, "LOCK.CHECK", held.key, held.owner);
        let now = stage.now();
        // One that has ended meanwhile tells nothing.
        let reliances = stage.relied_on_now();
        if let Some(still) = reliances.iter().find(|still| still.owner == held.owner) {
            let ends = if left.is_nil() { 0 } else { now + left.int().unsigned_abs() * MS };
            loss.relied_on += 1;
            loss.lost += usize::from(ends + TOLERANCE < still.until);
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
pub(super) fn measure(how: &str, least: usize, mut one: impl FnMut(usize) -> Loss) -> Loss {
    let began = Instant::now();
    let mut sum = Loss::default();
    while sum.takeovers < least || soak().is_some_and(|long| began.elapsed() < long) {
        let Loss { takeovers, relied_on, lost, doubled, late } = one(sum.takeovers);
        sum.takeovers += takeovers;
        sum.relied_on += relied_on;
        sum.lost += lost;
        sum.doubled += doubled;
        sum.late += late;
    }
    if soak().is_some() {
        let _ = writeln!(io::stderr(), "\n{how}: {sum}");
    }
    sum
}

#[track_caller]
fn losses(care: Care, quarantine: bool, end: End) -> Loss {
    let how = format!("{care:?}, quarantine {quarantine}, the master {end:?}");
    let seed = |round: usize| u64::try_from(round).unwrap() * 1000;
    measure(&how, 1, |round| take_over(care, quarantine, end, seed(round)))
}

/// This is what the others are measured against; and it shows that they would see a loss.
#[test]
fn a_failover_loses_what_no_replica_has_heard_of() {
    let mut loss = losses(Care::None, false, End::Dies);
    for _ in 0..20 {
        if loss.lost > 0 && loss.doubled > 0 {
            break;
        }
        loss = losses(Care::None, false, End::Dies);
    }
    assert!(loss.lost > 0 && loss.doubled > 0, "{loss}");
}

#[test]
fn what_a_replica_has_acknowledged_is_not_lost_when_it_takes_over() {
    for end in [End::Dies, End::IsCutOff] {
        let loss = losses(Care::CheckAndWait, false, end);
        assert!(loss.is_none(), "{end:?}: {loss}");
    }
}

#[test]
fn a_quarantine_lets_no_other_hold_a_lock_beside_the_holder_of_a_lost_grant() {
    let loss = losses(Care::None, true, End::Dies);
    assert_eq!(loss.doubled, 0, "{loss}");
}

#[test]
fn acknowledged_and_with_a_quarantine_nothing_is_lost_or_given_twice() {
    let loss = losses(Care::CheckAndWait, true, End::Dies);
    assert!(loss.is_none(), "{loss}");
}

/// Figures alone: what is not promised is measured.
#[test]
#[ignore = "a measurement: LOCK_SOAK_SECONDS=60 scripts/test --test server -- --ignored loss"]
fn what_is_not_promised_is_measured() {
    losses(Care::Wait, false, End::Dies);
    losses(Care::Wait, true, End::Dies);
    losses(Care::None, false, End::IsCutOff);
    losses(Care::None, true, End::IsCutOff);
    losses(Care::CheckAndWait, true, End::IsCutOff);
}
