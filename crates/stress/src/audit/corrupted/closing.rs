//! Corrupted evidence about closing: an account whose books were trimmed to a window.

use std::collections::BTreeSet;

use super::sample::{CONSUMER, Sample};
use super::{Evidence, found};
use crate::account::{self, AccountState, Kept, Way};
use crate::finding::Kind;
use crate::journal::Entry;

const NAME: &str = "0-1";

impl Sample {
    /// Eight bookings, three of which are archived.
    pub(super) async fn close(&self) {
        let caller = &self.callers[CONSUMER];
        for nth in 0..8 {
            let id = format!("booking-{nth}");
            caller.note(&Entry::Booking { account: NAME.to_owned(), id: id.clone() });
            account::book(&account::account(caller, &self.space, NAME), &id).await.unwrap();
            caller.note(&Entry::Booked(id));
        }
        account::close(caller, &self.space, NAME, Way::KeepLast).await.unwrap();
    }
}

impl Evidence {
    fn account(&mut self) -> &mut AccountState {
        self.accounts.as_mut().unwrap().get_mut(NAME).unwrap()
    }

    fn archived(&mut self) -> &mut Vec<Kept> {
        self.last(CONSUMER, |entry| match entry {
            Entry::Archived { events, .. } => Some(events),
            _ => None,
        })
    }
}

#[test]
fn a_booking_that_is_lost_is_found() {
    let archived = |evidence: &mut Evidence| drop(evidence.archived().remove(0));
    assert_eq!(found(archived), BTreeSet::from([Kind::LostCommit, Kind::Gap, Kind::WrongTotal]));
    let left = |evidence: &mut Evidence| drop(evidence.account().left.pop());
    assert_eq!(found(left), BTreeSet::from([Kind::LostCommit, Kind::WrongTotal]));
}

#[test]
fn a_booking_that_is_there_twice_is_found() {
    let doctor = |evidence: &mut Evidence| {
        let gone = evidence.archived()[0].clone();
        evidence.account().left.insert(0, gone);
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::DoubledEvent, Kind::Gap, Kind::WrongTotal]));
}

#[test]
fn a_booking_that_was_refused_and_is_there_is_found() {
    let doctor = |evidence: &mut Evidence| {
        evidence.entries(CONSUMER).push(Entry::Shut("booking-7".to_owned()));
    };
    assert_eq!(found(doctor), BTreeSet::from([Kind::WrittenThoughRefused]));
}

#[test]
fn an_archive_that_is_out_of_order_or_gets_a_page_again_is_found() {
    let swapped = |evidence: &mut Evidence| evidence.archived().swap(0, 1);
    assert_eq!(found(swapped), BTreeSet::from([Kind::OutOfOrder]));
    let again = |evidence: &mut Evidence| {
        let events = evidence.archived().clone();
        let (account, way) = (NAME.to_owned(), Way::KeepLast);
        let archived = Entry::Archived { account: account.clone(), events };
        evidence.entries(CONSUMER).extend([archived, Entry::Closed { account, way }]);
    };
    assert_eq!(found(again), BTreeSet::from([Kind::DoneTwice]));
}

#[test]
fn books_that_are_half_closed_are_found() {
    assert_eq!(
        found(|evidence| evidence.account().open = true),
        BTreeSet::from([Kind::Unfinished])
    );
}
