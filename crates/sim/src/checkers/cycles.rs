//! Transactional anomalies: cycles of dependencies between commits (Adya; Kingsbury and Alvaro,
//! *Elle*, 2020).
//!
//! Every commit, read and refusal is a transaction. Streams are lists that are appended to and
//! records are registers; because answers carry versions and revisions, the order of the writes of
//! each is known and need not be inferred. The edges are write-write, write-read, read-write
//! (anti-dependency) and real time; a history is strictly serializable if they have no cycle.
//!
//! Linear in the history: Tarjan's components, then the shortest cycle in each component that has
//! one. The kind of a cycle is the weakest set of edges that has it: G0, G1c, G-single, G2, and the
//! same with real time. G1a and G1b are read off the versions directly.

mod graph;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::cases::{Case, Fate};
use super::{Inquiry, Report};
use crate::history::{
    Action, Answer, Change, Expected, Found, Operation, Outcome, Part, PartAnswer, Slot,
};
use graph::{Edge, Graph, RW, WR, WW};

/// What a transaction reads and writes: a stream or a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key<'a> {
    Stream(&'a str),
    Record(&'a str),
}

impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(name) => write!(f, "stream {name}"),
            Self::Record(name) => write!(f, "record {name}"),
        }
    }
}

/// One transaction.
struct Transaction<'a> {
    name: &'a str,
    invoked: u64,
    returned: Option<u64>,
    /// The numbers that it found.
    reads: Vec<(Key<'a>, u64)>,
    /// The first and the last number that it made.
    writes: Vec<(Key<'a>, u64, u64)>,
}

/// Searches for every anomaly.
pub(super) fn check(inquiry: &Inquiry<'_>, report: &mut Report) {
    let names: Vec<String> = inquiry.history.operations.iter().map(Operation::name).collect();
    let transactions = transactions(inquiry, &names);
    aborted_reads(inquiry, report);
    intermediate_reads(&transactions, report);
    lost_updates(&transactions, report);
    let graph = dependencies(&transactions);
    for cycle in graph.cycles() {
        let story: Vec<String> = cycle
            .edges
            .iter()
            .map(|edge| {
                format!("{} --{}--> ", transactions[edge.from].name, why(edge, &transactions))
            })
            .collect();
        let first = transactions[cycle.edges[0].from].name;
        let story = format!("{}{first}", story.concat());
        report.add(cycle.anomaly, story);
    }
}

fn transactions<'a>(inquiry: &'a Inquiry<'a>, names: &'a [String]) -> Vec<Transaction<'a>> {
    let vanishing = vanishing(inquiry);
    let landed = inquiry.cases.iter().filter_map(of_case);
    let reads =
        inquiry.history.operations.iter().zip(names).filter_map(|(one, name)| of_read(one, name));
    let mut all: Vec<Transaction<'_>> = landed.chain(reads).collect();
    for transaction in &mut all {
        // Nothing there: before the first write, unless what was there can vanish.
        transaction.reads.retain(|(key, number)| *number > 0 || !vanishing.contains(key));
        transaction.reads.sort_unstable();
        transaction.reads.dedup();
    }
    all
}

/// The objects that may be there, then not, then there again.
fn vanishing<'a>(inquiry: &'a Inquiry<'a>) -> HashSet<Key<'a>> {
    let parts = inquiry.cases.iter().flat_map(|case| &case.commit.parts);
    let vanishing = parts.filter_map(|part| match part {
        Part::Trim { stream, forget: true, .. } => Some(Key::Stream(stream)),
        Part::Write { key, change: Change::Delete, .. }
        | Part::Write { key, expires: Some(_), .. } => Some(Key::Record(key)),
        _ => None,
    });
    vanishing.collect()
}

fn read_of(expected: Expected) -> Option<u64> {
    match expected {
        Expected::Exactly(number) => Some(number),
        Expected::Absent => Some(0),
        Expected::Any | Expected::Exists => None,
    }
}

