//! Keys with deadlines, and a log of all that is written to them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::fence::{Epoch, SlotState};
use crate::lock::{
    Ahead, AskedBy, Asker, Db, Glance, Keyspace, LockEvent, Ms, Name, NameRef, Now, SHARED_MARKER,
    Share, Stored, Ticket, from_wall, to_wall,
};

use super::Lock;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A string: a hold.
    Token(Vec<u8>),
    /// A sorted set; with our marker a shared lock, without it other data.
    SortedSet(BTreeMap<Vec<u8>, Score>),
    /// A list, say.
    NoLock,
}

/// A member's score; none is infinite.
pub type Score = Option<Ms>;

/// When a share with this score ends.
pub fn end_of(score: Score) -> Option<Ms> {
    #[allow(clippy::cast_precision_loss, reason = "so do scores")]
    score.and_then(|score| Share::with_score(score as f64).deadline)
}

impl Content {
    /// Those who share the lock, if it is one.
    pub fn shares(&self) -> Option<BTreeMap<Vec<u8>, Score>> {
        let Self::SortedSet(members) = self else {
            return None;
        };
        let mut shares = members.clone();
        let marker = shares.remove(SHARED_MARKER);
        shares.values_mut().for_each(|score| *score = end_of(*score));
        (marker == Some(None)).then_some(shares)
    }

    /// Is it something that the core must leave alone?
    pub fn is_no_lock(&self) -> bool {
        !matches!(self, Self::Token(_)) && self.shares().is_none()
    }
}

/// A key's content and its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub content: Content,
    pub deadline: Option<Ms>,
}

pub type Keys = BTreeMap<Lock, Key>;

/// What replicas and the append-only file are told: the server's own commands, with absolute times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Set(Lock, Key),
    ZAdd(Lock, Vec<(Vec<u8>, Score)>),
    ZRem(Lock, Vec<u8>),
    PExpireAt(Lock, Ms),
    Persist(Lock),
    Del(Lock),
    Rename(Lock, Lock),
    Flush(Option<Db>),
    Swap(Db, Db),
}

impl Write {
    /// The keys that it names.
    pub fn touches(&self) -> Vec<Lock> {
        match self {
            Self::Set(lock, _)
            | Self::ZAdd(lock, _)
            | Self::ZRem(lock, _)
            | Self::PExpireAt(lock, _)
            | Self::Persist(lock)
            | Self::Del(lock) => vec![*lock],
            Self::Rename(from, to) => vec![*from, *to],
            Self::Flush(_) | Self::Swap(..) => vec![],
        }
    }
}

/// What a server without the module makes of a write.
pub fn replay(keys: &mut Keys, write: &Write) {
    match write {
        Write::Set(lock, key) => {
            keys.insert(*lock, key.clone());
        }
        Write::ZAdd(lock, new) => {
            let key = keys.entry(*lock).or_insert_with(|| Key {
                content: Content::SortedSet(BTreeMap::new()),
                deadline: None,
            });
            let Content::SortedSet(members) = &mut key.content else {
                panic!("ZADD to what is no sorted set: {key:?}");
            };
            members.extend(new.iter().cloned());
        }
        Write::ZRem(lock, member) => take_member(keys, lock, member),
        Write::PExpireAt(lock, deadline) => {
            if let Some(key) = keys.get_mut(lock) {
                key.deadline = Some(*deadline);
            }
        }
        Write::Persist(lock) => {
            if let Some(key) = keys.get_mut(lock) {
                key.deadline = None;
            }
        }
        Write::Del(lock) => {
            keys.remove(lock);
        }
        Write::Rename(from, to) => {
            if let Some(key) = keys.remove(from) {
                keys.insert(*to, key);
            }
        }
        Write::Flush(db) => keys.retain(|place, _| db.is_some_and(|db| place.0 != db)),
        Write::Swap(one, other) => {
            *keys = std::mem::take(keys)
                .into_iter()
                .map(|((db, key), value)| {
                    let db = match db {
                        db if db == *one => *other,
                        db if db == *other => *one,
                        db => db,
                    };
                    ((db, key), value)
                })
                .collect();
        }
    }
}

/// A sorted set goes with its last member.
fn take_member(keys: &mut Keys, lock: &Lock, member: &Vec<u8>) {
    let Some(key) = keys.get_mut(lock) else {
        panic!("members are taken out of no key: {lock:?}");
    };
    let Content::SortedSet(members) = &mut key.content else {
        panic!("members are taken out of what is no sorted set: {key:?}");
    };
    members.remove(member);
    if members.is_empty() {
        keys.remove(lock);
    }
}

