//! What was told, and whether that was right: by what the keys of the nodes say.

use std::collections::BTreeMap;

use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Content, Happened, Keys, Lock, Owner, Request, Server};
use crate::lock::tests::sums::sums;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Ms, Patience, Ticket};

use super::nodes::{Cluster, LOCKS};

sums! {
    /// How often things came about that the test is there for.
    pub struct Counts {
        pub told_after_one: u64,
        pub told_after_two: u64,
        pub places: u64,
        pub renewed: u64,
        pub too_late: u64,
        pub promoted: u64,
        pub after_a_promotion: u64,
    }
}

impl Counts {
    pub fn rarest(&self) -> u64 {
        let Self { told_after_one, told_after_two, places, renewed, too_late, promoted, .. } =
            *self;
        let all = [told_after_one, told_after_two, places, renewed, too_late, promoted];
        all.into_iter().chain([self.after_a_promotion]).min().unwrap_or_default()
    }
}

/// What was asked for, and has not been replied to.
#[derive(Clone, Debug)]
pub struct Asked {
    pub node: usize,
    pub owner: Owner,
    pub locks: Vec<Lock>,
    pub ttl: Ms,
    pub replicas: u8,
    pub at: Ms,
    pub is_renewal: bool,
    pub is_place: bool,
    /// When its holds were written.
    pub written: Option<Ms>,
}

impl Asked {
    /// A node was asked for this.
    pub fn of(node: usize, at: Ms, locks: Vec<Lock>, ask: Request, is_renewal: bool) -> Self {
        let Request { owner, ttl, replicas, .. } = ask;
        let is_place = matches!(ask.patience, Patience::Place(_));
        Self { node, owner, locks, ttl, replicas, at, is_renewal, is_place, written: None }
    }
}

/// An owner was told that it holds a lock, by a node, after so many replicas and these had acknowledged that.
#[derive(Clone, Debug)]
struct Known {
    node: usize,
    lock: Lock,
    owner: Owner,
    until: Ms,
    is_alone: bool,
    replicas: u8,
    by: [bool; 2],
    under_way: Vec<Ticket>,
    is_heard: bool,
    /// Another end was asked for, and that may be the one in some replica.
    is_moving: bool,
}

impl Known {
    fn is_known(&self) -> bool {
        self.is_heard || !self.under_way.is_empty()
    }
}

#[derive(Clone, Debug)]
pub struct Book {
    timeout: Ms,
    told: Vec<Known>,
    asks: BTreeMap<Ticket, Asked>,
    places: Vec<Asked>,
    /// Which replica is the master now.
    promoted: Option<usize>,
    /// What was granted just now may have been broken at once.
    pub broken: Option<Lock>,
    pub counts: Counts,
}

/// Until when this owner has the lock, by these keys.
pub fn end_in(keys: &Keys, lock: Lock, owner: Owner) -> Option<Ms> {
    let key = keys.get(&lock)?;
    let last = key.deadline.unwrap_or(Ms::MAX);
    match (&key.content, key.content.shares()) {
        (Content::Token(token), _) => (token == owner.as_bytes()).then_some(last),
        (_, shares) => Some(shares?.get(owner.as_bytes())?.unwrap_or(Ms::MAX).min(last)),
    }
}

impl Book {
    pub fn new(timeout: Ms) -> Self {
        Self {
            timeout,
            told: Vec::new(),
            asks: BTreeMap::new(),
            places: Vec::new(),
            promoted: None,
            broken: None,
            counts: Counts::default(),
        }
    }

