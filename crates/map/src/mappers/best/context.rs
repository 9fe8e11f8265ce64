//! Every choice that `best` makes by a number, and which of its parts it uses: a [`Context`], handed down from the
//! mapper's row. Numbers that are no choice stay where they are used: limits of number formats and memory, widths of
//! tables, how often a clock is read.

/// A struct of numbers, each documented, with the default of each beside it.
macro_rules! numbers {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $value:expr,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// The numbers of the default preset.
            pub const DEFAULT: Self = Self { $($field: $value,)* };
        }
    };
}

/// The parts that can be switched off, with the name and the description of each.
macro_rules! parts {
    ($($part:ident $name:literal $about:literal,)*) => {
        /// A part of the search that can be switched off: mappings stay valid without it, and get worse at most.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Part {
            $(#[doc = $about] $part,)*
        }

        /// Every part, with its name and what it does.
        pub const PARTS: &[(Part, &str, &str)] = &[$((Part::$part, $name, $about),)*];
    };
}

parts! {
    Tiling "tiling" "Lays tasks that communicate on a grid over the tree in boxes.",
    Blocks "blocks" "Maps blocks of tasks, such as the threads of ranks, as one task each first.",
    Rivals "rivals" "Starts from the best of the other mappers too, where slots stay empty or subtrees are unequal.",
    Proof "proof" "Branch and bound for few tasks.",
    Evolution "evolution" "Divides small and dense problems by a memetic algorithm.",
    EjectionChains "ejection" "Tabu search by ejection chains within the memetic algorithm.",
    Outer "outer" "Searches the outermost subtrees by themselves first.",
    Clusters "clusters" "Bisects pairs of groups of a division again by clusters of tasks.",
    ClusterPerturbation "cluster-perturbation" "Perturbs the groups of clusters.",
    Repartition "repartition" "Bisects pairs of subtrees again.",
    Redivision "redivision" "Divides three and four sibling subtrees again.",
    Recombination "recombination" "Recombines several bisections of a graph.",
    Rotation "rotation" "Moves tasks round cycles of groups.",
    ProfileCache "profile-cache" "Keeps the profiles of what pairs of groups were before.",
    Matching "matching" "Fills groups of two by a perfect matching.",
    Perturbation "perturbation" "Exchanges two regions where nothing gets better (iterated local search).",
    Restarts "restarts" "Divides the tasks several times.",
    Threshold "threshold" "Goes on from a little worse than before (threshold accepting).",
    SmallTabu "small-tabu" "Refines bisections of small graphs by tabu search instead of passes.",
    Tabu "tabu" "Tabu search for distances that are no tree's.",
    Annealing "annealing" "Simulated annealing for distances that are no tree's.",
    Descent "descent" "Swaps tasks as long as that makes J less.",
}

/// A set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts(u32);

impl Parts {
    /// All of them.
    pub const ALL: Self = Self(u32::MAX);

    /// The same without one.
    #[must_use]
    pub const fn without(self, part: Part) -> Self {
        Self(self.0 & !(1 << part as u32))
    }

    /// Whether one is in use.
    #[inline]
    pub const fn contains(self, part: Part) -> bool {
        self.0 >> part as u32 & 1 == 1
    }
}

/// The part of a name in [`PARTS`].
pub fn part(name: &str) -> Option<Part> {
    PARTS.iter().find(|row| row.1 == name).map(|row| row.0)
}

/// What `best` does and how long: parts and numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context {
    /// The parts in use.
    pub parts: Parts,
    /// How long a search is where nobody says.
    pub effort: Effort,
    /// Few tasks.
    pub proof: Proof,
    /// The other mappers as starts.
    pub rivals: Rivals,
    /// Grids.
    pub tiling: Tiling,
    /// Blocks of tasks.
    pub blocks: Blocks,
    /// Tables that would not fit.
    pub large: Large,
    /// The outermost subtrees.
    pub outer: Outer,
    /// Division over subtrees.
    pub division: Division,
    /// Bisection of a graph.
    pub bisection: Bisection,
    /// Pairs of groups bisected by clusters.
    pub clusters: Clusters,
    /// Small and dense problems.
    pub evolution: Evolution,
    /// Tabu search by ejection chains.
    pub ejection: Ejection,
    /// Pairs of subtrees bisected again.
    pub repartition: Repartition,
    /// Cycles of groups.
    pub rotation: Rotation,
    /// The iterated local search around them all.
    pub walk: Walk,
    /// Tabu search for distances that are no tree's.
    pub tabu: Tabu,
    /// Simulated annealing for distances that are no tree's.
    pub annealing: Annealing,
}

