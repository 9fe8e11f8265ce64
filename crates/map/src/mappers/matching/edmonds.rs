//! Maximum-weight perfect matching in general graphs (Edmonds, "Maximum matching and a polyhedron with 0,1-vertices",
//! 1965), in the form with one table of best edges between blossoms, O(n^3) time and O(n^2) memory.
//!
//! Vertices and blossoms are numbered from 1; 0 is nobody. Labels are twice the dual variables. They begin as what each
//! vertex can get at most, so that many pairs are found before any search; even ones, so that all stay integers: the
//! unmatched always change alike, and tight edges join labels that are both odd or both even.

/// The partner of every vertex in the heaviest perfect matching of `count` vertices. `weight` is none where two may not
/// be matched; some perfect matching must exist. Weights are from 0 to 2^40.
pub fn perfect_matching(count: usize, weight: impl Fn(usize, usize) -> Option<i64>) -> Vec<usize> {
    let mut search = Search::new(count, weight);
    search.match_greedily();
    while search.augment_once() {}
    (1..=count).map(|vertex| search.mate[vertex] - 1).collect()
}

/// An edge by its end vertices; from nobody to nobody stands for none.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    from: u32,
    to: u32,
}

impl Edge {
    fn new(from: usize, to: usize) -> Self {
        Self { from: from as u32, to: to as u32 }
    }

    fn is_none(self) -> bool {
        self.from == 0
    }

    fn from(self) -> usize {
        self.from as usize
    }

    fn to(self) -> usize {
        self.to as usize
    }

    fn turned(self) -> Self {
        Self { from: self.to, to: self.from }
    }
}

/// What a tree of alternating paths has made of a vertex or blossom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Free,
    Outer,
    Inner,
}

struct Search {
    /// Vertices.
    count: usize,
    /// Vertices and blossoms in use.
    used: usize,
    /// Of an edge between two vertices, in a table of `count + 1` columns; 0 where there is none.
    weight: Vec<i64>,
    /// For each blossom its best edge to any vertex or blossom. Empty where the number was never used.
    best: Vec<Vec<Edge>>,
    label: Vec<i64>,
    mate: Vec<usize>,
    /// The outermost blossom of each.
    outermost: Vec<usize>,
    /// The vertex that an inner one was reached from.
    reached_from: Vec<usize>,
    mark: Vec<Mark>,
    /// For each blossom the outer vertex with the least slack to it.
    nearest: Vec<usize>,
    visited: Vec<usize>,
    visit: usize,
    /// The members of each blossom, around its odd cycle from the base.
    members: Vec<Vec<usize>>,
    /// For each blossom and vertex the member that holds it.
    member_with: Vec<Vec<usize>>,
    queue: std::collections::VecDeque<usize>,
}

impl Search {
    fn new(count: usize, weight: impl Fn(usize, usize) -> Option<i64>) -> Self {
        let size = 2 * count + 1;
        let mut search = Self {
            count,
            used: count,
            weight: vec![0; (count + 1) * (count + 1)],
            best: vec![Vec::new(); size],
            label: vec![0; size],
            mate: vec![0; size],
            outermost: (0..size).map(|at| if at <= count { at } else { 0 }).collect(),
            reached_from: vec![0; size],
            mark: vec![Mark::Free; size],
            nearest: vec![0; size],
            visited: vec![0; size],
            visit: 0,
            members: vec![Vec::new(); size],
            member_with: vec![Vec::new(); size],
            queue: std::collections::VecDeque::new(),
        };
        for a in 1..=count {
            for b in (1..=count).filter(|&b| b != a) {
                // Even, and 0 is for none.
                let weight = weight(a - 1, b - 1).map_or(0, |weight| 2 * (weight + 1));
                search.weight[a * (count + 1) + b] = weight;
                search.label[a] = search.label[a].max(weight);
            }
        }
        search
    }

    /// Matches along tight edges, each vertex that has none lowered until it has one.
    fn match_greedily(&mut self) {
        for vertex in 1..=self.count {
            if self.mate[vertex] != 0 {
                continue;
            }
            let row = &self.weight[vertex * (self.count + 1)..][..=self.count];
            let can_get = |other: usize| 2 * row[other] - self.label[other];
            let partners = (1..=self.count).filter(|&other| row[other] > 0);
            let Some(most) = partners.clone().map(can_get).max() else { continue };
            let partner = partners.filter(|&other| can_get(other) == most).find(|&other| self.mate[other] == 0);
            self.label[vertex] = most;
            if let Some(partner) = partner {
                (self.mate[vertex], self.mate[partner]) = (partner, vertex);
            }
        }
    }

