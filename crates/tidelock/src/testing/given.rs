//! Given, when, then: tests of an aggregate's decisions.
//!
//! A test runs a real decision on a store in memory: events are encoded and decoded, the state is
//! folded, the decided events are committed and read back. No runtime is needed.
//!
//! ```
//! # use tidelock::prelude::*;
//! # #[derive(Debug, Default, Clone, PartialEq)]
//! # struct Stock { left: i64 }
//! # #[derive(Debug, PartialEq, Event)]
//! # enum StockEvent { Received { units: i64 }, Reserved { units: i64 } }
//! # use StockEvent::*;
//! # impl Aggregate for Stock {
//! #     const KIND: &'static str = "stock";
//! #     type Event = StockEvent;
//! #     fn apply(&mut self, event: &StockEvent) {
//! #         match event {
//! #             Received { units } => self.left += units,
//! #             Reserved { units } => self.left -= units,
//! #         }
//! #     }
//! # }
//! # impl Stock {
//! #     fn reserve(&self, units: i64) -> Result<StockEvent, String> {
//! #         if units > self.left { Err(format!("only {} left", self.left)) } else { Ok(Reserved { units }) }
//! #     }
//! # }
//! use tidelock::testing::{given, given_nothing};
//!
//! given::<Stock>([Received { units: 3 }])
//!     .when(|stock| stock.reserve(2))
//!     .then([Reserved { units: 2 }])
//!     .then_state(|stock| assert_eq!(stock.left, 1));
//! given_nothing::<Stock>().when(|stock| stock.reserve(1)).then_refused(&"only 0 left".to_owned());
//! ```

use std::fmt::Debug;
use std::sync::Arc;

use tidelock_store::MemoryStore;

use super::finish;
use crate::events::{Aggregate, AggregateRef, ExecuteError, IntoEvents};
use crate::handle::Tidelock;

/// Creates an aggregate with these events.
pub fn given<A: Aggregate>(events: impl IntoEvents<A::Event>) -> Given<A> {
    let given = given_nothing();
    finish(given.aggregate.new_only().append(events)).expect("what is given can be stored");
    given
}

/// Creates an aggregate without events.
pub fn given_nothing<A: Aggregate>() -> Given<A> {
    let tidelock = Tidelock::over(Arc::new(MemoryStore::new()));
    Given { aggregate: tidelock.aggregate("under-test") }
}

/// The initial events of a test.
#[derive(Debug)]
pub struct Given<A> {
    aggregate: AggregateRef<A>,
}

impl<A: Aggregate> Given<A> {
    /// Runs a decision.
    ///
    /// # Panics
    /// If the given events cannot be read back, or the decided events cannot be stored.
    pub fn when<D: IntoEvents<A::Event>, X>(
        self,
        decide: impl FnMut(&A) -> Result<D, X>,
    ) -> GivenWhen<A, X> {
        let before = finish(self.aggregate.history()).expect("what was given can be read").len();
        let refused = match finish(self.aggregate.execute(decide)) {
            Ok(_) => None,
            Err(ExecuteError::Refused(reason)) => Some(reason),
            Err(other) => panic!("the decision could not be stored: {}", other.map_refused(|_| "")),
        };
        GivenWhen { aggregate: self.aggregate, before, refused }
    }
}

/// The result of the decision.
#[derive(Debug)]
pub struct GivenWhen<A, X> {
    aggregate: AggregateRef<A>,
    before: usize,
    refused: Option<X>,
}

impl<A: Aggregate, X: Debug> GivenWhen<A, X> {
    /// Asserts that exactly these events were decided.
    ///
    /// # Panics
    /// If other events were decided, or the decision was refused.
    #[track_caller]
    pub fn then(self, expected: impl IntoEvents<A::Event>) -> Self
    where
        A::Event: Debug + PartialEq,
    {
        assert!(self.refused.is_none(), "the decision said no: {:?}", self.refused);
        let history = finish(self.aggregate.history()).expect("what was decided can be read");
        let decided: Vec<A::Event> =
            history.into_iter().skip(self.before).map(|r| r.event).collect();
        assert_eq!(
            decided,
            expected.into_events(),
            "left is what was decided, right what was expected"
        );
        self
    }

    /// Asserts that the decision was refused for this reason.
    ///
    /// # Panics
    /// If it was not refused, or for another reason.
    #[track_caller]
    pub fn then_refused(self, expected: &X) -> Self
    where
        X: PartialEq,
    {
        assert_eq!(
            self.refused.as_ref(),
            Some(expected),
            "left is what the decision said, right what was expected"
        );
        self
    }

    /// Asserts on the state afterwards.
    ///
    /// # Panics
    /// If `check` does.
    #[track_caller]
    pub fn then_state(self, check: impl FnOnce(&A)) -> Self {
        check(&finish(self.aggregate.load()).expect("what was decided can be read"));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_derive::Event;

    #[derive(Debug, Default, Clone)]
    struct Door {
        is_open: bool,
    }

    #[derive(Debug, PartialEq, Event)]
    enum DoorEvent {
        Opened,
        Shut,
    }

    impl Aggregate for Door {
        const KIND: &'static str = "door";
        type Event = DoorEvent;

        fn apply(&mut self, event: &DoorEvent) {
            self.is_open = *event == DoorEvent::Opened;
        }
    }

    fn open(door: &Door) -> Result<DoorEvent, &'static str> {
        if door.is_open { Err("it is open") } else { Ok(DoorEvent::Opened) }
    }

    #[test]
    fn decided_events_are_compared() {
        given_nothing::<Door>()
            .when(open)
            .then(DoorEvent::Opened)
            .then_state(|door| assert!(door.is_open));
        given::<Door>([DoorEvent::Opened, DoorEvent::Shut]).when(open).then([DoorEvent::Opened]);
        given::<Door>(DoorEvent::Opened).when(open).then_refused(&"it is open");
    }

    #[test]
    #[should_panic(expected = "right what was expected")]
    fn other_events_fail_the_test() {
        given_nothing::<Door>().when(open).then(DoorEvent::Shut);
    }

    #[test]
    #[should_panic(expected = "the decision said no")]
    fn a_refusal_is_no_event() {
        given::<Door>(DoorEvent::Opened).when(open).then(());
    }

    #[test]
    #[should_panic(expected = "right what was expected")]
    fn events_are_no_refusal() {
        given_nothing::<Door>().when(open).then_refused(&"it is open");
    }
}