impl Context {
    /// What `best` is unless told otherwise.
    pub const DEFAULT: Self = Self {
        parts: Parts::ALL,
        effort: Effort::DEFAULT,
        proof: Proof::DEFAULT,
        rivals: Rivals::DEFAULT,
        tiling: Tiling::DEFAULT,
        blocks: Blocks::DEFAULT,
        large: Large::DEFAULT,
        outer: Outer::DEFAULT,
        division: Division::DEFAULT,
        bisection: Bisection::DEFAULT,
        clusters: Clusters::DEFAULT,
        evolution: Evolution::DEFAULT,
        ejection: Ejection::DEFAULT,
        repartition: Repartition::DEFAULT,
        rotation: Rotation::DEFAULT,
        walk: Walk::DEFAULT,
        tabu: Tabu::DEFAULT,
        annealing: Annealing::DEFAULT,
    };

    /// No part that can be switched off: a division over the tree and nothing else.
    pub const PLAIN: Self = Self { parts: Parts(0), ..Self::DEFAULT };

    /// A division over the tree made better by pairs of subtrees and swaps, without any part that is for certain kinds
    /// of problems or takes long to pay for itself.
    pub const BASIC: Self =
        Self { parts: Parts(1 << Part::Repartition as u32 | 1 << Part::Descent as u32), ..Self::DEFAULT };

    /// Whether a part is in use.
    #[inline]
    pub const fn uses(&self, part: Part) -> bool {
        self.parts.contains(part)
    }

    /// The same without one part.
    #[must_use]
    pub const fn without(self, part: Part) -> Self {
        Self { parts: self.parts.without(part), ..self }
    }
}

/// Named contexts.
pub const PRESETS: &[(&str, &Context)] =
    &[("default", &Context::DEFAULT), ("basic", &Context::BASIC), ("plain", &Context::PLAIN)];

numbers! {
    /// How long a search is where nobody says.
    Effort {
        /// Vertices that a search sees in all: some seconds.
        usual_vertices: usize = 4 << 20,
        /// From so many slots on that are shared a step is taken to see half of all: most are of two subtrees near the
        /// root.
        many_shared: usize = 8_192,
    }
}

numbers! {
    /// Few tasks, mapped by branch and bound.
    Proof {
        /// Tasks at most.
        tasks: usize = 10,
        /// Branches that are worth a step.
        branches: u64 = 2_000,
        /// What the tables take for each two slots, in nanoseconds, about.
        table_ns: u128 = 100,
    }
}

numbers! {
    /// The other mappers as starts.
    Rivals {
        /// Slots at most: with more the matching takes longer than all else.
        slots: usize = 512,
        /// What all of them together take for the cube of the number of slots, in nanoseconds, about.
        cube_ns: u128 = 20,
    }
}

numbers! {
    /// Tasks on a grid.
    Tiling {
        /// Ways to cut into boxes that are looked at, at most.
        cuts: usize = 200_000,
        /// From so many slots on boxes are a start: fewer tasks are divided as well at once, and better where the sides
        /// of the grid do not suit the tree.
        least_slots: usize = 65,
    }
}

numbers! {
    /// Blocks of tasks.
    Blocks {
        /// One of so many parts of the time is left for single tasks.
        rest: u32 = 4,
    }
}

numbers! {
    /// Problems whose tables would not fit.
    Large {
        /// Entries of the largest table: a quarter of a gibibyte.
        entries: usize = 1 << 26,
        /// Entries of the table of one subtree, so that it stays in the cache.
        subtree_entries: usize = 1 << 20,
        /// Bisections of the coarsest graph that are tried.
        tries: usize = 8,
    }
}

numbers! {
    /// The outermost subtrees first.
    Outer {
        /// One part of the time in so many is left for all levels together.
        rest: u32 = 6,
    }
}

numbers! {
    /// Division over subtrees.
    Division {
        /// Bisections of the coarsest graph that are tried.
        tries: usize = 4,
        /// Bisections of each part of the first level that are made and recombined, at most.
        parents: usize = 3,
        /// Up to so many vertices a graph is small: a try costs little, and there is little to choose the best from.
        small: usize = 24,
        /// How many times as many tries there are for it.
        small_tries: usize = 3,
        /// Vertices that are matched with proof, at most.
        matched: usize = 64,
    }
}

