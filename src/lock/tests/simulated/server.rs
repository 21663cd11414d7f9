//! The server around the keys: its clock, and its clients from their block to their end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::lock::deadlock::steps::Steps;
use crate::lock::fence::Fence;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{
    self, Acquired, Ahead, AskedBy, Db, End, HolderNow, Lease, Left, Limits, Locks, LogEntry, Mode,
    Ms, Name, NameRef, NotALock, Notify, Now, Patience, Reason, Refusal, Report, Terms, Ticket,
    Turn, USUALLY_NAMED, WaitOutcome,
};

use super::{
    Authority, Content, Key, Keys, Lock, Owner, SECRET, START, SimulatedKeys, Write, name, replay,
};

/// When a server asks what to tell a client that was woken, and what becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// At once, and the client has it (Redis before 7.4).
    #[default]
    Straight,
    /// At once, and it is dropped if something else ends the wait in the same turn (Valkey 8).
    Kept,
    /// A loop turn later (Redis 7.4).
    Late,
}

/// How one server differs from another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flavour {
    pub answers: Answers,
    /// The core hears of a change to a key a loop turn later (Redis 7.0), not at its end.
    pub notes_late: bool,
    /// It says at once that a key has gone, and how.
    pub says_how: bool,
    /// Expired keys stay until the server comes to remove them by itself.
    pub keeps_expired: bool,
    /// Belongs to a cluster.
    pub in_cluster: bool,
    /// How many may share a lock, if not as many as usual.
    pub max_sharers: Option<u64>,
}

fn new_locks(now: Now, flavour: Flavour) -> Locks {
    let mut locks = Locks::new(now, SECRET, flavour.in_cluster);
    // The steady clock stands still while much is asked for: searches have time enough.
    locks.searches = Steps::of(1 << 20);
    if let Some(max_sharers) = flavour.max_sharers {
        let limits = Limits { max_sharers, ..Limits::DEFAULT };
        locks.set_limits(limits, now);
    }
    locks
}

/// What came of the last thing that was done.
#[derive(Debug, Default)]
pub struct Happened {
    /// Waiters whose answer was decided, in order.
    pub decided: Vec<(Ticket, State)>,
    /// Those whose waits another request has taken over, or was asked for instead of.
    pub replaced: Vec<Ticket>,
    /// Waiters that have come to their end, and whether their clients were told of a grant.
    pub ended: Vec<(Ticket, bool)>,
    /// How many of them seemed to have been told, and were not.
    pub lost: u64,
    /// Connections that have closed.
    pub closed: Vec<u64>,
    pub writes: Vec<Write>,
    pub expired: Vec<Lock>,
    /// Keys of which the server has said so at once.
    pub gone: Vec<Lock>,
    pub offences: Vec<String>,
    /// Was there more to do than one turn does?
    pub is_spent: bool,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Granted(Vec<u8>, Fence),
    TimedOut,
    NoReplicas,
    Denied,
    SentAway,
    NoUpgrade,
    Replaced,
}

impl From<WaitOutcome<'_>> for Reply {
    fn from(answer: WaitOutcome<'_>) -> Self {
        match answer {
            WaitOutcome::Granted { owner, fence } => Self::Granted(owner.to_vec(), fence),
            WaitOutcome::TimedOut => Self::TimedOut,
            WaitOutcome::NoReplicas(_) => Self::NoReplicas,
            WaitOutcome::Denied(_) => Self::Denied,
            WaitOutcome::SentAway => Self::SentAway,
            WaitOutcome::NoUpgrade => Self::NoUpgrade,
            WaitOutcome::Replaced => Self::Replaced,
        }
    }
}

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub owner: Owner,
    pub ttl: Ms,
    pub mode: Mode,
    pub patience: Patience<'static>,
    /// Its connection.
    pub client: u64,
    /// Does the hold end with that?
    pub session: bool,
    pub max_queue: Option<u64>,
    pub replicas: u8,
}

