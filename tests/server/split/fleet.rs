//! A fleet of clients at both sides of a split. They take locks, and with the number of the grant they read and write
//! what the lock guards; now and then one sleeps for longer than its hold lasts.

use super::resource::{Counts, Refused, Resource, Shown, Side};
use super::stage::Servers;
use crate::histories::history::{MS, Micros};
use crate::histories::life::TOLERANCE;
use crate::support::*;
use std::io;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: u64 = 12;
/// More than are stuck where a clock is behind: what is held when the network is cut lasts for longer there.
const LOCKS: u64 = 30;
const TTL: Micros = 400 * MS;
/// They work so long before the network is cut, and when it is there again.
const BEFORE: Duration = Duration::from_millis(400);

/// What a client does before it relies on a grant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Care {
    None,
    /// `LOCK.CHECK` and `WAIT 1`.
    Wait,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long the old master lives on after the takeover.
    pub lasts: Duration,
    pub care: Care,
    pub setting: Option<&'static str>,
    pub clocks_apart: i64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { lasts: Duration::ZERO, care: Care::None, setting: None, clocks_apart: 0 }
    }
}

/// A client relied on its hold from the one to the other moment.
struct Reliance {
    key: String,
    side: Side,
    from: Micros,
    until: Micros,
}

struct Stage {
    began: Instant,
    is_over: AtomicBool,
    old: SocketAddr,
    heir: SocketAddr,
    /// Where the Sentinels send clients.
    named: Mutex<SocketAddr>,
    numbers: AtomicU64,
    resource: Resource,
    reliances: Mutex<Vec<Reliance>>,
    refused_late: AtomicU64,
    refused_wrongly: AtomicU64,
    care: Care,
}

impl Stage {
    fn now(&self) -> Micros {
        self.began.elapsed().as_micros().try_into().unwrap()
    }