/// On whose behalf keys are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A client's command that only reads.
    Reader,
    /// A client's command that writes. The server has asked everything already, and shows it no
    /// expired key.
    Writer,
    /// The core's own. It has to ask.
    Ourselves,
}

/// The keys of a server.
#[derive(Debug)]
pub struct SimulatedKeys {
    pub keys: Keys,
    pub now: Now,
    /// How far the wall clock, by which keys expire, is ahead.
    pub ahead: Ahead,
    /// All that was written since this was last taken.
    pub log: Vec<Write>,
    /// Where in the log the core has removed a key in this turn. A hold that follows at once is written over it.
    pub removed_at: Option<usize>,
    /// Keys that were found expired, and removed, since this was last taken.
    pub expired: Vec<Lock>,
    /// A client that looks at an expired key removes it. Servers don't do so while writes are paused, nor
    /// on replicas.
    pub removes_expired: bool,
    /// On whose behalf the core acts.
    pub authority: Authority,
    /// The keys that the running command names: the server has asked about no others.
    pub named: Vec<Lock>,
    /// May nothing be written?
    pub paused: bool,
    /// Keys that may not be written.
    pub closed: BTreeSet<Lock>,
    /// Waiters whose users have lost the right to what they wait for.
    pub barred: BTreeSet<Ticket>,
    /// Owners whose users may ask for nothing any more.
    pub denied: BTreeSet<Vec<u8>>,
    /// Whose command this is.
    pub asker: &'static str,
    /// Owners who are users of their own. All others are one user.
    pub other_users: BTreeSet<&'static str>,
    /// Who has asked, by where that is kept.
    asked: BTreeMap<*const Asker, &'static str>,
    /// No client can ask for anything now.
    pub keeps_back: bool,
    /// How many writes each replica that is connected has acknowledged.
    pub acknowledged: Vec<u64>,
    /// What the core should not have done.
    pub offences: Vec<String>,
    /// What others were told of.
    pub mentioned: Vec<(Lock, LockEvent)>,
    /// How often the core has looked at a key.
    pub looks: u64,
    /// How many shares have been looked at, or taken out, one by one.
    pub visited: usize,
    known: BTreeSet<Lock>,
}

impl SimulatedKeys {
    pub fn new(now: Now, known: &[Lock]) -> Self {
        Self {
            keys: Keys::new(),
            now,
            ahead: 0,
            log: Vec::new(),
            removed_at: None,
            expired: Vec::new(),
            looks: 0,
            removes_expired: true,
            authority: Authority::Ourselves,
            named: Vec::new(),
            paused: false,
            closed: BTreeSet::new(),
            barred: BTreeSet::new(),
            denied: BTreeSet::new(),
            asker: "",
            other_users: BTreeSet::new(),
            asked: BTreeMap::new(),
            keeps_back: false,
            acknowledged: Vec::new(),
            offences: Vec::new(),
            mentioned: Vec::new(),
            visited: 0,
            known: known.iter().copied().collect(),
        }
    }

    pub fn get(&self, lock: Lock) -> Option<&Key> {
        self.keys.get(&lock)
    }

    /// Is the key there, although its time is over?
    pub fn is_expired(&self, lock: Lock) -> bool {
        self.get(lock).and_then(|key| key.deadline).is_some_and(|deadline| self.wall() > deadline)
    }

    /// What the wall clock says.
    pub fn wall(&self) -> Ms {
        to_wall(self.now.ms(), self.ahead)
    }

    fn steady(&self, deadline: Option<Ms>) -> Option<Ms> {
        deadline.map(|deadline| from_wall(deadline, self.ahead))
    }

    /// A write of the server's own.
    pub fn write(&mut self, write: Write) {
        replay(&mut self.keys, &write);
        self.log.push(write);
    }

    /// What a server does on its way to an expired key.
    pub fn expire(&mut self, lock: Lock) {
        let removes = self.removes_expired || self.authority == Authority::Writer;
        if removes && !self.paused && self.is_expired(lock) {
            self.write(Write::Del(lock));
            self.expired.push(lock);
        }
    }

    fn lock(&self, name: NameRef<'_>) -> Lock {
        *self
            .known
            .iter()
            .find(|lock| lock.0 == name.db && lock.1.as_bytes() == name.key)
            .expect("a lock that the test knows")
    }

