//! Patterns as the server's MATCH has them. No module can ask the server for that.

/// Does this text fit the pattern? `*`, `?`, `[a-z]`, `[^a]` and `\` mean what they mean to SCAN and KEYS.
pub fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Where to go on if what follows the last star does not fit: with one byte more for the star.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            retry = Some((rest, text));
            pattern = rest;
            continue;
        }
        let fits_here = match (pattern, text) {
            ([], []) => return true,
            ([..], [byte, left @ ..]) => one(pattern, *byte).map(|rest| (rest, left)),
            _ => None,
        };
        match (fits_here, retry) {
            (Some((rest, left)), _) => (pattern, text) = (rest, left),
            (None, Some((rest, [_, left @ ..]))) => {
                retry = Some((rest, left));
                (pattern, text) = (rest, left);
            }
            (None, _) => return false,
        }
    }
}

/// What follows in the pattern, if what comes first in it stands for this byte.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some(rest),
        [b'[', rest @ ..] => {
            let (includes, rest) = class(rest, byte);
            includes.then_some(rest)
        }
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte).then_some(rest),
    }
}

/// Is the byte in this class, and what follows its end? One that does not end goes on to the end.
fn class(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_negated, mut left) = match class {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut includes = false;
    loop {
        match left {
            [] => break,
            [b']', rest @ ..] => {
                left = rest;
                break;
            }
            [from, b'-', to, rest @ ..] if *from != b'\\' => {
                let (from, to) = (from.min(to), from.max(to));
                includes |= (*from..=*to).contains(&byte);
                left = rest;
            }
            [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
                includes |= *literal == byte;
                left = rest;
            }
        }
    }
    (includes != is_negated, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_the_server() {
        for (pattern, fitting, others) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "a*b"], &[]),
            ("market:*", &["market:", "market:1"], &["market", "amarket:1"]),
            ("*:x", &[":x", "a:x", "a:x:x"], &["a:xy", "x"]),
            ("a*b*c", &["abc", "a1b2c", "abbcbc"], &["ab", "acb"]),
            ("h?llo", &["hello", "h*llo"], &["hllo", "heello"]),
            ("h[ae]llo", &["hallo", "hello"], &["hillo"]),
            ("h[^e]llo", &["hallo"], &["hello", "hllo"]),
            ("h[a-c]llo", &["hbllo"], &["hdllo"]),
            ("h[c-a]llo", &["hbllo"], &["hdllo"]),
            ("a\\*", &["a*"], &["ab", "a\\*"]),
            ("a\\", &["a\\"], &["a"]),
            ("[ab", &["a", "b"], &["c", "ab"]),
            ("[\\]]", &["]"], &["\\"]),
        ] {
            for (texts, verdict) in [(fitting, true), (others, false)] {
                for text in texts {
                    let fits = fits(pattern.as_bytes(), text.as_bytes());
                    assert_eq!(fits, verdict, "{pattern}, {text}");
                }
            }
        }
        // No pattern takes long: each star is forgotten when the next one is met.
        let many = [b"a*".repeat(200), b"b".to_vec()].concat();
        assert!(!fits(&many, &b"a".repeat(2000)));
    }
}
