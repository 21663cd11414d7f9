//! Between a client and its server: it loses replies, and keeps connections away.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

pub struct Proxy {
    pub port: u16,
    shared: Arc<Shared>,
    listening: AbortHandle,
}

#[derive(Default)]
struct Shared {
    /// The word in the request whose reply is lost, with its connection.
    loses: Mutex<Option<Vec<u8>>>,
    closed: AtomicBool,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Proxy {
    pub async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        let ours = shared.clone();
        let listening = tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if !ours.closed.load(Ordering::Relaxed) {
                    let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                    let connection = tokio::spawn(carry(client, server, ours.clone()));
                    ours.connections.lock().unwrap().push(connection.abort_handle());
                }
            }
        });
        Proxy { port, shared, listening: listening.abort_handle() }
    }

    /// The server gets the next request with this word; its reply is lost, and the connection with it.
    pub fn lose_reply_to(&self, word: &str) {
        *self.shared.loses.lock().unwrap() = Some(word.as_bytes().to_vec());
    }

    pub fn has_lost_it(&self) -> bool {
        self.shared.loses.lock().unwrap().is_none()
    }

    /// All connections end, and there are no new ones.
    pub fn close(&self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            connection.abort();
        }
    }

    pub fn open(&self) {
        self.shared.closed.store(false, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
        self.listening.abort();
    }
}

async fn carry(mut client: TcpStream, mut server: TcpStream, shared: Arc<Shared>) {
    let (mut asked, mut replied) = (vec![0; 65_536], vec![0; 65_536]);
    loop {
        tokio::select! {
            length = client.read(&mut asked) => {
                let Ok(length @ 1..) = length else { return };
                let request = &asked[..length];
                if server.write_all(request).await.is_err() {
                    return;
                }
                let loses = shared.loses.lock().unwrap().clone();
                if loses.is_some_and(|word| request.windows(word.len()).any(|part| part == word)) {
                    _ = server.read(&mut replied).await; // so it has been done
                    *shared.loses.lock().unwrap() = None;
                    return;
                }
            }
            length = server.read(&mut replied) => {
                let Ok(length @ 1..) = length else { return };
                if client.write_all(&replied[..length]).await.is_err() {
                    return;
                }
            }
        }
    }
}