numbers! {
    /// Bisection of a graph.
    Bisection {
        /// Vertices at which coarsening ends.
        coarsest: usize = 24,
        /// Vertices at which coarsening of what bisections agree on ends.
        coarsest_agreed: usize = 12,
        /// Vertices at which two bisections cost little, so that they are recombined.
        recombined: usize = 40,
        /// A growing region goes on somewhere else once in so many vertices: a good side need not be one region.
        jump: usize = 12,
        /// A second bisection that costs so many times as much as the given one is not recombined with it. (Costs with
        /// a bias may be less than nothing: nothing is so many times that.)
        far: i64 = 2,
        /// Bisections that are tried of the graph of what bisections agree on.
        tries_agreed: usize = 8,
        /// Passes of moves at most (Fiduccia and Mattheyses).
        passes: usize = 12,
        /// Moves, and one for 64 vertices, that led to nothing better, after which a pass ends.
        patience: usize = 16,
        /// Moves that led to nothing better, after which a tabu search of a small graph ends.
        tabu_patience: usize = 16,
        /// One more of them for so many vertices.
        tabu_patience_vertices: usize = 8,
        /// Moves for which a vertex stays where it went, where there are three times as many vertices; up to
        /// [`small_tabu::MOST_TENURE`](super::small_tabu::MOST_TENURE).
        tabu_tenure: usize = 7,
    }
}

numbers! {
    /// Pairs of groups bisected again by clusters.
    Clusters {
        /// A cluster is of no more than one in so many of a group's vertices.
        part: usize = 5,
        /// Clusterings at most where nothing is perturbed.
        clusterings: usize = 8,
        /// How many of them in a row may bring nothing.
        stale: usize = 2,
        /// How many clusterings come before the first perturbation.
        before_perturbation: usize = 3,
        /// The share of the time, in a hundred, that all with perturbations may take.
        time: u128 = 75,
        /// Groups that perturbations are worth it for, at least: one changes a dozen.
        least_perturbed: usize = 12,
        /// After a perturbation J may be more by this share of what a vertex would pay on average if all that it
        /// communicates with were elsewhere, at first.
        threshold: f64 = 0.25,
        /// Rounds of perturbations that have to fit into what is left of the time for J to be allowed to become more.
        least_rounds: u128 = 4,
        /// How often every vertex chooses its cluster.
        rounds: usize = 2,
        /// Bisections that are tried of a pair of groups.
        tries: usize = 7,
        /// The same after a perturbation.
        tries_perturbed: usize = 3,
        /// Pairs around a perturbation that lead to nothing, after which nothing better is near.
        patience: usize = 16,
        /// Pairs of clusters that are drawn in a row and in one group, after which it is given up.
        draws: usize = 1_000,
        /// Repartitions that a perturbation takes as long as, about.
        steps: u64 = 2,
    }
}

numbers! {
    /// Small and dense problems, divided by a memetic algorithm.
    Evolution {
        /// Slots that a part has at least: below, pairs are matched and groups filled by what is cut there.
        least_slots: usize = 8,
        /// Tasks at most that are few enough, however sparse.
        few: usize = 64,
        /// Others that a task of a dense graph communicates with on average, at least.
        dense_others: usize = 24,
        /// Tasks of a dense graph that is divided here, at most.
        dense_tasks: usize = 1_024,
        /// The others where tasks are blocks of tasks: what one of them communicates with is in no order then.
        dense_others_of_blocks: usize = 12,
        /// The tasks where they are blocks.
        dense_tasks_of_blocks: usize = 512,
        /// Divisions kept at a time.
        population: usize = 6,
        /// Recombinations in a row that led to nothing, after which the divisions are too much alike, and there is a
        /// restart.
        patience: usize = 10,
        /// Moves without success, for each task, that end a search.
        moves: usize = 3,
        /// The same where there are two parts: those have been bisected by such moves.
        moves_of_two: usize = 1,
        /// The share of the time, in a hundred, that goes to divisions.
        time: u128 = 75,
        /// The same where there are few tasks.
        time_of_few: u128 = 85,
        /// Bisections of the coarsest graph that are tried for a start.
        tries: usize = 2,
        /// The same for the first.
        tries_first: usize = 4,
    }
}

numbers! {
    /// Tabu search by ejection chains.
    Ejection {
        /// Moves for which a vertex may not return to a group, in vertices that it communicates with on average: that,
        /// and up to half as much again by chance.
        tenure: usize = 2,
        /// The same at least.
        least_tenure: usize = 5,
        /// Where there are few vertices, one in so many may not return at a time, but for as many moves as the least.
        least_open: usize = 5,
        /// Few vertices.
        few: usize = 64,
        /// Moves that count as a step of a search.
        moves_a_step: usize = 128,
        /// Moves after which the tenure is drawn again.
        same_tenure: u32 = 32,
    }
}

