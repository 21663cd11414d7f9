//! A small server, and the book that is kept of what it was asked and what it replied.

use std::fmt;
use std::hash::Hash;

use crate::lock::tests::interleavings::nothing_is_left;
use crate::lock::tests::model::Verdict;
use crate::lock::tests::simulated::{
    Content, Happened, Key, Lock, Request, START, Server, Write, place, told_on,
};
use crate::lock::{Mode, Ms, Patience, slot};

use super::action::{Action, Ask, CHANNEL, LOCKS, LockNo, OWNERS, OwnerNo, Wait};
use super::book::{Book, Cause};
use super::cut_off::CutOff;
use super::fingerprint::{FIRST_CLIENT, FIRST_TICKET, Reader, print_server, print_words};
use super::worlds::Setting;

/// No world needs more rounds than this until all is over.
pub const ROUNDS: usize = 60;

pub struct World {
    pub server: Server,
    pub book: Book,
    /// The connection of each owner, by which it does all but wait a second time.
    clients: [u64; OWNERS.len()],
    /// The latest that any server's wall clock has shown, and up to where numbers may have run ahead.
    latest: Ms,
    ahead: Ms,
    lead: Ms,
    loses_tails: bool,
    /// The master that was cut off last.
    cut_off: Option<CutOff>,
    /// Since when the slot of a lock is elsewhere.
    away: [Option<Ms>; LOCKS.len()],
    /// When the last slot left, in steady time.
    left_at: Ms,
    /// May the wall clock be stepped?
    pub is_stepped: bool,
    /// Is it written down what is said?
    pub listens: bool,
    said: String,
}

impl World {
    pub fn new(setting: &Setting) -> Self {
        let mut server = Server::new(setting.flavour, &LOCKS);
        server.connect_after(FIRST_CLIENT);
        let mut world = Self {
            clients: OWNERS.map(|_| server.connect()),
            book: Book::new(server.locks.limits().max_sharers),
            latest: START,
            ahead: START + setting.lead,
            lead: setting.lead,
            loses_tails: setting.loses_tails,
            cut_off: None,
            away: [None; LOCKS.len()],
            left_at: 0,
            is_stepped: (setting.actions.iter()).any(|one| matches!(one, Action::Step(_))),
            listens: false,
            said: String::new(),
            server,
        };
        world.begin();
        world
    }

    /// A server has begun.
    fn begin(&mut self) {
        let lead = self.lead;
        self.server.set_limits(|limits| limits.fence_lead = lead);
        self.server.locks.waiting.waits.draw_tickets_after(FIRST_TICKET);
    }

    pub fn now(&self) -> Ms {
        self.server.now().ms()
    }

    /// The latest that any clock has shown. No server that takes over shows much less.
    pub fn latest(&self) -> Ms {
        if self.loses_tails { self.latest.max(self.now()) } else { self.now() }
    }

    /// All that decides what comes.
    pub fn read(&self, to: &mut Reader) -> fmt::Result {
        print_server(&self.server, to)?;
        self.server.keys.keys.hash(to);
        self.book.hash(to);
        // One by one: together they would be taken for bytes.
        self.clients.iter().for_each(|client| client.hash(to));
        (self.is_due(), self.away, self.left_at == self.now()).hash(to);
        if self.loses_tails {
            (self.latest, self.ahead, self.server.keys_behind()).hash(to);
        }
        if let Some(cut_off) = &self.cut_off {
            cut_off.hash(self.wall(), self.lead, to);
        }
        print_words(&self.said, to)
    }

    /// The same, for people.
    pub fn print(&self, to: &mut impl fmt::Write) -> fmt::Result {
        print_server(&self.server, to)?;
        write!(
            to,
            "{:?}{:?}{:?}{}{:?}",
            self.server.keys.keys,
            self.book,
            self.clients,
            self.is_due(),
            self.away
        )?;
        if self.loses_tails {
            let behind = self.server.keys_behind();
            write!(to, "{:?}{:?}{behind:?}", self.latest, self.ahead)?;
        }
        write!(to, "{:?}", self.cut_off)?;
        print_words(&self.said, to)
    }

