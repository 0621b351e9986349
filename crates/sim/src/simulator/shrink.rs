//! Shrinking: the smallest plan of a seed that still fails.

use super::fault::Fault;
use super::plan::{Cut, Plan};
use super::simulation::{Report, simulate};

/// Makes a failing plan smaller for as long as it fails, in at most so many simulations. Returns
/// what can be left out, and the report of what is left.
pub fn shrink(plan: &Plan, failed: Report, simulations: usize) -> (Cut, Report) {
    let mut best = (Cut::default(), failed);
    let mut left = simulations;
    loop {
        let smaller = candidates(plan, &best.0).into_iter().find_map(|cut| {
            let smaller = plan.clone().cut(&cut);
            if left == 0 || smaller.size() >= plan.clone().cut(&best.0).size() {
                return None;
            }
            left -= 1;
            let report = simulate(&smaller);
            (!report.violations.is_empty()).then_some((cut, report))
        });
        match smaller {
            Some(smaller) => best = smaller,
            None => return best,
        }
    }
}

/// What could be left out next, the most first.
fn candidates(plan: &Plan, cut: &Cut) -> Vec<Cut> {
    let now = plan.clone().cut(cut);
    let mut cuts = Vec::new();
    let mut add = |change: &dyn Fn(&mut Cut)| {
        let mut next = cut.clone();
        change(&mut next);
        cuts.push(next);
    };
    let events = cut.events.clone().unwrap_or_else(|| (0..plan.events.len()).collect());
    if !events.is_empty() {
        add(&|next| next.events = Some(Vec::new()));
        let (first, second) = events.split_at(events.len() / 2);
        add(&|next| next.events = Some(first.to_vec()));
        add(&|next| next.events = Some(second.to_vec()));
    }
    add(&|next| next.without = Fault::ALL.to_vec());
    add(&|next| next.operations = Some(now.operations / 2));
    add(&|next| next.clients = Some(now.clients / 2));
    add(&|next| next.processes = Some((now.processes / 2).max(1)));
    add(&|next| next.processes = Some(now.processes.saturating_sub(1).max(1)));
    for fault in now.calls.keys() {
        add(&|next| next.without.push(*fault));
    }
    for nth in 0..events.len() {
        let mut kept = events.clone();
        kept.remove(nth);
        add(&|next| next.events = Some(kept.clone()));
    }
    add(&|next| next.clients = Some(now.clients.saturating_sub(1)));
    add(&|next| next.operations = Some(now.operations.saturating_sub(1)));
    cuts
}
