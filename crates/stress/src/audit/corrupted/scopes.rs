//! Corrupted evidence about scopes: a board with a change of each kind.

use std::collections::BTreeSet;

use super::sample::{CONSUMER, DEAD, Sample};
use super::{Evidence, found};
use crate::board::{self, Board, Change, Wish};
use crate::finding::Kind;
use crate::journal::Entry;

impl Sample {
    /// A change of each kind, and one that comes too late.
    pub(super) async fn change(&self) {
        let caller = &self.callers[CONSUMER];
        self.wish("added", Change::Increment).await;
        let seen = board::load(caller, &self.space, 0).await.unwrap().1;
        for (id, change) in [
            ("pushed", Change::Push),
            ("late", Change::Swap(seen)),
            ("no", Change::Decline),
            ("last", Change::Push),
        ] {
            self.wish(id, change).await;
        }
    }

    async fn wish(&self, id: &str, change: Change) {
        let wish = Wish { id: id.to_owned(), board: 0, change };
        self.callers[CONSUMER].note(&Entry::Wished(wish.clone()));
        wish.fulfil(&self.callers[CONSUMER], &self.space).await.unwrap();
    }
}

impl Evidence {
    fn board(&mut self) -> &mut Board {
        &mut self.boards.as_mut().unwrap().get_mut(&0).unwrap().0
    }
}

#[test]
fn a_change_that_is_lost_or_there_twice_is_found() {
    let lost = |evidence: &mut Evidence| drop(evidence.board().pushed.pop());
    assert_eq!(found(lost), BTreeSet::from([Kind::LostCommit]));
    let twice = |evidence: &mut Evidence| evidence.board().pushed.push("pushed".to_owned());
    assert_eq!(found(twice), BTreeSet::from([Kind::DoneTwice]));
    for count in [0, 2] {
        let counted = |evidence: &mut Evidence| evidence.board().count = count;
        assert_eq!(found(counted), BTreeSet::from([Kind::WrongTotal]));
    }
}

#[test]
fn a_change_that_was_declined_or_never_requested_is_found() {
    for id in ["late", "no"] {
        let doctor = |evidence: &mut Evidence| evidence.board().pushed.push(id.to_owned());
        assert_eq!(found(doctor), BTreeSet::from([Kind::WrittenThoughRefused]), "{id}");
    }
    let strange = |evidence: &mut Evidence| evidence.board().swapped.push("strange".to_owned());
    assert_eq!(found(strange), BTreeSet::from([Kind::Unexplained]));
}

#[test]
fn changes_out_of_order_are_found() {
    let doctor = |evidence: &mut Evidence| evidence.board().pushed.swap(0, 1);
    assert_eq!(found(doctor), BTreeSet::from([Kind::Contradiction]));
    let same = |evidence: &mut Evidence| {
        let revision = evidence.boards.as_ref().unwrap()[&0].1.unwrap();
        let changed = evidence.entries(CONSUMER).iter_mut().find_map(|entry| match entry {
            Entry::Changed { revision, .. } => Some(revision),
            _ => None,
        });
        *changed.unwrap() = revision;
    };
    assert_eq!(found(same), BTreeSet::from([Kind::OutOfOrder]));
}

#[test]
fn a_change_with_two_answers_or_none_is_found() {
    let two = |evidence: &mut Evidence| {
        let mut again = evidence
            .last(CONSUMER, |entry| matches!(entry, Entry::Changed { .. }).then(|| entry.clone()));
        if let Entry::Changed { value, .. } = &mut again {
            *value += 1;
        }
        evidence.entries(DEAD).push(again);
    };
    assert!(found(two).contains(&Kind::Contradiction));
    let wish = Wish { id: "open".to_owned(), board: 0, change: Change::Push };
    let open = |evidence: &mut Evidence| evidence.entries(DEAD).push(Entry::Wished(wish));
    assert_eq!(found(open), BTreeSet::from([Kind::Unresolved]));
}