    /// Can this be done here? What else may stand in its way is seen when it is tried.
    fn can(&mut self, action: Action) -> bool {
        let (keys, master) = (&self.server.keys, self.server.master);
        let may_write = |locks: &[LockNo]| {
            !keys.paused && locks.iter().all(|&lock| !keys.closed.contains(&LOCKS[lock]))
        };
        match action {
            Action::Acquire(ask) => may_write(ask.locks) && self.book.knows(ask.owner),
            Action::Release(owner, locks) | Action::Renew(owner, locks, _) => {
                may_write(locks) && self.book.is_known(owner)
            }
            Action::Check(owner, _) => self.book.is_known(owner),
            Action::Guard(owner, lock) => may_write(&[lock]) && self.book.is_known(owner),
            Action::Break(lock) | Action::SetNoLock(lock) => may_write(&[lock]),
            Action::Set(lock, owner, _) => may_write(&[lock]) && self.book.knows(owner),
            Action::Del(lock) | Action::PExpire(lock, _) | Action::Persist(lock) => {
                may_write(&[lock]) && self.has_key(lock)
            }
            Action::Rename(from, to) => may_write(&[from, to]) && self.has_key(from),
            Action::Flush | Action::Swap => may_write(&[]),
            Action::Turn => self.has_something_to_do(),
            Action::Pause => master && !keys.paused,
            Action::Resume => master && keys.paused,
            Action::Permit => !keys.closed.is_empty(),
            Action::Demote => master,
            Action::Promote => !master,
            _ => true,
        }
    }