    /// The best edge between two vertices or blossoms.
    fn edge(&self, a: usize, b: usize) -> Edge {
        if a > self.count {
            self.best[a][b]
        } else if b > self.count {
            self.best[b][a].turned()
        } else if self.weight[a * (self.count + 1) + b] > 0 {
            Edge::new(a, b)
        } else {
            Edge::default()
        }
    }

    /// How far an edge is from being tight.
    fn slack(&self, edge: Edge) -> i64 {
        let (from, to) = (edge.from(), edge.to());
        self.label[from] + self.label[to] - 2 * self.weight[from * (self.count + 1) + to]
    }

    /// The member of a blossom that holds a vertex; a vertex holds itself.
    fn holds(&self, one: usize, vertex: usize) -> bool {
        if one <= self.count { one == vertex } else { self.member_with[one][vertex] != 0 }
    }

    fn offer(&mut self, vertex: usize, blossom: usize) {
        let now = self.nearest[blossom];
        if now == 0 || self.slack(self.edge(vertex, blossom)) < self.slack(self.edge(now, blossom)) {
            self.nearest[blossom] = vertex;
        }
    }

    fn find_nearest(&mut self, blossom: usize) {
        self.nearest[blossom] = 0;
        for vertex in 1..=self.count {
            let own = self.outermost[vertex];
            if own != blossom && self.mark[own] == Mark::Outer && !self.edge(vertex, blossom).is_none() {
                self.offer(vertex, blossom);
            }
        }
    }

    fn enqueue(&mut self, blossom: usize) {
        if blossom <= self.count {
            self.queue.push_back(blossom);
        } else {
            for member in self.members[blossom].clone() {
                self.enqueue(member);
            }
        }
    }

    fn put_into(&mut self, inner: usize, outer: usize) {
        self.outermost[inner] = outer;
        if inner > self.count {
            for member in self.members[inner].clone() {
                self.put_into(member, outer);
            }
        }
    }

    /// The place of a member, the cycle turned so that the way to it from the base is even.
    fn even_way(&mut self, blossom: usize, member: usize) -> usize {
        let cycle = &mut self.members[blossom];
        let place = cycle.iter().position(|&other| other == member).expect("a member of the blossom");
        if place % 2 == 0 {
            return place;
        }
        cycle[1..].reverse();
        cycle.len() - place
    }

    /// Matches a vertex or blossom along its edge to another, and what is within it accordingly.
    fn match_to(&mut self, one: usize, other: usize) {
        let edge = self.edge(one, other);
        self.mate[one] = edge.to();
        if one <= self.count {
            return;
        }
        let member = self.member_with[one][edge.from()];
        let place = self.even_way(one, member);
        for at in 0..place {
            let (a, b) = (self.members[one][at], self.members[one][at ^ 1]);
            self.match_to(a, b);
        }
        self.match_to(member, other);
        self.members[one].rotate_left(place);
    }

    /// Turns the path over from an outer end to its root.
    fn turn_over(&mut self, mut one: usize, mut other: usize) {
        loop {
            let next = self.outermost[self.mate[one]];
            self.match_to(one, other);
            if next == 0 {
                return;
            }
            let above = self.outermost[self.reached_from[next]];
            self.match_to(next, above);
            (one, other) = (above, next);
        }
    }

    /// Where the ways of two outer ones to their roots meet; 0 where they do not.
    fn meeting(&mut self, mut one: usize, mut other: usize) -> usize {
        self.visit += 1;
        while one != 0 || other != 0 {
            if one != 0 {
                if self.visited[one] == self.visit {
                    return one;
                }
                self.visited[one] = self.visit;
                one = self.outermost[self.mate[one]];
                if one != 0 {
                    one = self.outermost[self.reached_from[one]];
                }
            }
            std::mem::swap(&mut one, &mut other);
        }
        0
    }

    /// Makes a blossom of the cycle that an edge between two outer ones closes.
    fn shrink(&mut self, one: usize, base: usize, other: usize) {
        let free = (self.count + 1..=self.used).find(|&blossom| self.outermost[blossom] == 0);
        let blossom = free.unwrap_or(self.used + 1);
        self.used = self.used.max(blossom);
        self.label[blossom] = 0;
        self.mark[blossom] = Mark::Outer;
        self.mate[blossom] = self.mate[base];
        let mut cycle = vec![base];
        self.walk(one, base, &mut cycle);
        cycle[1..].reverse();
        self.walk(other, base, &mut cycle);
        self.members[blossom].clone_from(&cycle);
        self.put_into(blossom, blossom);
        self.best[blossom].clear();
        self.best[blossom].resize(self.label.len(), Edge::default());
        self.member_with[blossom].clear();
        self.member_with[blossom].resize(self.count + 1, 0);
        for member in cycle {
            // Not to blossoms that are undone, nor to this one.
            let others = (1..=self.used).filter(|&at| at != blossom && self.outermost[at] != 0);
            for at in others.collect::<Vec<_>>() {
                let (known, edge) = (self.best[blossom][at], self.edge(member, at));
                if !edge.is_none() && (known.is_none() || self.slack(edge) < self.slack(known)) {
                    self.best[blossom][at] = edge;
                }
            }
            for vertex in 1..=self.count {
                if self.holds(member, vertex) {
                    self.member_with[blossom][vertex] = member;
                }
            }
        }
        for at in self.count + 1..=self.used {
            if at != blossom && !self.best[at].is_empty() {
                self.best[at][blossom] = self.best[blossom][at].turned();
            }
        }
        self.find_nearest(blossom);
    }

