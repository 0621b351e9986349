//! Conversion of a decision's result into events.

/// Result of a decision: one event, a list, an `Option`, or `()` for none.
pub trait IntoEvents<E> {
    /// Returns the events, in order.
    fn into_events(self) -> Vec<E>;
}

impl<E: crate::Event> IntoEvents<E> for E {
    fn into_events(self) -> Vec<E> {
        vec![self]
    }
}

impl<E> IntoEvents<E> for Vec<E> {
    fn into_events(self) -> Vec<E> {
        self
    }
}

impl<E, const N: usize> IntoEvents<E> for [E; N] {
    fn into_events(self) -> Vec<E> {
        self.into()
    }
}

impl<E> IntoEvents<E> for Option<E> {
    fn into_events(self) -> Vec<E> {
        self.into_iter().collect()
    }
}

impl<E> IntoEvents<E> for () {
    fn into_events(self) -> Vec<E> {
        Vec::new()
    }
}
