//! Owners and keys, as people read them in errors and logs.

/// How much of an owner or a key is shown.
const MOST_BYTES: usize = 64;

/// As redis-cli shows it, cut where it is long.
pub fn shown(bytes: &[u8]) -> String {
    format!("\"{}\"", escaped(bytes))
}

/// As [`shown`], without the quotation marks.
pub fn escaped(bytes: &[u8]) -> String {
    let (start, rest) = bytes.split_at(bytes.len().min(MOST_BYTES));
    let dots = if rest.is_empty() { "" } else { "..." };
    let mut shown = String::new();
    for &byte in start {
        match byte {
            b'\\' | b'"' => shown.extend(['\\', char::from(byte)]),
            b'\n' => shown.push_str("\\n"),
            b'\r' => shown.push_str("\\r"),
            b'\t' => shown.push_str("\\t"),
            7 => shown.push_str("\\a"),
            8 => shown.push_str("\\b"),
            b' '..=b'~' => shown.push(char::from(byte)),
            _ => shown.push_str(&format!("\\x{byte:02x}")),
        }
    }
    shown.push_str(dots);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_redis_cli_shows_them_and_cut_at_64() {
        for (bytes, text) in [
            (&b"plain"[..], r#""plain""#),
            (b"a\"b\\", r#""a\"b\\""#),
            (b"\n\r\t\x07\x08\0\xff", r#""\n\r\t\a\b\x00\xff""#),
        ] {
            assert_eq!(shown(bytes), text);
        }
        assert_eq!(shown(&[b'x'; 64]), format!("\"{}\"", "x".repeat(64)));
        assert_eq!(shown(&[b'x'; 65]), format!("\"{}...\"", "x".repeat(64)));
    }
}
