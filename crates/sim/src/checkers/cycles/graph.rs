//! Dependency graphs, and the shortest cycle of the weakest kind in each component.

use std::collections::{HashMap, VecDeque};

/// Kinds of edges, as bits of a set.
pub(super) const WW: u8 = 1;
pub(super) const WR: u8 = 2;
pub(super) const RW: u8 = 4;
pub(super) const RT: u8 = 8;

/// Anomalies from the weakest set of edges on, which may have one read-write edge or more.
const ANOMALIES: [(&str, u8, Anti); 8] = [
    ("G0", WW, Anti::None),
    ("G1c", WW | WR, Anti::None),
    ("G-single", WW | WR, Anti::One),
    ("G2", WW | WR, Anti::Any),
    ("G0-realtime", WW | RT, Anti::None),
    ("G1c-realtime", WW | WR | RT, Anti::None),
    ("G-single-realtime", WW | WR | RT, Anti::One),
    ("G2-realtime", WW | WR | RT, Anti::Any),
];

/// The most read-write edges of one component that are tried for a cycle with only one of them.
const MAX_ANTI: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anti {
    None,
    One,
    Any,
}

/// An edge between transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) kind: u8,
}

/// A cycle: each edge begins where the one before it ends.
#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) anomaly: &'static str,
    pub(super) edges: Vec<Edge>,
}

/// A graph of transactions, and of moments between them that stand for real time.
#[derive(Debug)]
pub(super) struct Graph {
    transactions: usize,
    edges: Vec<Vec<(usize, u8)>>,
}

impl Graph {
    pub(super) fn new(transactions: usize) -> Self {
        Self { transactions, edges: vec![Vec::new(); transactions] }
    }

    pub(super) fn add(&mut self, from: usize, to: usize, kind: u8) {
        if from != to {
            self.edges[from].push((to, kind));
        }
    }

    /// Orders transactions of which one ended before the other began, through a chain of moments:
    /// one edge for each begin and end, instead of one for each pair.
    pub(super) fn add_real_time(&mut self, spans: impl Iterator<Item = (u64, Option<u64>)>) {
        let mut moments: Vec<(u64, bool, usize)> = Vec::new();
        for (nth, (invoked, returned)) in spans.enumerate() {
            moments.push((invoked, false, nth));
            moments.extend(returned.map(|at| (at, true, nth)));
        }
        moments.sort_unstable();
        let (mut last, mut is_used): (Option<usize>, bool) = (None, true);
        for (_, ends, nth) in moments {
            match (ends, last) {
                (false, Some(moment)) => {
                    self.edges[moment].push((nth, RT));
                    is_used = true;
                }
                (false, None) => {}
                (true, _) => {
                    if is_used {
                        let moment = self.edges.len();
                        self.edges.push(Vec::new());
                        if let Some(before) = last {
                            self.edges[before].push((moment, RT));
                        }
                        (last, is_used) = (Some(moment), false);
                    }
                    let moment = last.expect("it was just made");
                    self.edges[nth].push((moment, RT));
                }
            }
        }
    }

    /// One cycle of each component that has one.
    pub(super) fn cycles(&self) -> Vec<Cycle> {
        let all: Vec<usize> = (0..self.edges.len()).collect();
        let components = self.components(&all, WW | WR | RW | RT);
        components.iter().filter_map(|component| self.cycle_in(component)).collect()
    }

    fn cycle_in(&self, component: &[usize]) -> Option<Cycle> {
        ANOMALIES.iter().find_map(|(anomaly, kinds, anti)| {
            let edges = match anti {
                Anti::None => self.shortest(component, *kinds),
                Anti::One => self.with_one_anti_dependency(component, *kinds),
                Anti::Any => self.shortest(component, *kinds | RW),
            }?;
            Some(Cycle { anomaly, edges: self.without_moments(&edges) })
        })
    }

    /// The shortest cycle through one transaction of a component that has these edges only.
    fn shortest(&self, component: &[usize], kinds: u8) -> Option<Vec<Edge>> {
        let inner = self.components(component, kinds).into_iter().next()?;
        let start = *inner.iter().min()?;
        self.path(start, start, &inner, kinds)
    }

