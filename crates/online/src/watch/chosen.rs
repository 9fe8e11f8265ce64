//! Which of the places where tasks were seen are worth watching: those that others are likely to use.
//!
//! A task that is seen at an address uses it; who else does is what a watchpoint shows, exactly (Sasongko et al., ComDetective, SC 2019,
//! where a PMU names the addresses). Most of what tasks use is theirs alone. So a place is drawn by how likely it is that anybody
//! else comes to it: of samples near it, how many were of others, and of the places that were watched in its region, at how many others came by.

use crate::sampling::Sighting;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// Bytes of a region, in which places are taken to be alike.
const REGION: u64 = 256 << 10;
/// Regions that are known at a time.
const MOST_REGIONS: usize = 1 << 13;
/// What is left of what is known of regions after a second: programs go on to other memory.
const FADES: f64 = 0.8;
/// Sightings that are kept, and for how long they are taken for true.
const MOST: usize = 64;
const FRESH: Duration = Duration::from_secs(1);

/// The latest sightings, and how places of their regions did.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    sightings: VecDeque<(Duration, i32, Sighting)>,
    /// Places that were watched, and those of them that others used.
    regions: HashMap<(i32, u64), (f64, f64)>,
    faded: Duration,
}

impl Chosen {
    /// A task of a process was seen.
    pub(super) fn add(&mut self, now: Duration, process: i32, sighting: Sighting) {
        if self.sightings.len() == MOST {
            self.sightings.pop_front();
        }
        self.sightings.push_back((now, process, sighting));
    }

    /// Draws one of them, and takes it out: the process, the task, and where it was.
    pub(super) fn draw(&mut self, now: Duration, random: &mut fastrand::Rng) -> Option<(i32, Sighting)> {
        self.sightings.retain(|&(at, ..)| now < at + FRESH);
        let chances: Vec<f64> = self.sightings.iter().map(|(_, process, seen)| self.chance(*process, seen)).collect();
        let mut at = random.f64() * chances.iter().sum::<f64>();
        let drawn = chances.iter().position(|chance| {
            at -= chance;
            at < 0.0
        });
        let (_, process, sighting) = self.sightings.remove(drawn.or(chances.len().checked_sub(1))?)?;
        Some((process, sighting))
    }

    /// A place was watched, and others used it or not.
    pub(super) fn learn(&mut self, now: Duration, process: i32, address: u64, is_used: bool) {
        let left = FADES.powf(now.saturating_sub(self.faded).as_secs_f64());
        self.faded = now;
        if self.regions.len() >= MOST_REGIONS {
            self.regions.clear();
        }
        for known in self.regions.values_mut() {
            *known = (known.0 * left, known.1 * left);
        }
        let known = self.regions.entry((process, address / REGION)).or_default();
        *known = (known.0 + 1.0, known.1 + f64::from(u8::from(is_used)));
    }

    /// What a place counts when one is drawn: the square of the chance that others come to it, by Laplace's rule of succession, of samples
    /// near it and of what was watched in its region. Squared, since much of what tasks use is their own, and what is seen of it is most.
    fn chance(&self, process: i32, seen: &Sighting) -> f64 {
        let (watched, used) = self.regions.get(&(process, seen.address / REGION)).copied().unwrap_or_default();
        let (near, others) = seen.near;
        ((1.0 + f64::from(others) + 2.0 * used) / (2.0 + f64::from(near) + 2.0 * watched)).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64, near: (u32, u32)) -> Sighting {
        Sighting { task: 3, address, writes: true, near }
    }

    #[test]
    fn places_that_others_use_are_drawn_most() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        let second = Duration::from_secs(1);
        // Of two regions one is used by others, which samples do not show yet.
        for _ in 0..8 {
            chosen.learn(second, 7, 5 * REGION, true);
            chosen.learn(second, 7, 9 * REGION, false);
        }
        let mut drawn = [0; 2];
        for _ in 0..1000 {
            chosen.sightings.clear();
            for region in [5, 9] {
                (0..10).for_each(|line| chosen.add(second, 7, at(region * REGION + 64 * line, (0, 0))));
            }
            let (_, sighting) = chosen.draw(second, &mut random).unwrap();
            drawn[usize::from(sighting.address / REGION == 9)] += 1;
        }
        assert!(drawn[0] > 10 * drawn[1], "{drawn:?}");
        // Neighbours tell, too, and what was known fades.
        let chance = |chosen: &Chosen, region, near| chosen.chance(7, &at(region * REGION, near));
        assert!(chance(&chosen, 1, (4, 4)) > 4.0 * chance(&chosen, 1, (4, 0)));
        let before = chance(&chosen, 9, (0, 0));
        chosen.learn(20 * second, 7, 0, false);
        assert!(chance(&chosen, 9, (0, 0)) > 3.0 * before);
    }

    #[test]
    fn sightings_are_bounded_and_grow_old() {
        let (mut chosen, mut random) = (Chosen::default(), fastrand::Rng::with_seed(1));
        (0..1000).for_each(|line| chosen.add(Duration::ZERO, 7, at(line * 64, (0, 0))));
        assert_eq!(chosen.sightings.len(), MOST);
        assert!(chosen.draw(FRESH / 2, &mut random).is_some() && chosen.sightings.len() == MOST - 1);
        assert_eq!(chosen.draw(FRESH, &mut random), None);
        (0..3 * MOST_REGIONS as u64).for_each(|region| chosen.learn(FRESH, 7, region * REGION, false));
        assert!(chosen.regions.len() <= MOST_REGIONS);
    }
}
