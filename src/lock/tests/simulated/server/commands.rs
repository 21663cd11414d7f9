//! Our own commands, and what an operator sets.

use super::*;

impl Server {
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

    pub fn set_limits(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = *self.locks.limits();
        change(&mut limits);
        let now = self.now();
        self.locks.set_limits(limits, now);
    }
}
