//! A second connection that asks a server for a sign of life each millisecond.
//!
//! Nothing that the client or the machine does may be taken for the server's silence. So it has a
//! thread of its own; a reply has come when the kernel has it, however late the thread is woken; and
//! the time is left out in which the machine let another process run in the server's place.

use crate::server::Server;
use anyhow::{Context, Result, ensure};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use std::fs::File;
use std::io::{IoSliceMut, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::str;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// From a reply to the next PING.
pub const INTERVAL: Duration = Duration::from_millis(1);
/// Longer than a server is silent at any time.
const NO_SIGN_OF_LIFE: Duration = Duration::from_secs(30);
/// It subscribes, so that it is no client of the type that `CLIENT KILL TYPE normal` ends.
const SUBSCRIBE: &[u8] = b"*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\npings\r\n";
const SUBSCRIBED: &[u8] = b"*3\r\n$9\r\nsubscribe\r\n$5\r\npings\r\n:1\r\n";
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
const PONG: &[u8] = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n";

/// The longest time that a PING took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gap {
    /// From sending it to the arrival of its reply.
    pub seen: Duration,
    /// For so much of it the server wanted to run, and the machine ran others on its cores.
    pub kept_off: Duration,
}

impl Gap {
    /// What is left when that is left out.
    pub fn servers_own(&self) -> Duration {
        self.seen.saturating_sub(self.kept_off)
    }

    pub fn or_longer(self, other: Gap) -> Gap {
        if other.servers_own() > self.servers_own() { other } else { self }
    }
}

pub struct Pinger {
    thread: thread::JoinHandle<Result<Vec<Gap>>>,
    over: Arc<AtomicBool>,
}

impl Pinger {
    /// Begins. When this returns, the server has heard of it.
    pub fn start(server: &Server) -> Result<Pinger> {
        Pinger::of(server.address(), server.pid())
    }

    fn of(address: SocketAddr, process: u32) -> Result<Pinger> {
        let over = Arc::new(AtomicBool::new(false));
        let stream = subscribed(address)?;
        let queue = RunQueue::of(process);
        let seen = Arc::clone(&over);
        let thread = thread::spawn(move || gaps(stream, &queue, &seen));
        Ok(Pinger { thread, over })
    }

    pub fn stop(self) -> Result<Gap> {
        let gaps = self.all()?.into_iter();
        Ok(gaps.fold(Gap::default(), Gap::or_longer))
    }

    /// Ends, and gives the gap that one in a hundred is longer than.
    pub fn stop_at_p99(self) -> Result<Gap> {
        let mut gaps = self.all()?;
        gaps.sort_by_key(|gap| gap.servers_own());
        let rank = gaps.len() * 99 / 100;
        gaps.get(rank).copied().context("no PING was sent")
    }

    fn all(self) -> Result<Vec<Gap>> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.ok().context("the thread that pings has panicked")?
    }
}

fn subscribed(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(NO_SIGN_OF_LIFE))?;
    setsockopt(&stream, sockopt::ReceiveTimestampns, &true)?;
    stream.write_all(SUBSCRIBE)?;
    expect(&stream, SUBSCRIBED)?;
    Ok(stream)
}

fn gaps(mut stream: TcpStream, queue: &RunQueue, over: &AtomicBool) -> Result<Vec<Gap>> {
    let mut all = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let before = queue.waited();
        let asked = now()?;
        stream.write_all(PING)?;
        let replied = expect(&stream, PONG)?;
        all.push(Gap {
            // The clock may be set back.
            seen: replied.saturating_sub(asked),
            kept_off: queue.waited().saturating_sub(before),
        });
        thread::sleep(INTERVAL);
    }
    Ok(all)
}

