//! Numbers, times and names as people read them.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// For how many milliseconds, in six letters at most.
pub fn time(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0 => format!("{milliseconds} ms"),
        1..10 => format!("{seconds}.{} s", milliseconds % 1000 / 100),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The same of microseconds.
pub fn fine_time(microseconds: u64) -> String {
    match microseconds {
        0..1000 => format!("{microseconds} us"),
        _ => time(microseconds / 1000),
    }
}

/// 1234567 as 1,234,567.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many each second; what is not known yet is a dash.
pub fn rate(per_second: Option<f64>) -> String {
    match per_second {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(rate) if rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => count(rate.round() as u64),
    }
}

/// Letters of any language as they are, and all other bytes as redis-cli shows them: a name can neither move the cursor
/// nor break a line.
pub fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if !letter.is_ascii() && is_printable(letter) {
                text.push(letter);
            } else {
                text += &letter.encode_utf8(&mut [0; 4]).as_bytes().escape_ascii().to_string();
            }
        }
        text += &chunk.invalid().escape_ascii().to_string();
    }
    text
}

/// As the standard library sees it when it escapes text, where an accent may stand behind another letter. None of what
/// takes no room for itself but accents: it could hide something or turn a line around.
fn is_printable(letter: char) -> bool {
    let mut beside = String::from("a");
    beside.push(letter);
    beside.escape_debug().nth(1) == Some(letter)
}

/// How many columns of a terminal it takes.
pub fn width(text: &str) -> usize {
    text.width()
}

/// At most so many columns of it; what was cut off is two dots.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(2);
    let fits = |letter: &char| {
        let left = room.checked_sub(letter.width().unwrap_or(0));
        room = left.unwrap_or(room);
        left.is_some()
    };
    let kept: String = text.chars().take_while(fits).collect();
    let dots = ".".repeat(most.min(2));
    kept + &dots
}

/// With spaces behind it, so that it takes so many columns.
pub fn padded(text: &str, columns: usize) -> String {
    let spaces = " ".repeat(columns.saturating_sub(width(text)));
    text.to_owned() + &spaces
}

/// As many of these as have room, from the first on: no part is shown cut, since half a number is a wrong one.
pub fn fitting(parts: &[String], between: &str, columns: usize) -> String {
    let mut text = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let next = if text.is_empty() { part.clone() } else { format!("{text}{between}{part}") };
        if width(&next) > columns {
            break;
        }
        text = next;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_takes_six_letters_at_most() {
        let minute = 60_000;
        for (milliseconds, words) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1_000, "1.0 s"),
            (9_999, "9.9 s"),
            (59_999, "59 s"),
            (200_000, "3m20s"),
            (59 * minute + 59_000, "59m59s"),
            (60 * minute, "1h00m"),
            (24 * 60 * minute, "1 d"),
            (9_999 * 24 * 60 * minute, "9999 d"),
        ] {
            assert_eq!(time(milliseconds), words);
            assert!(words.len() <= 6, "{words}");
        }
        assert_eq!(fine_time(999), "999 us");
        assert_eq!(fine_time(1_500_000), "1.5 s");
    }

    #[test]
    fn a_rate_that_is_not_known_is_a_dash_and_none_is_nought() {
        assert_eq!(rate(None), "-");
        assert_eq!(rate(Some(0.0)), "0");
        assert_eq!(rate(Some(0.34)), "0.3");
        assert_eq!(rate(Some(9.97)), "10");
        assert_eq!(rate(Some(12_345.6)), "12,346");
    }

    #[test]
    fn a_part_that_has_no_room_is_left_out_as_a_whole() {
        let parts = ["waiting 640", "", "most 900"].map(str::to_owned);
        assert_eq!(fitting(&parts, "  ", 21), "waiting 640  most 900");
        assert_eq!(fitting(&parts, "  ", 20), "waiting 640");
        assert_eq!(fitting(&parts, "  ", 10), "");
    }

    #[test]
    fn names_of_any_bytes_are_escaped_and_cut_to_the_width() {
        assert_eq!(escaped(b"a\x1b[2J\r\n\xff\""), "a\\x1b[2J\\r\\n\\xff\\\"");
        assert_eq!(
            escaped("Überweisung für jürgen: 市場".as_bytes()),
            "Überweisung für jürgen: 市場"
        );
        assert_eq!(escaped("u\u{308}".as_bytes()), "u\u{308}");
        assert_eq!(escaped(b"\xc3\xbc\xc3"), "ü\\xc3");
        for hides in ["\u{202e}", "\u{200b}", "\u{85}", "\u{2028}", "\u{e000}", "\u{feff}"] {
            let shown = escaped(hides.as_bytes());
            assert!(shown.is_ascii() && shown.starts_with("\\x"), "{shown}");
        }
        assert_eq!(cut("市場市場", 8), "市場市場");
        assert_eq!(cut("市場市場", 7), "市場..");
        assert_eq!(cut("市場市場", 5), "市..");
        assert_eq!(padded("市場", 6), "市場  ");
        assert_eq!(cut("market", 6), "market");
        assert_eq!(cut("markets", 6), "mark..");
        assert_eq!(cut("markets", 1), ".");
        assert_eq!(cut("markets", 0), "");
    }
}
