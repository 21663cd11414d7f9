//! The order of the queue over thousands of grants: what goes wrong once in a thousand times goes wrong here. After each
//! step the server must show the holders and the waiters that a simple queue would have.

use crate::support::*;
use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

const GRANTS: usize = 10_000;
const CLIENTS: usize = 12;
/// The longest that there is: no place lapses here.
const LEASE: u64 = 60_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// How a client asks for the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Alone,
    /// Together with another lock, which is free.
    Several,
    Shared,
    /// It keeps a place, and retries when it has its turn.
    Place,
}

#[derive(Clone, Debug)]
struct Asker {
    owner: String,
    way: Way,
    client: usize,
    /// It has been told its place.
    placed: bool,
}

impl Asker {
    fn keys(&self) -> Vec<String> {
        let mut keys = vec!["{o}".to_owned()];
        if self.way == Way::Several {
            keys.push(format!("{{o}}{}", self.owner));
        }
        keys
    }

    fn ask(&self) -> Command {
        let mut ask = counted("LOCK.MACQUIRE", &self.keys());
        ask.extend(args![self.owner, LONG]);
        match self.way {
            Way::Alone | Way::Several => ask.extend(args!["BLOCK", 0]),
            Way::Shared => ask.extend(args!["SHARED", "BLOCK", 0]),
            Way::Place => ask.extend(args!["QUEUE", LEASE]),
        }
        ask
    }

    fn release(&self) -> Command {
        let mut release = counted("LOCK.MRELEASE", &self.keys());
        release.extend(args![self.owner]);
        release
    }
}

/// The server, and what a simple queue makes of the same requests.
struct Both {
    observer: Client,
    clients: Vec<Client>,
    holders: Vec<Asker>,
    queue: VecDeque<Asker>,
    asked: usize,
    granted: usize,
    last: i64,
}

impl Both {
    fn at(server: &Server) -> Both {
        Both {
            observer: server.client(),
            clients: (0..CLIENTS).map(|_| server.client()).collect(),
            holders: Vec::new(),
            queue: VecDeque::new(),
            asked: 0,
            granted: 0,
            last: 0,
        }
    }

    fn idle(&self) -> Option<usize> {
        let is_busy = |client: &usize| {
            let all = self.holders.iter().chain(&self.queue);
            all.clone().any(|asker| asker.client == *client)
        };
        (0..CLIENTS).find(|client| !is_busy(client))
    }

    fn come(&mut self, client: usize, way: Way) {
        self.asked += 1;
        let owner = format!("o{}", self.asked);
        let before = self.expected();
        let mut asker = Asker { owner, way, client, placed: false };
        self.clients[client].send(&asker.ask());
        if way == Way::Place && !self.may_have_it_now(&asker) {
            asker.placed = true;
            assert!(self.clients[client].answer().int() < 0, "{asker:?}");
        }
        self.queue.push_back(asker);
        self.grant_what_can_be();
        self.compare(Some(before));
    }

    fn let_go(&mut self, index: usize) {
        let holder = self.holders.swap_remove(index);
        assert_ne!(self.observer.run(&holder.release()), 0, "{holder:?}");
        self.grant_what_can_be();
        self.compare(None);
    }

    fn may_have_it_now(&self, first: &Asker) -> bool {
        self.queue.is_empty() && self.is_open_to(first)
    }

    fn is_open_to(&self, first: &Asker) -> bool {
        let mut holders = self.holders.iter();
        holders.all(|holder| (holder.way, first.way) == (Way::Shared, Way::Shared))
    }

    /// To the first, and to those who may share with it.
    fn grant_what_can_be(&mut self) {
        while let Some(first) = self.queue.front().filter(|first| self.is_open_to(first)) {
            self.holders.push(first.clone());
            self.queue.pop_front();
            self.granted += 1;
        }
    }

    /// Those who hold the lock, and those who wait.
    fn expected(&self) -> (Vec<String>, Vec<String>) {
        let owners = |asker: &Asker| asker.owner.clone();
        (sorted(self.holders.iter().map(owners)), self.queue.iter().map(owners).collect())
    }

    fn shown(&mut self) -> (Vec<String>, Vec<String>) {
        let info = cmd!(self.observer, "LOCK.INFO", "{o}");
        let owners = |field: &str| -> Vec<String> {
            let all = info.field(field).map_or(&[][..], Value::items);
            all.iter().map(|one| one["owner"].text()).collect()
        };
        (sorted(owners("holders").into_iter()), owners("waiters"))
    }

    /// Until the server has read what was sent to it, it shows what it has shown `before`.
    fn compare(&mut self, before: Option<(Vec<String>, Vec<String>)>) {
        let expected = self.expected();
        let began = Instant::now();
        loop {
            let shown = self.shown();
            if shown == expected {
                break;
            }
            assert!(
                before.as_ref() == Some(&shown) && began.elapsed() < PATIENCE,
                "after {} grants the server has {shown:?} instead of {expected:?}",
                self.granted
            );
            thread::yield_now();
        }
    }

    /// The replies of those who hold the lock and have not had theirs, in the order of their grants.
    fn hear(&mut self, from: usize) {
        for holder in &self.holders[from..] {
            let client = &mut self.clients[holder.client];
            let reply = if holder.placed { client.run(&holder.ask()) } else { client.answer() };
            let number = reply.fence();
            assert!(number > self.last, "{holder:?}: {number} after {}", self.last);
            self.last = number;
            assert!(client.no_answer_yet(), "{holder:?} has two replies");
        }
    }
}

fn sorted(owners: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<_> = owners.collect();
    all.sort_unstable();
    all
}

#[test]
fn ten_thousand_grants_come_in_the_order_in_which_the_requests_came() {
    let server = Server::start();
    let mut both = Both::at(&server);
    let mut chance = Chance::new(1);
    while both.granted < GRANTS {
        let held = both.holders.len();
        match both.idle() {
            Some(client) => {
                let ways = [Way::Alone, Way::Alone, Way::Several, Way::Shared, Way::Place];
                both.come(client, chance.of(ways));
                both.hear(held);
            }
            None => {
                let index = usize::try_from(chance.below(held as u64)).unwrap();
                both.let_go(index);
                both.hear(held - 1);
            }
        }
    }
    while !both.holders.is_empty() {
        let held = both.holders.len();
        both.let_go(0);
        both.hear(held - 1);
    }
}