numbers! {
    /// Pairs of subtrees bisected again. What is drawn is in a hundred.
    Repartition {
        /// How often more than two siblings are divided again.
        redivided: usize = 40,
        /// The same in a small problem.
        redivided_of_few: usize = 60,
        /// How often a level higher is taken.
        up: usize = 70,
        /// How often a pair is also bisected from scratch; half as often where it is two groups.
        scratch: usize = 40,
        /// How often a subtree with an empty slot is taken instead of one that a vertex communicates with, where there
        /// are any.
        idle: usize = 25,
        /// How often a pair is taken where the last perturbation was.
        near: usize = 85,
        /// Vertices of the largest region of a perturbation: it grows in time that is the square of them and more.
        region: usize = 1_024,
        /// In a small problem a bisection may be dearer by one in so many parts of J for the subtrees below to be
        /// filled again.
        tolerated: i64 = 30,
    }
}

numbers! {
    /// Cycles of groups.
    Rotation {
        /// Vertices of a group at least.
        least: usize = 4,
        /// Groups with empty slots that are looked at besides.
        idle: usize = 2,
        /// Steps of a cycle at most.
        longest: usize = 6,
        /// Paths that are followed from a first step.
        paths: usize = 3_000,
        /// Groups that a group communicates with most that are looked at.
        near: usize = 8,
        /// Profiles of what groups were before that are kept, for each group: one takes 1 to 2 KiB.
        kept: usize = 64,
        /// The same in all.
        most_kept: usize = 1 << 14,
        /// A side of a profile has more or fewer vertices by one in so many of the smaller group at most.
        spread: usize = 3,
        /// How often all sizes are walked through.
        sweeps: usize = 2,
        /// Moves at each size.
        moves: usize = 2,
        /// Moves for which a vertex stays where it went, where there are three times as many vertices.
        tenure: usize = 7,
    }
}

numbers! {
    /// The iterated local search.
    Walk {
        /// Vertices of a small problem at most.
        small: usize = 128,
        /// Repartitions without success, and one for five vertices, after which nothing better is near.
        patience: usize = 16,
        /// The same where there are rotations.
        patience_rotated: usize = 24,
        /// Or so many for every group.
        patience_a_group: usize = 2,
        /// The same after a perturbation.
        patience_perturbed: usize = 6,
        /// And where a rotation follows.
        patience_perturbed_rotated: usize = 8,
        /// The same where it is to be seen which of several divisions is a good one: in a small problem, and one for
        /// eight vertices in a larger one.
        patience_first: usize = 10,
        /// There is a restart after so many perturbations without success: one for so many vertices.
        restart: usize = 10,
        /// The share of the time, in a hundred, for several divisions.
        time_for_starts: u128 = 40,
        /// If so many, and no fewer than one for ten vertices, would fit into all of it.
        least_starts: u128 = 24,
        /// How many of them are gone on with.
        starts_kept: usize = 2,
        /// How often, in a hundred, the next perturbation of a small problem starts from the best.
        back: usize = 60,
        /// In a larger one it starts from where the last one led, if that is not worse than where that one started by
        /// more than what so many vertices pay on average, and the less the less time is left (Dueck and Scheuer,
        /// "Threshold accepting", 1990).
        threshold: f64 = 2.0,
    }
}

numbers! {
    /// Tabu search for distances that are no tree's.
    Tabu {
        /// Vertices at most: more have too many swaps to look at all.
        vertices: usize = 512,
        /// Swaps a step.
        swaps: usize = 16,
        /// Swaps without success for each vertex, after which the best is perturbed.
        patience: u64 = 60,
        /// Tenure for each vertex, in tenths of a swap, at least.
        tenure: usize = 9,
        /// And up to so much more by chance.
        more_tenure: usize = 2,
        /// What a vertex has not been at for so many times the square of the vertices is worth a visit.
        stale: u64 = 5,
        /// Swaps of a perturbation at least.
        perturbed: usize = 3,
        /// And by chance up to one for so many vertices more.
        perturbed_part: usize = 3,
    }
}

numbers! {
    /// Simulated annealing for distances that are no tree's.
    Annealing {
        /// Swaps that one cooling proposes at most: a fraction of a second.
        proposals: u64 = 4_000_000,
        /// The same for each two vertices.
        proposals_of_two: u64 = 40,
        /// Proposals between two changes of the temperature.
        stretch: u64 = 64,
        /// Temperatures to start from, in mean weights times the spread of distances; one is drawn.
        from: [f64; 4] = [0.5, 0.3, 0.2, 0.1],
        /// The temperature at the end.
        to: f64 = 0.03,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_name_of_its_own_and_a_bit() {
        for (number, &(own, name, about)) in PARTS.iter().enumerate() {
            assert_eq!((part(name), own as usize), (Some(own), number));
            assert!(about.ends_with('.') && PARTS.iter().filter(|row| row.1 == name).count() == 1);
            let without = Context::DEFAULT.without(own);
            assert!(PARTS.iter().all(|row| without.uses(row.0) == (row.0 != own)));
            assert!(!Context::PLAIN.uses(own));
        }
        assert_eq!(part("hurry"), None);
    }
}
