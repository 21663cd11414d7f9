//! The page in a terminal, until its user quits.

use super::options::Options;
use super::page::{View, room};
use super::table::{Row, Sort, order};
use super::watch::{Watch, Wish};
use crate::cluster::Servers;
use crate::server::Trouble;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How soon the page hears of a signal.
const BLINK: Duration = Duration::from_millis(100);

/// How long the page has to end by itself after a signal.
const GRACE: Duration = Duration::from_secs(1);

/// What the one that asks has to say after each refresh.
type Report = Result<Watch, Trouble>;

/// Shows the page. The terminal is as it was before when this returns, also by a panic.
pub fn run(options: &Options) -> io::Result<()> {
    // No default action: a signal that ended us here would leave the terminal as it is.
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(number, Arc::clone(&signal), number as usize)?;
    }
    let heard = Arc::clone(&signal);
    thread::spawn(move || end_anyway(&heard));
    let (wishes, wished) = channel();
    let (reports, reported) = channel();
    let mut screen = Screen::new(options, wishes);
    // It asks on a thread of its own: while the server is silent, the keys work.
    let asked = options.clone();
    let wish = screen.wish.clone();
    thread::spawn(move || ask(&asked, wish, &wished, &reports));

    let mut terminal = ratatui::try_init()?;
    let ended = screen.show(&mut terminal, &reported, &signal);
    drop(terminal); // shows the cursor again
    ratatui::restore();
    let number = signal.load(Ordering::Relaxed);
    if number != 0 {
        // Its sender learns that it was this signal.
        signal_hook::low_level::emulate_default_handler(number as i32)?;
    }
    ended
}

/// Where the terminal has gone, waiting for a key never ends: it asks a closed terminal again and again. So the signal
/// that tells of it ends us from here.
fn end_anyway(signal: &AtomicUsize) {
    while signal.load(Ordering::Relaxed) == 0 {
        thread::sleep(BLINK);
    }
    thread::sleep(GRACE);
    ratatui::restore();
    _ = signal_hook::low_level::emulate_default_handler(signal.load(Ordering::Relaxed) as i32);
}

