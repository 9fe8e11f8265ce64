//! Windows over threads of this process whose accesses are known.

use super::*;
use crate::allowance::{OVERHEAD_PERCENT, own_time};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const WORDS: usize = 3;

/// Threads each of which reads or writes some of a few words over and over, while `observe` looks at them; task numbers
/// are those of the threads.
fn beside(threads: &[(&[usize], bool)], observe: impl FnOnce(&[Living], &[AtomicU64])) {
    let words: [AtomicU64; WORDS] = Default::default();
    let (over, process) = (AtomicBool::new(false), std::process::id() as i32);
    thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        for (task, &(uses, writes)) in threads.iter().enumerate() {
            let (tell, words, over) = (tell.clone(), &words, &over);
            scope.spawn(move || {
                tell.send(Living { task: task as u32, tid: nix::unistd::gettid().as_raw(), process }).unwrap();
                while !over.load(Ordering::Relaxed) {
                    for &word in uses {
                        match writes {
                            true => words[word].store(1, Ordering::Relaxed),
                            false => drop(black_box(words[word].load(Ordering::Relaxed))),
                        }
                    }
                    thread::sleep(Duration::from_micros(200));
                }
            });
        }
        let mut living: Vec<Living> = (0..threads.len()).map(|_| told.recv().unwrap()).collect();
        living.sort_unstable_by_key(|living| living.task);
        // The threads end, and with them the scope, where `observe` fails, too.
        let _ends = Ends(&over);
        observe(&living, &words);
    });
}

/// Tells threads that it is over, however it ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A watcher, where there can be one.
fn watcher() -> Option<Watcher> {
    Watcher::start(OVERHEAD_PERCENT).map_err(|error| println!("skipped: watchpoints: {}", error.cause)).ok()
}

/// Places that were drawn at random.
fn drawn(places: impl IntoIterator<Item = Place>) -> Vec<Drawn> {
    places.into_iter().map(|place| Drawn { place, chosen: None }).collect()
}

fn place(word: &AtomicU64) -> Place {
    Place::from([(std::process::id() as i32, (&raw const *word).addr() as u64)])
}

#[test]
fn readers_and_writers_of_the_same_word_are_seen_and_nobody_else() {
    let Some(mut watcher) = watcher() else { return };
    let uses: [(&[usize], bool); 6] =
        [(&[0], true), (&[0], false), (&[0, 1], false), (&[1], true), (&[2], false), (&[], true)];
    beside(&uses, |living, words| {
        for _ in 0..12 {
            let places = drawn(words.iter().map(place));
            let window = Window::open(Duration::ZERO, places, living.iter().copied());
            assert_eq!((window.places.len(), window.tasks.len()), (WORDS, 6));
            thread::sleep(Duration::from_millis(50));
            let turns = turns(&window.tasks).1 - window.before.1;
            let Cost { lost, ran, .. } = watcher.end(Duration::ZERO, window);
            assert!(
                lost >= watcher.price.lost(ran, turns) && turns > 50 && ran > Duration::ZERO,
                "{lost:?} {turns} {ran:?}"
            );
        }
    });
    let seen: Vec<_> = watcher.take(Duration::ZERO).map(|seen| (seen.pair, seen.count)).collect();
    // Of three that use the same, two pairs each time, any of them.
    assert_eq!(seen.iter().map(|seen| seen.0).collect::<Vec<_>>(), [(0, 1), (0, 2), (1, 2), (2, 3)]);
    assert_eq!((seen[..3].iter().map(|seen| seen.1).sum::<u64>(), seen[3].1), (24, 12));
    assert_eq!((watcher.sums.used, watcher.sums.events, watcher.take(Duration::ZERO).count()), (36, 36, 0));
}

