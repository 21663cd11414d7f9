//! The requests with FAIR in one queue: which of them is next.
//!
//! Of the groups that wait, the one with the fewest holders is served next; of several such the one whose turn is the
//! oldest: the later of its last grant and the arrival of its first request. Within a group the order is that of arrival.
//! A request without room, by its limit or because too many of its group hold the lock, is passed over: it keeps none
//! waiting but those of its group behind it. Nothing is remembered of a group that does not wait.

use std::collections::BTreeMap;

use crate::lock::waiting::queue::order::Order;
use crate::lock::words::{Group, Ticket};

#[derive(Debug, Default)]
pub struct Fair {
    /// All requests, in order of arrival, with their groups.
    pub arrived: Order<Ticket, Group>,
    /// The same, by their groups, with their limits: in all, and of the group.
    by_group: Order<(Group, Ticket), (u16, u16)>,
    /// The groups, by the limits of their first requests, in the order of their turns.
    turns: BTreeMap<usize, Order<(usize, Ticket), Turn>>,
    /// The last grant of each that has had one while it waited, as a ticket.
    granted: BTreeMap<Group, Ticket>,
    /// How many share the lock, in all and of each group.
    pub held: usize,
    holders: BTreeMap<Group, usize>,
}

/// A request in its group.
#[derive(Clone, Copy, Debug)]
pub struct Stand {
    pub group: Group,
    pub ticket: Ticket,
    /// It is granted beside fewer than so many others in all, and of its group.
    pub limit: u16,
    pub per: u16,
}

/// The turn of a group, which is that of its first request.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub holders: usize,
    since: Ticket,
    pub first: Stand,
}

impl Turn {
    /// The order of turns: those of the groups with the fewest holders come first.
    fn key(&self) -> (usize, Ticket) {
        (self.holders, self.since)
    }

    /// Does its PER leave room?
    pub fn has_room(&self) -> bool {
        self.holders < self.first.per.into()
    }
}

impl Fair {
    /// Adds a request in order of its ticket.
    pub fn join(&mut self, Stand { group, ticket, limit, per }: Stand) {
        self.arrived.insert(ticket, group);
        self.change(group, |fair| fair.by_group.insert((group, ticket), (limit, per)));
    }

    /// Takes this request out, if it is here; `granted` is its grant, if it has one. Returns whether it was the first of
    /// its group.
    pub fn leave(&mut self, ticket: Ticket, granted: Option<Ticket>) -> Option<bool> {
        let group = self.group_of(ticket)?;
        let was_first = self.of(group).next().is_some_and(|first| first.ticket == ticket);
        self.arrived.remove(ticket);
        self.change(group, |fair| {
            fair.by_group.remove((group, ticket));
            fair.granted.extend(granted.map(|granted| (group, granted)));
        });
        Some(was_first)
    }

    /// One of this group has come to hold the lock, or holds it no more.
    pub fn count_holder(&mut self, group: Group, comes: bool) {
        let before = self.holders_of(group);
        // One that was not known is not counted, so that the sum stays wrong, and all are counted anew.
        let now = if comes { before.saturating_add(1) } else { before.saturating_sub(1) };
        self.held = self.held.saturating_add(now).saturating_sub(before);
        self.set_holders(group, now);
    }

    /// So many share the lock, and so many of each group.
    pub fn count_anew(&mut self, held: usize, groups: BTreeMap<Group, usize>) {
        self.held = held;
        let none = self.holders.keys().map(|&group| (group, 0)).collect::<BTreeMap<_, _>>();
        none.into_iter().chain(groups).for_each(|(group, count)| self.set_holders(group, count));
    }

    fn set_holders(&mut self, group: Group, holders: usize) {
        self.change(group, |fair| match holders {
            0 => _ = fair.holders.remove(&group),
            _ => _ = fair.holders.insert(group, holders),
        });
    }

