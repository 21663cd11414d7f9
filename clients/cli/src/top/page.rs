//! The page: what stands where.

use super::lines::{ROOM_FOR_CLIENTS, columns, group, holder, lock_line, waiter};
use super::table::{Row, Sort};
use super::watch::{Round, Watch};
use crate::words::{count, cut, escaped, fine_time, fitting, padded, rate, time, width};
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget, Wrap};
use std::time::Instant;

/// Lines above the rows: six of numbers, and the names of the columns.
const HEAD: u16 = 7;
/// Lines for the holders and waiters of one lock, at most.
const BELOW: u16 = 14;

/// From this width on the lines have all their words.
const ROOM_FOR_ALL: u16 = 78;

/// All that the page shows.
pub struct View<'a> {
    /// Where the server is.
    pub place: String,
    /// What is said at the right of the first line.
    pub corner: String,
    /// What is known of the server.
    pub watch: &'a Watch,
    /// The hottest first.
    pub rows: &'a [Row],
    /// By what.
    pub sort: Sort,
    /// Which row's holders and waiters stand below.
    pub selected: usize,
    /// Why there is nothing to show.
    pub trouble: Option<&'a str>,
    /// Are keys read? Then the page says what they do.
    pub keys: bool,
}

/// The height of a page without keys that has all of so many rows.
pub fn height(rows: usize) -> u16 {
    u16::try_from(rows.max(1)).unwrap_or(u16::MAX / 2) + HEAD + BELOW
}

/// How many rows have room on a page of this height.
pub fn room(height: u16) -> usize {
    let [_, rows, ..] = parts(Rect::new(0, 0, 1, height), true);
    usize::from(rows.height)
}

/// Above, the rows, the holders and waiters of one of them, and what the keys do.
fn parts(area: Rect, keys: bool) -> [Rect; 4] {
    let below = area.height.saturating_sub(HEAD);
    let one = if keys { (below * 2 / 5).clamp(4.min(below), BELOW) } else { BELOW };
    Layout::vertical([
        Constraint::Length(HEAD),
        Constraint::Fill(1),
        Constraint::Length(one),
        Constraint::Length(keys.into()),
    ])
    .areas(area)
}

impl Widget for &View<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let [head, rows, one, keys] = parts(area, self.keys);
        self.head(head, buffer);
        if let Some(trouble) = self.trouble {
            let text = Paragraph::new(trouble).style(alarm()).wrap(Wrap { trim: true });
            text.render(rows, buffer);
        } else {
            self.rows(rows, buffer);
            self.one(one, buffer);
        }
        let sorts = ["w waiters", "l longest", "h held", "t left", "n holders"];
        let said = if area.width < ROOM_FOR_ALL {
            let all: Vec<_> =
                ["q quit", "p pause"].iter().chain(&sorts).map(|&key| key.to_owned()).collect();
            fitting(&all, " ", usize::from(area.width))
        } else {
            format!("q quit  p pause  up/down  sort by: {}", sorts.join(" "))
        };
        put(buffer, keys, 0, &said, faint());
    }
}

