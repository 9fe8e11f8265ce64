//! What cutting two groups again gains, for several sizes of the two: a tabu search that walks through sizes of the
//! sides notes the best cut for each. Groups come back to what they were, or change places with others, again and again
//! during a search, so that profiles are kept by what the groups are, not by which ([`Store`]).

use super::context;
use super::small_tabu::{Gains, SHUT};
use super::state::State;

/// Vertices of two groups at most.
pub const MOST: usize = 256;

/// By how many vertices a side may have more or less, at most.
pub const SPREAD: usize = 6;

/// Sizes of the second side in a profile.
const SIZES: usize = 2 * SPREAD + 1;

/// A gain that is none: sums of it stay far from the limits.
pub const NEVER: i64 = i64::MIN / 16;

/// Which of the vertices of two groups change sides.
type Changed = [u64; MOST / 64];

/// What a profile is of: marks of the vertices of two groups, and of all whom it makes a difference to which of the two
/// a vertex is in, and how far apart the groups are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Key {
    pub marks: [u64; 2],
    pub around: [u64; 2],
    pub apart: i32,
}

impl Key {
    /// The same two groups the other way round.
    fn turned(self) -> Self {
        let [a, b] = self.marks;
        let [around_a, around_b] = self.around;
        Self { marks: [b, a], around: [around_b, around_a], ..self }
    }
}

/// What cutting two groups again gains, by how many more vertices the second one gets than it gives.
#[derive(Debug)]
pub struct Profile {
    /// What the groups were.
    pub key: Key,
    pub vertices: Vec<u32>,
    pub gain: [i64; SIZES],
    pub changed: [Changed; SIZES],
}

/// Profiles of groups that have changed since: what they were they may become again. Each has its place there, by what
/// it is of, and the newest stays.
#[derive(Debug)]
pub struct Store {
    kept: Vec<Option<Box<Profile>>>,
    // Boxes, since what is taken from here is put into boxes again.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Profile>>,
}

impl Store {
    /// Room for so many, more or less.
    pub fn new(room: usize) -> Self {
        Self { kept: (0..room.next_power_of_two()).map(|_| None).collect(), spare: Vec::new() }
    }

    fn place(&self, key: &Key) -> usize {
        let both = key.marks[0].wrapping_add(key.marks[1]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (both >> 32) as usize & (self.kept.len() - 1)
    }

    /// Keeps a profile.
    pub fn keep(&mut self, profile: Box<Profile>) {
        let place = self.place(&profile.key);
        self.spare.extend(self.kept[place].replace(profile));
    }

    /// Takes out the profile of a key, either way round.
    pub fn take(&mut self, key: &Key) -> Option<Box<Profile>> {
        let place = self.place(key);
        let is_it = |profile: &mut Box<Profile>| profile.key == *key || profile.key == key.turned();
        let mut profile = self.kept[place].take_if(is_it)?;
        if profile.key != *key {
            profile.key = *key;
            profile.gain.reverse();
            profile.changed.reverse();
        }
        Some(profile)
    }

    /// Whether it keeps nothing.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.kept.iter().all(Option::is_none)
    }

    /// A profile to be filled.
    pub fn blank(&mut self) -> Box<Profile> {
        self.spare.pop().unwrap_or_else(|| Box::new(Profile::new()))
    }
}

impl Profile {
    fn new() -> Self {
        Self { key: Key::default(), vertices: Vec::new(), gain: [NEVER; SIZES], changed: [[0; MOST / 64]; SIZES] }
    }
}

/// Two groups that are looked at.
pub struct Two<'a, 'b> {
    pub state: &'a State<'b>,
    pub a: usize,
    pub b: usize,
    pub numbers: context::Rotation,
    /// What is kept from one to the next.
    pub arcs: &'a mut Vec<(u32, i32)>,
}