    /// Those who share a lock, whether over or not.
    fn shares(&self, lock: Lock) -> Option<BTreeMap<Vec<u8>, Score>> {
        self.get(lock)?.content.shares()
    }

    /// A shared lock's key expires with the last of its shares.
    fn expire_with_last(&mut self, lock: Lock, or_later: bool) {
        let shares = self.shares(lock).unwrap_or_default();
        let latest = shares.values().map(|score| score.unwrap_or(Ms::MAX)).max();
        let latest = latest.filter(|&latest| latest != Ms::MAX);
        let before = self.get(lock).and_then(|key| key.deadline);
        let is_later = latest.unwrap_or(Ms::MAX) > before.unwrap_or(Ms::MAX);
        if latest != before && (or_later || !is_later) {
            self.write(match latest {
                Some(latest) => Write::PExpireAt(lock, latest),
                None => Write::Persist(lock),
            });
        }
    }

    fn offend(&mut self, what: String) {
        self.offences.push(what);
    }

    fn is_allowed(&self, lock: Lock) -> bool {
        !self.paused && !self.closed.contains(&lock)
    }

    fn check(&mut self, lock: Lock, what: &str) {
        if !self.is_allowed(lock) || self.authority == Authority::Reader {
            self.offences.push(format!("{what} {lock:?} while it may not be written"));
        }
        if matches!(self.get(lock), Some(key) if key.content.is_no_lock()) && !self.is_expired(lock)
        {
            self.offences.push(format!("{what} {lock:?}, which is no lock"));
        }
    }
}

impl Keyspace for SimulatedKeys {
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_> {
        self.looks += 1;
        let lock = self.lock(name);
        self.expire(lock);
        let over = self.is_expired(lock);
        let shares = self.shares(lock).map(|shares| shares.len());
        match (self.get(lock).map(|key| &key.content), shares) {
            (Some(Content::Token(owner)), _) => Stored::Exclusive { owner },
            (Some(_), Some(count)) => Stored::Shared { count },
            // Only one who reads does not see it any more.
            (Some(_), None) if !over || self.authority == Authority::Ourselves => Stored::NoLock,
            _ => Stored::Nothing,
        }
    }

    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms> {
        let lock = self.lock(name);
        let Some(key) = self.get(lock) else {
            // Some servers stop at once.
            self.offend(format!("PEXPIRETIME {lock:?}: no key"));
            return None;
        };
        let deadline = key.deadline;
        self.steady(deadline)
    }

    fn has_expired(&self, name: NameRef<'_>) -> bool {
        self.expired.contains(&self.lock(name))
    }

    fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share> {
        let lock = self.lock(name);
        let shares = self.shares(lock)?;
        let deadline = self.steady(*shares.get(owner)?);
        Some(Share { deadline })
    }