impl Request {
    /// For a lock alone, for 100 ms and without a wait. Whatever can be asked for besides is not asked for.
    pub fn of(owner: Owner) -> Self {
        Self {
            owner,
            ttl: 100,
            mode: Mode::Exclusive,
            patience: Patience::Try,
            client: 0,
            session: false,
            max_queue: None,
            replicas: 0,
        }
    }

    /// As the core is asked for it.
    pub fn for_core(self) -> lock::Request<'static> {
        lock::Request {
            terms: Terms {
                owner: self.owner.as_bytes(),
                mode: self.mode,
                ttl: self.ttl,
                spare: 0,
                client: self.client,
                session: self.session,
            },
            patience: self.patience,
            max_queue: self.max_queue,
            replicas: self.replicas,
        }
    }
}

/// A place that is kept for so long.
pub fn place(length: Ms) -> Patience<'static> {
    told_on(None, length)
}

/// The same, whose owner gets messages on a channel.
pub fn told_on(notify: Option<(&'static str, &'static str)>, length: Ms) -> Patience<'static> {
    let notify =
        notify.map(|(channel, text)| Notify { channel: channel.as_bytes(), text: text.as_bytes() });
    Patience::Place(Lease { length, notify, command: AskedBy::Acquire })
}

/// A client that waits.
#[derive(Debug)]
struct Blocked {
    client: u64,
    answer: Option<Reply>,
}

#[derive(Debug)]
pub struct Server {
    pub locks: Locks,
    pub keys: SimulatedKeys,
    /// The keys of a server that knows no more than our log of writes.
    pub replica: Keys,
    /// The same, without the last of it.
    behind: Keys,
    /// That last part, as it came: all writes of one moment together.
    tail: VecDeque<Vec<Write>>,
    pub master: bool,
    /// What clients were told, if they lived to hear it.
    pub replies: BTreeMap<Ticket, Reply>,
    flavour: Flavour,
    micros: u64,
    blocked: BTreeMap<Ticket, Blocked>,
    /// Those of them who were woken.
    woken: BTreeSet<Ticket>,
    /// Connections that the server closes at the end of the turn, in spite of an answer.
    doomed: BTreeSet<u64>,
    /// Those who have ended in this turn as if they had been told, and what that was.
    ending: Vec<(Ticket, Blocked)>,
    /// Connections that closed in this turn.
    lost: BTreeSet<u64>,
    touched: Vec<Name>,
    /// How many writes have been taken out of the log.
    logged: usize,
    happened: Happened,
    /// How many holds were lost, when that was last counted.
    lost_holds: u64,
    clients: u64,
    /// What has been published: where, and what.
    pub published: Vec<(String, String)>,
    /// Channels on which no client listens.
    pub deaf: BTreeSet<String>,
}

/// How many moments a replica may be behind.
const LONGEST_TAIL: usize = 16;

impl Server {
    pub fn new(flavour: Flavour, known: &[Lock]) -> Self {
        let now = Now::from_micros(START * 1000);
        let mut keys = SimulatedKeys::new(now, known);
        keys.removes_expired = !flavour.keeps_expired;
        Self {
            locks: new_locks(now, flavour),
            keys,
            replica: Keys::new(),
            behind: Keys::new(),
            tail: VecDeque::new(),
            master: true,
            replies: BTreeMap::new(),
            flavour,
            micros: now.micros(),
            blocked: BTreeMap::new(),
            woken: BTreeSet::new(),
            doomed: BTreeSet::new(),
            ending: Vec::new(),
            lost: BTreeSet::new(),
            touched: Vec::new(),
            logged: 0,
            happened: Happened::default(),
            lost_holds: 0,
            clients: 0,
            published: Vec::new(),
            deaf: BTreeSet::new(),
        }
    }

    pub fn now(&self) -> Now {
        Now::from_micros(self.micros)
    }

    /// Steps the wall clock, by which keys expire.
    pub fn step(&mut self, by: Ahead) {
        self.keys.ahead += by;
        self.locks.set_wall_clock(self.keys.ahead);
    }

    /// Sets the steady clock, and the wall clock with it.
    pub fn set_clock(&mut self, now: Ms) {
        self.micros = now * 1000;
        self.keys.now = self.now();
    }

