//! What a core does: how fast it counts, how many lines it has under way at a time, and how many instructions it begins
//! behind a load that is not there yet.

use super::super::busy::Busy;
use super::super::pages::Pages;
use super::chase::{LINE, ROUNDS, Random, follow_several, keep_least, lay_cycle, lines_of, seconds_a_step};
use std::hint::black_box;
use std::time::Duration;

/// Cycles a ns, by additions each of which needs the one before: one a cycle on every x86-64. None on others.
pub(super) fn frequency_ghz(time: Duration, busy: &mut Busy) -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        const ADDITIONS: u64 = 64;
        let seconds = seconds_a_step(time, busy, |steps| {
            let mut sum = 0_u64;
            for _ in 0..steps {
                // SAFETY: additions to a register.
                unsafe {
                    std::arch::asm!(".rept 64", "add {0}, 3", ".endr", inout(reg) sum, options(nomem, nostack));
                }
            }
            black_box(sum);
        });
        Some(ADDITIONS as f64 / seconds / 1e9)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (time, busy);
        None
    }
}

/// Lines of memory in a cycle, and as much else as takes them out of all caches.
pub(super) struct Memory {
    pub pages: Pages,
    pub others: Pages,
}

impl Memory {
    /// Lays the cycle.
    fn lay(&mut self) -> Laid<'_> {
        let places = lines_of(size_of_val(self.pages.words()));
        let order = lay_cycle(self.pages.words_mut(), &places, &mut Random::new());
        Laid { words: self.pages.words(), order, others: self.others.words() }
    }
}

/// A cycle through memory.
struct Laid<'a> {
    words: &'a [u64],
    order: Vec<usize>,
    others: &'a [u64],
}

impl Laid<'_> {
    /// Places to begin at, as far from one another on the cycle as there is room for. No cache has what comes behind them:
    /// chains that were followed before began at the same places.
    fn begins<const K: usize>(&self) -> [usize; K] {
        let lines = self.others.chunks(LINE / size_of::<u64>());
        black_box(lines.map(|line| line[0]).fold(0, u64::wrapping_add));
        std::array::from_fn(|at| self.order[at * self.order.len() / K])
    }
}

/// How many lines are under way at a time: loads of so many chains at once take as long as those of one, until there are
/// more chains than that.
pub(super) fn fill_buffers(memory: &mut Memory, time: Duration, busy: &mut Busy) -> u64 {
    let laid = memory.lay();
    let words = laid.words;
    macro_rules! of {
        ($($k:literal)*) => { [$({
            let mut at = laid.begins::<$k>();
            ($k, seconds_a_step(time, busy, |steps| at = black_box(follow_several(words, at, steps))))
        }),*] };
    }
    let mut round = || of!(1 2 4 6 8 10 12 14 16 20 24 28 32);
    let mut found = round();
    (1..ROUNDS).for_each(|_| keep_least(&mut found, &round()));
    most_at_a_time(&found)
}

/// Of (chains, seconds a load of each): how many loads there were at a time at the most.
fn most_at_a_time(found: &[(u64, f64)]) -> u64 {
    let alone = found[0].1;
    let most = found.iter().map(|&(chains, seconds)| chains as f64 * alone / seconds).fold(1.0, f64::max);
    most.round() as u64
}

/// Instructions that are begun behind a load that is not there yet (the reorder buffer): two chains of loads with so
/// many instructions between that the second of each two has to wait (Wong, "Measuring reorder buffer capacity", 2013).
/// None where that is not known of the processor.
#[cfg(target_arch = "x86_64")]
pub(super) fn window(memory: &mut Memory, time: Duration, busy: &mut Busy) -> Option<u64> {
    let laid = memory.lay();
    let words = laid.words;
    macro_rules! of {
        ($($n:literal)*) => { [$({
            let [mut first, mut second] = laid.begins::<2>();
            let seconds = seconds_a_step(time, busy, |steps| {
                for _ in 0..steps {
                    // SAFETY: loads of words that are there: a cycle never leaves its places.
                    unsafe {
                        std::arch::asm!(
                            "mov {first}, [{words} + 8 * {first}]",
                            concat!(".rept ", $n), "nop", ".endr",
                            "mov {second}, [{words} + 8 * {second}]",
                            concat!(".rept ", $n), "nop", ".endr",
                            words = in(reg) words.as_ptr(),
                            first = inout(reg) first,
                            second = inout(reg) second,
                            options(readonly, nostack),
                        );
                    }
                }
            });
            black_box((first, second));
            ($n, seconds)
        }),*] };
    }
    let mut round =
        || of!(16 32 48 64 80 96 112 128 144 160 176 192 208 224 240 256 288 320 352 384 416 448 480 512 576 640 768);
    let mut found = round();
    (1..ROUNDS).for_each(|_| keep_least(&mut found, &round()));
    last_together(&found)
}

/// None: how instructions are counted is not known.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn window(_: &mut Memory, _: Duration, _: &mut Busy) -> Option<u64> {
    None
}

/// Of (instructions between, seconds of two loads): behind how many the second is still begun while the first is under
/// way. None where it is with all, or none.
fn last_together(found: &[(u64, f64)]) -> Option<u64> {
    let together = found.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    // What is disturbed takes longer, and looks as if it were apart.
    let last = found.iter().rposition(|one| one.1 <= 1.5 * together)?;
    // Half way between the last that were together and the first that were not.
    Some((found[last].0 + found.get(last + 1)?.0) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_at_a_time_are_those_of_one_over_those_of_many() {
        // Ten at a time: more chains only make each longer.
        let curve: Vec<(u64, f64)> =
            [1, 2, 4, 8, 10, 16, 32].map(|k: u64| (k, 90.0 * (k as f64 / 10.0).max(1.0))).into();
        assert_eq!(most_at_a_time(&curve), 10);
        assert_eq!(most_at_a_time(&[(1, 5.0), (2, 10.0)]), 1);
    }

    #[test]
    fn the_window_is_where_two_loads_part() {
        let curve = |apart_from: u64| -> Vec<(u64, f64)> {
            [16, 64, 128, 256, 512].map(|n| (n, if n >= apart_from { 180.0 } else { 90.0 + n as f64 / 64.0 })).into()
        };
        assert_eq!(last_together(&curve(256)), Some(192));
        let disturbed: Vec<_> = curve(256).into_iter().map(|(n, ns)| (n, if n == 64 { 300.0 } else { ns })).collect();
        assert_eq!(last_together(&disturbed), Some(192));
        assert_eq!(last_together(&curve(1000)), None, "never");
        assert_eq!(last_together(&[(16, 90.0), (32, 91.0)]), None);
        assert_eq!(last_together(&[]), None);
    }

    #[test]
    fn a_core_is_measured() {
        let mut busy = Busy::begin();
        if cfg!(target_arch = "x86_64") {
            let found = frequency_ghz(Duration::from_millis(2), &mut busy).unwrap();
            assert!((0.1..10.0).contains(&found), "{found} GHz");
        }
    }
}
