//! What a decision may answer with.

/// Some events: one, a list of them, perhaps one, or none.
pub trait Decided<E> {
    /// The events, in order.
    fn into_events(self) -> Vec<E>;
}

impl<E: crate::Event> Decided<E> for E {
    fn into_events(self) -> Vec<E> {
        vec![self]
    }
}

impl<E> Decided<E> for Vec<E> {
    fn into_events(self) -> Vec<E> {
        self
    }
}

impl<E, const N: usize> Decided<E> for [E; N] {
    fn into_events(self) -> Vec<E> {
        self.into()
    }
}

impl<E> Decided<E> for Option<E> {
    fn into_events(self) -> Vec<E> {
        self.into_iter().collect()
    }
}

impl<E> Decided<E> for () {
    fn into_events(self) -> Vec<E> {
        Vec::new()
    }
}
