//! A network that forgets, and that can be cut: a small proxy that can stop to forward, while all connections stay open.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often it looks whether it is all over.
const PAUSE: Duration = Duration::from_millis(5);
/// The same for a connection that is forgotten.
const LONG_PAUSE: Duration = Duration::from_millis(50);

pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    /// Connections made before this number was raised are forgotten: nothing goes through them.
    era: AtomicUsize,
    is_cut: AtomicBool,
    /// Connections that were made while it was cut.
    held: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    pub fn before(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let seen = Arc::clone(&state);
        thread::spawn(move || {
            while !seen.is_over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((client, _)) => connect(client, server, &seen),
                    Err(_) => thread::sleep(PAUSE),
                }
            }
        });
        Proxy { address, state }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on nothing passes through the connections that there are; new ones work.
    pub fn forget_all(&self) {
        self.state.era.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on nothing passes at all: new connections are made, and nothing goes through them either.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::Relaxed);
        self.forget_all();
    }

    /// New connections work again.
    pub fn heal(&self) {
        self.state.is_cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
    }
}

fn connect(client: TcpStream, server: SocketAddr, state: &Arc<State>) {
    if state.is_cut.load(Ordering::Relaxed) {
        return state.held.lock().unwrap().push(client);
    }
    let Ok(server) = TcpStream::connect(server) else {
        return;
    };
    let era = state.era.load(Ordering::Relaxed);
    for (from, to) in [(&client, &server), (&server, &client)] {
        let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        from.set_nonblocking(false).unwrap();
        from.set_nodelay(true).unwrap();
        from.set_read_timeout(Some(PAUSE)).unwrap();
        let state = Arc::clone(state);
        thread::spawn(move || forward(from, to, &state, era));
    }
}

/// Until one of the two ends closes, or to the end of the run if the connection is forgotten.
fn forward(mut from: TcpStream, mut to: TcpStream, state: &State, era: usize) {
    let mut chunk = [0; 4096];
    while !state.is_over.load(Ordering::Relaxed) {
        let read = from.read(&mut chunk);
        if state.era.load(Ordering::Relaxed) != era {
            // Neither bytes nor the end of the connection go through any more.
            thread::sleep(LONG_PAUSE);
            continue;
        }
        let passed = match read {
            Ok(0) => false,
            Ok(length) => to.write_all(&chunk[..length]).is_ok(),
            Err(error) => matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ),
        };
        if !passed {
            let _ = to.shutdown(std::net::Shutdown::Both);
            return;
        }
    }
}
