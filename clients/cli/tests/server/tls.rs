//! A server that encrypts, and asks for a certificate.

use crate::support::{Server, free_port, redis_lock};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A server that is built with it doesn't start without a certificate.
fn has_tls() -> bool {
    let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let words = ["--port", "0", "--tls-port", &free_port().to_string()];
    let said = Command::new(program).args(words).output().unwrap();
    String::from_utf8_lossy(&said.stdout).contains("No tls-cert-file configured")
}

/// `name.crt` and `name.key`, signed by `ca.crt` or, for that, by itself.
fn certify(folder: &Path, name: &str) {
    let key = format!("{name}.key");
    let new = ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", &key, "-subj", "/CN=test"];
    let own = ["-x509", "-days", "2", "-out", "ca.crt"];
    let (request, certificate) = (format!("{name}.csr"), format!("{name}.crt"));
    let signed = [
        &["x509", "-req", "-in", &request, "-CA", "ca.crt", "-CAkey", "ca.key"][..],
        &["-CAcreateserial", "-days", "2", "-extfile", "names", "-out", &certificate],
    ];
    let steps = match name {
        "ca" => vec![[&new[..], &own].concat()],
        _ => vec![[&new[..], &["-out", &request]].concat(), signed.concat()],
    };
    for words in steps {
        let said = Command::new("openssl").args(words).current_dir(folder).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

#[test]
fn a_server_with_tls_is_reached_with_its_certificates_and_not_without() {
    if !has_tls() {
        println!("skipped: this server was built without TLS");
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    fs::write(folder.path().join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    for name in ["ca", "server", "client"] {
        certify(folder.path(), name);
    }
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ca, port) = (file("ca.crt"), free_port().to_string());
    let (certificate, key) = (file("server.crt"), file("server.key"));
    let words = ["--tls-port", &port, "--tls-ca-cert-file", &ca];
    let server = Server::with(
        &[&words[..], &["--tls-cert-file", &certificate, "--tls-key-file", &key]].concat(),
    );
    let (certificate, key) = (file("client.crt"), file("client.key"));
    let login = ["--cacert", &ca, "--cert", &certificate, "--key", &key];
    let url = format!("rediss://127.0.0.1:{port}/");
    let said = |words: &[&str], login: &[&str]| {
        let (command, rest) = words.split_first().unwrap();
        let words = [&[*command], login, rest].concat();
        let said = redis_lock(&url, &words).output().unwrap();
        let text = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        (said.status.code().unwrap(), text)
    };
    let run = ["run", "k", "--no-wait", "--", "echo", "up"];
    assert_eq!(said(&run, &login), (0, "up\n".to_owned()));
    let _: u64 = server.say(&["LOCK.ACQUIRE", "k", "ann", "60000"]);
    for words in [&["who", "k"][..], &["ls"], &["top", "--once", "--interval", "0.2"]] {
        let (status, text) = said(words, &login);
        assert!(status == 0 && text.contains("ann"), "{words:?} {text}");
    }
    for few in [&login[..0], &login[..2], &["--cert", &certificate, "--key", &key]] {
        let (status, text) = said(&["who", "k"], few);
        assert!(status == 2 && text.contains("no connection to the server"), "{few:?} {text}");
    }
    let insecure = ["--insecure", "--cert", &certificate, "--key", &key];
    assert_eq!(said(&["who", "k"], &insecure).0, 0);
}