impl View<'_> {
    fn head(&self, area: Rect, buffer: &mut Buffer) {
        let watch = self.watch;
        let word = |name| watch.counters.as_ref().and_then(|counters| counters.word(name));
        let number = |name| {
            let number = watch.counters.as_ref().and_then(|counters| counters.number(name));
            number.map_or("-".to_owned(), count)
        };
        let wait = |name| {
            let number = watch.counters.as_ref().and_then(|counters| counters.number(name));
            number.map_or("-".to_owned(), fine_time)
        };
        let per_second = |name| {
            let both = watch.counters.as_ref().zip(watch.before.as_ref());
            both.and_then(|(counters, before)| counters.rate(before, name))
        };
        let rate = |name| rate(per_second(name));

        let server = match (word("valkey_version"), word("redis_version")) {
            (Some(version), _) => format!("  Valkey {version}"),
            (None, Some(version)) => format!("  Redis {version}"),
            (None, None) => String::new(),
        };
        let mode = word("redis_mode").or(word("server_mode"));
        let role = match (word("role"), mode) {
            (Some("slave"), _) => ", a replica: only its master knows who waits",
            (_, Some("cluster")) => match word("locktop_masters") {
                Some(masters) => &format!(", a cluster: the locks of its {masters} masters"),
                None => ", a cluster's node: its own locks",
            },
            _ => "",
        };
        let title = format!("locktop  {}{server}{role}", self.place);
        let corner = u16::try_from(self.corner.len()).unwrap_or(0);
        let title = cut(&title, usize::from(area.width.saturating_sub(corner)));
        put(buffer, area, 0, &title, Style::new().add_modifier(Modifier::BOLD));
        let [_, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(corner)]).areas(area);
        put(buffer, right, 0, &self.corner, faint());

        let is_narrow = area.width < ROOM_FOR_ALL;
        let of_them = if is_narrow { "" } else { "of them " };
        let grants = [
            format!("granted {}/s", rate("lock_acquired_total")),
            format!("{of_them}after a wait {}/s", rate("lock_acquired_after_wait_total")),
            format!("released {}/s", rate("lock_released_total")),
            format!("busy {}/s", rate("lock_busy_total")),
        ];
        fields(buffer, area, 1, &grants, Style::new());
        let too_late = if is_narrow {
            let both = ["lock_release_refused_total", "lock_renew_refused_total"];
            let sum = both.iter().filter_map(|name| per_second(name)).sum::<f64>();
            format!("too late {}/s", crate::words::rate(Some(sum)))
        } else {
            format!(
                "too late: release {}/s renew {}/s",
                rate("lock_release_refused_total"),
                rate("lock_renew_refused_total"),
            )
        };
        let losses = [
            format!("timed out {}/s", rate("lock_wait_timeouts_total")),
            format!("expired {}/s", rate("lock_expired_total")),
            too_late,
            format!("evicted {}/s", rate("lock_evicted_total")),
        ];
        let alarms = [
            "lock_expired_total",
            "lock_release_refused_total",
            "lock_renew_refused_total",
            "lock_evicted_total",
        ];
        let is_calm = alarms.iter().all(|name| per_second(name).unwrap_or(0.0) == 0.0);
        fields(buffer, area, 2, &losses, if is_calm { Style::new() } else { alarm() });
        let waits = [
            format!("waiting {}", number("lock_waiters")),
            format!("last minute: most {}", watch.recent.most().map_or("-".to_owned(), count)),
            format!("longest {}", watch.recent.longest().map_or("-".to_owned(), time)),
        ];
        fields(buffer, area, 3, &waits, Style::new());
        let waits = [
            format!("since load: most {}", number("lock_waiters_peak")),
            format!("waits: half {}", wait("lock_wait_usec_p50")),
            format!("99 % {}", wait("lock_wait_usec_p99")),
            format!("99.9 % {}", wait("lock_wait_usec_p999")),
        ];
        fields(buffer, area, 4, &waits, faint());
        let contended =
            watch.counters.as_ref().and_then(|counters| counters.number("lock_contended_keys"));
        let found = found(watch.table.contended() as u64, contended, &watch.round, watch.at);
        let found = fitting(&found, "; ", usize::from(area.width));
        put(buffer, area, 5, &found, faint());
        let reverse = Style::new().add_modifier(Modifier::REVERSED);
        let name =
            |sort: Sort, name: &str| format!("{}{name}", if sort == self.sort { "*" } else { "" });
        let names = columns(
            area.width,
            "LOCK",
            "MODE",
            [
                &name(Sort::Waiters, "WAIT"),
                &name(Sort::Waited, "LONGEST"),
                &name(Sort::Holders, "HOLD"),
                &name(Sort::Held, "HELD"),
                &name(Sort::Left, "LEFT"),
            ],
            "OWNER",
            "FROM",
        );
        put(buffer, area, 6, &padded(&names, usize::from(area.width)), reverse);
    }

    fn rows(&self, area: Rect, buffer: &mut Buffer) {
        let shown = usize::from(area.height);
        // The selected one is in sight.
        let first = (self.selected + 1).saturating_sub(shown);
        for (line, row) in (0..area.height).zip(self.rows.iter().skip(first)) {
            let lock = row.now(self.watch.at);
            let is_selected = first + usize::from(line) == self.selected;
            let style = match lock.queue {
                _ if is_selected && self.keys => Style::new().fg(Color::Black).bg(Color::Cyan),
                0 => Style::new(),
                _ => Style::new().fg(Color::Yellow),
            };
            let text = lock_line(area.width, &row.name, &lock);
            let text = if is_selected { padded(&text, usize::from(area.width)) } else { text };
            put(buffer, area, line, &text, style);
        }
        if self.rows.is_empty() {
            put(buffer, area, 0, "no lock seen so far", faint());
        }
    }

    /// The holders and the queue of the one that is selected, side by side, and the groups of a fair limit.
    fn one(&self, area: Rect, buffer: &mut Buffer) {
        let Some(row) = self.rows.get(self.selected) else {
            return;
        };
        let lock = row.now(self.watch.at);
        let width = usize::from(area.width).saturating_sub(1);
        let from = lock.holders.first().map_or(String::new(), |one| one.from.said());
        let title = match cut(&escaped(&row.name), width) {
            name if from.is_empty() => format!("{name} "),
            name => format!("{} ", cut(&format!("{name}  held from {from}"), width)),
        };
        let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        put(buffer, area, 0, &padded(&title, usize::from(area.width)), bold);
        let below =
            Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
        let lists = if lock.groups.is_empty() { 2 } else { 3 };
        let areas = Layout::horizontal(vec![Constraint::Fill(1); lists]).spacing(2).split(below);
        let [left, right, ref groups @ ..] = areas[..] else {
            return;
        };
        let width = left.width;
        let holders = lock.holders.iter().map(|one| holder(width, one)).collect();
        list(
            left,
            buffer,
            &format!("HELD BY {}", count(lock.count)),
            if width < ROOM_FOR_CLIENTS { "  HELD   LEFT" } else { "  HELD   LEFT  CLIENT" },
            holders,
            lock.count,
        );
        let width = right.width;
        let waiters = lock.waiters.iter().map(|one| waiter(width, one)).collect();
        list(
            right,
            buffer,
            &format!("WAITING {}", count(lock.queue)),
            if width < ROOM_FOR_CLIENTS { "MODE WAITED" } else { "MODE WAITED  CLIENT" },
            waiters,
            lock.queue,
        );
        for &area in groups {
            let lines = lock.groups.iter().map(|one| group(area.width, one)).collect();
            list(area, buffer, "GROUPS", "HOLD  WAIT     ", lines, lock.groups.len() as u64);
        }
    }
}

