//! The event loop.

use super::*;

impl Server {
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
}
