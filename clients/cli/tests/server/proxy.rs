//! A lost reply: what the server has done, and its client never hears.

use crate::support::{Server, redis_lock};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Passes everything on, but for the first reply to a request that has this word in it: then it hangs up.
struct Proxy {
    port: u16,
    has_lost: Arc<AtomicBool>,
}

impl Proxy {
    fn loses(server: &Server, word: &'static str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (to, has_lost) = (server.port, Arc::new(AtomicBool::new(false)));
        let lost = Arc::clone(&has_lost);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let lost = Arc::clone(&lost);
                thread::spawn(move || pass_on(client, to, word, &lost));
            }
        });
        Proxy { port, has_lost }
    }
}

/// One request after the other, as the command line sends them.
fn pass_on(mut client: TcpStream, to: u16, word: &str, lost: &AtomicBool) -> Option<()> {
    let mut server = TcpStream::connect(("127.0.0.1", to)).ok()?;
    let mut bytes = vec![0; 65_536];
    loop {
        let length = client.read(&mut bytes).ok().filter(|length| *length > 0)?;
        let request = bytes.get(..length)?.to_vec();
        server.write_all(&request).ok()?;
        let length = server.read(&mut bytes).ok().filter(|length| *length > 0)?;
        if String::from_utf8_lossy(&request).contains(word) && !lost.swap(true, Ordering::Relaxed) {
            return None;
        }
        client.write_all(bytes.get(..length)?).ok()?;
    }
}

#[test]
fn a_lost_reply_loses_nothing() {
    for (server, words) in [
        (Server::start(), ["LOCK.ACQUIRE", "LOCK.RENEW", "LOCK.RELEASE"]),
        (Server::without_module(), ["SET", "pexpire", "del"]),
    ] {
        for word in words {
            let proxy = Proxy::loses(&server, word);
            let url = format!("redis://127.0.0.1:{}/", proxy.port);
            // It is renewed once.
            let words = ["run", "k", "--ttl", "6s", "--no-wait", "--", "sleep", "3"];
            let said = redis_lock(&url, &words).output().unwrap();
            let text = String::from_utf8(said.stderr).unwrap();
            assert_eq!(said.status.code(), Some(0), "{word}: {text}");
            assert!(proxy.has_lost.load(Ordering::Relaxed), "{word}");
            let left: u64 = server.say(&["EXISTS", "k"]);
            assert_eq!(left, 0, "{word}");
        }
    }
}
