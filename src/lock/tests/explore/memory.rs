//! A world's memory lies in one piece, so a moment of it is kept by copying that piece, and come back to by
//! copying it back: whatever it is made of, shared pieces and cells included, and all at the same places. The
//! core need know nothing of that, where copying a world as a value would ask it of each of its types.
//!
//! So the tests have an allocator of their own. What is allocated while a world acts lies in the piece of
//! this thread, everything else where it always does.
#![allow(unsafe_code, reason = "an allocator, and copies of what it has given")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::{copy_nonoverlapping, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lock::tests::model::Verdict;

/// A world takes up some twenty thousand bytes; in a cluster, where slots leave, a few hundred thousand.
const SIZE: usize = 4 << 20;

/// So many worlds at once.
pub const MOST: usize = 64;

/// What is allocated is a multiple of this, and so is where it lies.
const STEP: usize = 16;

/// What is freed is given out again to the next that asks for as many steps, or for as many doublings if it is
/// larger than these.
const STEPS: usize = 64;
const CLASSES: usize = STEPS + 16;

#[global_allocator]
static MEMORY: Memory = Memory;

/// Where all pieces lie, one after the other.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// The pieces that are in no use.
static SPARE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

thread_local! {
    /// Where this thread's piece begins.
    static OWN: Cell<usize> = const { Cell::new(0) };
    /// Does its world act?
    static ACTS: Cell<bool> = const { Cell::new(false) };
}

/// Stands where a piece begins, so it is kept and comes back with all the rest.
#[repr(C)]
struct Head {
    /// Nothing has been given out beyond.
    used: usize,
    /// Of each class, what was freed last; each names the one before.
    free: [usize; CLASSES],
}

fn class(size: usize) -> (usize, usize) {
    let steps = size.div_ceil(STEP).max(1);
    if steps < STEPS {
        return (steps, steps * STEP);
    }
    let doubled = size.next_power_of_two();
    let class = STEPS + (doubled.trailing_zeros() - (STEPS * STEP).trailing_zeros()) as usize;
    (class, doubled)
}

struct Memory;

impl Memory {
    fn is_own(at: *mut u8) -> bool {
        let own = OWN.get();
        own > 0 && (at as usize).wrapping_sub(own) < SIZE
    }

    fn is_any(at: *mut u8) -> bool {
        let all = ALL.load(Ordering::Relaxed);
        all > 0 && (at as usize).wrapping_sub(all) < SIZE * MOST
    }
}