    /// A hold is counted once as it is granted, and once as it ends.
    fn add_up(&mut self) {
        let (held, lost) = self.locks.held_and_lost();
        let counts = self.locks.counts();
        let sum = counts.ended() + held + lost;
        if sum != counts.acquired || lost < self.lost_holds {
            let (now, before) = (format!("{counts:?}"), self.lost_holds);
            self.offence(&format!(
                "{held} held, {lost} lost, {before} before, do not add up: {now}"
            ));
        }
        self.lost_holds = lost;
    }

    /// What has happened since this was asked.
    pub fn happened(&mut self) -> Happened {
        self.add_up();
        let mut happened = std::mem::take(&mut self.happened);
        happened.writes = std::mem::take(&mut self.keys.log);
        self.logged += happened.writes.len();
        self.keys.removed_at = None;
        happened.offences.append(&mut std::mem::take(&mut self.keys.offences));
        for write in &happened.writes {
            replay(&mut self.replica, write);
        }
        if !happened.writes.is_empty() {
            self.tail.push_back(happened.writes.clone());
        }
        while self.tail.len() > LONGEST_TAIL {
            let first = self.tail.pop_front().into_iter().flatten();
            first.for_each(|write| replay(&mut self.behind, &write));
        }
        happened
    }

    // To compare two of them.

    /// Connections have larger numbers than this from now on.
    pub fn connect_after(&mut self, client: u64) {
        self.clients = client;
    }

    /// Clients on their way to a reply or to their end, and what the core has not been told yet.
    pub fn under_way(&self) -> impl fmt::Debug {
        (
            (&self.blocked, &self.woken, &self.doomed),
            (&self.ending, &self.lost, &self.touched),
            (self.master, &self.deaf),
        )
    }

    /// Would a turn of the event loop see to any client?
    pub fn has_clients_to_see_to(&self) -> bool {
        !(self.woken.is_empty() && self.ending.is_empty() && self.doomed.is_empty())
    }

    /// Replicas have heard of all that was written.
    pub fn is_replicated(&mut self) {
        let writes = std::mem::take(&mut self.tail);
        (writes.iter().flatten()).for_each(|write| replay(&mut self.behind, write));
    }

    /// The keys as a replica has them that has not heard of the last moment.
    pub fn keys_behind(&self) -> Keys {
        let mut keys = self.behind.clone();
        let heard = self.tail.len().saturating_sub(1);
        let writes = self.tail.iter().take(heard).flatten();
        writes.for_each(|write| replay(&mut keys, write));
        keys
    }

    // Commands of ours.

    /// A connection, which is as good as any other.
    pub fn connect(&mut self) -> u64 {
        self.clients += 1;
        self.clients
    }

    pub fn acquire_all(&mut self, locks: &[Lock], ask: Request) -> Result<Acquired, Refusal> {
        let asked = ask.for_core();
        // Users are called like the owners.
        self.keys.asker = ask.owner;
        let names: Vec<NameRef<'_>> = locks.iter().copied().map(name).collect();
        let acquired = self.command(Authority::Writer, locks, |locks, turn| {
            locks.asks(turn, &names, &asked).acquire()
        });
        self.blocks(acquired, ask.client)
    }

    /// `LOCK.RENEW` or `LOCK.MRENEW` with `REPLICAS`.
    pub fn renew_and_wait(&mut self, locks: &[Lock], ask: Request) -> Result<Acquired, Refusal> {
        let asked = ask.for_core();
        let names: Vec<NameRef<'_>> = locks.iter().copied().map(name).collect();
        let renewed = self.command(Authority::Writer, locks, |locks, turn| {
            locks.asks(turn, &names, &asked).renew()
        });
        self.blocks(renewed, ask.client)
    }

    /// Blocks this client, if it is to wait.
    fn blocks(&mut self, got: Result<Acquired, Refusal>, client: u64) -> Result<Acquired, Refusal> {
        if let Ok(Acquired::Waiting(ticket)) = got {
            self.blocked.insert(ticket, Blocked { client, answer: None });
        }
        self.after_a_command();
        got
    }

