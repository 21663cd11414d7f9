//! Was a request refused if no order of release grants it, and only then? The naive search of the orders
//! says so.

use crate::lock::tests::interleavings::orders::search::{
    self, Request, State, bit, try_every_order,
};
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::Server;
use crate::lock::{Hold as How, Mode};

use super::super::action::{Ask, LOCKS};
use super::{Book, Hold, Wait};

impl Book {
    pub fn judge_deadlock(&self, ask: &Ask, refused: bool, server: &Server) -> Verdict {
        let is_odd = |hold: &Hold| hold.may_go() || hold.unclaimed;
        if self.holds.iter().any(is_odd) || self.no_lock.contains(&true) || self.late_until > 0 {
            return Ok(());
        }
        let mut state = State::default();
        for hold in &self.holds {
            let held = &mut state.held[hold.lock];
            held.by |= 1 << hold.owner;
            held.alone = hold.how == How::Exclusive;
        }
        let request = |ask: &Ask| {
            let mut locks = [None; search::LOCKS];
            for &lock in ask.locks {
                locks[lock] = Some(match ask.mode {
                    Mode::Exclusive => Mode::Exclusive,
                    Mode::Shared => Mode::Limit(self.max_sharers),
                    Mode::Limit(most) => Mode::Limit(most.min(self.max_sharers)),
                    fair @ Mode::Fair { .. } => fair,
                });
            }
            let owner = 1 << ask.owner;
            Request { owner, locks }
        };
        // Each database is searched by itself, and as if the wait of the owner that asks were gone.
        let is_here = |wait: &Wait| LOCKS[wait.ask.locks[0]].0 == LOCKS[ask.locks[0]].0;
        let is_own = |wait: &Wait| wait.ask.owner == ask.owner;
        let waits =
            self.waits.iter().filter(|wait| self.lives(wait) && is_here(wait) && !is_own(wait));
        let mut requests: Vec<Request> = waits.map(|wait| request(&wait.ask)).collect();
        state.left = bit(requests.len()) - 1;
        // Some may have moved up in this moment.
        state.settle(&requests, 0);
        let before = try_every_order(state, &requests);
        state.left |= bit(requests.len());
        requests.push(request(ask));
        let after = try_every_order(state, &requests);
        let owner = 1 << ask.owner;
        // Others may have been stuck before, by one order or other.
        // What others have written may not have been heard of; it is looked at before a request is refused.
        let sure = before.ever == 0 && server.due() != Some(0);
        ensure(refused || !sure || after.always == 0, || {
            format!("{ask}, waits, and a client waits indefinitely now")
        })?;
        ensure(!refused || after.ever & owner != 0, || {
            format!("{ask}, is refused, and every order of release would grant it")
        })
    }
}
