//! What INFO and LOG show of a client's connection.

use super::Reply;

/// What tells a reader whose connection it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Its name, if the client has given it one (`CLIENT SETNAME`).
    pub name: Option<Box<[u8]>>,
    /// The client's address, as `CLIENT LIST` shows it.
    pub address: String,
}

impl Connection {
    /// The fields by which INFO and LOG show it.
    pub fn fields(connection: Option<&Self>) -> [(&'static str, Reply); 2] {
        let name = connection.and_then(|one| one.name.as_deref());
        let address = connection.map(|one| Reply::text(&one.address));
        [
            ("client-name", name.map_or(Reply::Null, |name| Reply::Bytes(name.into()))),
            ("client-addr", address.unwrap_or(Reply::Null)),
        ]
    }
}