/// A title, the names of the columns, and as many lines as have room; the last one says how many have none.
fn list(area: Rect, buffer: &mut Buffer, title: &str, columns: &str, lines: Vec<String>, all: u64) {
    let width = usize::from(area.width).saturating_sub(title.len());
    let columns = if columns.len() < width { columns } else { "" };
    put(buffer, area, 0, &format!("{title}{columns:>width$}"), faint());
    let room = usize::from(area.height.saturating_sub(1));
    let fit = if all as usize > room { room.saturating_sub(1) } else { room };
    let shown = lines.len().min(fit);
    for (at, line) in (1..).zip(lines.iter().take(shown)) {
        put(buffer, area, at, line, Style::new());
    }
    let more = all.saturating_sub(shown as u64);
    if more > 0 {
        put(
            buffer,
            area,
            area.height.saturating_sub(1),
            &format!("and {} more", count(more)),
            faint(),
        );
    }
}

/// How much of it all has been seen.
fn found(contended: u64, of: Option<u64>, round: &Round, now: Instant) -> [String; 3] {
    let waited_for = match of {
        Some(of) if of > contended => {
            format!("{} of {} locks with a queue found so far", count(contended), count(of))
        }
        _ => format!("{} locks with a queue, all found", count(contended)),
    };
    let looked = match (round.last, round.began) {
        (Some((met, _, took)), _) => {
            format!("a round of {} locks takes {}", count(met), time(took.as_millis() as u64))
        }
        (None, Some(began)) => {
            let since = now.saturating_duration_since(began).as_millis() as u64;
            format!("{} locks in {}, the round goes on", count(round.met), time(since))
        }
        (None, None) => return Default::default(),
    };
    let hidden = round.last.map_or(round.hidden, |(_, hidden, _)| hidden);
    let hidden =
        if hidden > 0 { format!("{} may not be read", count(hidden)) } else { String::new() };
    [waited_for, looked, hidden]
}