    fn with_one_anti_dependency(&self, component: &[usize], kinds: u8) -> Option<Vec<Edge>> {
        let anti = component.iter().flat_map(|from| {
            let edges = self.edges[*from].iter().filter(|(_, kind)| *kind == RW);
            edges.map(|(to, _)| Edge { from: *from, to: *to, kind: RW })
        });
        anti.take(MAX_ANTI).find_map(|edge| {
            let back = self.path(edge.to, edge.from, component, kinds)?;
            Some([vec![edge], back].concat())
        })
    }

    /// The shortest path of at least one edge within these nodes.
    fn path(&self, from: usize, to: usize, within: &[usize], kinds: u8) -> Option<Vec<Edge>> {
        let inside: std::collections::HashSet<usize> = within.iter().copied().collect();
        let mut came: HashMap<usize, Edge> = HashMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (next, kind) in self.edges[node].iter().filter(|(_, kind)| kind & kinds != 0) {
                if !inside.contains(next) || came.contains_key(next) {
                    continue;
                }
                came.insert(*next, Edge { from: node, to: *next, kind: *kind });
                if *next == to {
                    return Some(walk_back(&came, from, to));
                }
                queue.push_back(*next);
            }
        }
        None
    }

    /// Joins the edges to and from moments to edges between transactions.
    fn without_moments(&self, edges: &[Edge]) -> Vec<Edge> {
        let first = edges.iter().position(|edge| edge.from < self.transactions).unwrap_or(0);
        let mut joined: Vec<Edge> = Vec::new();
        for edge in edges[first..].iter().chain(&edges[..first]) {
            match joined.last_mut().filter(|last| last.to >= self.transactions) {
                Some(last) => last.to = edge.to,
                None => joined.push(*edge),
            }
        }
        joined
    }

    /// The strongly connected components of more than one node, by Tarjan's algorithm without
    /// recursion.
    fn components(&self, nodes: &[usize], kinds: u8) -> Vec<Vec<usize>> {
        let mut search = Tarjan {
            graph: self,
            kinds,
            state: vec![None; self.edges.len()],
            stack: Vec::new(),
            next: 1,
            found: Vec::new(),
        };
        nodes.iter().for_each(|node| search.state[*node] = Some(Visit::default()));
        nodes.iter().for_each(|node| search.visit(*node));
        search.found
    }
}

fn walk_back(came: &HashMap<usize, Edge>, from: usize, to: usize) -> Vec<Edge> {
    let (mut edges, mut at) = (Vec::new(), to);
    loop {
        let edge = came[&at];
        edges.push(edge);
        at = edge.from;
        if at == from {
            edges.reverse();
            return edges;
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Visit {
    index: usize,
    low: usize,
    on_stack: bool,
}

struct Tarjan<'a> {
    graph: &'a Graph,
    kinds: u8,
    /// The visits of the nodes that are searched.
    state: Vec<Option<Visit>>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Tarjan<'_> {
    fn visit(&mut self, root: usize) {
        if self.at(root).index != 0 {
            return;
        }
        let mut work = vec![(root, 0)];
        self.enter(root);
        while let Some((node, nth)) = work.pop() {
            match self.graph.edges[node].get(nth) {
                Some((next, kind)) => {
                    work.push((node, nth + 1));
                    let Some(seen) = self.state[*next].filter(|_| kind & self.kinds != 0) else {
                        continue;
                    };
                    if seen.index == 0 {
                        self.enter(*next);
                        work.push((*next, 0));
                    } else if seen.on_stack {
                        let index = seen.index;
                        self.lower(node, index);
                    }
                }
                None => {
                    self.leave(node);
                    if let Some((parent, _)) = work.last() {
                        let low = self.at(node).low;
                        self.lower(*parent, low);
                    }
                }
            }
        }
    }

    fn at(&mut self, node: usize) -> &mut Visit {
        self.state[node].as_mut().expect("only these nodes are searched")
    }

    fn enter(&mut self, node: usize) {
        let visit = Visit { index: self.next, low: self.next, on_stack: true };
        self.state[node] = Some(visit);
        self.next += 1;
        self.stack.push(node);
    }

    fn lower(&mut self, node: usize, to: usize) {
        let visit = self.at(node);
        visit.low = visit.low.min(to);
    }

    fn leave(&mut self, node: usize) {
        let visit = *self.at(node);
        if visit.low != visit.index {
            return;
        }
        let at = self.stack.iter().rposition(|other| *other == node).expect("it was pushed");
        let component = self.stack.split_off(at);
        for member in &component {
            self.at(*member).on_stack = false;
        }
        if component.len() > 1 {
            self.found.push(component);
        }
    }
}
