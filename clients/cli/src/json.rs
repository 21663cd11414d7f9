//! A reply as JSON. Bytes that are no text are escaped, as people are shown them.

use crate::words::escaped;
use redis::Value;

/// In one line.
pub fn json(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => string(bytes),
        Value::SimpleString(text) => string(text.as_bytes()),
        Value::VerbatimString { text, .. } => string(text.as_bytes()),
        Value::Okay => string(b"OK"),
        Value::Boolean(is_so) => is_so.to_string(),
        Value::Double(number) if number.is_finite() => number.to_string(),
        Value::Array(list) | Value::Set(list) => {
            let all: Vec<String> = list.iter().map(json).collect();
            format!("[{}]", all.join(","))
        }
        Value::Map(pairs) => {
            let all: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}:{}", json(name), json(value)))
                .collect();
            format!("{{{}}}", all.join(","))
        }
        _ => "null".to_owned(),
    }
}

fn string(bytes: &[u8]) -> String {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => escaped(bytes),
    };
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            letter if letter.is_control() => quoted += &format!("\\u{:04x}", u32::from(letter)),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_quoted() {
        let word = |word: &[u8]| Value::BulkString(word.to_vec());
        let reply = Value::Map(vec![
            (word(b"owner"), word("J\u{fc}rgen \"x\"\\\r\n\u{1b}".as_bytes())),
            (word(b"fence"), Value::Int(17)),
            (word(b"client"), Value::Nil),
            (word(b"waiters"), Value::Array(vec![word(b"\xff")])),
        ]);
        let said = r#"{"owner":"Jürgen \"x\"\\\u000d\u000a\u001b","fence":17,"client":null,"waiters":["\\xff"]}"#;
        assert_eq!(json(&reply), said);
    }
}