    /// Does this, if it can be done here.
    pub fn act(&mut self, action: Action) -> Verdict<bool> {
        self.book.begin(self.now(), &self.server);
        if !self.can(action) {
            return Ok(false);
        }
        match action {
            Action::Acquire(ask) => {
                self.acquire(ask)?;
            }
            Action::Release(owner, locks) => {
                let got = if let &[lock] = locks {
                    self.server.release(LOCKS[lock], OWNERS[owner]).map(usize::from)
                } else {
                    self.server.release_all(&of(locks), OWNERS[owner])
                };
                self.hear(&got);
                self.book.released(owner, locks, got.ok())?;
                self.follow(Cause::Owner(owner))?;
            }
            Action::Renew(owner, locks, ttl) => {
                let got = self.server.renew_all(&of(locks), OWNERS[owner], ttl);
                self.hear(&got);
                self.take_in(Cause::Owner(owner))?;
                self.book.renewed(owner, locks, ttl, got.ok())?;
                self.book.agrees(&self.server)?;
            }
            Action::Check(owner, lock) => {
                let got = self.server.check(LOCKS[lock], OWNERS[owner]);
                self.hear(&got);
                self.take_in(Cause::Owner(owner))?;
                self.book.checked(owner, lock, got.ok())?;
                self.book.agrees(&self.server)?;
            }
            Action::Guard(owner, lock) => {
                let got = self.server.guard(LOCKS[lock], OWNERS[owner]);
                self.hear(&got);
                self.take_in(Cause::Owner(owner))?;
                self.book.guarded(owner, lock, got.ok())?;
                self.book.agrees(&self.server)?;
            }
            Action::Break(lock) => {
                let got = self.server.break_holds(LOCKS[lock], false);
                self.hear(&got);
                self.book.broken(lock, got.ok())?;
                self.follow(Cause::NoClient)?;
            }
            Action::Set(lock, owner, ttl) => {
                let content = Content::Token(OWNERS[owner].as_bytes().to_vec());
                let deadline = ttl.map(|ttl| self.wall() + ttl);
                self.foreign(Write::Set(LOCKS[lock], Key { content, deadline }))?;
            }
            Action::SetNoLock(lock) => {
                let (content, deadline) = (Content::NoLock, None);
                self.foreign(Write::Set(LOCKS[lock], Key { content, deadline }))?;
            }
            Action::Del(lock) => {
                self.foreign(Write::Del(LOCKS[lock]))?;
            }
            Action::PExpire(lock, ms) => {
                self.foreign(Write::PExpireAt(LOCKS[lock], self.wall() + ms))?;
            }
            Action::Persist(lock) => {
                self.foreign(Write::Persist(LOCKS[lock]))?;
            }
            Action::Rename(from, to) => {
                self.foreign(Write::Rename(LOCKS[from], LOCKS[to]))?;
            }
            Action::Flush => {
                self.server.foreign(Write::Flush(None));
                (0..LOCKS.len()).for_each(|lock| self.book.read_key(lock, &self.server, false));
                self.follow(Cause::NoClient)?;
            }
            Action::Swap => {
                self.server.foreign(Write::Swap(0, 1));
                self.read_all_keys();
                self.follow(Cause::NoClient)?;
            }
            Action::Kill(n) | Action::Doom(n) | Action::Unblock(n) => {
                let Some(&ticket) = self.server.waiting().get(n) else {
                    return Ok(false);
                };
                match action {
                    Action::Kill(_) => self.server.kill(ticket),
                    Action::Doom(_) => self.server.doom(ticket),
                    _ => self.server.unblock(ticket),
                }
                self.follow(Cause::Ended(ticket))?;
            }
            Action::Close(owner) => {
                let client = self.clients[owner];
                self.server.close(client);
                self.follow(Cause::NoClient)?;
            }
            Action::Turn => {
                self.turn()?;
                if self.is_due() {
                    self.tick()?;
                }
            }
            Action::Pass(ms) => self.pass(ms)?,
            Action::Late(ms) => {
                self.server.set_clock(self.now() + ms);
                self.latest = self.latest.max(self.wall());
                self.book.begin(self.now(), &self.server);
            }
            Action::Pause => {
                self.server.keys.paused = true;
                self.book.refused();
            }
            Action::Resume => {
                self.server.keys.paused = false;
                self.book.permitted();
            }
            Action::Forbid(lock) => {
                if !self.server.keys.closed.insert(LOCKS[lock]) {
                    return Ok(false);
                }
                self.book.refused();
            }
            Action::Permit => {
                self.server.keys.closed.clear();
                self.book.permitted();
            }
            Action::Demote => {
                self.server.demote(false);
                self.book.demoted();
                self.read_all_keys();
                self.follow(Cause::Demoted)?;
            }
            Action::Promote => {
                self.server.promote();
                self.took_over();
                self.follow(Cause::NoClient)?;
            }
            Action::Restart { lost } => self.restart(lost, 1),
            Action::Failover { lost, by } => self.restart(lost, by),
            Action::Split { lost, by } => {
                let wall = self.wall();
                let old = CutOff::of(&mut self.server.locks.clock, wall);
                self.restart(lost, by);
                let cut_off = CutOff::from(old, &self.server.locks.clock, self.wall());
                self.cut_off = Some(cut_off);
            }
            Action::GrantElsewhere => {
                let (now, lead) = (self.wall(), self.lead);
                let Some(cut_off) = &mut self.cut_off else {
                    return Ok(false);
                };
                if !cut_off.grants(now, lead)? {
                    return Ok(false);
                }
            }
            Action::Step(by) => self.step(by)?,
            Action::Deafen => {
                if !self.server.deaf.insert(CHANNEL.0.to_owned()) {
                    return Ok(false);
                }
            }
            Action::Leave(lock) => {
                if !self.server.master || self.away[lock].is_some() {
                    return Ok(false);
                }
                self.leave(lock)?;
            }
            Action::ComeBack { lock, held, by } => {
                // A slot is not back in the millisecond in which it left.
                let Some(since) = self.away[lock].filter(|_| self.left_at < self.now()) else {
                    return Ok(false);
                };
                if held.is_some_and(|owner| !self.book.knows(owner)) {
                    return Ok(false);
                }
                self.come_back(lock, since, held, by)?;
            }
        }
        if self.server.has_job() {
            self.tick()?;
        }
        if let Some(cut_off) = &mut self.cut_off {
            cut_off.follow(&self.server.locks.clock)?;
        }
        Ok(true)
    }

