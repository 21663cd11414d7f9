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
    /// The word in the request that is refused with this error.
    refuses: Mutex<Option<(Vec<u8>, String)>>,
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

    /// The next request with this word gets this error, and the server nothing; after a reply that is to be lost.
    pub fn refuse(&self, word: &str, error: &str) {
        *self.shared.refuses.lock().unwrap() = Some((word.as_bytes().to_vec(), error.into()));
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
                let has = |word: &[u8]| request.windows(word.len()).any(|part| part == word);
                let loses = shared.loses.lock().unwrap().clone();
                let refused = shared.refuses.lock().unwrap().take_if(|(word, _)| loses.is_none() && has(word));
                if let Some((_, error)) = refused {
                    _ = client.write_all(format!("-{error}\r\n").as_bytes()).await;
                    continue;
                }
                if server.write_all(request).await.is_err() {
                    return;
                }
                if loses.is_some_and(|word| has(&word)) {
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
