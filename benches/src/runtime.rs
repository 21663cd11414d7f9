//! One thread that runs everything: the tasks, their sockets, and timers that are exact.
//!
//! Client and server should have a core each, so the client has one thread and no helper beside
//! it. Its timers must not be rounded to milliseconds: that would cheat those who poll. And each
//! socket is told to the kernel once, for all its life, so that waiting costs no further call.

use async_task::{Runnable, Task};
use futures_lite::future;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};
use polling::{Event, Events, PollMode, Poller};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Far longer than a connection takes; whoever does not accept in this time never will.
const CONNECT_IN: Duration = Duration::from_secs(10);

thread_local! {
    static READY: RefCell<VecDeque<Runnable>> = const { RefCell::new(VecDeque::new()) };
    static TIMERS: RefCell<BTreeMap<(Instant, u64), Waker>> = const { RefCell::new(BTreeMap::new()) };
    static TIMERS_EVER: Cell<u64> = const { Cell::new(0) };
    static SOCKETS: RefCell<Sockets> = const { RefCell::new(Sockets { seats: Vec::new(), free: Vec::new() }) };
    static POLLER: io::Result<Poller> = Poller::new();
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; 64 * 1024]);
}

/// Runs a future, and all the tasks that it spawns, until it is done.
pub fn block_on<T: 'static>(main: impl Future<Output = T> + 'static) -> io::Result<T> {
    let task = spawn(main);
    let mut events = Events::new();
    loop {
        run_what_is_ready();
        if task.is_finished() {
            drop_what_is_ready();
            return Ok(future::block_on(task));
        }
        wait(&mut events)?;
    }
}

/// Starts a task. Whoever drops it ends it.
pub fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> Task<T> {
    let (runnable, task) = async_task::spawn_local(task, |runnable| {
        READY.with_borrow_mut(|ready| ready.push_back(runnable));
    });
    runnable.schedule();
    task
}

fn run_what_is_ready() {
    for _ in 0..READY.with_borrow(VecDeque::len) {
        if let Some(runnable) = READY.with_borrow_mut(VecDeque::pop_front) {
            runnable.run();
        }
    }
}

/// Tasks that were dropped end while there is still a runtime; and those that they drop in turn.
fn drop_what_is_ready() {
    while let Some(runnable) = READY.with_borrow_mut(VecDeque::pop_front) {
        drop(runnable);
    }
}

fn wait(events: &mut Events) -> io::Result<()> {
    let now = Instant::now();
    while let Some(waker) = due_timer(now) {
        waker.wake();
    }
    let idle = READY.with_borrow(VecDeque::is_empty);
    let timeout = match TIMERS.with_borrow(|timers| timers.keys().next().copied()) {
        _ if !idle => Some(Duration::ZERO),
        Some((at, _)) => Some(at.saturating_duration_since(now)),
        None => None,
    };
    with_poller(|poller| poller.wait(events, timeout))?;
    for event in events.iter() {
        if let Some(readiness) = SOCKETS.with_borrow(|sockets| sockets.at(event.key)) {
            readiness.note(event.readable, event.writable);
        }
    }
    events.clear();
    Ok(())
}

fn with_poller<T>(ask: impl FnOnce(&Poller) -> io::Result<T>) -> io::Result<T> {
    POLLER.with(|poller| match poller {
        Ok(poller) => ask(poller),
        Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
    })
}

fn due_timer(now: Instant) -> Option<Waker> {
    TIMERS.with_borrow_mut(|timers| {
        let first = timers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    })
}

/// Done when the time has passed.
pub fn sleep(time: Duration) -> Sleep {
    sleep_until(Instant::now() + time)
}

/// Done at that instant.
pub fn sleep_until(at: Instant) -> Sleep {
    let number = TIMERS_EVER.get();
    TIMERS_EVER.set(number + 1);
    Sleep { at, number }
}

