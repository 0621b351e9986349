//! What a decision may answer with.

/// Some events: one, a list of them, perhaps one, or none.
pub trait IntoEvents<E> {
    /// The events, in order.
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