    /// Half of the clients stay with the old master until it tells them that it is none.
    fn work(&self, number: u64, mut chance: Chance) {
        let mut stays = number.is_multiple_of(2);
        let mut connection: Option<Client> = None;
        while !self.is_over.load(Ordering::Relaxed) {
            let address = if stays { self.old } else { *self.named.lock().unwrap() };
            let open = connection.take().filter(|open| open.address() == address);
            let Some(mut client) = open.or_else(|| Client::try_connect(address).ok()) else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            assert!(!client.has_unread(), "a second reply to one command");
            client.give_up_after(Duration::from_millis(300));
            match self.hold_once(&mut client, &mut chance) {
                Ok(is_master) => {
                    stays &= is_master;
                    connection = Some(client);
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// An error is the end of the connection; `false` tells that this is no master any more.
    fn hold_once(&self, client: &mut Client, chance: &mut Chance) -> io::Result<bool> {
        let key = format!("split{}", chance.below(LOCKS));
        let owner = format!("o{}", self.numbers.fetch_add(1, Ordering::Relaxed));
        let start = self.now();
        let ask = args!["LOCK.ACQUIRE", key, owner, TTL / MS, "BLOCK", 30];
        let number = match client.try_run(&ask)? {
            Value::Int(number) => number,
            reply => {
                thread::sleep(Duration::from_millis(2));
                return Ok(!(reply.is_error("READONLY") || reply.is_error("UNBLOCKED")));
            }
        };
        let release = args!["LOCK.RELEASE", key, owner];
        if !self.is_sure(client, &key, &owner)? {
            client.try_run(&release)?;
            return Ok(true);
        }
        let side = if client.address() == self.heir { Side::New } else { Side::Old };
        let until = start + TTL - TOLERANCE;
        let from = self.now();
        self.use_it(&key, (number, side), until, chance);
        let reliance = Reliance { key, side, from, until: until.min(self.now()) };
        self.reliances.lock().unwrap().push(reliance);
        let reply = client.try_run(&release)?;
        Ok(!reply.is_error("READONLY"))
    }

    /// Reads, works, and writes.
    fn use_it(&self, key: &str, grant: (i64, Side), until: Micros, chance: &mut Chance) {
        let (number, side) = grant;
        let shown = || Shown { number, side, is_valid: self.now() < until };
        let read = self.resource.read(key, shown);
        let ms = if chance.one_in(16) { TTL / MS + chance.below(200) } else { chance.below(6) };
        thread::sleep(Duration::from_millis(ms));
        match self.resource.write(key, read, shown) {
            Ok(()) => {}
            Err(Refused::Late) => _ = self.refused_late.fetch_add(1, Ordering::Relaxed),
            Err(Refused::Wrongly) => _ = self.refused_wrongly.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn is_sure(&self, client: &mut Client, key: &str, owner: &str) -> io::Result<bool> {
        if self.care == Care::None {
            return Ok(true);
        }
        // WAIT is for what was written by this client's last command, and one that waited was granted it later.
        if client.try_run(&["LOCK.CHECK", key, owner])?.is_nil() {
            return Ok(false);
        }
        Ok(matches!(client.try_run(&["WAIT", "1", "20"])?, Value::Int(1..)))
    }

    fn move_to(&self, address: SocketAddr) {
        *self.named.lock().unwrap() = address;
    }
}

/// One split, from the start of its servers to their end.
#[track_caller]
pub fn split(plan: &Plan, seed: u64) -> Counts {
    // A replica that is cut off is missed after this many seconds, the fewest that there are.
    let settings: Vec<&str> = plan.setting.into_iter().chain(["min-replicas-max-lag 1"]).collect();
    let servers = Servers::start(&settings, plan.clocks_apart);
    let stage = Stage {
        began: Instant::now(),
        is_over: AtomicBool::new(false),
        old: servers.old.address(),
        heir: servers.heir.address(),
        named: Mutex::new(servers.named()),
        numbers: AtomicU64::new(0),
        resource: Resource::default(),
        reliances: Mutex::default(),
        refused_late: AtomicU64::new(0),
        refused_wrongly: AtomicU64::new(0),
        care: plan.care,
    };
    let mut cut = 0;
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (stage, chance) = (&stage, Chance::new(seed * CLIENTS + number));
            scope.spawn(move || stage.work(number, chance));
        }
        let end = End(&stage);
        thread::sleep(BEFORE);
        cut = stage.now();
        servers.network.cut();
        servers.wait_for_the_takeover();
        stage.move_to(servers.named());
        thread::sleep(plan.lasts);
        servers.heal();
        thread::sleep(BEFORE);
        drop(end);
    });
    let counts = stage.counts(cut);
    assert!(counts.accepted > 100, "hardly a run: {counts}");
    assert!(counts.by_new > 0, "the successor has granted nothing: {counts}");
    assert_eq!(counts.refused_wrongly, 0, "rightful holders were refused: {counts}");
    assert_eq!(counts.lost, 0, "updates are lost: {counts}");
    counts
}

/// Ends the work also after a panic.
struct End<'a>(&'a Stage);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Stage {
    fn counts(self, cut: Micros) -> Counts {
        let all = self.reliances.into_inner().unwrap();
        let (by_new, by_old): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.side == Side::New);
        let began_beside = |one: &Reliance, others: &[&Reliance]| {
            let is_beside = |other: &&Reliance| {
                other.key == one.key && other.from <= one.from && one.from < other.until
            };
            others.iter().any(is_beside)
        };
        let doubled = by_new.iter().filter(|one| began_beside(one, &by_old)).count()
            + by_old.iter().filter(|one| began_beside(one, &by_new)).count();
        let (lost, lost_unchecked) = self.resource.lost();
        Counts {
            splits: 1,
            by_old: by_old.iter().filter(|one| one.from >= cut).count(),
            by_new: by_new.len(),
            doubled,
            accepted: self.resource.accepted(),
            refused_late: self.refused_late.into_inner(),
            refused_wrongly: self.refused_wrongly.into_inner(),
            lost,
            lost_unchecked,
        }
    }
}