// SAFETY: what a piece gives out lies in it, is as large and as aligned as was asked for, and is given to
// no other until it is freed. Pieces are of one thread each while they are in use.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !ACTS.get() {
            // SAFETY: the same is asked of it.
            return unsafe { System.alloc(layout) };
        }
        let (own, (class, size)) = (OWN.get(), class(layout.size()));
        let head = own as *mut Head;
        // SAFETY: a thread whose world acts has a piece, which begins with a head. What is free was as large,
        // and names what was free before; all that is given out lies between the head and the end.
        unsafe {
            let free = if layout.align() <= STEP {
                (&raw mut (*head).free).cast::<usize>().add(class)
            } else {
                null_mut()
            };
            if !free.is_null() && *free > 0 {
                let found = *free as *mut u8;
                *free = *found.cast::<usize>();
                return found;
            }
            let begin = (*head).used.next_multiple_of(layout.align().max(STEP));
            if class >= CLASSES || begin + size > SIZE {
                return null_mut();
            }
            (*head).used = begin + size;
            (own + begin) as *mut u8
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if Self::is_own(at) {
            let (class, _) = class(layout.size());
            let head = OWN.get() as *mut Head;
            // SAFETY: it lies in this thread's piece, is large enough for a number, and no longer in use.
            unsafe {
                let free = (&raw mut (*head).free).cast::<usize>().add(class);
                *at.cast::<usize>() = *free;
                *free = at as usize;
            }
        } else if !Self::is_any(at) {
            // SAFETY: it has given it.
            unsafe { System.dealloc(at, layout) }
        }
        // What another's piece has given out, as for the words of a panic, is left to that.
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !ACTS.get() && !Self::is_any(at) {
            // SAFETY: it has given it.
            return unsafe { System.realloc(at, layout, size) };
        }
        if Self::is_own(at) && class(layout.size()) == class(size) {
            return at;
        }
        // SAFETY: the alignment is one already, and as much is copied as fits into both.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                copy_nonoverlapping(at, new, layout.size().min(size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}

/// A moment of a piece.
#[derive(Default)]
pub struct Moment(Vec<MaybeUninit<u8>>);

/// Something that lives in this thread's piece of memory.
pub struct Piece<T> {
    what: *mut T,
    number: usize,
    /// It acts, or has come to a panic in that: what was said of it may lie here.
    acts: bool,
}

/// Until this is dropped a world acts.
struct Acts;

impl Acts {
    fn now() -> Self {
        ACTS.set(true);
        Self
    }
}

impl Drop for Acts {
    fn drop(&mut self) {
        ACTS.set(false);
    }
}

impl<T> Piece<T> {
    /// There is one at a time in a thread.
    pub fn new(make: impl FnOnce() -> T) -> Self {
        assert_eq!(OWN.get(), 0, "this thread has a piece");
        let number = spare_piece();
        let begin = ALL.load(Ordering::Relaxed) + number * SIZE;
        // SAFETY: there is room for it, and the piece is this thread's alone.
        unsafe {
            (begin as *mut Head).write(Head { used: size_of::<Head>(), free: [0; CLASSES] });
        }
        OWN.set(begin);
        let acts = Acts::now();
        let what = Box::into_raw(Box::new(make()));
        drop(acts);
        Self { what, number, acts: false }
    }

    /// What is returned can't lie in the piece, so that nothing there is known elsewhere.
    pub fn act<R: Copy + 'static>(&mut self, act: impl FnOnce(&mut T) -> Verdict<R>) -> Verdict<R> {
        let acts = Acts::now();
        self.acts = true;
        // SAFETY: it is there for as long as the piece, and is borrowed by this alone.
        let outcome = act(unsafe { &mut *self.what });
        drop(acts);
        self.acts = false;
        outcome.map_err(|why| String::from(why.as_str()))
    }

    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        // SAFETY: as above.
        read(unsafe { &*self.what })
    }

    /// Keeps it as it is now.
    pub fn keep(&self, moment: &mut Moment) {
        let begin = OWN.get();
        // SAFETY: so much of it has been given out; it is copied with all that was never written.
        unsafe {
            let used = (*(begin as *const Head)).used;
            moment.0.clear();
            moment.0.reserve(used);
            copy_nonoverlapping(begin as *const u8, moment.0.as_mut_ptr().cast(), used);
            moment.0.set_len(used);
        }
    }

    /// It is as it was then.
    pub fn go_back(&mut self, moment: &Moment) {
        // SAFETY: that was kept of this piece, and nothing in it is borrowed.
        unsafe {
            copy_nonoverlapping(moment.0.as_ptr().cast(), OWN.get() as *mut u8, moment.0.len());
        }
    }
}

impl<T> Drop for Piece<T> {
    /// All of it goes at once, and nothing in it is dropped.
    fn drop(&mut self) {
        OWN.set(0);
        if !self.acts {
            spare().push(self.number);
        }
    }
}

fn spare() -> std::sync::MutexGuard<'static, Vec<usize>> {
    SPARE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The number of a piece that is in no use.
fn spare_piece() -> usize {
    let mut spare = spare();
    if ALL.load(Ordering::Relaxed) == 0 {
        let all = Layout::from_size_align(SIZE * MOST, 4096).expect("not too large");
        // SAFETY: it is not nothing. What is never touched takes up no memory.
        let begin = unsafe { System.alloc(all) };
        assert!(!begin.is_null(), "no memory for worlds");
        ALL.store(begin as usize, Ordering::Relaxed);
        spare.extend(0..MOST);
    }
    spare.pop().expect("not so many worlds at once")
}

mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Shared = Rc<RefCell<Vec<String>>>;

    fn add(piece: &mut Piece<(Shared, Shared)>, word: &str) {
        let added = piece.act(|(one, _)| {
            one.borrow_mut().push(word.repeat(100));
            Ok(())
        });
        assert_eq!(added, Ok(()));
    }

    #[test]
    fn a_moment_comes_back_with_all_that_was_shared_then() {
        let mut piece = Piece::new(|| {
            let one = Shared::default();
            (Rc::clone(&one), one)
        });
        add(&mut piece, "a");
        let mut moment = Moment::default();
        piece.keep(&mut moment);
        for _ in 0..3 {
            for _ in 0..50 {
                add(&mut piece, "b");
            }
            assert_eq!(piece.read(|(_, other)| other.borrow().len()), 51);
            piece.go_back(&moment);
            assert_eq!(piece.read(|(_, other)| other.borrow().concat()), "a".repeat(100));
        }
    }
}