    /// One lock, alone, for a new connection.
    pub fn acquire(
        &mut self,
        lock: Lock,
        owner: Owner,
        ttl: Ms,
        patience: Patience<'static>,
    ) -> Result<Acquired, Refusal> {
        let client = self.connect();
        self.acquire_all(&[lock], Request { ttl, patience, client, ..Request::of(owner) })
    }

    /// The server won't block the client of this waiter after all.
    pub fn cannot_block(&mut self, ticket: Ticket) {
        self.blocked.remove(&ticket);
        self.locks.outcomes().cannot_wait(ticket);
    }

    pub fn release(&mut self, lock: Lock, owner: Owner) -> Result<bool, NotALock> {
        let before = self.locks.counts().released;
        let released = self.command(Authority::Writer, &[lock], |locks, turn| {
            locks.release(turn, &[name(lock)], owner.as_bytes()).map(|released| released == 1)
        });
        self.has_counted(before, usize::from(released == Ok(true)));
        self.after_a_command();
        released
    }

    /// No more holds count as released than their owner was told that it has released.
    fn has_counted(&mut self, before: u64, released: usize) {
        let counted = self.locks.counts().released - before;
        if counted > released as u64 {
            self.offence(&format!("{counted} count as released, and {released} were"));
        }
    }

    pub fn release_all(&mut self, locks: &[Lock], owner: Owner) -> Result<usize, NotALock> {
        let names: Vec<NameRef<'_>> = locks.iter().copied().map(name).collect();
        let before = self.locks.counts().released;
        let released = self.command(Authority::Writer, locks, |locks, turn| {
            locks.release(turn, &names, owner.as_bytes())
        });
        self.has_counted(before, *released.as_ref().unwrap_or(&0));
        self.after_a_command();
        released
    }

    pub fn renew(&mut self, lock: Lock, owner: Owner, ttl: Ms) -> Result<bool, NotALock> {
        self.renew_all(&[lock], owner, ttl)
    }

    pub fn renew_all(&mut self, locks: &[Lock], owner: Owner, ttl: Ms) -> Result<bool, NotALock> {
        let names: Vec<NameRef<'_>> = locks.iter().copied().map(name).collect();
        let renewed = self.command(Authority::Writer, locks, |locks, turn| {
            locks.renew(turn, &names, owner.as_bytes(), ttl)
        });
        self.after_a_command();
        renewed
    }

    pub fn check(&mut self, lock: Lock, owner: Owner) -> Result<Option<Left>, NotALock> {
        let left = self.command(Authority::Reader, &[lock], |locks, turn| {
            locks.records(turn, name(lock)).check(owner.as_bytes())
        });
        self.after_a_command();
        left
    }

    pub fn report(&mut self, lock: Lock) -> Result<Option<Report>, NotALock> {
        self.report_of(lock, USUALLY_NAMED)
    }

    /// At most so many holders and waiters are listed.
    pub fn report_of(&mut self, lock: Lock, most: usize) -> Result<Option<Report>, NotALock> {
        let report = self.command(Authority::Reader, &[lock], |locks, turn| {
            locks.reports().report(turn, name(lock), most)
        });
        self.after_a_command();
        report
    }

    pub fn losses(&mut self, most: usize) -> Vec<(LogEntry, Option<HolderNow>)> {
        self.command(Authority::Reader, &[], |locks, turn| locks.reports().losses(turn, most))
    }

    pub fn break_holds(&mut self, lock: Lock, force: bool) -> Result<usize, NotALock> {
        let broken = self.command(Authority::Writer, &[lock], |locks, turn| {
            locks.break_holds(turn, name(lock), force)
        });
        self.after_a_command();
        broken
    }

    /// Might a command be run under this lock?
    pub fn guard(&mut self, lock: Lock, owner: Owner) -> Result<bool, NotALock> {
        let held = self.command(Authority::Writer, &[lock], |locks, turn| {
            locks.guard(turn, name(lock), owner.as_bytes())
        });
        self.after_a_command();
        held
    }

    // Its operator.

