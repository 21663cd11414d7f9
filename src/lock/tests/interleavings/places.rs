//! Random histories of those who wait in places, beside others who block. They are judged by what the
//! server writes and replies: no place that is asked for in time is lost or overtaken while it is awake,
//! none outlasts its lease, and no client loses by a claim what it was told that it holds.

mod counts;
pub mod steps;
mod watch;

use crate::lock::tests::model::Verdict;
use crate::lock::tests::simulated::{
    Answers, Content, Flavour, Key, Lock, Owner, Request, Server, Write, place, told_on,
};
use crate::lock::{Limits, Mode, Ms, Patience};

use super::random::Random;
use super::soak::{self, Plan};
use super::steps::LOCKS;
use super::{Failure, first_seed, from_env, lives, nothing_is_left, tell};
use counts::Counts;
use steps::{CHANNELS, Kind, Mark, OWNERS, REGULARS, Step, Terms, WHICH, Who};
use watch::{Action, Held, Wait, Watch};

const STEPS: usize = 300;
const ROUNDS: u64 = 500;

/// Whatever the server would not let be written is tried again by then.
const ROUGH: Ms = 250;

struct World {
    server: Server,
    watch: Watch,
    limits: Limits,
    regulars: Vec<u64>,
    rough: bool,
}

impl World {
    fn new(flavour: Flavour) -> Self {
        let mut server = Server::new(flavour, &LOCKS);
        Self {
            regulars: (0..REGULARS).map(|_| server.connect()).collect(),
            server,
            watch: Watch::new(&Limits::DEFAULT),
            limits: Limits::DEFAULT,
            rough: false,
        }
    }

    fn now(&self) -> Ms {
        self.server.now().ms()
    }