fn of_case<'a>(case: &'a Case<'a>) -> Option<Transaction<'a>> {
    if !case.has_landed() {
        return None;
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for (part, answer) in case.parts() {
        let key = match part {
            Part::Append { stream, .. } | Part::GuardStream { stream, .. } => Key::Stream(stream),
            Part::Write { key, .. } | Part::GuardRecord { key, .. } => Key::Record(key),
            _ => continue,
        };
        if let Part::Append { expected, .. }
        | Part::Write { expected, .. }
        | Part::GuardStream { expected, .. }
        | Part::GuardRecord { expected, .. } = part
            && !matches!(answer, PartAnswer::Appended { replayed: true, .. })
        {
            reads.extend(read_of(*expected).map(|number| (key, number)));
        }
        match (part, answer) {
            (
                Part::Append { events, .. },
                PartAnswer::Appended { version, replayed: false, .. },
            ) if !events.is_empty() => {
                writes.push((key, (version + 1).saturating_sub(events.len() as u64), *version));
            }
            // The deletion of what is not there has the revision that it found.
            (
                Part::Write {
                    change: Change::Delete,
                    expected: Expected::Any | Expected::Absent,
                    ..
                },
                _,
            ) => {}
            (Part::Write { .. }, PartAnswer::Written { revision: Some(revision), .. }) => {
                writes.push((key, *revision, *revision));
            }
            _ => {}
        }
    }
    let Case { name, invoked, returned, .. } = case;
    Some(Transaction { name, invoked: *invoked, returned: *returned, reads, writes })
}

/// A read, or a refusal, which reads what it was refused on.
fn of_read<'a>(operation: &'a Operation, name: &'a str) -> Option<Transaction<'a>> {
    let slot = |slot: &Slot| match slot {
        Slot::Absent => 0,
        Slot::Deleted(revision) | Slot::Live { revision, .. } => *revision,
    };
    let reads = match (&operation.action, &operation.outcome) {
        (Action::ReadStream { stream, .. }, Outcome::Done(Answer::Stream(read))) => {
            vec![(Key::Stream(stream), read.version.unwrap_or(0))]
        }
        (Action::ReadRecords { keys }, Outcome::Done(Answer::Records(slots))) => {
            keys.iter().zip(slots).map(|(key, found)| (Key::Record(key), slot(found))).collect()
        }
        (Action::Commit(commit), Outcome::Refused(refusals)) => {
            let found = refusals.iter().filter_map(|refusal| {
                match (commit.parts.get(refusal.part)?, &refusal.found) {
                    (
                        Part::Append { stream, .. } | Part::GuardStream { stream, .. },
                        Found::Stream { version, .. },
                    ) => Some((Key::Stream(stream), version.unwrap_or(0))),
                    (
                        Part::Write { key, .. } | Part::GuardRecord { key, .. },
                        Found::Slot(found),
                    ) => Some((Key::Record(key), slot(found))),
                    _ => None,
                }
            });
            found.collect()
        }
        _ => return None,
    };
    let returned = operation.returned.map(|end| end.seq);
    Some(Transaction { name, invoked: operation.invoked.seq, returned, reads, writes: Vec::new() })
}

/// The writers of each key, by the last number that they made.
type Writers<'a> = HashMap<Key<'a>, BTreeMap<u64, usize>>;

fn writers<'a>(transactions: &[Transaction<'a>]) -> Writers<'a> {
    let mut writers: Writers<'_> = HashMap::new();
    for (nth, transaction) in transactions.iter().enumerate() {
        for (key, _, last) in &transaction.writes {
            writers.entry(*key).or_default().insert(*last, nth);
        }
    }
    writers
}

