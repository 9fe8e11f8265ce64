//! Maximum-weight perfect matching in general graphs (Edmonds, "Maximum matching and a polyhedron with 0,1-vertices", 1965),
//! in the form with one table of best edges between blossoms, O(n^3) time and O(n^2) memory.
//!
//! Vertices and blossoms are numbered from 1; 0 is nobody. Labels are twice the dual variables, so all stay integers.

/// The partner of every vertex in the heaviest perfect matching of `count` vertices. `weight` is none where two may not be
/// matched; some perfect matching must exist. Weights are from 0 to 2^40.
pub fn perfect_matching(count: usize, weight: impl Fn(usize, usize) -> Option<i64>) -> Vec<usize> {
    let mut search = Search::new(count, weight);
    while search.augment_once() {}
    (1..=count).map(|vertex| search.mate[vertex] - 1).collect()
}

/// An edge by its end vertices; weight 0 stands for none.
#[derive(Debug, Clone, Copy, Default)]
struct Edge {
    from: usize,
    to: usize,
    weight: i64,
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
    /// Best edge between any two vertices or blossoms.
    edge: Vec<Vec<Edge>>,
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
        // Heavy enough that more pairs are always better than heavier ones.
        let heaviest = (0..count).flat_map(|a| (0..a).filter_map(|b| weight(a, b)).max()).max().unwrap_or(0);
        let bonus = (heaviest + 1) * (count as i64 / 2 + 1);
        let mut search = Self {
            count,
            used: count,
            edge: (0..size).map(|from| (0..size).map(|to| Edge { from, to, weight: 0 }).collect()).collect(),
            label: vec![0; size],
            mate: vec![0; size],
            outermost: (0..size).map(|at| if at <= count { at } else { 0 }).collect(),
            reached_from: vec![0; size],
            mark: vec![Mark::Free; size],
            nearest: vec![0; size],
            visited: vec![0; size],
            visit: 0,
            members: vec![Vec::new(); size],
            member_with: vec![vec![0; count + 1]; size],
            queue: std::collections::VecDeque::new(),
        };
        for a in 1..=count {
            search.member_with[a][a] = a;
            for b in (1..=count).filter(|&b| b != a) {
                search.edge[a][b].weight = weight(a - 1, b - 1).map_or(0, |weight| weight + bonus);
            }
        }
        search.label[1..=count].fill(heaviest + bonus);
        search
    }

    /// How far an edge is from being tight.
    fn slack(&self, edge: Edge) -> i64 {
        self.label[edge.from] + self.label[edge.to] - 2 * self.edge[edge.from][edge.to].weight
    }

    fn offer(&mut self, vertex: usize, blossom: usize) {
        let now = self.nearest[blossom];
        if now == 0 || self.slack(self.edge[vertex][blossom]) < self.slack(self.edge[now][blossom]) {
            self.nearest[blossom] = vertex;
        }
    }

    fn find_nearest(&mut self, blossom: usize) {
        self.nearest[blossom] = 0;
        for vertex in 1..=self.count {
            let own = self.outermost[vertex];
            if self.edge[vertex][blossom].weight > 0 && own != blossom && self.mark[own] == Mark::Outer {
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
        let edge = self.edge[one][other];
        self.mate[one] = edge.to;
        if one <= self.count {
            return;
        }
        let member = self.member_with[one][edge.from];
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
        for at in 1..=self.used {
            self.edge[blossom][at].weight = 0;
            self.edge[at][blossom].weight = 0;
        }
        self.member_with[blossom].fill(0);
        for member in cycle {
            for at in 1..=self.used {
                let better = self.slack(self.edge[member][at]) < self.slack(self.edge[blossom][at]);
                if self.edge[blossom][at].weight == 0 || better {
                    self.edge[blossom][at] = self.edge[member][at];
                    self.edge[at][blossom] = self.edge[at][member];
                }
            }
            for vertex in 1..=self.count {
                if self.member_with[member][vertex] != 0 {
                    self.member_with[blossom][vertex] = member;
                }
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
        let entry = self.edge[blossom][self.reached_from[blossom]].from;
        let first = self.member_with[blossom][entry];
        let place = self.even_way(blossom, first);
        let cycle = self.members[blossom].clone();
        for at in (0..place).step_by(2) {
            let (inner, outer) = (cycle[at], cycle[at + 1]);
            self.reached_from[inner] = self.edge[outer][inner].from;
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
        let (one, other) = (self.outermost[edge.from], self.outermost[edge.to]);
        match self.mark[other] {
            Mark::Free => {
                self.reached_from[other] = edge.from;
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
                let edge = self.edge[vertex][other];
                if edge.weight == 0 || self.outermost[vertex] == self.outermost[other] {
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
                let slack = self.slack(self.edge[self.nearest[at]][at]);
                match self.mark[at] {
                    Mark::Free => step = step.min(slack),
                    Mark::Outer => step = step.min(slack / 2),
                    Mark::Inner => {}
                }
            }
        }
        for vertex in 1..=self.count {
            match self.mark[self.outermost[vertex]] {
                Mark::Outer if self.label[vertex] <= step => return false,
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
                let edge = self.edge[vertex][at];
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
}
