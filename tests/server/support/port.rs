//! Ports for servers, told apart from those that the kernel hands to outgoing connections, so that
//! no client of another test takes one between the look and the start.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u32 = 10_000;
const COUNT: u32 = 10_000;
/// Where the servers put the cluster bus, counted from the port.
const BUS: u16 = 10_000;

/// Starts elsewhere in each process: other test runs may go on beside this one.
static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(process::id().wrapping_mul(97)));

/// A port that is free now, as is its cluster bus. Another process may still be quicker: the one that uses it
/// has to try again then.
pub fn free_port() -> u16 {
    (0..COUNT)
        .map(|_| FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT)
        .map(|port| u16::try_from(port).unwrap())
        .find(|port| is_free(*port) && is_free(port + BUS))
        .expect("a free port")
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