#[test]
fn who_was_seen_is_a_partner_of_those_that_use_what_it_writes_or_write_what_it_reads() {
    let Some(mut watcher) = watcher() else { return };
    let process = std::process::id() as i32;
    // One writes and two read; and two that read what nobody writes.
    let uses: [(&[usize], bool); 5] = [(&[0], true), (&[0], false), (&[0], false), (&[1], false), (&[1], false)];
    beside(&uses, |living, words| {
        let mut seen = |word: usize, task, (writes, updates)| {
            let sighting = Sighting { task, address: 0, writes, updates, near: (0, 0) };
            let drawn = Drawn { place: place(&words[word]), chosen: Some(Draw::Seen(process, sighting)) };
            let window = Window::open(Duration::ZERO, vec![drawn], living.iter().copied());
            thread::sleep(Duration::from_millis(50));
            watcher.end(Duration::ZERO, window);
            watcher.take(Duration::ZERO).map(|seen| (seen.pair, seen.count)).collect::<Vec<_>>()
        };
        let (reads, writes, updates) = ((false, false), (true, false), (true, true));
        assert_eq!(seen(0, 0, writes), [((0, 1), 1), ((0, 2), 1)]);
        assert_eq!(seen(0, 2, reads), [((0, 2), 1)]);
        assert_eq!(seen(1, 4, reads), []);
        // What it updates it has from one of them.
        let partners = seen(0, 0, updates);
        assert!(matches!(partners[..], [((0, 1 | 2), 1)]), "{partners:?}");
    });
}

#[test]
fn windows_take_no_more_than_their_share() {
    let Some(mut watcher) = watcher() else { return };
    beside(&[(&[0], true), (&[0], false)], |living, words| {
        let tasks = Window::open(Duration::ZERO, drawn([place(&words[0])]), living.iter().copied()).tasks;
        let ran_before = turns(&tasks).0;
        let (start, before) = (std::time::Instant::now(), own_time());
        let mut windows = 0;
        while start.elapsed() < Duration::from_secs(3) {
            let now = start.elapsed();
            let next = watcher.step(now, turns(&tasks).0, living.iter().copied());
            assert!(next <= now + REST);
            if watcher.sums.windows > windows {
                windows = watcher.sums.windows;
                assert!(watcher.window.as_ref().is_some_and(|window| window.places.len() <= PLACES));
            }
            thread::sleep(next.saturating_sub(start.elapsed()));
        }
        // A window may begin while anything is left.
        let may_take = SHARE * (turns(&tasks).0 - ran_before + SAVED).as_secs_f64() + 0.01;
        let took = (own_time() - before).as_secs_f64();
        assert!(windows > 0 && took < may_take, "{windows} windows, {took:.4} s of {may_take:.4}");
        // And none while nothing is.
        watcher.window = None;
        watcher.allowance.take(Duration::from_secs(60));
        let (now, ran) = (watcher.next, turns(&tasks).0);
        assert_eq!(watcher.step(now, ran, living.iter().copied()), now + LATER);
        assert!(watcher.window.is_none());
    });
}

#[test]
fn nobody_and_nothing_to_watch_is_no_trouble() {
    let Some(mut watcher) = watcher() else { return };
    let gone = Living { task: 0, tid: i32::MAX, process: i32::MAX };
    for living in [vec![], vec![gone], vec![gone; 300]] {
        let now = watcher.next;
        assert!(watcher.step(now, Duration::ZERO, living.into_iter()) > now && watcher.window.is_none());
    }
    let places = [Place::from([(i32::MAX, 64)])];
    assert!(Window::open(Duration::ZERO, drawn(places.clone()), [gone; 300].into_iter()).tasks.is_empty());
    assert_eq!((watcher.sums, watcher.take(Duration::ZERO).count()), (Sums::default(), 0));
}