    /// Adds the way from an outer one down to the base of a new blossom to its cycle.
    fn walk(&mut self, mut at: usize, base: usize, cycle: &mut Vec<usize>) {
        while at != base {
            cycle.push(at);
            let inner = self.outermost[self.mate[at]];
            cycle.push(inner);
            self.enqueue(inner);
            at = self.outermost[self.reached_from[inner]];
        }
    }

    /// Undoes an inner blossom whose label has come to nothing.
    fn expand(&mut self, blossom: usize) {
        for member in self.members[blossom].clone() {
            self.put_into(member, member);
        }
        let entry = self.edge(blossom, self.reached_from[blossom]).from();
        let first = self.member_with[blossom][entry];
        let place = self.even_way(blossom, first);
        let cycle = self.members[blossom].clone();
        for at in (0..place).step_by(2) {
            let (inner, outer) = (cycle[at], cycle[at + 1]);
            self.reached_from[inner] = self.edge(outer, inner).from();
            self.mark[inner] = Mark::Inner;
            self.mark[outer] = Mark::Outer;
            self.nearest[inner] = 0;
            self.find_nearest(outer);
            self.enqueue(outer);
        }
        self.mark[first] = Mark::Inner;
        self.reached_from[first] = self.reached_from[blossom];
        for &member in &cycle[place + 1..] {
            self.mark[member] = Mark::Free;
            self.find_nearest(member);
        }
        self.outermost[blossom] = 0;
    }

    /// Uses a tight edge from an outer vertex; true where it completed an augmenting path.
    fn use_edge(&mut self, edge: Edge) -> bool {
        let (one, other) = (self.outermost[edge.from()], self.outermost[edge.to()]);
        match self.mark[other] {
            Mark::Free => {
                self.reached_from[other] = edge.from();
                self.mark[other] = Mark::Inner;
                let next = self.outermost[self.mate[other]];
                self.nearest[other] = 0;
                self.nearest[next] = 0;
                self.mark[next] = Mark::Outer;
                self.enqueue(next);
            }
            Mark::Outer => match self.meeting(one, other) {
                0 => {
                    self.turn_over(one, other);
                    self.turn_over(other, one);
                    return true;
                }
                base => self.shrink(one, base, other),
            },
            Mark::Inner => {}
        }
        false
    }

    /// Grows trees from the unmatched until a path between two of them is turned over; false where none is left.
    fn augment_once(&mut self) -> bool {
        self.mark.fill(Mark::Free);
        self.nearest.fill(0);
        self.queue.clear();
        for at in 1..=self.used {
            if self.outermost[at] == at && self.mate[at] == 0 {
                self.reached_from[at] = 0;
                self.mark[at] = Mark::Outer;
                self.enqueue(at);
            }
        }
        if self.queue.is_empty() {
            return false;
        }
        loop {
            if self.grow() {
                return true;
            }
            if !self.adjust_labels() {
                return false;
            }
            if self.use_tight() {
                return true;
            }
            for blossom in self.count + 1..=self.used {
                let own = self.outermost[blossom] == blossom;
                if own && self.mark[blossom] == Mark::Inner && self.label[blossom] == 0 {
                    self.expand(blossom);
                }
            }
        }
    }

    fn grow(&mut self) -> bool {
        while let Some(vertex) = self.queue.pop_front() {
            if self.mark[self.outermost[vertex]] == Mark::Inner {
                continue;
            }
            for other in 1..=self.count {
                let edge = self.edge(vertex, other);
                if edge.is_none() || self.outermost[vertex] == self.outermost[other] {
                    continue;
                }
                if self.slack(edge) > 0 {
                    self.offer(vertex, self.outermost[other]);
                } else if self.use_edge(edge) {
                    return true;
                }
            }
        }
        false
    }