    fn wall(&self) -> Ms {
        self.server.keys.wall()
    }

    fn has_key(&self, lock: LockNo) -> bool {
        let keys = &self.server.keys;
        keys.get(LOCKS[lock]).is_some() && !keys.is_expired(LOCKS[lock])
    }

    fn is_due(&self) -> bool {
        self.server.due().is_some_and(|due| due <= self.now())
    }

    fn has_something_to_do(&self) -> bool {
        self.is_due() || self.server.has_clients_to_see_to()
    }

    fn acquire(&mut self, ask: Ask) -> Verdict {
        let own = self.clients[ask.owner];
        let blocks = matches!(ask.wait, Wait::For(_) | Wait::Forever);
        let client =
            if blocks && self.server.is_waiting(own) { self.server.connect() } else { own };
        let request = Request {
            ttl: ask.ttl,
            mode: ask.mode,
            patience: match ask.wait {
                Wait::Try => Patience::Try,
                Wait::For(ms) => Patience::Until(self.now() + ms),
                Wait::Forever => Patience::Forever,
                Wait::Place { lease, notify } => {
                    if notify {
                        told_on(Some(CHANNEL), lease)
                    } else {
                        place(lease)
                    }
                }
            },
            client,
            session: ask.session,
            ..Request::of(OWNERS[ask.owner])
        };
        let got = self.server.acquire_all(&of(ask.locks), request);
        let happened = self.what_happened(&got);
        self.book.acquired(ask, client, got, &happened, &self.server)?;
        self.forget_what_was_said();
        self.book.agrees(&self.server)
    }

    fn foreign(&mut self, write: Write) -> Verdict {
        let touched = write.touches();
        self.server.foreign(write);
        for (number, lock) in LOCKS.iter().enumerate() {
            if touched.contains(lock) {
                self.book.read_key(number, &self.server, false);
            }
        }
        self.follow(Cause::NoClient)
    }

    fn turn(&mut self) -> Verdict {
        self.server.turn();
        self.follow(Cause::NoClient)
    }

    /// What is due is done.
    fn tick(&mut self) -> Verdict {
        self.server.tick();
        self.follow(Cause::NoClient)?;
        self.book.closings_are_seen_to();
        Ok(())
    }

    pub fn pass(&mut self, ms: Ms) -> Verdict {
        let to = self.now() + ms;
        self.turn()?;
        for _ in 0..1000 {
            let Some(due) = self.server.due().filter(|&due| due <= to) else {
                self.check()?;
                self.server.set_clock(to);
                self.latest = self.latest.max(self.wall());
                self.book.begin(self.now(), &self.server);
                return Ok(());
            };
            if due > self.now() {
                self.check()?;
                self.server.set_clock(due);
                self.book.begin(self.now(), &self.server);
            }
            self.tick()?;
            self.turn()?;
        }
        Err(format!("it does not come to rest: {:?}", self.server.due()))
    }

    fn step(&mut self, by: i64) -> Verdict {
        // What was over, stands there still and is not remembered is none of ours.
        let strange: Vec<LockNo> = (0..LOCKS.len())
            .filter(|&lock| {
                self.server.keys.get(LOCKS[lock]).is_some()
                    && !self.book.is_held(lock)
                    && (self.book.is_strange(lock) || !remembers(&self.server, lock))
            })
            .collect();
        self.server.step(by);
        self.latest = self.latest.max(self.wall());
        self.book.stepped(by, &self.server);
        for lock in strange {
            self.book.read_key(lock, &self.server, true);
        }
        self.follow(Cause::NoClient)
    }

