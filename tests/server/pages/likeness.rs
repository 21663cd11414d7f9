//! Is an answer the one that the page shows, but for what can't be known beforehand? The rules stand
//! in the head of `pages.rs`.

use std::cmp::Ordering;

/// What a transcript has shown so far.
#[derive(Clone, Default)]
pub struct Likeness {
    /// The numbers that its commands have said.
    said: Vec<u64>,
    /// Long numbers: the page's, and the server's.
    seen: Vec<(String, String)>,
}

/// What may stand in a line.
#[derive(Clone, Copy)]
enum Kind {
    Exact,
    /// A time that runs.
    Left,
    /// How long something has been so.
    Since,
    /// A connection's number.
    Client,
    /// A connection's address, whose port the client's system chose.
    Address,
}

/// Commands that answer a time that runs.
const CLOCKS: [&str; 2] = ["LOCK.CHECK", "PTTL"];

const MOST_SINCE: u64 = 10_000;

impl Likeness {
    pub fn hear_command(&mut self, words: &[String]) {
        self.said.extend(words.iter().filter_map(|word| word.parse::<u64>().ok()));
    }

    /// Compares the answer to this command; what it learns stays if they are alike.
    pub fn is_alike(&mut self, command: &str, page: &[String], real: &[String]) -> bool {
        let at_first = match CLOCKS.iter().any(|clock| command.eq_ignore_ascii_case(clock)) {
            true => Kind::Left,
            false => Kind::Exact,
        };
        let learned = self.clone().lines_match(page, real, at_first);
        learned.is_some_and(|learned| {
            *self = learned;
            true
        })
    }

    fn lines_match(mut self, page: &[String], real: &[String], kind: Kind) -> Option<Likeness> {
        let Some((first, rest)) = page.split_first() else {
            return real.is_empty().then_some(self);
        };
        if first.trim() == "..." {
            return (0..=real.len()).find_map(|skipped| {
                let next = self.clone();
                next.lines_match(rest, &real[skipped..], Kind::Exact)
            });
        }
        let (line, others) = real.split_first()?;
        let kind = kind_within(line).unwrap_or(kind);
        if !self.line_matches(first, line, kind) {
            return None;
        }
        self.lines_match(rest, others, kind_after(line))
    }

    fn line_matches(&mut self, page: &str, real: &str, kind: Kind) -> bool {
        if page.contains("...") {
            return matches_with_gaps(page, real);
        }
        let numbers = integer_at_end(page).zip(integer_at_end(real));
        match (kind, numbers) {
            (Kind::Address, _) => without_port(page) == without_port(real),
            (Kind::Exact, _) | (_, None) => self.texts_match(page, real),
            (_, Some((page_number, real_number))) => {
                let same_before = page.strip_suffix(&page_number.to_string())
                    == real.strip_suffix(&real_number.to_string());
                same_before
                    && [page_number, real_number].iter().all(|&number| match kind {
                        Kind::Left => self.has_just_been_said(page_number, number),
                        Kind::Since => number < MOST_SINCE,
                        Kind::Client => number > 0,
                        Kind::Exact | Kind::Address => true,
                    })
            }
        }
    }

    fn has_just_been_said(&self, on_page: u64, left: u64) -> bool {
        let said = (self.said.iter()).filter(|&&said| said >= on_page).min();
        said.is_some_and(|&said| left <= said && left > said / 2)
    }

    fn texts_match(&mut self, page: &str, real: &str) -> bool {
        let (page, page_numbers) = without_long_numbers(&without_uuids(page));
        let (real, real_numbers) = without_long_numbers(&without_uuids(real));
        page == real
            && (page_numbers.into_iter().zip(real_numbers))
                .all(|(page, real)| self.fits_those_before(page, real))
    }

    fn fits_those_before(&mut self, page: String, real: String) -> bool {
        let order = |one: &str, other: &str| -> Option<Ordering> {
            (one.len() == other.len()).then(|| one.cmp(other))
        };
        let fits = page.len() == real.len()
            && (self.seen.iter()).all(|(earlier_page, earlier_real)| {
                order(earlier_page, &page) == order(earlier_real, &real)
            });
        self.seen.push((page, real));
        fits
    }
}

/// `3# "ttl" => (integer) 5` says itself what it is.
fn kind_within(line: &str) -> Option<Kind> {
    let (before, _) = line.split_once(" => ")?;
    Some(kind_after(before))
}

/// In RESP2 the name stands on the line before.
fn kind_after(line: &str) -> Kind {
    match line.rsplit(' ').next() {
        Some("\"ttl\"") => Kind::Left,
        Some("\"held\"" | "\"waited\"" | "\"age\"" | "\"late\"") => Kind::Since,
        Some("\"client\"") => Kind::Client,
        Some("\"client-addr\"") => Kind::Address,
        _ => Kind::Exact,
    }
}

/// `"127.0.0.1:50482"`, but for the number.
fn without_port(line: &str) -> Option<(&str, bool)> {
    let (before, port) = line.trim_end_matches('"').rsplit_once(':')?;
    Some((before, port.parse::<u16>().is_ok()))
}

fn integer_at_end(line: &str) -> Option<u64> {
    line.split_once("(integer) ")?.1.parse().ok()
}

/// The parts between the gaps stand in the line, in this order, the first and the last at its ends.
fn matches_with_gaps(page: &str, real: &str) -> bool {
    let parts: Vec<_> = page.split("...").collect();
    let [first, inner @ .., last] = parts.as_slice() else {
        return page == real;
    };
    let middle = (real.strip_prefix(first)).and_then(|rest| rest.strip_suffix(last));
    middle.is_some_and(|middle| {
        let mut inner = inner.iter();
        (inner.try_fold(middle, |rest, part| Some(rest.split_once(part)?.1))).is_some()
    })
}

/// Each run of 13 or more digits, taken out.
fn without_long_numbers(line: &str) -> (String, Vec<String>) {
    let (mut text, mut numbers) = (String::new(), Vec::new());
    let mut rest = line;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        text.push_str(before);
        if digits.len() >= 13 {
            text.push('\0');
            numbers.push(digits.to_owned());
        } else {
            text.push_str(digits);
        }
        rest = after;
    }
    (text + rest, numbers)
}

/// Each UUID, as 8-4-4-4-12 hexadecimal digits, made the same.
fn without_uuids(line: &str) -> String {
    let is_uuid = |part: &str| {
        part.len() == 36
            && (part.split('-').map(str::len)).eq([8, 4, 4, 4, 12])
            && part.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
    };
    let parts = line.split('"');
    let parts: Vec<_> = parts.map(|part| if is_uuid(part) { "(uuid)" } else { part }).collect();
    parts.join("\"")
}