    /// Changes the labels until an edge becomes tight or a blossom empty; false where no matching can grow.
    fn adjust_labels(&mut self) -> bool {
        let mut step = i64::MAX;
        for at in 1..=self.used {
            if self.outermost[at] != at {
                continue;
            }
            if at > self.count && self.mark[at] == Mark::Inner {
                step = step.min(self.label[at] / 2);
            }
            if self.nearest[at] != 0 {
                let slack = self.slack(self.edge(self.nearest[at], at));
                match self.mark[at] {
                    Mark::Free => step = step.min(slack),
                    Mark::Outer => step = step.min(slack / 2),
                    Mark::Inner => {}
                }
            }
        }
        if step == i64::MAX {
            return false;
        }
        for vertex in 1..=self.count {
            match self.mark[self.outermost[vertex]] {
                Mark::Outer => self.label[vertex] -= step,
                Mark::Inner => self.label[vertex] += step,
                Mark::Free => {}
            }
        }
        for blossom in self.count + 1..=self.used {
            if self.outermost[blossom] == blossom {
                match self.mark[blossom] {
                    Mark::Outer => self.label[blossom] += 2 * step,
                    Mark::Inner => self.label[blossom] -= 2 * step,
                    Mark::Free => {}
                }
            }
        }
        true
    }

    fn use_tight(&mut self) -> bool {
        self.queue.clear();
        for at in 1..=self.used {
            let vertex = self.nearest[at];
            if self.outermost[at] == at && vertex != 0 && self.outermost[vertex] != at {
                let edge = self.edge(vertex, at);
                if self.slack(edge) == 0 && self.use_edge(edge) {
                    return true;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn brute(count: usize, weight: &impl Fn(usize, usize) -> Option<i64>, matched: u32) -> Option<i64> {
        let Some(first) = (0..count).find(|vertex| matched >> vertex & 1 == 0) else { return Some(0) };
        let free = (first + 1..count).filter(|vertex| matched >> vertex & 1 == 0);
        free.filter_map(|other| Some(weight(first, other)? + brute(count, weight, matched | 1 << first | 1 << other)?))
            .max()
    }

    #[test]
    fn it_agrees_with_trying_all() {
        let mut random = Random::new(11);
        for round in 0..400 {
            let count = 2 * (1 + random.below(5));
            let values: Vec<i64> =
                (0..100).map(|_| random.below(if round % 2 == 0 { 4 } else { 1_000 }) as i64).collect();
            let sparse = round % 3 == 0;
            let weight = |a: usize, b: usize| {
                let value = values[a.min(b) * 10 + a.max(b)];
                (!sparse || value % 3 != 0 || a / 2 == b / 2).then_some(value)
            };
            let partner = perfect_matching(count, weight);
            assert!((0..count).all(|vertex| partner[vertex] != vertex && partner[partner[vertex]] == vertex));
            let pairs = (0..count).filter(|&vertex| partner[vertex] > vertex);
            let sum: i64 = pairs.map(|vertex| weight(vertex, partner[vertex]).expect("a permitted pair")).sum();
            assert_eq!(Some(sum), brute(count, &weight, 0), "round {round}");
        }
    }

    /// The dual solution proves the primal one, whatever the size: no edge is under its price, those that are used are
    /// at it, and the blossoms that have a price are full.
    #[test]
    fn labels_prove_it() {
        let mut random = Random::new(5);
        for round in 0..120 {
            let count = 2 * (1 + random.below(40));
            let greatest = [3, 20, 1_000_000][round % 3];
            let values: Vec<i64> = (0..count * count).map(|_| random.below(greatest) as i64).collect();
            let few = round % 2 == 0;
            let weight = |a: usize, b: usize| {
                let value = values[a.min(b) * count + a.max(b)];
                (!few || a / 2 == b / 2 || value % 7 == 0).then_some(value)
            };
            let mut search = Search::new(count, weight);
            search.match_greedily();
            while search.augment_once() {}
            let blossoms = (count + 1..=search.used).filter(|&blossom| search.outermost[blossom] != 0);
            let blossoms: Vec<usize> = blossoms.filter(|&blossom| search.label[blossom] != 0).collect();
            for &blossom in &blossoms {
                assert!(search.label[blossom] > 0);
                let inside = |vertex: &usize| search.holds(blossom, *vertex);
                let size = (1..=count).filter(inside).count();
                let kept = (1..=count).filter(inside).filter(|&vertex| inside(&search.mate[vertex])).count();
                assert_eq!(kept, size - 1, "round {round}");
            }
            for (a, b) in
                (1..=count).flat_map(|a| (1..a).map(move |b| (a, b))).filter(|&(a, b)| weight(a - 1, b - 1).is_some())
            {
                let holding = blossoms.iter().filter(|&&blossom| search.holds(blossom, a) && search.holds(blossom, b));
                let price = search.slack(Edge::new(a, b)) + holding.map(|&blossom| search.label[blossom]).sum::<i64>();
                assert!(price >= 0 && (price == 0 || search.mate[a] != b), "round {round}: {a} {b} {price}");
            }
            assert!((1..=count).all(|vertex| search.mate[search.mate[vertex]] == vertex && search.mate[vertex] != 0));
        }
    }
}