    /// What is held there goes with the slot, and a client that waits there is sent after it.
    fn leave(&mut self, lock: LockNo) -> Verdict {
        let (place, key) = (LOCKS[lock], LOCKS[lock].1.as_bytes());
        if self.server.keys.get(place).is_some() {
            self.server.foreign(Write::Del(place));
        }
        self.away[lock] = Some(self.wall());
        self.left_at = self.now();
        self.server.keys.closed.insert(place);
        let slot = slot::of(key);
        self.server.locks.slots_left(&[slot..=slot], self.server.now());
        self.book.left(lock);
        for ticket in self.server.waiting() {
            let waits = &self.server.locks.waiting.waits;
            let waiter = waits.wait_of_client(ticket);
            if waiter.is_some_and(|(_, waiter)| waiter.names.iter().any(|name| *name.key == *key)) {
                self.server.unblock_by_error(ticket);
            }
        }
        self.follow(Cause::NoClient)
    }

    /// The other server has granted the lock as soon as the slot was there and in the moment before it went
    /// back, by its own clock; for less time than clocks differ it was not there, or that is no case for us.
    fn come_back(&mut self, lock: LockNo, since: Ms, held: Option<OwnerNo>, by: Ms) -> Verdict {
        self.away[lock] = None;
        self.server.keys.closed.remove(&LOCKS[lock]);
        let now = self.wall();
        if let Some(longest) = now.checked_sub(since + 1) {
            let by = by.min(self.lead.saturating_sub(1)).min(longest);
            let last = (since + by + self.lead).max(now + by);
            self.book.granted_elsewhere(lock, last * 1000 + 999);
        }
        if let Some(owner) = held {
            let content = Content::Token(OWNERS[owner].as_bytes().to_vec());
            let deadline = Some(now + 4);
            self.foreign(Write::Set(LOCKS[lock], Key { content, deadline }))?;
        }
        self.follow(Cause::NoClient)
    }

    fn read_all_keys(&mut self) {
        (0..LOCKS.len()).for_each(|lock| self.book.read_key(lock, &self.server, true));
    }

    /// Grants were made elsewhere, or before.
    fn took_over(&mut self) {
        self.ahead = self.ahead.max(self.wall() + self.lead);
        self.read_all_keys();
    }

    /// This server starts anew, or another in its place, whose clock differs from this one's. Numbers rise
    /// if the clocks agree within the lead, and if the last takeover is longer ago than they differ: so it
    /// comes no sooner than that.
    fn restart(&mut self, lost: usize, by: i64) {
        let least = self.latest.max(self.ahead).saturating_sub(self.lead) + 1;
        let now = self.wall().saturating_add_signed(by).max(least);
        self.latest = self.latest.max(now);
        // What was written last has been heard of, if it was not in this moment.
        self.server.happened();
        self.server.set_clock(now);
        self.server.restart(lost);
        // The next one loses nothing that this one has not lost.
        self.server.is_replicated();
        self.begin();
        self.clients = OWNERS.map(|_| self.server.connect());
        self.book.begin(now, &self.server);
        self.book.restarted();
        self.took_over();
    }

    /// Judges what came of something.
    fn follow(&mut self, cause: Cause) -> Verdict {
        self.take_in(cause)?;
        self.book.agrees(&self.server)
    }

    fn take_in(&mut self, cause: Cause) -> Verdict {
        let happened = self.what_happened(&());
        self.book.follow(&happened, cause, &self.server)?;
        self.forget_what_was_said();
        Ok(())
    }

    fn what_happened(&mut self, reply: &dyn fmt::Debug) -> Happened {
        let happened = self.server.happened();
        // Whose connection is no more has another.
        for own in self.clients.iter_mut().filter(|own| happened.closed.contains(own)) {
            *own = self.server.connect();
        }
        self.hear(&(reply, &happened));
        happened
    }

    /// Notes a reply that no client but its client hears of.
    fn hear(&mut self, reply: &dyn fmt::Debug) {
        if self.listens {
            self.said += &format!("{reply:?}");
        }
    }