    /// Does something to the server, and has it judged.
    fn does<T>(
        &mut self,
        action: impl FnOnce(&mut Server) -> T,
        say: impl for<'a> FnOnce(&'a T) -> Action<'a>,
    ) -> Verdict<T> {
        self.watch.before(&mut self.server);
        if self.rough {
            self.watch.rough_until = self.now() + ROUGH;
        }
        let got = action(&mut self.server);
        self.watch.after(&mut self.server, &say(&got))?;
        if self.server.has_job() {
            self.tick()?;
        }
        Ok(got)
    }

    fn tick(&mut self) -> Verdict {
        self.watch.before(&mut self.server);
        self.server.tick();
        if self.watch.keeps_back {
            self.watch.goes_on_at(self.now());
        }
        self.watch.after(&mut self.server, &Action::Other)
    }

    fn turn(&mut self) -> Verdict {
        self.does(Server::turn, |()| Action::Other)
    }

    fn go(&mut self, to: Ms) {
        // A claim that runs out while nothing may be written is seen to later, and extends all leases.
        if self.watch.keeps_back || self.rough {
            self.watch.trouble_at(to);
        }
        self.server.set_clock(to);
        if self.rough {
            self.watch.rough_until = to + ROUGH;
        }
    }

    /// Time passes, and the server does what is due on time.
    fn pass_to(&mut self, to: Ms) -> Verdict {
        self.turn()?;
        let mut turns = 0;
        while turns < 2000 {
            turns += 1;
            let Some(due) = self.server.due().filter(|&due| due <= to) else {
                self.watch.at_rest(&mut self.server)?;
                self.go(to);
                return Ok(());
            };
            if due > self.now() {
                self.watch.at_rest(&mut self.server)?;
                self.go(due);
                turns = 0;
            }
            self.tick()?;
            self.turn()?;
        }
        Err("it does not come to rest".to_owned())
    }

    fn lag_to(&mut self, to: Ms) {
        // A tick may have been due for longer.
        let due = self.server.due().filter(|&due| due > 0);
        let from = due.map_or(self.now(), |due| due.min(self.now()));
        self.go(to);
        self.watch.was_late(from, to);
    }

    fn at(&self, mark: Mark, by: i64) -> Option<Ms> {
        let at = match mark {
            Mark::Lease(n) => self.nth_place(n)?.until,
            Mark::Claim(n) => {
                let claims = || self.watch.places().filter(|place| place.claim_ends > 0);
                claims().nth(n % claims().count().max(1))?.claim_ends
            }
            Mark::Deadline(lock) => self.watch.holders(lock).next()?.until?,
        };
        let at = at.checked_add_signed(by)?;
        (at >= self.now()).then_some(at)
    }

    fn nth_place(&self, n: usize) -> Option<&Wait> {
        let places = self.watch.places().count();
        self.watch.places().nth(n % places.max(1))
    }

    /// Whose name it is, and for which locks: those of its place or its hold, or else these.
    fn name_of(&self, who: Who, which: usize) -> (Owner, Vec<Lock>) {
        let these = || WHICH[which].to_vec();
        match who {
            Who::Named(owner) => (owner, these()),
            Who::Place(n) => {
                let place = self.nth_place(n);
                place.map_or((OWNERS[0], these()), |place| (place.owner, place.locks.clone()))
            }
            Who::Holder(n) => {
                let held: Vec<_> = (LOCKS.iter())
                    .flat_map(|&lock| {
                        let holders = self.watch.holders(lock);
                        holders.map(move |held| (held.owner, lock))
                    })
                    .collect();
                let held = held.get(n % held.len().max(1));
                held.map_or((OWNERS[1], these()), |&(owner, lock)| (owner, vec![lock]))
            }
        }
    }

    fn may_write(&self, locks: &[Lock]) -> bool {
        let keys = &self.server.keys;
        !keys.paused && !locks.iter().any(|lock| keys.closed.contains(lock))
    }

    /// By which connection this owner asks: none by which it keeps another place.
    fn client(&mut self, by: Option<usize>, owner: Owner, locks: &[Lock]) -> u64 {
        for regular in &mut self.regulars {
            if self.watch.closed.contains(regular) {
                *regular = self.server.connect();
            }
        }
        let by = by.map(|by| self.regulars[by]);
        let keeps_another = |client: u64| {
            let mut places = self.watch.places().filter(|place| place.owner == owner);
            places.any(|place| place.ask.client == client && place.locks != locks)
        };
        let free = by.filter(|&by| !self.server.is_waiting(by) && !keeps_another(by));
        free.unwrap_or_else(|| self.server.connect())
    }

    fn acquire(&mut self, locks: &[Lock], ask: Request) -> Verdict {
        // No client can ask while the server keeps askers back.
        if !self.may_write(locks) || self.watch.keeps_back || self.watch.denied == Some(ask.owner) {
            return Ok(());
        }
        _ = self.does(
            |server| server.acquire_all(locks, ask),
            |got| Action::Ask { locks: locks.to_vec(), ask, got },
        )?;
        Ok(())
    }

    fn request(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        mode: Mode,
        terms: Terms,
        patience: Patience<'static>,
    ) -> Verdict {
        // Between a blocked client and a place a wait passes in the histories of the explorer.
        if patience != Patience::Try && self.watch.waits_otherwise(locks, owner, patience) {
            return Ok(());
        }
        let ask = Request {
            owner,
            mode,
            patience,
            client: self.client(terms.by, owner, locks),
            ..terms.ask
        };
        self.acquire(locks, ask)
    }

    fn ask(&mut self, locks: &[Lock], owner: Owner, mode: Mode, terms: Terms) -> Verdict {
        let patience = match terms.channel {
            Some(channel) => told_on(Some((CHANNELS[channel], owner)), terms.length),
            None => place(terms.length),
        };
        self.request(locks, owner, mode, terms, patience)
    }

    fn foreign(&mut self, write: Write, locks: Vec<Lock>) -> Verdict {
        self.does(|server| server.foreign(write), |()| Action::Foreign(locks.clone()))
    }

    fn apply(&mut self, step: Step) -> Verdict {
        self.watch.counts.steps += 1;
        (self.lives_through(step)).map_err(|why| {
            format!(
                "{why}\nin {step:?} at {}, with {:?}\n{:?}",
                self.now(),
                self.server.keys.keys,
                self.watch
            )
        })
    }

    fn lives_through(&mut self, step: Step) -> Verdict {
        match step {
            Step::Ask { owner, which, mode, terms } => self.ask(WHICH[which], owner, mode, terms),
            Step::AskAgain { n, mode, terms } => {
                let Some(place) = self.nth_place(n) else {
                    return Ok(());
                };
                let (owner, locks) = (place.owner, place.locks.clone());
                let mode = mode.unwrap_or(place.ask.mode);
                self.ask(&locks, owner, mode, terms)
            }
            Step::AllAskAgain => {
                let places: Vec<_> = self.watch.places().cloned().collect();
                for place in places {
                    let ask = place.ask;
                    let is_there = |one: &Wait| one.owner == ask.owner && one.locks == place.locks;
                    if !self.watch.places().any(is_there) {
                        continue;
                    }
                    let client = self.server.connect();
                    self.acquire(&place.locks, Request { client, ..ask })?;
                }
                Ok(())
            }
            Step::Try { who, which, mode, terms } => {
                let (owner, locks) = self.name_of(who, which);
                self.request(&locks, owner, mode, terms, Patience::Try)
            }
            Step::Block { who, which, mode, terms, ms } => {
                let (owner, locks) = self.name_of(who, which);
                let patience = Patience::Until(self.now() + ms);
                self.request(&locks, owner, mode, terms, patience)
            }
            Step::Release { who, which } => {
                let (owner, locks) = self.name_of(who, which);
                if !self.may_write(&locks) {
                    return Ok(());
                }
                self.does(
                    |server| server.release_all(&locks, owner).ok(),
                    |&got| Action::Release { locks: locks.clone(), owner, got },
                )?;
                Ok(())
            }
            Step::Renew { who, which, ttl } => {
                let (owner, locks) = self.name_of(who, which);
                if !self.may_write(&locks) {
                    return Ok(());
                }
                self.does(
                    |server| server.renew_all(&locks, owner, ttl) == Ok(true),
                    |&done| Action::Renew { locks: locks.clone(), owner, ttl, done },
                )?;
                Ok(())
            }
            Step::Check { who, which } => {
                let (owner, locks) = self.name_of(who, which);
                let lock = locks[0];
                let got = self.does(|server| server.check(lock, owner), |_| Action::Other)?;
                if matches!(got, Ok(Some(_))) {
                    self.watch.was_checked(lock, owner);
                }
                Ok(())
            }
            Step::Guard { who, which } => {
                let (owner, locks) = self.name_of(who, which);
                let lock = locks[0];
                if !self.may_write(&[lock]) {
                    return Ok(());
                }
                let got = self.does(|server| server.guard(lock, owner), |_| Action::Other)?;
                if got == Ok(true) {
                    self.watch.was_checked(lock, owner);
                }
                Ok(())
            }
            Step::Break { which } => {
                let lock = WHICH[which][0];
                if !self.may_write(&[lock]) {
                    return Ok(());
                }
                _ = self.does(
                    |server| server.break_holds(lock, true),
                    |_| Action::Foreign(vec![lock]),
                )?;
                Ok(())
            }
            Step::Del { which } => {
                let lock = WHICH[which][0];
                if self.server.keys.get(lock).is_none() {
                    return Ok(());
                }
                self.foreign(Write::Del(lock), vec![lock])
            }
            Step::Set { owner, which, ttl } => {
                let lock = WHICH[which][0];
                if self.server.keys.get(lock).is_some_and(|_| !self.server.keys.is_expired(lock)) {
                    return Ok(());
                }
                let key = Key {
                    content: Content::Token(owner.as_bytes().to_vec()),
                    deadline: Some(self.server.keys.wall() + ttl),
                };
                self.foreign(Write::Set(lock, key), vec![lock])
            }
            Step::Flush => self.foreign(Write::Flush(None), LOCKS.to_vec()),
            Step::Swap => {
                self.watch.swapped();
                self.foreign(Write::Swap(0, 1), LOCKS.to_vec())
            }
            Step::Expire => self.does(|server| server.expire_cycle(&LOCKS), |()| Action::Other),
            Step::Turn => self.turn(),
            Step::Pass { ms } => self.pass_to(self.now() + ms),
            Step::PassTo { mark, by } => match self.at(mark, by) {
                Some(at) => self.pass_to(at),
                None => Ok(()),
            },
            Step::Lag { ms } => {
                self.lag_to(self.now() + ms);
                Ok(())
            }
            Step::SetClock { by } => {
                self.watch.counts.steps_of_clock += 1;
                self.watch.steps(by);
                self.does(|server| server.step(by), |()| Action::Other)
            }
            Step::LagTo { mark, by } => {
                if let Some(at) = self.at(mark, by) {
                    self.lag_to(at);
                }
                Ok(())
            }
            Step::Kill { n } => {
                let waiting = self.server.waiting();
                let Some(&ticket) = waiting.get(n % waiting.len().max(1)) else {
                    return Ok(());
                };
                let client = self.server.client_of(ticket).unwrap_or_default();
                self.does(|server| server.kill(ticket), |()| Action::Closes(client))?;
                self.replace(client);
                Ok(())
            }
            Step::Close { regular } => {
                let client = self.regulars[regular];
                self.does(|server| server.close(client), |()| Action::Closes(client))?;
                self.replace(client);
                Ok(())
            }
            Step::KeepBack(keeps_back) => {
                self.server.keys.keeps_back = keeps_back;
                if self.watch.keeps_back != keeps_back {
                    self.watch.keeps_back = true;
                    self.watch.trouble_at(self.now());
                }
                self.watch.keeps_back = keeps_back;
                Ok(())
            }
            Step::Deaf { channel, deaf } => {
                let channel = CHANNELS[channel];
                if deaf {
                    self.server.deaf.insert(channel.to_owned());
                    self.watch.deaf.insert(channel);
                } else {
                    self.server.deaf.remove(channel);
                    self.watch.deaf.remove(channel);
                }
                Ok(())
            }
            Step::Deny(owner) => {
                let denied = owner.map(|owner| owner.as_bytes().to_vec());
                self.server.keys.denied = denied.into_iter().collect();
                self.watch.denied = owner;
                Ok(())
            }
            Step::Pause => {
                if self.server.master {
                    self.server.keys.paused = true;
                    self.is_refused();
                }
                Ok(())
            }
            Step::Forbid { which } => {
                self.server.keys.closed.insert(WHICH[which][0]);
                self.is_refused();
                Ok(())
            }
            Step::Permit => {
                if self.server.master {
                    self.server.keys.paused = false;
                }
                self.server.keys.closed.clear();
                self.is_rough();
                self.rough = self.server.keys.paused;
                Ok(())
            }
            Step::Demote { closes } => {
                if self.server.master {
                    self.is_rough();
                    self.watch.forgets_ends();
                    self.does(|server| server.demote(closes), |()| Action::Other)?;
                }
                Ok(())
            }
            Step::Promote => {
                if !self.server.master {
                    // Those who are there still are to go, whatever happens next.
                    self.pass_to(self.now())?;
                    self.does(Server::promote, |()| Action::Other)?;
                    self.is_rough();
                    self.rough = !self.server.keys.closed.is_empty();
                }
                Ok(())
            }
            Step::Restart => {
                self.server.restart(0);
                self.watch.restart();
                self.regulars = (0..REGULARS).map(|_| self.server.connect()).collect();
                self.is_rough();
                self.rough = false;
                Ok(())
            }
            Step::Drain(drain) => self.set(|limits| limits.drain = drain),
            Step::ClaimTime(ms) => self.set(|limits| limits.claim_time = ms),
            Step::MaxWaiters(most) => self.set(|limits| limits.max_waiters = most),
        }
    }

    fn set(&mut self, change: impl FnOnce(&mut Limits)) -> Verdict {
        if self.limits.drain {
            // All who are to go have gone.
            self.pass_to(self.now())?;
        }
        change(&mut self.limits);
        let limits = self.limits;
        self.watch.set(&limits);
        self.does(|server| server.set_limits(|now| *now = limits), |()| Action::Other)?;
        Ok(())
    }

    /// The server refuses writes from now on: a claim that has run out may be seen to later already.
    fn is_refused(&mut self) {
        self.is_rough();
        self.watch.trouble_at(self.now());
    }

    fn is_rough(&mut self) {
        self.rough = true;
        self.watch.rough_until = self.now() + ROUGH;
    }

    fn replace(&mut self, client: u64) {
        if let Some(at) = self.regulars.iter().position(|&regular| regular == client) {
            self.regulars[at] = self.server.connect();
        }
    }

    /// No more trouble: a client that asks on is served, and of the others nothing is left.
    fn drain(&mut self, asks_on: bool) -> Verdict {
        let end = [
            Step::Promote,
            Step::Permit,
            Step::Drain(false),
            Step::Deny(None),
            Step::KeepBack(false),
            // What others have written would stay for as long as the wall clock was set back.
            Step::SetClock { by: 1_000_000 },
        ];
        end.into_iter().try_for_each(|step| self.apply(step))?;
        for channel in 0..CHANNELS.len() {
            let deaf = false;
            self.apply(Step::Deaf { channel, deaf })?;
        }
        for round in 0..2000 {
            for lock in LOCKS {
                self.watch.look(&mut self.server);
                let held: Vec<Held> = self.watch.holders(lock).copied().collect();
                for Held { owner, claim, .. } in held {
                    let locks = vec![lock];
                    if round > 0 && asks_on && claim.is_none() {
                        self.does(
                            |server| server.release_all(&locks, owner).ok(),
                            |&got| Action::Release { locks: locks.clone(), owner, got },
                        )?;
                    }
                }
            }
            self.apply(Step::Pass { ms: 10 })?;
            if asks_on {
                self.apply(Step::AllAskAgain)?;
            } else {
                self.apply(Step::Pass { ms: 500 })?;
            }
            self.watch.look(&mut self.server);
            if self.watch.is_empty() && self.server.keys.keys.is_empty() {
                self.apply(Step::Pass { ms: 500 })?;
                // A place whose grant was lost is shown nowhere, and has its lease.
                let left = nothing_is_left(&self.server);
                if round > 20 || left.is_ok() {
                    return left;
                }
            }
            self.apply(Step::Expire)?;
        }
        Err(format!("it does not drain: {:?}", self.watch))
    }
}