    pub fn set_limits(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = *self.locks.limits();
        change(&mut limits);
        let now = self.now();
        self.locks.set_limits(limits, now);
    }

    // Commands of others.

    /// A key goes, and the server says how.
    pub fn loses(&mut self, lock: Lock, how: Reason) {
        self.keys.write(Write::Del(lock));
        self.happened.gone.push(lock);
        self.locks.gone(name(lock).keep(), how, self.now());
        self.after_a_command();
    }

    /// A write by another client, as a server without the module knows it.
    pub fn foreign(&mut self, write: Write) {
        let touched = write.touches();
        // No write finds an expired key; a replica hears it from its master.
        touched.iter().for_each(|&lock| self.expire(lock));
        let was_nothing = touched.iter().all(|&lock| self.keys.get(lock).is_none());
        self.keys.write(write.clone());
        match write {
            Write::Del(lock) => self.says(lock, Reason::Deleted),
            Write::Rename(lock, _) => self.says(lock, Reason::Renamed),
            _ => {}
        }
        for lock in touched {
            // The core does not hear of a list, a set, a hash or a stream that comes into being, only of
            // the expiry that it may be given.
            let list = Key { content: Content::NoLock, deadline: None };
            if was_nothing && matches!(&write, Write::Set(_, key) if *key == list) {
                continue;
            }
            self.event(lock);
            // That a key has gone is another piece of news.
            let is_gone =
                matches!(write, Write::Del(gone) | Write::Rename(gone, _) if gone == lock);
            if is_gone && self.flavour.says_how {
                continue;
            }
            let now = self.now();
            self.locks.end_by_wall(name(lock), now);
        }
        match write {
            Write::Flush(db) => {
                let now = self.now();
                self.locks.lost_by_flush(db, now);
                self.locks.flushed(db);
            }
            Write::Swap(one, other) => {
                [one, other].into_iter().for_each(|db| self.locks.flushed(Some(db)));
            }
            _ => {}
        }
        self.after_a_command();
    }

    pub fn set(&mut self, lock: Lock, key: Key) {
        self.foreign(Write::Set(lock, key));
    }

    pub fn del(&mut self, lock: Lock) {
        self.foreign(Write::Del(lock));
    }

    /// The server's own search for expired keys.
    pub fn expire_cycle(&mut self, known: &[Lock]) {
        if !self.master || self.keys.paused {
            return;
        }
        known.iter().for_each(|&lock| self.expire(lock));
        self.after_a_command();
    }

    /// The server comes by an expired key.
    fn expire(&mut self, lock: Lock) {
        if self.keys.is_expired(lock) {
            self.keys.write(Write::Del(lock));
            self.keys.expired.push(lock);
            self.says(lock, Reason::Expired);
        }
    }

    /// A key has gone, and perhaps the server says so at once.
    fn says(&mut self, lock: Lock, how: Reason) {
        // That it has expired each of them says.
        let says = self.flavour.says_how || how == Reason::Expired;
        if says && self.locks.concerns(name(lock)) {
            self.locks.gone(name(lock).keep(), how, self.now());
            self.happened.gone.push(lock);
            self.touched.push(name(lock).keep());
        }
    }

    // The event loop.

    /// When the timer rings.
    pub fn due(&self) -> Option<Ms> {
        let due = self.locks.next_due();
        if self.touched.is_empty() { due } else { Some(0) }
    }

    /// Is there a job for the end of what was just done? Then a tick must follow.
    pub fn has_job(&self) -> bool {
        !self.touched.is_empty() && !self.flavour.notes_late && self.master
    }

    /// What a timer does, and mostly a job too.
    pub fn tick(&mut self) {
        self.tick_as(false);
    }

    pub fn job(&mut self) {
        self.tick_as(true);
    }

    fn tick_as(&mut self, is_job: bool) {
        if !is_job {
            self.publish();
            self.hear_replicas();
        }
        for name in std::mem::take(&mut self.touched) {
            self.locks.waiting.queues.note(name);
        }
        let now = self.now();
        let mut turn = Turn::new(&mut self.keys, now);
        turn.is_job = is_job;
        self.locks.tick(&mut turn);
        let is_over = turn.settling.is_empty();
        self.happened.is_spent |= turn.budget.is_spent();
        self.has_settled(is_over);
        self.hear_of_expired();
        self.answer();
    }