    fn forget_what_was_said(&mut self) {
        self.server.replies.clear();
        self.server.published.clear();
        self.server.keys.mentioned.clear();
    }

    /// With nothing left to do now, nothing must be left undone.
    pub fn check(&mut self) -> Verdict {
        if self.has_something_to_do() {
            return Ok(());
        }
        self.book.is_settled(&self.server)
    }

    /// When trouble ends and everybody lets go, all are served and nothing is left.
    pub fn drain(&mut self) -> Verdict {
        self.end_trouble()?;
        for _ in 0..ROUNDS {
            if self.let_go()? {
                return Ok(());
            }
        }
        Err(self.what_is_left())
    }

    /// There is a master, all slots are there, and it may write.
    ///
    /// Was there any trouble?
    pub fn end_trouble(&mut self) -> Verdict<bool> {
        let mut was_any = !self.server.deaf.is_empty();
        self.server.deaf.clear();
        for lock in 0..LOCKS.len() {
            let (held, by) = (None, 0);
            was_any |= self.act(Action::ComeBack { lock, held, by })?;
        }
        for end in [Action::Promote, Action::Resume, Action::Permit] {
            was_any |= self.act(end)?;
        }
        Ok(was_any)
    }

    /// Everybody lets go of what they have by now. Is all over?
    pub fn let_go(&mut self) -> Verdict<bool> {
        self.act(Action::Turn)?;
        self.server.expire_cycle(&LOCKS);
        self.follow(Cause::NoClient)?;
        let before = self.book.waits.len() + self.book.holds.len();
        self.all_let_go()?;
        if self.is_over() {
            self.act(Action::Pass(120))?;
            nothing_is_left(&self.server)?;
            return Ok(true);
        }
        if self.book.waits.len() + self.book.holds.len() >= before {
            self.act(Action::Pass(3))?;
        }
        Ok(false)
    }

    pub fn what_is_left(&self) -> String {
        format!("it does not drain: {:?}", self.book)
    }

    /// A client that has a place asks for it, one that holds something releases it, and what is no client's is
    /// deleted.
    fn all_let_go(&mut self) -> Verdict {
        for ask in self.book.places() {
            self.act(Action::Acquire(ask))?;
        }
        for (lock, all) in [(0, &[0][..]), (1, &[1][..]), (2, &[2][..])] {
            for owner in 0..OWNERS.len() {
                if self.book.has_told_hold(owner, lock) {
                    self.act(Action::Release(owner, all))?;
                }
            }
            let key = self.server.keys.get(LOCKS[lock]);
            if key.is_some_and(|key| key.content.is_no_lock()) {
                self.act(Action::Del(lock))?;
            } else if key.is_some() && !self.book.is_held(lock) {
                // What stays by a step of the clock goes when it is met.
                self.act(Action::Acquire(Ask {
                    owner: 0,
                    locks: all,
                    mode: Mode::Exclusive,
                    ttl: 1,
                    wait: Wait::Try,
                    session: false,
                }))?;
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.book.waits.is_empty()
            && self.server.keys.keys.is_empty()
            && self.server.locks.is_idle()
            && !self.server.locks.holds().are_missing_keys()
    }
}

/// Does the core remember a grant of this lock?
fn remembers(server: &Server, lock: LockNo) -> bool {
    let (db, key) = LOCKS[lock];
    let key = key.as_bytes();
    let held = server.locks.holds.held(server.locks.name(db, key));
    held.is_some_and(|held| held.entries().any(|entry| !entry.is_seen()))
}

fn of(locks: &[LockNo]) -> Vec<Lock> {
    locks.iter().map(|&lock| LOCKS[lock]).collect()
}

/// When something ends by the wall clock, on the other one.
pub fn key_of(server: &Server, lock: LockNo) -> Option<&Key> {
    let keys = &server.keys;
    keys.get(LOCKS[lock]).filter(|_| !keys.is_expired(LOCKS[lock]))
}