/// What `sleep` gives.
#[derive(Debug)]
pub struct Sleep {
    at: Instant,
    number: u64,
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if Instant::now() >= self.at {
            return Poll::Ready(());
        }
        let waker = context.waker().clone();
        TIMERS.with_borrow_mut(|timers| timers.insert((self.at, self.number), waker));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        TIMERS.with_borrow_mut(|timers| timers.remove(&(self.at, self.number)));
    }
}

/// What a future gives, or nothing if that takes longer: then it is dropped.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let done = async { Some(future.await) };
    let too_late = async {
        sleep(limit).await;
        None
    };
    future::or(done, too_late).await
}

/// Something that tasks wait for: each `open` lets one of them through.
#[derive(Debug, Default)]
pub struct Turnstile {
    passes: Cell<usize>,
    waiting: RefCell<VecDeque<Waker>>,
}

impl Turnstile {
    /// Lets so many through, those who wait or those who come.
    pub fn open(&self, passes: usize) {
        self.passes.set(self.passes.get() + passes);
        for _ in 0..passes {
            if let Some(waker) = self.waiting.borrow_mut().pop_front() {
                waker.wake();
            }
        }
    }

    /// Waits to be let through.
    pub async fn pass(&self) {
        future::poll_fn(|context| {
            if let Some(left) = self.passes.get().checked_sub(1) {
                self.passes.set(left);
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push_back(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// What the kernel has said about a socket, and who wants to know.
#[derive(Debug, Default)]
struct Readiness {
    readable: Cell<bool>,
    writable: Cell<bool>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

impl Readiness {
    fn note(&self, readable: bool, writable: bool) {
        for (says, flag, task) in [
            (readable, &self.readable, &self.reader),
            (writable, &self.writable, &self.writer),
        ] {
            if says {
                flag.set(true);
                if let Some(waker) = task.take() {
                    waker.wake();
                }
            }
        }
    }
}

struct Sockets {
    seats: Vec<Option<Rc<Readiness>>>,
    free: Vec<usize>,
}

impl Sockets {
    fn at(&self, seat: usize) -> Option<Rc<Readiness>> {
        self.seats.get(seat)?.clone()
    }

    fn take_seat(&mut self, readiness: Rc<Readiness>) -> usize {
        if let Some(seat) = self.free.pop()
            && let Some(place) = self.seats.get_mut(seat)
        {
            *place = Some(readiness);
            return seat;
        }
        self.seats.push(Some(readiness));
        self.seats.len() - 1
    }

    fn leave(&mut self, seat: usize) {
        if let Some(place) = self.seats.get_mut(seat) {
            *place = None;
            self.free.push(seat);
        }
    }
}

/// A TCP connection of this runtime.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    readiness: Rc<Readiness>,
    seat: usize,
}

impl Socket {
    /// On the loopback a connection is there at once, so this step may block.
    pub fn connect(address: SocketAddr) -> io::Result<Socket> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_IN)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // Closed at once: ports that linger for a minute would run out, and make each connect slow.
        let linger = linger {
            l_onoff: 1,
            l_linger: 0,
        };
        setsockopt(&stream, sockopt::Linger, &linger)?;
        let readiness = Rc::new(Readiness::default());
        readiness.writable.set(true);
        let seat = SOCKETS.with_borrow_mut(|sockets| sockets.take_seat(Rc::clone(&readiness)));
        let socket = Socket {
            stream,
            readiness,
            seat,
        };
        with_poller(|poller| socket.watch(poller))?;
        Ok(socket)
    }

    #[allow(unsafe_code)]
    fn watch(&self, poller: &Poller) -> io::Result<()> {
        // SAFETY: the stream lives as long as `self`, whose drop takes it from the poller first.
        unsafe { poller.add_with_mode(&self.stream, Event::all(self.seat), PollMode::Edge) }
    }

    /// Waits for bytes, and hands them over.
    pub async fn read<T>(&self, mut take: impl FnMut(&[u8]) -> T) -> io::Result<T> {
        future::poll_fn(|context| {
            while self.readiness.readable.get() {
                let outcome: io::Result<T> = SCRATCH.with_borrow_mut(|scratch| {
                    let size = (&self.stream).read(scratch)?;
                    // Less than there was room for: that was all, and the kernel will say when there is more.
                    self.readiness.readable.set(size == scratch.len());
                    match scratch.get(..size) {
                        None | Some([]) => Err(ErrorKind::UnexpectedEof.into()),
                        Some(bytes) => Ok(take(bytes)),
                    }
                });
                match outcome {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.readiness.readable.set(false);
                    }
                    outcome => return Poll::Ready(outcome),
                }
            }
            self.readiness.reader.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Writes as much as goes.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        future::poll_fn(|context| {
            while self.readiness.writable.get() {
                match (&self.stream).write(bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        self.readiness.writable.set(false);
                    }
                    outcome => return Poll::Ready(outcome),
                }
            }
            self.readiness.writer.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = with_poller(|poller| poller.delete(&self.stream));
        SOCKETS.with_borrow_mut(|sockets| sockets.leave(self.seat));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_drops_another_as_it_is_dropped_leaves_neither() -> io::Result<()> {
        struct Counts(Rc<Cell<u32>>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let ended = Rc::new(Cell::new(0));
        let counts = || Counts(Rc::clone(&ended));
        let (inner, outer) = (counts(), counts());
        block_on(async move {
            let inner = spawn(async move {
                let _counts = inner;
                future::pending::<()>().await;
            });
            let outer = spawn(async move {
                let _all = (outer, inner);
                future::pending::<()>().await;
            });
            sleep(Duration::from_millis(1)).await;
            drop(outer);
        })?;
        assert_eq!(ended.get(), 2);
        Ok(())
    }

    #[test]
    fn a_sleep_ends_when_it_should_and_not_a_millisecond_later() {
        let slept = block_on(async {
            let mut shortest = Duration::MAX;
            for _ in 0..20 {
                let began = Instant::now();
                sleep(Duration::from_micros(300)).await;
                shortest = shortest.min(began.elapsed());
            }
            shortest
        });
        let slept = slept.unwrap_or_default();
        assert!(slept >= Duration::from_micros(300), "{slept:?}");
        assert!(slept < Duration::from_micros(900), "{slept:?}");
    }

    #[test]
    fn what_takes_too_long_is_dropped() {
        let dropped = Rc::new(Cell::new(false));
        let seen = Rc::clone(&dropped);
        let outcomes = block_on(async move {
            let in_time = within(Duration::from_secs(60), async { 1 }).await;
            let task = spawn(async move {
                let _note = Note(seen);
                future::pending::<()>().await;
            });
            (in_time, within(Duration::from_millis(1), task).await)
        });
        assert_eq!(outcomes.ok(), Some((Some(1), None)));
        assert!(dropped.get(), "a task that was given up still lives");
    }

    struct Note(Rc<Cell<bool>>);

    impl Drop for Note {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    #[test]
    fn a_turnstile_lets_as_many_through_as_it_was_told() {
        let passed = block_on(async {
            let turnstile = Rc::new(Turnstile::default());
            let passed = Rc::new(Cell::new(0));
            let tasks: Vec<_> = (0..5)
                .map(|_| {
                    let (turnstile, passed) = (Rc::clone(&turnstile), Rc::clone(&passed));
                    spawn(async move {
                        turnstile.pass().await;
                        passed.set(passed.get() + 1);
                    })
                })
                .collect();
            sleep(Duration::from_millis(1)).await;
            turnstile.open(3);
            sleep(Duration::from_millis(1)).await;
            drop(tasks);
            passed.get()
        });
        assert_eq!(passed.ok(), Some(3));
    }
}