impl Two<'_, '_> {
    /// Fills the profile of groups that have `wide` vertices together, or fewer.
    pub fn fill(self, wide: usize, profile: &mut Profile) {
        match wide {
            0..=32 => self.fill_wide::<32>(profile),
            33..=64 => self.fill_wide::<64>(profile),
            65..=128 => self.fill_wide::<128>(profile),
            _ => self.fill_wide::<256>(profile),
        }
    }

    fn fill_wide<const WIDE: usize>(self, profile: &mut Profile) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function was compiled for.
            return unsafe { self.fill_avx2::<WIDE>(profile) };
        }
        self.fill_anywhere::<WIDE>(profile);
    }

    /// [`Self::fill_anywhere`], eight gains an instruction.
    ///
    /// # Safety
    /// The processor must have AVX2: the caller has asked it. The code is safe but for that.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn fill_avx2<const WIDE: usize>(self, profile: &mut Profile) {
        self.fill_anywhere::<WIDE>(profile);
    }

    /// Walks through all sizes of the two groups, and notes the best cut that is found of each.
    #[inline(always)]
    fn fill_anywhere<const WIDE: usize>(mut self, profile: &mut Profile) {
        profile.gain = [NEVER; SIZES];
        profile.gain[SPREAD] = 0;
        profile.changed[SPREAD] = [0; MOST / 64];
        profile.vertices.clear();
        let slots = [self.a, self.b].map(|group| self.state.layout.tree.slots_of(group));
        let smaller = slots[0].len().min(slots[1].len());
        for slots in slots {
            profile.vertices.extend_from_slice(&self.state.vertex_at[slots]);
        }
        let spread = SPREAD.min(smaller / self.numbers.spread) as i32;
        let mut starts = [0; WIDE];
        let Some(mut gains) = self.gains::<WIDE>(&profile.vertices, &mut starts) else { return };
        let arcs = &*self.arcs;
        let neighbours = |number: usize| {
            let end = starts.get(number + 1).filter(|_| number + 1 < profile.vertices.len());
            &arcs[starts[number] as usize..end.map_or(arcs.len(), |&end| end as usize)]
        };
        let mut changed = [0; MOST / 64];
        // By how many vertices the second group has more than it should, and is to have at the moment.
        let (mut more, mut wanted, mut way) = (0_i32, 0_i32, 1);
        let (mut total, mut here, mut sweeps) = (0, 0, 0);
        loop {
            if here == self.numbers.moves {
                here = 0;
                wanted += way;
                if wanted.abs() == spread {
                    way = -way;
                } else if wanted == 0 && way > 0 {
                    sweeps += 1;
                    if sweeps == self.numbers.sweeps {
                        return;
                    }
                }
            }
            let found = if more < wanted {
                gains.best(0)
            } else if more > wanted {
                gains.best(1)
            } else {
                here += 1;
                gains.best_of_both()
            };
            if found <= SHUT {
                return;
            }
            let (number, gain) = gains.go(found, 1, neighbours);
            changed[number / 64] ^= 1 << (number % 64);
            more += if gains.side[number] == 1 { 1 } else { -1 };
            total += i64::from(gain);
            if let Some(best) = profile.gain.get_mut((more + SPREAD as i32) as usize).filter(|best| total > **best) {
                *best = total;
                profile.changed[(more + SPREAD as i32) as usize] = changed;
            }
        }
    }

    /// What a move of each of the vertices to the other group gains, with where each one's arcs to others of them
    /// start.
    #[inline(always)]
    fn gains<const WIDE: usize>(&mut self, vertices: &[u32], starts: &mut [u32; WIDE]) -> Option<Gains<WIDE>> {
        let (state, a, b) = (self.state, self.a as u32, self.b as u32);
        let layout = state.layout;
        let distance = |x: u32, y: u32| layout.distance[x as usize * layout.groups() + y as usize];
        // What a move of one changes what a move of the other gains by, for a unit of weight, and what a vertex of the
        // first group gains by a move for a unit of weight to that group and to the other.
        let (to_a, to_b) = (distance(a, a) - distance(a, b), distance(a, b) - distance(b, b));
        let apart = to_b - to_a;
        let others_are_alike =
            layout.differing(self.a, self.b).iter().all(|range| range.len() == 1) && state.rules.home.is_empty();
        let (of_a, of_b) = (layout.tree.slots_of(self.a), layout.tree.slots_of(self.b));
        let mut end = 0;
        let mut gains = Gains::new(vertices.len(), self.numbers.tenure);
        let mut greatest = 0;
        for (number, &vertex) in vertices.iter().enumerate() {
            let vertex = vertex as usize;
            starts[number] = end as u32;
            let row = state.net.row(vertex);
            if self.arcs.len() < end + row.len() {
                self.arcs.resize(end + row.len(), (0, 0));
            }
            let (mut all, mut pull) = (0, 0);
            // Without a branch: nobody could guess it.
            for &(other, weight) in row {
                let slot = state.slot_of[other as usize] as usize;
                let (in_a, in_b) = (of_a.contains(&slot), of_b.contains(&slot));
                // Wrong where the other is in neither, and then overwritten.
                let at = slot.wrapping_sub(if in_a { of_a.start } else { of_b.start.wrapping_sub(of_a.len()) });
                self.arcs[end] = (at as u32, weight * apart);
                end += usize::from(in_a | in_b);
                all += if in_a | in_b { i64::from(weight) * i64::from(apart) } else { 0 };
                pull += weight * if in_a { to_a } else { 0 } + weight * if in_b { to_b } else { 0 };
            }
            let side = u8::from(number >= of_a.len());
            let pull = if others_are_alike { pull } else { state.cost(vertex, self.a) - state.cost(vertex, self.b) };
            let gain = if side == 0 { pull } else { -pull };
            greatest = greatest.max(all + i64::from(gain.abs()));
            gains.put(number, side, gain);
            if state.rules.fixed[vertex] {
                gains.fix(number);
            }
        }
        self.arcs.truncate(end);
        Gains::<WIDE>::fits(greatest).then_some(gains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile of groups with some marks, whose gains say what sizes they are of.
    fn profile(store: &mut Store, marks: [u64; 2]) -> Box<Profile> {
        let mut profile = store.blank();
        profile.key = key(marks);
        for (at, gain) in profile.gain.iter_mut().enumerate() {
            *gain = at as i64 - SPREAD as i64;
            profile.changed[at][0] = at as u64;
        }
        profile
    }

    fn key(marks: [u64; 2]) -> Key {
        Key { marks, around: marks.map(|mark| mark + 7), apart: 3 }
    }

    #[test]
    fn what_was_kept_is_found_either_way_round_and_once() {
        let mut store = Store::new(64);
        for marks in [[1, 2], [5, 9]] {
            let profile = profile(&mut store, marks);
            store.keep(profile);
        }
        assert!(store.take(&key([1, 5])).is_none() && store.take(&Key { apart: 4, ..key([1, 2]) }).is_none());
        let turned = store.take(&key([2, 1])).unwrap();
        assert_eq!((turned.key, turned.gain[SPREAD + 1], turned.changed[0][0]), (key([2, 1]), -1, 2 * SPREAD as u64));
        assert!(store.take(&key([1, 2])).is_none());
        assert_eq!(store.take(&key([5, 9])).unwrap().gain[SPREAD + 1], 1);
    }

    #[test]
    fn the_newest_stays_and_what_it_replaces_is_filled_again() {
        let mut store = Store::new(1);
        for marks in [[1, 2], [3, 4]] {
            let profile = profile(&mut store, marks);
            store.keep(profile);
        }
        assert_eq!(store.spare.len(), 1);
        assert!(store.take(&key([1, 2])).is_none());
        assert_eq!(store.take(&key([3, 4])).unwrap().key, key([3, 4]));
    }
}