/// Writes into a line those of the parts that have room there.
fn fields(buffer: &mut Buffer, area: Rect, line: u16, parts: &[String], style: Style) {
    put(buffer, area, line, &fitting(parts, "  ", usize::from(area.width)), style);
}

/// Writes into a line what has room there.
fn put(buffer: &mut Buffer, area: Rect, line: u16, text: &str, style: Style) {
    if line < area.height {
        let line = Rect { y: area.y.saturating_add(line), height: 1, ..area };
        Line::styled(text, style).render(line, buffer);
    }
}

fn faint() -> Style {
    Style::new().fg(Color::DarkGray)
}

fn alarm() -> Style {
    Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
}

/// The page as plain text.
pub fn text(view: &View<'_>, columns: u16, height: u16) -> String {
    let area = Rect::new(0, 0, columns, height);
    let mut buffer = Buffer::empty(area);
    view.render(area, &mut buffer);
    let lines = (0..height).map(|y| {
        let (mut line, mut taken) = (String::new(), 0);
        for (x, cell) in (0..columns).filter_map(|x| Some((x, buffer.cell((x, y))?))) {
            // A letter of two columns has a cell without meaning behind it.
            if usize::from(x) >= taken {
                line += cell.symbol();
                taken = usize::from(x) + width(cell.symbol()).max(1);
            }
        }
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{From, Group, Holder, Lock, Waiter};
    use crate::top::counters::Counters;
    use std::time::Duration;

    fn waiters(queue: u64) -> Vec<Waiter> {
        let waiter = |number| Waiter {
            owner: format!("waiter-{number}").into(),
            mode: "exclusive".to_owned(),
            waited: 12_000 - number,
            client: Some(100 + number),
            ..Waiter::default()
        };
        (0..queue.min(100)).map(waiter).collect()
    }

    fn row(name: &[u8], queue: u64, seen: Instant) -> Row {
        let holder = Holder {
            owner: Some(b"ann".to_vec()),
            left: Some(7_900),
            held: Some(2_100),
            fence: Some(1_795_236_375_515_000),
            client: Some(12),
            from: From {
                name: Some("shop@web-3".to_owned()),
                address: Some("10.0.0.7:50482".to_owned()),
            },
            claim: None,
        };
        let lock = Lock {
            mode: "exclusive".to_owned(),
            holders: vec![holder],
            count: 1,
            waiters: waiters(queue),
            queue,
            groups: Vec::new(),
        };
        Row { name: name.to_vec(), lock, seen }
    }

    fn watch(now: Instant) -> Watch {
        let info = |granted: u64, expired: u64, at| {
            let text = format!(
                "redis_version:7.0.15\r\nrole:master\r\nlock_acquired_total:{granted}\r\nlock_expired_total:{expired}\r\n\
                 lock_waiters:640\r\nlock_waiters_peak:900\r\nlock_contended_keys:3\r\nlock_wait_usec_p99:120000\r\n"
            );
            Some(Counters::read(&text, at))
        };
        let mut watch = Watch::default();
        watch.counters = info(2_400, 3, now);
        watch.before = info(0, 0, now - Duration::from_secs(2));
        watch.round.began = Some(now - Duration::from_secs(4));
        watch.round.met = 8_000;
        watch
    }

    fn shown(
        rows: &[Row],
        selected: usize,
        trouble: Option<&str>,
        (width, height): (u16, u16),
    ) -> String {
        let now = rows.first().map_or_else(Instant::now, |row| row.seen);
        let mut watch = watch(now);
        watch.at = now;
        watch.recent.learn(now, 700, 12_000);
        watch.table.learn(&[], rows.to_vec(), Sort::Waiters);
        let view = View {
            place: "127.0.0.1:6379".to_owned(),
            corner: "every 1.0 s".to_owned(),
            watch: &watch,
            rows,
            sort: Sort::Waiters,
            selected,
            trouble,
            keys: true,
        };
        text(&view, width, height)
    }

    #[test]
    fn a_page_of_80_by_24_says_who_holds_who_waits_for_how_long_and_how_often() {
        let now = Instant::now();
        let page = shown(&[row(b"market", 640, now), row(b"bank", 0, now)], 0, None, (80, 24));
        for said in [
            "locktop  127.0.0.1:6379  Redis 7.0.15",
            "every 1.0 s",
            "granted 1,200/s",
            "expired 1.5/s",
            "waiting 640  last minute: most 700  longest 12 s",
            "since load: most 900",
            "99 % 120 ms",
            "1 of 3 locks with a queue found so far; 8,000 locks in 4.0 s, the round goes on",
            "market             excl       640    12 s       1   2.1 s   7.9 s  ann",
            "bank               excl         0       -       1   2.1 s   7.9 s  ann",
            "ann                2.1 s  7.9 s      12",
            "waiter-0            excl   12 s     100",
            "and 637 more",
            "n holders",
        ] {
            assert!(page.contains(said), "{said}\n{page}");
        }
        assert_eq!(page.lines().count(), 24);
        assert!(page.lines().all(|line| line.len() <= 80), "{page}");
    }

    #[test]
    fn a_wide_page_has_the_names_of_connections_and_a_very_wide_one_the_fencing_number() {
        let now = Instant::now();
        let page = shown(&[row(b"market", 0, now)], 0, None, (120, 40));
        assert!(page.contains("7.9 s  ann"), "{page}");
        assert!(page.lines().any(|line| line.trim_end().ends_with("FROM")), "{page}");
        assert!(page.contains("market  held from shop@web-3  10.0.0.7:50482"), "{page}");
        let page = shown(&[row(b"market", 0, now)], 0, None, (200, 40));
        assert!(page.contains("fence 1795236375515000"), "{page}");
    }

    #[test]
    fn the_groups_of_a_fair_limit_stand_beside_its_queue() {
        let now = Instant::now();
        let mut jobs = row(b"jobs", 640, now);
        let group = |name: &str, holders, waiters, next| Group {
            name: name.into(),
            holders,
            waiters,
            next,
        };
        jobs.lock.groups = vec![group("zoo", 0, 1, true), group("acme", 3, 639, false)];
        let page = shown(&[jobs], 0, None, (80, 24));
        let lines: Vec<&str> = page.lines().map(str::trim_end).collect();
        let at = lines.iter().position(|line| line.ends_with("HOLD  WAIT")).unwrap();
        assert!(lines[at].contains("GROUPS") && lines[at].contains("WAITING 640"), "{page}");
        assert!(lines[at + 1].ends_with("  zoo          0     1 next"), "{page}");
        assert!(lines[at + 2].ends_with("  acme         3   639"), "{page}");
    }

    #[test]
    fn a_page_of_60_letters_keeps_all_its_headings() {
        let now = Instant::now();
        let page = shown(&[row(b"market", 640, now)], 0, None, (60, 24));
        for said in [
            "LOCK",
            "MODE",
            "*WAIT",
            "LONGEST",
            "HELD",
            "OWNER",
            "HELD BY 1",
            "HELD   LEFT",
            "WAITING 640",
            "MODE WAITED",
            "after a wait",
            "evicted -/s",
            "99.9 %",
            "n holders",
            "held from shop@web-3",
        ] {
            assert!(page.contains(said), "{said}\n{page}");
        }
        assert!(page.contains("ann              2.1 s  7.9 s"), "{page}");
    }

    #[test]
    fn no_number_is_cut_on_a_page_of_any_width() {
        let now = Instant::now();
        let rows = [row("Überweisung:市場".as_bytes(), 1_234_567, now)];
        let wide = shown(&rows, 0, None, (200, 24));
        let parts = |line: &str, between: &str| -> Vec<String> {
            line.split(between).map(|part| part.trim().to_owned()).collect()
        };
        for columns in 20..120 {
            let page = shown(&rows, 0, None, (columns, 24));
            for (at, between) in [(3, "  "), (4, "  "), (5, "; ")] {
                let all = parts(wide.lines().nth(at).unwrap(), between);
                let line = page.lines().nth(at).unwrap();
                assert!(all.starts_with(&parts(line, between)) || line.is_empty(), "{page}");
            }
            for part in parts(page.lines().nth(1).unwrap(), "  ") {
                assert!(part.is_empty() || part.ends_with("/s"), "{part}\n{page}");
            }
        }
    }

    #[test]
    fn letters_of_any_language_are_shown_and_take_the_columns_that_they_have() {
        let now = Instant::now();
        let rows = [row("Überweisung".as_bytes(), 0, now), row("市場".as_bytes(), 0, now)];
        let page = shown(&rows, 0, None, (80, 24));
        assert!(page.contains("Überweisung        excl "), "{page}");
        assert!(page.contains("市場               excl "), "{page}");
        let page = shown(&[row("市".repeat(40).as_bytes(), 0, now)], 0, None, (80, 24));
        assert!(page.contains(&format!("{}..", "市".repeat(8))), "{page}");
        assert!(page.lines().all(|line| width(line) <= 80), "{page}");
    }

    #[test]
    fn a_name_of_any_bytes_stays_in_its_column() {
        let now = Instant::now();
        let name = b"\x1b[2J\r\nlong and longer and longer still \xff\xfe".repeat(9);
        let page = shown(&[row(&name, 1, now), row(b"market", 0, now)], 0, None, (80, 24));
        assert!(page.contains("\\x1b[2J\\r\\nlong .. excl"), "{page}");
        assert!(page.lines().all(|line| line.len() <= 80 && !line.contains('\x1b')), "{page}");
    }

    #[test]
    fn the_row_that_is_selected_is_in_sight_and_its_holders_are_below() {
        let now = Instant::now();
        let rows: Vec<Row> =
            (0..100).map(|number| row(format!("lock-{number}").as_bytes(), 0, now)).collect();
        let page = shown(&rows, 60, None, (80, 24));
        assert_eq!(page.matches("lock-60").count(), 2, "{page}");
        assert!(!page.contains("lock-61") && !page.contains("lock-0 "), "{page}");
    }

    #[test]
    fn trouble_stands_in_the_place_of_the_rows() {
        let page = shown(&[], 0, Some("no connection to the server: Connection refused"), (80, 24));
        assert!(page.contains("no connection to the server: Connection refused"), "{page}");
    }

    #[test]
    fn no_page_is_too_small() {
        let now = Instant::now();
        for size in [(1, 1), (10, 3), (20, 7), (40, 12), (300, 100)] {
            shown(&[row(b"market", 640, now)], 0, None, size);
            shown(&[], 0, Some("trouble"), size);
        }
    }
}