/// Asks at each interval, and as soon as something else is wished for; connects anew where the connection breaks.
fn ask(
    options: &Options,
    mut wish: Option<Wish>,
    wished: &Receiver<Option<Wish>>,
    reports: &Sender<Report>,
) {
    let mut server = None;
    let mut watch = Watch::default();
    loop {
        let began = Instant::now();
        if let Some(wish) = &wish {
            let report = refresh(&mut server, &mut watch, options, wish);
            if reports.send(report.map(|()| watch.clone())).is_err() {
                return;
            }
        }
        let rest = options.interval.saturating_sub(began.elapsed());
        // Without a wish it pauses.
        let next = match &wish {
            Some(_) => wished.recv_timeout(rest),
            None => wished.recv().map_err(RecvTimeoutError::from),
        };
        match next {
            Ok(next) => wish = wished.try_iter().last().unwrap_or(next),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn refresh(
    server: &mut Option<Servers>,
    watch: &mut Watch,
    options: &Options,
    wish: &Wish,
) -> Result<(), Trouble> {
    let mut connected = match server.take() {
        Some(connected) => connected,
        None => Servers::connect(&options.place, options.node, options.all)?,
    };
    let done = watch.refresh(&mut connected, wish);
    match done {
        // What it knew may be of another time.
        Err(Trouble::Gone(_) | Trouble::NoModule) => *watch = Watch::default(),
        // It may be a missing right, which comes to the connection as it is.
        _ => *server = Some(connected),
    }
    done
}

/// What is on the screen, and what the user has chosen by the keys.
struct Screen<'a> {
    options: &'a Options,
    wishes: Sender<Option<Wish>>,
    wish: Option<Wish>,
    watch: Watch,
    rows: Vec<Row>,
    trouble: Option<String>,
    sort: Sort,
    selected: usize,
    name: Option<Vec<u8>>,
    paused: bool,
    height: u16,
}

impl<'a> Screen<'a> {
    fn new(options: &'a Options, wishes: Sender<Option<Wish>>) -> Screen<'a> {
        let mut screen = Screen {
            options,
            wishes,
            wish: None,
            watch: Watch::default(),
            rows: Vec::new(),
            trouble: None,
            sort: Sort::default(),
            selected: 0,
            name: None,
            paused: false,
            height: 24,
        };
        screen.wish = Some(screen.wish());
        screen
    }

    fn wish(&self) -> Wish {
        Wish {
            sort: self.sort,
            rows: room(self.height).max(self.selected + 1),
            selected: self.name.clone(),
            keys: self.options.keys,
            patience: self.options.interval / 4,
        }
    }

    fn show(
        &mut self,
        terminal: &mut DefaultTerminal,
        reports: &Receiver<Report>,
        signal: &AtomicUsize,
    ) -> io::Result<()> {
        while signal.load(Ordering::Relaxed) == 0 {
            terminal.draw(|frame| {
                self.height = frame.area().height;
                frame.render_widget(&self.view(), frame.area());
            })?;
            if event::poll(BLINK)? && self.hear(&event::read()?) {
                return Ok(());
            }
            loop {
                match reports.try_recv() {
                    Ok(report) => self.learn(report),
                    Err(TryRecvError::Empty) => break,
                    // It has panicked, and the hook has restored the terminal.
                    Err(TryRecvError::Disconnected) => {
                        return Err(io::Error::other("the thread that asks the server has ended"));
                    }
                }
            }
        }
        Ok(())
    }

    fn view(&self) -> View<'_> {
        let corner = match self.paused {
            true => " PAUSED".to_owned(),
            false => format!(" every {:.1} s", self.options.interval.as_secs_f64()),
        };
        View {
            place: format!("{} db {}", self.options.place.name(), self.options.place.db),
            corner,
            watch: &self.watch,
            rows: &self.rows,
            sort: self.sort,
            selected: self.selected,
            trouble: self.trouble.as_deref(),
            keys: true,
        }
    }

    fn learn(&mut self, report: Report) {
        if self.paused {
            return;
        }
        match report {
            Ok(watch) => {
                self.trouble = None;
                self.rows = watch.table.rows().to_vec();
                self.watch = watch;
                self.put_in_order();
            }
            Err(trouble) => {
                let seconds = self.options.interval.as_secs_f64();
                self.trouble = Some(format!("{trouble}\n\nRetrying every {seconds:.1} s."));
                self.rows.clear();
                self.watch = Watch::default();
            }
        }
    }

    /// The lock that was selected stays so, wherever it stands now; if it is gone, the one that stands in its place.
    fn put_in_order(&mut self) {
        order(&mut self.rows, self.sort);
        let place = self.rows.iter().position(|row| Some(&row.name) == self.name.as_ref());
        self.selected = place.unwrap_or(self.selected).min(self.rows.len().saturating_sub(1));
    }

    /// Is it over?
    fn hear(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else {
            return false;
        };
        if key.kind != KeyEventKind::Press {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected + 1),
            KeyCode::Home => self.select(0),
            KeyCode::Char('w') => self.sort_by(Sort::Waiters),
            KeyCode::Char('l') => self.sort_by(Sort::Waited),
            KeyCode::Char('h') => self.sort_by(Sort::Held),
            KeyCode::Char('t') => self.sort_by(Sort::Left),
            KeyCode::Char('n') => self.sort_by(Sort::Holders),
            _ => return false,
        }
        let wish = (!self.paused).then(|| self.wish());
        // If it is not heard, the next look at the reports says so.
        _ = self.wishes.send(wish);
        false
    }

    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
        self.name = self.rows.get(self.selected).map(|row| row.name.clone());
    }

    /// What is on the screen is put in order at once, and what was not seen hot by the old order comes with the scan.
    fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.name = None;
        self.selected = 0;
        self.put_in_order();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::Lock;
    use crate::place::Environment;
    use ratatui::crossterm::event::KeyEvent;

    fn screen(options: &Options) -> (Screen<'_>, Receiver<Option<Wish>>) {
        let (wishes, wished) = channel();
        (Screen::new(options, wishes), wished)
    }

    fn options() -> Options {
        Options::read([], Environment::default()).unwrap().unwrap()
    }

    fn press(screen: &mut Screen<'_>, key: KeyCode) -> bool {
        screen.hear(&Event::Key(KeyEvent::new(key, KeyModifiers::NONE)))
    }

    fn report(names: &[(&str, u64)]) -> Report {
        let mut watch = Watch::default();
        let row = |&(name, queue): &(&str, u64)| Row {
            name: name.into(),
            lock: Lock { queue, ..Lock::default() },
            seen: Instant::now(),
        };
        watch.table.learn(&[], names.iter().map(row).collect(), Sort::Waiters);
        Ok(watch)
    }

    #[test]
    fn the_selection_follows_its_lock_and_not_its_place() {
        let options = options();
        let (mut screen, _wished) = screen(&options);
        screen.learn(report(&[("a", 3), ("b", 2), ("c", 1)]));
        press(&mut screen, KeyCode::Down);
        screen.learn(report(&[("a", 3), ("b", 9), ("c", 1)]));
        assert_eq!((screen.selected, screen.rows[0].name.as_slice()), (0, &b"b"[..]));
        screen.learn(report(&[("c", 1)]));
        press(&mut screen, KeyCode::Down);
        assert_eq!(screen.selected, 0);
    }

    #[test]
    fn a_pause_keeps_the_page_and_asks_nothing() {
        let options = options();
        let (mut screen, wished) = screen(&options);
        screen.learn(report(&[("a", 3)]));
        press(&mut screen, KeyCode::Char('p'));
        assert!(wished.try_recv().unwrap().is_none());
        screen.learn(report(&[]));
        assert_eq!(screen.rows.len(), 1);
        press(&mut screen, KeyCode::Char('p'));
        assert!(wished.try_recv().unwrap().is_some());
    }

    #[test]
    fn trouble_takes_the_rows_away_and_goes_with_the_next_good_reply() {
        let options = options();
        let (mut screen, _wished) = screen(&options);
        screen.learn(report(&[("a", 3)]));
        screen.learn(Err(Trouble::Gone("Connection refused".to_owned())));
        assert!(
            screen.rows.is_empty()
                && screen.trouble.as_ref().unwrap().contains("Connection refused")
        );
        screen.learn(report(&[("a", 3)]));
        assert!(screen.trouble.is_none() && screen.rows.len() == 1);
    }

    #[test]
    fn q_escape_and_ctrl_c_end_it() {
        let options = options();
        let (mut screen, _wished) = screen(&options);
        assert!(press(&mut screen, KeyCode::Char('q')) && press(&mut screen, KeyCode::Esc));
        assert!(!press(&mut screen, KeyCode::Char('c')));
        assert!(screen.hear(&Event::Key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL))));
    }
}