    /// How many writes there have been.
    pub fn sent(&self) -> u64 {
        (self.logged + self.keys.log.len()).try_into().unwrap_or_default()
    }

    /// This replica acknowledges all of them, and the server hears it.
    pub fn acknowledges(&mut self, replica: usize) {
        self.keys.acknowledged[replica] = self.sent();
        self.tick();
    }

    /// What a timer does, and a job doesn't.
    fn publish(&mut self) {
        while let Some(message) = self.locks.waiting.take_message() {
            let [channel, text] = [&*message.channel, &*message.text]
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            if let Some(place) = message.turn_of.filter(|_| self.deaf.contains(&channel)) {
                let now = self.now();
                self.locks.waiting.pass_by(place, now);
            }
            self.published.push((channel, text));
        }
    }

    /// One turn of the event loop, without the timer: clients that were woken come to their end, and
    /// it is seen who of them has outlived that.
    pub fn turn(&mut self) {
        self.falls_asleep();
        self.wakes_up();
    }

    /// The same, at the end of which no wait comes to its end, because all were woken by a command that ran
    /// after the server had looked for them. If replies stay, they have gone out.
    pub fn turn_too_early_for_the_ends(&mut self) {
        if self.flavour.answers == Answers::Straight {
            let waits = self.woken.iter().map(|&one| self.locks.waiting.waits.wait_of_client(one));
            let granted = waits.flatten().filter(|(_, waiter)| waiter.is_granted());
            self.locks.offers.replied.extend(granted.map(|(ticket, _)| ticket));
        }
        for client in std::mem::take(&mut self.doomed) {
            self.close(client);
        }
        self.wakes_up();
    }

    /// The first half of a turn.
    pub fn falls_asleep(&mut self) {
        self.wakes_up();
        for ticket in self.woken.clone() {
            if self.flavour.answers == Answers::Late {
                self.ask(ticket);
            }
            self.end(ticket, false, true);
        }
        for client in std::mem::take(&mut self.doomed) {
            self.close(client);
        }
    }

    /// The second half: no connection can have closed by itself in between.
    fn wakes_up(&mut self) {
        let lost = std::mem::take(&mut self.lost);
        self.locks.outcomes().confirm(|client| !lost.contains(&client));
        for (ticket, blocked) in std::mem::take(&mut self.ending) {
            let heard = !lost.contains(&blocked.client);
            self.happened.lost += u64::from(!heard);
            self.ended(ticket, blocked.answer.filter(|_| heard));
        }
    }

    /// Does this connection wait for an answer?
    pub fn is_waiting(&self, client: u64) -> bool {
        (self.blocked.values()).any(|blocked| blocked.client == client)
    }

    // What may befall a client that waits.

    pub fn waiting(&self) -> Vec<Ticket> {
        self.blocked.keys().copied().collect()
    }

    /// Those of them who are about to be replied to.
    pub fn woken(&self) -> Vec<Ticket> {
        self.woken.iter().copied().collect()
    }

    /// Those of them who have not been replied to yet.
    pub fn untold(&self) -> Vec<Ticket> {
        let woken = self.woken.iter().copied();
        woken.filter(|&ticket| self.is_blocked(ticket)).collect()
    }

    /// The connection by which it waits.
    pub fn client_of(&self, ticket: Ticket) -> Option<u64> {
        self.blocked.get(&ticket).map(|blocked| blocked.client)
    }

    /// Its user loses the right to what it waits for.
    pub fn bar(&mut self, ticket: Ticket) {
        self.keys.barred.insert(ticket);
    }

    /// Its connection closes.
    pub fn kill(&mut self, ticket: Ticket) {
        if let Some(client) = self.client_of(ticket) {
            self.close(client);
        }
    }

    /// Its connection is closed at the end of the turn, whatever it has been told by then.
    pub fn doom(&mut self, ticket: Ticket) {
        self.doomed.extend(self.client_of(ticket));
    }