struct History {
    flavour: Flavour,
    asks_on: bool,
    steps: Vec<Step>,
}

fn history(seed: u64) -> History {
    let mut random = Random::new(seed);
    let flavour = Flavour {
        answers: random.pick(&[Answers::Straight, Answers::Kept, Answers::Late]),
        notes_late: random.one_in(2),
        keeps_expired: random.one_in(2),
        says_how: random.one_in(2),
        in_cluster: false,
        max_sharers: None,
    };
    let kind = Kind::any(&mut random, seed % 2 == 1);
    History {
        flavour,
        asks_on: random.one_in(2),
        steps: (0..STEPS).map(|_| steps::any(&mut random, kind)).collect(),
    }
}

fn run(flavour: Flavour, asks_on: bool, steps: &[Step]) -> Result<Counts, Failure> {
    lives(|at| {
        let mut world = World::new(flavour);
        for &step in steps {
            world.apply(step)?;
            *at += 1;
        }
        world.drain(asks_on)?;
        Ok(world.watch.counts)
    })
}

fn tell_of(seed: u64) {
    let one = history(seed);
    let fails = |steps: &[Step]| run(one.flavour, one.asks_on, steps).err();
    tell(seed, one.flavour, one.steps, fails);
}

#[test]
fn no_place_that_is_asked_for_is_lost_and_none_is_kept_that_is_not() {
    if let Some(seed) = from_env("LOCK_SEED") {
        return tell_of(seed);
    }
    let plan = Plan {
        first: first_seed(0),
        rounds: from_env("LOCK_ROUNDS").unwrap_or(ROUNDS),
        length: None,
    };
    let tried = soak::try_all(plan, |seed| {
        let one = history(seed);
        run(one.flavour, one.asks_on, &one.steps).ok()
    });
    let (rounds, counts) = match tried {
        Ok(tried) => tried,
        Err(seed) => return tell_of(seed),
    };
    eprintln!("{rounds} histories of places from {} on: {counts:?}", plan.first);
    if rounds >= ROUNDS {
        assert_eq!(counts.rarest(), None, "{counts:?}");
    }
}