#[test]
fn where_others_have_debug_registers_the_rest_is_used() {
    let Some(mut watcher) = watcher() else { return };
    beside(&[(&[0, 1, 2], true), (&[0, 1, 2], false)], |living, words| {
        let open = |words: &[AtomicU64]| {
            let places = drawn(words.iter().map(place));
            Window::open(Duration::ZERO, places, living.iter().copied())
        };
        // As a debugger would.
        let others = open(&words[1..]);
        let window = open(words);
        thread::sleep(Duration::from_millis(100));
        watcher.end(Duration::ZERO, window);
        // x86 has four: two are left, which are at the first two places.
        let seen: Vec<_> = watcher.take(Duration::ZERO).map(|seen| (seen.pair, seen.count)).collect();
        assert!(matches!(seen[..], [((0, 1), 1..=3)]), "{seen:?}");
        drop(others);
        watcher.end(Duration::ZERO, {
            let window = open(words);
            thread::sleep(Duration::from_millis(100));
            window
        });
        assert_eq!(watcher.take(Duration::ZERO).map(|seen| seen.count).collect::<Vec<_>>(), [3]);
    });
}

/// A page of memory that is mapped twice, and a process that writes to it where it is mapped the second time, until
/// this is dropped.
struct Writer {
    first: *mut libc::c_void,
    second: *mut libc::c_void,
    process: i32,
}

const PAGE: usize = 4096;

impl Writer {
    fn start() -> Self {
        // SAFETY: a mapping of its own, and a second one of the same memory, which mremap(2) makes of shared ones of no
        // length.
        let (first, second) = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let first = libc::mmap(std::ptr::null_mut(), PAGE, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0);
            assert_ne!(first, libc::MAP_FAILED);
            let second = libc::mremap(first, 0, PAGE, libc::MREMAP_MAYMOVE);
            assert_ne!(second, libc::MAP_FAILED);
            (first, second)
        };
        // SAFETY: the child makes system calls and stores, and nothing else: it takes no lock that another thread may
        // hold.
        let process = unsafe { libc::fork() };
        assert!(process >= 0);
        if process == 0 {
            // SAFETY: as before; it ends with its parent, or is killed.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                loop {
                    (*second.cast::<AtomicU64>()).store(1, Ordering::Relaxed);
                    libc::usleep(200);
                }
            }
        }
        Self { first, second, process }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: a child that nobody else waits for, and mappings that are used no more.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
            libc::munmap(self.first, PAGE);
            libc::munmap(self.second, PAGE);
        }
    }
}

#[test]
fn processes_that_use_the_same_memory_are_seen_wherever_each_has_it() {
    let Some(mut watcher) = watcher() else { return };
    let writer = Writer::start();
    // SAFETY: mapped until the writer is dropped, and used atomically by all.
    let word = unsafe { &*writer.first.cast::<AtomicU64>() };
    beside(&[(&[0], true), (&[], true)], |living, words| {
        let own = std::process::id() as i32;
        let other = Living { task: 2, tid: writer.process, process: writer.process };
        let all = [living[0], living[1], other];
        // The second place is used by a thread of this process alone.
        let places =
            [Place::from([(own, writer.first as u64), (writer.process, writer.second as u64)]), place(&words[0])];
        let window = Window::open(Duration::ZERO, drawn(places.clone()), all.into_iter());
        assert_eq!((window.places.len(), window.tasks.len()), (2, 3));
        thread::sleep(Duration::from_millis(100));
        watcher.end(Duration::ZERO, window);
        assert_eq!(watcher.take(Duration::ZERO).count(), 0, "nobody but the writer has used the shared word");
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let (tell, told) = std::sync::mpsc::channel();
            let (over, _ends) = (&over, Ends(&over));
            scope.spawn(move || {
                tell.send(nix::unistd::gettid().as_raw()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    black_box(word.load(Ordering::Relaxed));
                    thread::sleep(Duration::from_micros(200));
                }
            });
            let reader = Living { task: 3, tid: told.recv().unwrap(), process: own };
            let window = Window::open(Duration::ZERO, drawn(places.clone()), all.into_iter().chain([reader]));
            thread::sleep(Duration::from_millis(100));
            watcher.end(Duration::ZERO, window);
        });
        assert_eq!(watcher.take(Duration::ZERO).map(|seen| (seen.pair, seen.count)).collect::<Vec<_>>(), [((2, 3), 1)]);
    });
}