    fn each_share(&mut self, name: NameRef<'_>, visit: &mut dyn FnMut(&[u8], Share) -> bool) {
        let lock = self.lock(name);
        let mut shares: Vec<_> = self.shares(lock).into_iter().flatten().collect();
        shares.sort_by_key(|(owner, score)| (score.unwrap_or(Ms::MAX), owner.clone()));
        for (owner, deadline) in shares {
            self.visited += 1;
            let deadline = self.steady(deadline);
            if !visit(&owner, Share { deadline }) {
                return;
            }
        }
    }

    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let lock = self.lock(name);
        self.check(lock, "SET");
        let content = Content::Token(owner.to_vec());
        let deadline = Some(to_wall(deadline, self.ahead));
        let removed = self.removed_at.take().filter(|&at| at.saturating_add(1) == self.log.len());
        if removed.is_some_and(|at| self.log.get(at) == Some(&Write::Del(lock))) {
            self.log.pop();
        }
        self.write(Write::Set(lock, Key { content, deadline }));
    }

    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) -> bool {
        let lock = self.lock(name);
        self.check(lock, "PEXPIREAT");
        if !matches!(self.get(lock), Some(key) if matches!(key.content, Content::Token(_))) {
            self.offend(format!("PEXPIREAT {lock:?}: not held by one"));
        }
        self.write(Write::PExpireAt(lock, to_wall(deadline, self.ahead)));
        true
    }

    fn repeat_deadline(&mut self, name: NameRef<'_>) {
        let lock = self.lock(name);
        self.check(lock, "PEXPIREAT");
        if let Some(deadline) = self.get(lock).and_then(|key| key.deadline) {
            self.write(Write::PExpireAt(lock, deadline));
        }
    }

    fn share(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let lock = self.lock(name);
        self.check(lock, "ZADD");
        if matches!(self.get(lock), Some(key) if key.content.shares().is_none()) {
            return self.offend(format!("ZADD {lock:?}, which is not shared"));
        }
        let marker = (self.get(lock).is_none()).then(|| (SHARED_MARKER.to_vec(), None));
        let share = (owner.to_vec(), Some(to_wall(deadline, self.ahead)));
        self.write(Write::ZAdd(lock, marker.into_iter().chain([share]).collect()));
        self.expire_with_last(lock, true);
    }

    fn unshare(&mut self, name: NameRef<'_>, owner: &[u8]) {
        let lock = self.lock(name);
        self.check(lock, "ZREM");
        let shares = self.shares(lock).unwrap_or_default();
        if shares.len() < 2 || !shares.contains_key(owner) {
            return self.offend(format!("ZREM {lock:?}: not one of several"));
        }
        self.write(Write::ZRem(lock, owner.to_vec()));
        self.expire_with_last(lock, false);
    }

    fn unshare_over(&mut self, name: NameRef<'_>, owners: &[Box<[u8]>]) {
        let lock = self.lock(name);
        self.check(lock, "ZREM");
        let shares = self.shares(lock).unwrap_or_default();
        let is_over = |score: Score| score.is_some_and(|score| score < self.wall());
        let are_over =
            (owners.iter()).all(|owner| shares.get(&**owner).is_some_and(|&score| is_over(score)));
        if owners.is_empty() || owners.len() == shares.len() || !are_over {
            return self.offend(format!("ZREM {lock:?}: {owners:?} of {shares:?}"));
        }
        self.visited += owners.len();
        let owners = owners.iter();
        owners.for_each(|owner| self.write(Write::ZRem(lock, owner.to_vec())));
    }

    fn remove(&mut self, name: NameRef<'_>) {
        let lock = self.lock(name);
        self.check(lock, "DEL");
        if self.get(lock).is_none() {
            self.offend(format!("DEL {lock:?}: no key"));
        }
        self.removed_at = Some(self.log.len());
        self.write(Write::Del(lock));
    }

    fn glance(&mut self, name: NameRef<'_>) -> Glance {
        match self.look(name) {
            Stored::Exclusive { .. } => Glance::Token,
            Stored::Shared { .. } => Glance::Shared,
            Stored::Nothing | Stored::NoLock => Glance::NoLock,
        }
    }

    fn announce(&mut self, name: NameRef<'_>, event: LockEvent) {
        let lock = self.lock(name);
        self.mentioned.push((lock, event));
    }

    fn epoch(&mut self, _: Now) -> Epoch {
        // Slots stay where they are: how they move is a matter of the fencing clock's own tests.
        Epoch::default()
    }

    fn slot_state(&mut self, _: NameRef<'_>) -> SlotState {
        SlotState::Settled
    }

    fn is_writable(&mut self) -> bool {
        match self.authority {
            Authority::Reader => false,
            Authority::Writer => true,
            Authority::Ourselves => !self.paused,
        }
    }

    fn may_write(&mut self, name: NameRef<'_>) -> bool {
        let lock = self.lock(name);
        match self.authority {
            Authority::Reader => false,
            // The server has not been asked about a key that only a client who waits has named.
            Authority::Writer if self.named.contains(&lock) => true,
            // A server that is paused does not say so when it is asked about a key.
            Authority::Writer | Authority::Ourselves => !self.closed.contains(&lock),
        }
    }

    fn denial(&mut self, ticket: Ticket, _: &[Name]) -> Option<Rc<str>> {
        self.barred.contains(&ticket).then(|| Rc::from("no"))
    }

    fn replicas(&mut self, _: Now) -> usize {
        self.acknowledged.len()
    }

    fn asker(&mut self, command: AskedBy) -> Rc<Asker> {
        let is_other = self.other_users.contains(self.asker);
        let user = if is_other { self.asker } else { "all" };
        let asker = Rc::new(Asker { user: user.as_bytes().into(), command });
        self.asked.insert(Rc::as_ptr(&asker), self.asker);
        asker
    }

    fn is_denied(&mut self, asker: &Asker, _: &[Name]) -> bool {
        let owner = self.asked.get(&std::ptr::from_ref(asker));
        owner.is_some_and(|owner| self.denied.contains(owner.as_bytes()))
    }

    fn keeps_back(&mut self, _: &[Name]) -> bool {
        self.keeps_back
    }
}