    /// Changes something of a group, and puts it where its turn is then.
    fn change(&mut self, group: Group, change: impl FnOnce(&mut Self)) {
        if let Some(turn) = self.turn_of(group) {
            let limit = turn.first.limit.into();
            let turns = self.turns.entry(limit).or_default();
            turns.remove(turn.key());
            if turns.is_empty() {
                self.turns.remove(&limit);
            }
        }
        change(self);
        match self.turn_of(group) {
            Some(turn) => {
                let turns = self.turns.entry(turn.first.limit.into()).or_default();
                turns.insert(turn.key(), turn);
            }
            None => _ = self.granted.remove(&group),
        }
    }

    fn turn_of(&self, group: Group) -> Option<Turn> {
        let first = self.of(group).next()?;
        let granted = self.granted.get(&group).copied().unwrap_or_default();
        Some(Turn { holders: self.holders_of(group), since: granted.max(first.ticket), first })
    }

    pub fn holders_of(&self, group: Group) -> usize {
        self.holders.get(&group).copied().unwrap_or_default()
    }

    /// The requests of this group, in order of arrival.
    pub fn of(&self, group: Group) -> impl Iterator<Item = Stand> {
        let from = self.by_group.from((group, Ticket::MIN));
        let stand = |&((group, ticket), (limit, per))| Stand { group, ticket, limit, per };
        from.map(stand).take_while(move |stand| stand.group == group)
    }

    pub fn group_of(&self, ticket: Ticket) -> Option<Group> {
        self.arrived.get(ticket).copied()
    }

    /// The request that is next, but for `own`: of those that have come before the first `without` FAIR.
    pub fn next(&self, without: Option<Ticket>, own: Option<Ticket>) -> Option<Ticket> {
        let may_be = |ticket| without.is_none_or(|without| ticket < without);
        self.arrived.first().filter(|&first| may_be(first))?;
        let is_next = |turn: &&Turn| {
            let first = turn.first.ticket;
            turn.has_room() && may_be(first) && Some(first) != own
        };
        let with_room = self.turns.range(self.held.saturating_add(1)..);
        let next = with_room.filter_map(|(_, turns)| turns.values().find(is_next));
        next.min_by_key(|turn| turn.key()).map(|turn| turn.first.ticket)
    }

    /// The request that comes before a new one, which is of this group or without FAIR, if its owner does not wait by
    /// `own`.
    pub fn in_the_way(&self, group: Option<Group>, own: Option<Ticket>) -> Option<Ticket> {
        let first_of = |group| self.of(group).find(|stand| Some(stand.ticket) != own);
        let before = group.and_then(first_of).or_else(|| {
            // Behind its own, one of the same group may have room.
            first_of(self.group_of(own?)?).filter(|second| {
                let holders = self.holders_of(second.group);
                usize::from(second.limit) > self.held && usize::from(second.per) > holders
            })
        });
        before.map(|before| before.ticket).or_else(|| self.next(None, own))
    }

    /// How many come before this one: if it is here an estimate, as if each group were served in its turn.
    pub fn before(&self, ticket: Ticket) -> usize {
        let Some(turn) = self.group_of(ticket).and_then(|group| self.turn_of(group)) else {
            return self.arrived.before(ticket);
        };
        let of_group = self.count_of(turn.first.group, ticket);
        let groups: usize = self.turns.values().map(Order::len).sum();
        let sooner: usize = self.turns.values().map(|turns| turns.before(turn.key())).sum();
        of_group.saturating_mul(groups).saturating_add(sooner)
    }

    /// How many of this group wait that have come before this one.
    pub fn count_of(&self, group: Group, before: Ticket) -> usize {
        let up_to = |ticket| self.by_group.before((group, ticket));
        up_to(before).saturating_sub(up_to(Ticket::MIN))
    }

    /// The first groups in the order of their turns.
    pub fn groups(&self, most: usize) -> Vec<Turn> {
        let firsts = self.turns.values().flat_map(|turns| turns.values().take(most));
        let mut firsts: Vec<Turn> = firsts.copied().collect();
        firsts.sort_unstable_by_key(Turn::key);
        firsts.truncate(most);
        firsts
    }
}
