//! When to sample a task after a switch to it: as soon as it is likely to be at work on what others have left, and not
//! waiting again.

/// Delays that there are: the first is 1 to 2 us, and each twice as long as the one before.
pub const DELAYS: usize = 10;
/// Those that are drawn from, each as likely as the others.
pub const DRAWN: usize = 16;
/// Of these, how many are tried in turn, whatever they have shown.
const TRIED: usize = 4;
/// So many samples tell which is best; after as many more, they count half as much.
const ENOUGH: f64 = 100.0;

/// What samples after each delay have shown.
#[derive(Debug, Default)]
pub struct Delays {
    /// How many there were, and how many of them told something.
    seen: [(f64, f64); DELAYS],
    turn: usize,
}

impl Delays {
    /// A sample was taken after a delay, by its number.
    pub fn add(&mut self, delay: usize, tells: bool) {
        if let Some(seen) = self.seen.get_mut(delay) {
            seen.0 += 1.0;
            seen.1 += f64::from(u8::from(tells));
        }
    }

    /// The delays to draw from now on.
    pub fn drawn(&mut self) -> [u8; DRAWN] {
        let samples: f64 = self.seen.iter().map(|seen| seen.0).sum();
        // One that was not tried yet is worth a try.
        let told = |delay: &usize| (self.seen[*delay].1 + 1.0) / (self.seen[*delay].0 + 2.0);
        let best = (0..DELAYS).max_by(|a, b| told(a).total_cmp(&told(b))).filter(|_| samples >= ENOUGH);
        if samples >= 2.0 * ENOUGH {
            self.seen.iter_mut().for_each(|seen| *seen = (seen.0 / 2.0, seen.1 / 2.0));
        }
        let first = self.turn;
        self.turn = (self.turn + TRIED) % DELAYS;
        std::array::from_fn(|place| match best {
            Some(best) if place >= TRIED => best as u8,
            _ => ((first + place) % DELAYS) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_that_tell_most_are_drawn_most() {
        let mut delays = Delays::default();
        let mut drawn = delays.drawn();
        // At first all of them.
        assert!((0..DELAYS as u8).all(|delay| drawn.contains(&delay)));
        let often = |drawn: [u8; DRAWN], best: u8| drawn.iter().filter(|&&delay| delay == best).count();
        // The fifth tells half of the times, the others hardly ever; later it is the second.
        for best in [5, 2] {
            for sample in 0..2000usize {
                let delay = drawn[sample % DRAWN] as usize;
                delays.add(delay, sample % if delay == best { 2 } else { 50 } == 0);
                if sample % 50 == 49 {
                    drawn = delays.drawn();
                }
            }
            assert!(often(drawn, best as u8) >= DRAWN - TRIED, "{best}: {drawn:?}");
        }
        // And each is tried again now and then.
        let tried: Vec<u8> = (0..DELAYS).flat_map(|_| delays.drawn()).collect();
        assert!((0..DELAYS as u8).all(|delay| tried.contains(&delay)));
        delays.add(255, true);
    }
}