    /// All but what is counted.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        write!(to, "{:?}{:?}{:?}{:?}", self.told, self.asks, self.places, self.promoted)
    }

    fn told(&mut self, node: usize, lock: Lock, owner: Owner) -> Option<&mut Known> {
        let is_it = |one: &&mut Known| (one.node, one.lock, one.owner) == (node, lock, owner);
        self.told.iter_mut().find(is_it)
    }

    /// Does the promise concern this one? Then the node that was promoted knows it.
    fn is_promised(&self, replicas: u8, by: [bool; 2]) -> bool {
        replicas >= 2 || self.promoted.is_some_and(|replica| by[replica])
    }

    /// Does this owner wait for another end of what it has?
    fn is_moving(&self, node: usize, lock: Lock, owner: Owner) -> bool {
        let is_its =
            |one: &Asked| (one.node, one.owner) == (node, owner) && one.locks.contains(&lock);
        self.asks.values().any(is_its)
            || self.told.iter().any(|one| (one.lock, one.owner) == (lock, owner) && one.is_moving)
    }

    // What is asked for.

    pub fn waits(&mut self, cluster: &Cluster, ticket: Ticket, mut asked: Asked) {
        // It joins the grant that its owner waits for: the larger number counts, and the time goes on.
        let is_same = |one: &&Asked| {
            let is_its = (one.node, one.owner) == (asked.node, asked.owner);
            is_its
                && !one.is_renewal
                && !asked.is_renewal
                && one.written.is_some()
                && one.locks.len() == asked.locks.len()
                && one.locks.iter().all(|lock| asked.locks.contains(lock))
        };
        let waits = &cluster.masters[asked.node].server.locks.waiting.waits;
        let replaced = self.asks.iter().filter(|&(&ticket, _)| waits.is_replaced(ticket));
        let joins = replaced
            .map(|(_, one)| one)
            .find(is_same)
            .map(|one| (one.replicas, one.written, one.is_place));
        let knows = asked.locks.iter().all(|&lock| {
            self.told(asked.node, lock, asked.owner).is_some_and(|told| told.is_heard)
        });
        if let Some((replicas, written, _)) = joins.filter(|_| !knows) {
            (asked.replicas, asked.written) = (asked.replicas.max(replicas), written);
        }
        let is_its = |place: &Asked| {
            (place.node, place.owner) == (asked.node, asked.owner)
                && place.locks.iter().any(|lock| asked.locks.contains(lock))
        };
        asked.is_place = joins.is_some_and(|joins| joins.2) || self.places.iter().any(is_its);
        self.moves(cluster, &asked);
        self.asks.insert(ticket, asked);
    }

    pub fn has_place(&mut self, asked: Asked) {
        self.places.push(asked);
    }

    /// What was asked for may be the end that a replica knows.
    fn moves(&mut self, cluster: &Cluster, asked: &Asked) {
        let until = cluster.now() + asked.ttl;
        let is_its = |one: &&mut Asked| {
            asked.is_renewal
                && one.owner == asked.owner
                && one.locks.iter().any(|lock| asked.locks.contains(lock))
        };
        // Of two ends that it has asked for it reckons with the earlier one.
        for earlier in self.asks.values_mut().filter(is_its) {
            earlier.ttl = earlier.ttl.min(until - earlier.at);
        }
        for told in
            self.told.iter_mut().filter(|told| told.owner == asked.owner && asked.is_renewal)
        {
            if asked.locks.contains(&told.lock) {
                (told.until, told.is_moving) = (told.until.min(until), true);
                // Who renews a hold knows of it.
                told.is_heard = true;
            }
        }
    }

    // Replies.

    /// The owner gets the reply that it has what it asked for: now, or by the reply to this waiter.
    pub fn tells(&mut self, cluster: &Cluster, asked: &Asked, ticket: Option<Ticket>) -> Verdict {
        let &Asked { node, owner, replicas, .. } = asked;
        let now = cluster.now();
        if asked.is_renewal {
            self.moves(cluster, asked);
        }
        for &lock in &asked.locks {
            let keys = &cluster.masters[node].server.keys.keys;
            let end = end_in(keys, lock, owner).filter(|&end| end >= now);
            if end.is_none() && self.broken == Some(lock) {
                continue;
            }
            let end =
                end.ok_or_else(|| format!("{owner} hears of {lock:?}, which it does not have"))?;
            let is_alone = matches!(keys[&lock].content, Content::Token(_));
            let is_moving = self.is_moving(node, lock, owner);
            let before = self
                .told(node, lock, owner)
                .filter(|told| told.is_heard && told.until >= now)
                .map(|told| told.until);
            // A later end, which it knew before, is not what this request has waited for.
            let own = asked.at + asked.ttl;
            if before.is_some_and(|before| before > own) && !asked.is_renewal {
                let by = cluster.known_by(node, lock, owner, own);
                let knowing = by.iter().filter(|&&knows| knows).count();
                ensure(knowing >= replicas.into() || is_moving, || {
                    format!("too early: {asked:?}")
                })?;
                self.told(node, lock, owner)
                    .into_iter()
                    .for_each(|one| one.under_way.extend(ticket));
                continue;
            }
            let until = match before {
                _ if ticket.is_none() && asked.is_place && replicas > 0 => end,
                _ if asked.is_renewal => asked.at + asked.ttl,
                Some(_) => own,
                None if ticket.is_none() => now + asked.ttl,
                // What it knew is over, or it may have heard of it meanwhile.
                None if self.told(node, lock, owner).is_some() => asked.at + asked.ttl,
                None => now + asked.ttl,
            };
            ensure(end >= until || is_moving, || {
                format!("{owner} reckons with {until} and has {lock:?} until {end}")
            })?;
            let by = cluster.known_by(node, lock, owner, until);
            let knowing = by.iter().filter(|&&knows| knows).count();
            ensure(knowing >= replicas.into() || is_moving, || {
                format!(
                    "{owner} hears of {lock:?} until {until}, and {knowing} know that: {asked:?}"
                )
            })?;
            let new = Known {
                node,
                lock,
                owner,
                until,
                is_alone,
                replicas,
                by,
                under_way: Vec::new(),
                is_heard: false,
                is_moving: false,
            };
            self.is_alone(&new, now)?;
            if self.told(node, lock, owner).is_none() {
                self.told.push(new.clone());
            }
            if let Some(told) = self.told(node, lock, owner) {
                (told.until, told.replicas, told.by, told.is_alone) =
                    (until, replicas, by, is_alone);
                told.is_moving &= !asked.is_renewal;
                told.under_way.extend(ticket);
                told.is_heard = told.is_heard && before.is_some() || ticket.is_none();
            }
            self.counts.renewed += u64::from(asked.is_renewal && replicas > 0);
            self.counts.after_a_promotion += u64::from(node > 0 && replicas > 0);
        }
        self.counts.told_after_one += u64::from(replicas == 1);
        self.counts.told_after_two += u64::from(replicas == 2);
        self.counts.places += u64::from(asked.is_place && replicas > 0);
        Ok(())
    }

    /// Has no other owner been told of this lock, whose hold lasts and is known to that node?
    fn is_alone(&self, new: &Known, now: Ms) -> Verdict {
        let is_in_the_way = |other: &&Known| {
            let excludes = other.lock == new.lock
                && other.owner != new.owner
                && (other.is_alone || new.is_alone);
            let is_known = match other.node.cmp(&new.node) {
                std::cmp::Ordering::Equal => true,
                std::cmp::Ordering::Less => self.is_promised(other.replicas, other.by),
                std::cmp::Ordering::Greater => self.is_promised(new.replicas, new.by),
            };
            excludes && is_known && other.is_known() && other.until >= now
        };
        let other = self.told.iter().find(is_in_the_way);
        ensure(other.is_none(), || format!("two have it at {now}: {new:?} and {other:?}"))
    }

    pub fn follow(&mut self, cluster: &Cluster, node: usize, happened: &Happened) -> Verdict {
        ensure(happened.offences.is_empty(), || format!("{:?}", happened.offences))?;
        let now = cluster.now();
        for &(ticket, state) in &happened.decided {
            let Some(asked) = self.asks.remove(&ticket) else { continue };
            match state {
                State::Granted(_) => self.tells(cluster, &asked, Some(ticket))?,
                State::NoReplicas(_) => {
                    self.counts.too_late += 1;
                    let is_time =
                        asked.is_place || asked.written.is_some_and(|at| at + self.timeout <= now);
                    ensure(is_time, || format!("NoReplicas at {now}, too early: {asked:?}"))?;
                }
                _ => {}
            }
        }
        for ticket in &happened.replaced {
            self.asks.remove(ticket);
        }
        for &(ticket, heard) in &happened.ended {
            self.asks.remove(&ticket);
            for told in &mut self.told {
                told.is_heard |= heard && told.under_way.contains(&ticket);
                told.under_way.retain(|&one| one != ticket);
            }
        }
        self.told.retain(|told| {
            let keys = &cluster.masters[told.node].server.keys.keys;
            // What no client has heard of is given back, if no other command tells its owner.
            let end = end_in(keys, told.lock, told.owner).unwrap_or_default();
            end >= now || told.is_known() && told.until >= now
        });
        let server = &cluster.masters[node].server;
        let all: Vec<Asked> = self.asks.values().chain(&self.places).cloned().collect();
        for asked in self.asks.values_mut().filter(|one| one.node == node) {
            if asked.written.is_some() {
                continue;
            }
            let has = |&lock: &Lock| end_in(&server.keys.keys, lock, asked.owner).is_some();
            asked.written = asked.locks.iter().all(has).then_some(now);
            // Its owner may have got the lock otherwise, and wait for more replicas to connect.
            let is_its = |one: &&Asked| (one.node, one.owner) == (node, asked.owner);
            let has_told = |told: &Known| (told.node, told.owner) == (node, asked.owner);
            asked.is_place |=
                all.iter().filter(is_its).count() > 1 || self.told.iter().any(has_told);
        }
        self.places.retain(|one| one.node != node || has_place(server, one));
        Ok(())
    }

    /// All that was due has been done.
    pub fn rests(&self, cluster: &Cluster) -> Verdict {
        let now = cluster.now();
        for (node, master) in cluster.masters.iter().enumerate().filter(|(_, one)| one.is_on_time) {
            for asked in self.asks.values().filter(|one| one.node == node && !one.is_place) {
                let Some(written) = asked.written else { continue };
                ensure(now < written + self.timeout, || format!("not told in time: {asked:?}"))?;
                let have_all = cluster.have_all(node);
                ensure(have_all < asked.replicas.into(), || {
                    format!("{have_all} have acknowledged all, and it has not been told: {asked:?}")
                })?;
            }
            for &lock in &LOCKS {
                for owner in super::nodes::OWNERS {
                    let is_its = |asked: &&Asked| {
                        (asked.node, asked.owner) == (node, owner) && asked.locks.contains(&lock)
                    };
                    let has = end_in(&master.server.keys.keys, lock, owner);
                    let asks = self.asks.values().chain(&self.places).any(|one| is_its(&one));
                    let told = self
                        .told
                        .iter()
                        .any(|one| (one.node, one.lock, one.owner) == (node, lock, owner));
                    let is_left =
                        has.is_some_and(|end| end > now && end != Ms::MAX) && !asks && !told;
                    ensure(!is_left || self.promoted.is_some(), || {
                        format!("{owner} has {lock:?}, and was not told")
                    })?;
                }
            }
        }
        Ok(())
    }

    // What owners see.

    pub fn checked(
        &mut self,
        cluster: &Cluster,
        lock: Lock,
        owner: Owner,
        until: Option<Ms>,
    ) -> Verdict {
        let node = cluster.masters.len() - 1;
        self.knows(cluster, node, lock, owner, until.is_some())?;
        let is_moving = self.is_moving(node, lock, owner);
        if let (Some(until), Some(told)) = (until, self.told(node, lock, owner)) {
            let own = &cluster.masters[node].server.keys.keys;
            ensure(end_in(own, lock, owner) >= Some(until) || is_moving, || {
                format!("CHECK shows {until}, and {:?} is written", end_in(own, lock, owner))
            })?;
            let replicas = cluster.replicas.iter().flatten();
            let know = replicas
                .filter(|one| end_in(&one.keys, lock, owner).is_some_and(|end| end >= until));
            let know = know.count();
            ensure(know >= told.replicas.into() || is_moving, || {
                format!("CHECK shows {until}, and {know} replicas know that: {told:?}")
            })?;
        }
        Ok(())
    }

    /// A place has what it was granted before its claim returns the token: what waits for no replicas, or what they know.
    pub fn knows(
        &mut self,
        cluster: &Cluster,
        node: usize,
        lock: Lock,
        owner: Owner,
        says: bool,
    ) -> Verdict {
        let now = cluster.now();
        let has_turn = self.places.iter().any(|one| {
            let knowing =
                cluster.known_by(node, lock, owner, now).into_iter().filter(|&knows| knows);
            (one.node, one.owner) == (node, owner)
                && one.locks.contains(&lock)
                && knowing.count() >= one.replicas.into()
        });
        let told = self.told(node, lock, owner);
        let is_known = told.as_ref().is_some_and(|told| told.is_heard && told.until >= now);
        ensure(says || !is_known, || {
            format!("{owner} has {lock:?}, and gets the reply that it has not")
        })?;
        ensure(!says || told.is_some() || has_turn, || {
            format!("{owner} hears of {lock:?} by another way")
        })?;
        if let Some(told) = told.filter(|_| says) {
            told.is_heard = true;
        }
        Ok(())
    }

    pub fn released(
        &mut self,
        cluster: &Cluster,
        node: usize,
        lock: Lock,
        owner: Owner,
        got: bool,
    ) -> Verdict {
        self.knows(cluster, node, lock, owner, got)?;
        self.told.retain(|one| (one.lock, one.owner) != (lock, owner));
        self.places.retain(|one| one.owner != owner || !one.locks.contains(&lock));
        Ok(())
    }

    /// All holds of this lock are ended by others.
    pub fn ended(&mut self, lock: Lock) {
        self.told.retain(|one| one.lock != lock);
    }

    // What becomes of nodes.

    /// This replica takes over, with these keys.
    pub fn promoted(&mut self, replica: usize, keys: &Keys, now: Ms) -> Verdict {
        self.promoted = Some(replica);
        self.counts.promoted += 1;
        for told in self.told.iter().filter(|told| told.until >= now) {
            let knows = end_in(keys, told.lock, told.owner).is_some_and(|end| end >= told.until);
            let is_moving = self.is_moving(told.node, told.lock, told.owner);
            let is_promised =
                self.is_promised(told.replicas, told.by) && !is_moving && told.is_known();
            ensure(knows || !is_promised, || format!("the new master does not know {told:?}"))?;
        }
        Ok(())
    }

    /// Of what is held by its keys this node knows no more.
    pub fn begins_anew(&mut self, server: &Server, node: usize, now: Ms) {
        self.places.retain(|one| one.node != node);
        for &lock in &LOCKS {
            for owner in super::nodes::OWNERS {
                let Some(until) = end_in(&server.keys.keys, lock, owner).filter(|&end| end >= now)
                else {
                    continue;
                };
                let is_alone = matches!(server.keys.keys[&lock].content, Content::Token(_));
                if let Some(told) = self.told(node, lock, owner) {
                    told.replicas = 0;
                    told.under_way.push(0);
                    continue;
                }
                // No reply says whether its owner knows.
                self.told.push(Known {
                    node,
                    lock,
                    owner,
                    until,
                    is_alone,
                    replicas: 0,
                    by: [false; 2],
                    under_way: vec![0],
                    is_heard: false,
                    is_moving: true,
                });
            }
        }
    }
}

fn has_place(server: &Server, asked: &Asked) -> bool {
    let names: Vec<_> =
        asked.locks.iter().map(|&lock| crate::lock::tests::simulated::name(lock)).collect();
    server.locks.waiting.waits.place_of(asked.owner.as_bytes(), &names).is_some()
}