    /// A connection closes. The server says so first, and then ends its wait, if it has one.
    pub fn close(&mut self, client: u64) {
        self.says_closed(client);
        self.end_waits_of(client);
    }

    pub fn says_closed(&mut self, client: u64) {
        if !self.ending.is_empty() {
            self.lost.insert(client);
        }
        self.locks.outcomes().closed(client);
        self.happened.closed.push(client);
    }

    pub fn end_waits_of(&mut self, client: u64) {
        let waits = |&(_, blocked): &(&Ticket, &Blocked)| blocked.client == client;
        let waits = self.blocked.iter().filter(waits);
        for ticket in waits.map(|(&ticket, _)| ticket).collect::<Vec<_>>() {
            self.end(ticket, true, false);
        }
    }

    /// `CLIENT UNBLOCK id TIMEOUT`. Nothing comes of it if the client is about to be replied to.
    pub fn unblock(&mut self, ticket: Ticket) {
        if self.blocked.contains_key(&ticket) && !self.woken.contains(&ticket) {
            self.ask(ticket);
            self.end(ticket, true, true);
        }
    }

    /// `CLIENT UNBLOCK id ERROR`, or a redirection to another server.
    pub fn unblock_by_error(&mut self, ticket: Ticket) {
        if let Some(blocked) = self.blocked.get_mut(&ticket) {
            if self.flavour.answers != Answers::Straight {
                blocked.answer = None;
            }
            self.end(ticket, true, true);
        }
    }

    // The server's own fate.

    /// It becomes a replica. Most servers close the connections of all who wait, and say so after.
    pub fn demote(&mut self, closes: bool) {
        self.master = false;
        self.keys.paused = true;
        for ticket in self.waiting() {
            if closes && self.is_blocked(ticket) {
                self.kill(ticket);
            }
        }
        self.locks.stepped_down();
        self.answer();
    }

    /// It becomes a master again.
    pub fn promote(&mut self) {
        self.master = true;
        self.keys.paused = false;
        self.locks.took_over(self.now());
    }

    /// `DEBUG RELOAD`: all keys are read anew, and no connection closes.
    pub fn reload(&mut self) {
        self.locks.took_over(self.now());
        self.after_a_command();
    }

    /// It stops, and starts with its keys and its settings, and nothing else. What it did in so many of
    /// the last moments is lost.
    pub fn restart(&mut self, lost: usize) {
        if lost > 0 {
            let kept = self.tail.len().saturating_sub(lost);
            self.tail.truncate(kept);
            let mut keys = self.behind.clone();
            let writes = self.tail.iter().flatten();
            writes.for_each(|write| replay(&mut keys, write));
            self.keys.keys = keys.clone();
            self.replica = keys;
        }
        let limits = *self.locks.limits();
        self.keys.ahead = 0;
        self.locks = new_locks(self.now(), self.flavour);
        self.lost_holds = 0;
        self.locks.set_limits(limits, self.now());
        self.locks.took_over(self.now());
        self.blocked.clear();
        self.woken.clear();
        self.doomed.clear();
        self.ending.clear();
        self.lost.clear();
        self.touched.clear();
        self.master = true;
        self.keys.paused = false;
        self.keys.closed.clear();
        self.keys.barred.clear();
    }