/// When this reply has arrived, as the kernel says, in Unix time.
fn expect(stream: &TcpStream, reply: &[u8]) -> Result<Duration> {
    let mut read = Vec::new();
    let mut arrived = None;
    while read.len() < reply.len() {
        let mut some = [0; 64];
        let mut stamp = nix::cmsg_space!(TimeSpec);
        let mut into = [IoSliceMut::new(&mut some)];
        let message =
            recvmsg::<()>(stream.as_raw_fd(), &mut into, Some(&mut stamp), MsgFlags::empty())
                .context("a PING got no reply")?;
        for more in message.cmsgs()? {
            if let ControlMessageOwned::ScmTimestampns(stamp) = more {
                arrived = Some(Duration::from(stamp));
            }
        }
        let size = message.bytes;
        ensure!(size > 0, "the server has closed the connection that pings");
        read.extend_from_slice(some.get(..size).unwrap_or_default());
    }
    ensure!(read == reply, "a PING was replied to by {read:?}");
    arrived.map_or_else(now, Ok)
}

fn now() -> Result<Duration> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?)
}

/// For how long the kernel has let a process wait for a core, where it says so.
struct RunQueue {
    file: Option<File>,
}

impl RunQueue {
    fn of(process: u32) -> RunQueue {
        RunQueue { file: File::open(format!("/proc/{process}/schedstat")).ok() }
    }

    fn waited(&self) -> Duration {
        let mut text = [0; 64];
        let read = self.file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        let said = read.and_then(|size| waited(text.get(..size)?));
        said.unwrap_or_default()
    }
}

/// The second number: nanoseconds. The first is what it has run, the third how often.
fn waited(schedstat: &[u8]) -> Option<Duration> {
    let nanos = str::from_utf8(schedstat).ok()?.split_whitespace().nth(1)?;
    Some(Duration::from_nanos(nanos.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener};
    use std::process;

    fn reply_late(listener: &TcpListener, pause: Duration) -> Result<()> {
        let (mut client, _) = listener.accept()?;
        let mut subscribe = vec![0; SUBSCRIBE.len()];
        client.read_exact(&mut subscribe)?;
        client.write_all(SUBSCRIBED)?;
        let mut ping = vec![0; PING.len()];
        let mut pings = 0;
        while client.read_exact(&mut ping).is_ok() {
            pings += 1;
            if pings == 10 {
                thread::sleep(pause);
            }
            client.write_all(PONG)?;
        }
        Ok(())
    }

    #[test]
    fn a_server_that_is_silent_once_is_noticed_and_that_is_no_p99() -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(80);
        type Stop = fn(Pinger) -> Result<Gap>;
        let ended: [(Duration, Stop, bool); 3] = [
            (Duration::ZERO, Pinger::stop, false),
            (PAUSE, Pinger::stop, true),
            (PAUSE, Pinger::stop_at_p99, false),
        ];
        for (pause, stop, is_seen) in ended {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr()?;
            let server = thread::spawn(move || reply_late(&listener, pause));
            let pinger = Pinger::of(address, process::id())?;
            thread::sleep(PAUSE * 10);
            let gap = stop(pinger)?;
            assert_eq!(gap.seen >= PAUSE, is_seen, "{gap:?}");
            assert!(server.join().is_ok_and(|served| served.is_ok()));
        }
        Ok(())
    }

    #[test]
    fn the_kernel_says_for_how_long_a_process_has_waited_for_a_core() {
        let said = waited(b"113425141 29540360 605\n");
        assert_eq!(said, Some(Duration::from_nanos(29_540_360)));
        assert_eq!(waited(b""), None);
        assert_eq!(waited(b"1 x 2"), None);
    }

    #[test]
    fn the_longest_gap_is_the_one_in_which_the_server_was_busy_for_the_longest() {
        let gap = |seen, kept_off| Gap {
            seen: Duration::from_millis(seen),
            kept_off: Duration::from_millis(kept_off),
        };
        let (busy, kept_off) = (gap(5, 1), gap(20, 18));
        assert_eq!(busy.or_longer(kept_off), busy);
        assert_eq!(kept_off.or_longer(busy), busy);
        // What it waited for may have begun before the PING.
        assert_eq!(gap(1, 2).servers_own(), Duration::ZERO);
    }
}