fn dependencies(transactions: &[Transaction<'_>]) -> Graph {
    let writers = writers(transactions);
    let mut graph = Graph::new(transactions.len());
    for versions in writers.values() {
        for (earlier, later) in versions.values().zip(versions.values().skip(1)) {
            graph.add(*earlier, *later, WW);
        }
    }
    for (reader, transaction) in transactions.iter().enumerate() {
        for (key, number) in &transaction.reads {
            let Some(versions) = writers.get(key) else { continue };
            if let Some((last, writer)) = versions.range(*number..).next()
                && wrote(&transactions[*writer], *key, *number, *last)
            {
                graph.add(*writer, reader, WR);
            }
            if let Some((_, writer)) = versions.range(number + 1..).next() {
                graph.add(reader, *writer, RW);
            }
        }
    }
    let spans = transactions.iter().map(|one| (one.invoked, one.returned));
    graph.add_real_time(spans);
    graph
}

/// Whether the writer of this last number of the key made this number too.
fn wrote(writer: &Transaction<'_>, key: Key<'_>, number: u64, last: u64) -> bool {
    writer.writes.iter().any(|(wrote, first, end)| {
        *wrote == key && *end == last && (*first..=last).contains(&number)
    })
}

/// What an edge is about.
fn why(edge: &Edge, transactions: &[Transaction<'_>]) -> String {
    let (from, to) = (&transactions[edge.from], &transactions[edge.to]);
    let common = |ones: Vec<String>, others: Vec<String>| {
        ones.into_iter().find(|key| others.contains(key)).unwrap_or_default()
    };
    let reads =
        |one: &'_ Transaction<'_>| one.reads.iter().map(|(key, _)| key.to_string()).collect();
    let writes =
        |one: &'_ Transaction<'_>| one.writes.iter().map(|(key, ..)| key.to_string()).collect();
    match edge.kind {
        WW => format!("ww {}", common(writes(from), writes(to))),
        WR => format!("wr {}", common(writes(from), reads(to))),
        RW => format!("rw {}", common(reads(from), writes(to))),
        _ => "ended before".to_owned(),
    }
}

/// G1a: a read of an event whose commit did not land.
fn aborted_reads(inquiry: &Inquiry<'_>, report: &mut Report) {
    let never = inquiry.cases.iter().filter(|case| matches!(case.fate, Fate::Never));
    let mut aborted: HashMap<&str, &str> = HashMap::new();
    for case in never {
        aborted.extend(case.events().map(|id| (id, case.name.as_str())));
    }
    // Events that were sent again in another commit, which landed or may have.
    let others = inquiry.cases.iter().filter(|case| !matches!(case.fate, Fate::Never));
    others.flat_map(Case::events).for_each(|id| {
        aborted.remove(id);
    });
    for event in super::numbers::seen(inquiry) {
        if let Some(name) = aborted.remove(event.id.as_str()) {
            let story = format!("event {} was read, and {name} did not land", event.id);
            report.add("G1a", story);
        }
    }
}

/// G1b: a read of a state in the middle of a commit.
fn intermediate_reads(transactions: &[Transaction<'_>], report: &mut Report) {
    let writers = writers(transactions);
    for reader in transactions {
        for (key, number) in reader.reads.iter().filter(|(_, number)| *number > 0) {
            let Some(versions) = writers.get(key) else { continue };
            let Some((last, writer)) = versions.range(*number..).next() else { continue };
            let writer = &transactions[*writer];
            if last > number && wrote(writer, *key, *number, *last) {
                let story = format!(
                    "{} found {key} at {number}, in the middle of {}",
                    reader.name, writer.name
                );
                report.add("G1b", story);
            }
        }
    }
}

/// A commit that expected a number and wrote past another commit's write.
fn lost_updates(transactions: &[Transaction<'_>], report: &mut Report) {
    let writers = writers(transactions);
    for (nth, transaction) in transactions.iter().enumerate() {
        for (key, first, _) in &transaction.writes {
            let read = transaction.reads.iter().find(|(read, _)| read == key);
            let Some((_, read)) = read.filter(|(_, read)| read + 1 < *first) else { continue };
            let versions = &writers[key];
            let between = versions.range(read + 1..*first).find(|(_, writer)| **writer != nth);
            if let Some((_, other)) = between {
                let story = format!(
                    "{} read {key} at {read} and wrote {first} over the write of {}",
                    transaction.name, transactions[*other].name
                );
                report.add("lost update", story);
            }
        }
    }
}