    fn command<T>(
        &mut self,
        authority: Authority,
        named: &[Lock],
        work: impl FnOnce(&mut Locks, &mut Turn<'_>) -> T,
    ) -> T {
        self.keys.authority = authority;
        self.keys.named = named.to_vec();
        self.keys.removed_at = None;
        let now = self.now();
        let mut turn = Turn::new(&mut self.keys, now);
        let outcome = work(&mut self.locks, &mut turn);
        let is_over = turn.settling.is_empty();
        self.happened.is_spent |= turn.budget.is_spent();
        self.has_settled(is_over);
        self.keys.authority = Authority::Ourselves;
        outcome
    }

    fn has_settled(&mut self, is_over: bool) {
        // Where no client waits, none moves up.
        if !is_over && !self.locks.waiting.queues.is_empty() {
            self.offence("a lock was left half settled");
        }
    }

    /// What a turn begins with, and what one ends with in which a grant has begun to wait for replicas.
    fn hear_replicas(&mut self) {
        if !self.locks.waiting.pending.is_empty() {
            let (sent, acknowledged) = (self.sent(), self.keys.acknowledged.clone());
            self.locks.waiting.pending.heard(sent, acknowledged);
        }
    }

    fn after_a_command(&mut self) {
        if self.locks.waiting.pending.has_unsent() {
            self.hear_replicas();
        }
        self.hear_of_expired();
        self.answer();
    }

    fn event(&mut self, lock: Lock) {
        if self.locks.concerns(name(lock)) {
            self.touched.push(name(lock).keep());
        }
    }

    fn hear_of_expired(&mut self) {
        for lock in std::mem::take(&mut self.keys.expired) {
            self.event(lock);
            self.happened.expired.push(lock);
        }
    }

    /// Tells what there is to tell, and wakes those whose answer stands.
    fn answer(&mut self) {
        while let Some(ticket) = self.locks.outbox.next_to_reply() {
            // Of many who are decided at once some may go before the server comes to their replies.
            if self.locks.waiting.waits.is_replaced(ticket) {
                self.happened.replaced.push(ticket);
            } else if let Some((_, waiter)) = self.locks.waiting.waits.wait_of_client(ticket) {
                self.happened.decided.push((ticket, waiter.state));
            } else {
                continue;
            }
            match self.blocked.get_mut(&ticket) {
                Some(_) if self.woken.insert(ticket) => {}
                _ => self.offence("one that does not wait was to be woken"),
            }
            if self.flavour.answers != Answers::Late {
                self.ask(ticket);
            }
        }
    }

    /// The server asks for a client's answer.
    fn ask(&mut self, ticket: Ticket) {
        let answer = self.locks.outcomes().outcome(ticket, false).map(Reply::from);
        if answer.is_none() {
            self.offence("no answer for a client that was told nothing");
        }
        if self.locks.outcomes().outcome(ticket, false).is_some() {
            self.offence("a second answer for a client");
        }
        if let Some(blocked) = self.blocked.get_mut(&ticket) {
            blocked.answer = answer;
        }
    }

    fn end(&mut self, ticket: Ticket, cut_off: bool, client_lives: bool) {
        let Some(blocked) = self.blocked.remove(&ticket) else {
            return;
        };
        self.woken.remove(&ticket);
        if client_lives && !cut_off && blocked.answer.is_none() {
            self.offence("a client was woken and told nothing");
        }
        let unconfirmed = self.locks.offers.unconfirmed.len();
        self.locks.outcomes().ended(
            ticket,
            End { cut_off, client_lives, replies_stay: self.flavour.answers == Answers::Straight },
        );
        if self.locks.offers.unconfirmed.len() > unconfirmed {
            self.ending.push((ticket, blocked));
        } else {
            self.ended(ticket, blocked.answer.filter(|_| client_lives));
        }
    }

    /// A waiter has come to its end, and its client has been told this.
    fn ended(&mut self, ticket: Ticket, told: Option<Reply>) {
        let heard = matches!(told, Some(Reply::Granted(..)));
        self.happened.ended.push((ticket, heard));
        self.replies.extend(told.map(|told| (ticket, told)));
    }

    /// Blocked, and not replied.
    fn is_blocked(&self, ticket: Ticket) -> bool {
        self.blocked.get(&ticket).is_some_and(|blocked| blocked.answer.is_none())
    }

    fn offence(&mut self, what: &str) {
        self.happened.offences.push(what.to_owned());
    }

    /// The waiters of a lock, in order.
    pub fn queue(&self, lock: Lock) -> Vec<Ticket> {
        let db: Db = lock.0;
        self.locks
            .waiting
            .queues
            .get(NameRef::new(db, lock.1.as_bytes(), SECRET))
            .map(|queue| {
                queue.iter().filter(|&ticket| self.locks.waiting.waits.is_waiting(ticket)).collect()
            })
            .unwrap_or_default()
    }
}
