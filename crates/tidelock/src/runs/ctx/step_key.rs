//! The idempotency key of a step.

use std::fmt;

use crate::runs::{RunId, StepName};

/// Displayed as `run:step`: the same on every attempt and every replay, and unique to the step. In
/// a later generation of a run that continued as new it is `run:step#2`, and so on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StepKey {
    run: RunId,
    step: StepName,
    generation: u32,
}

impl StepKey {
    pub(crate) fn new(run: &RunId, step: &StepName, generation: u32) -> Self {
        Self { run: run.clone(), step: step.clone(), generation }
    }

    /// Returns the run.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// Returns the step.
    pub fn step(&self) -> &StepName {
        &self.step
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.run, self.step)?;
        match self.generation {
            1 => Ok(()),
            later => write!(f, "#{later}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_steps_share_a_key() {
        let key = |run: &str, step: &str, generation| {
            StepKey::new(&RunId::new(run).unwrap(), &StepName::new(step).unwrap(), generation)
                .to_string()
        };
        assert_eq!(key("order-7", "charge", 1), "order-7:charge");
        assert_eq!(key("a:b", "c", 2), "a:b:c#2");
        // A step's name has neither separator, so the last ones always divide run, step and
        // generation.
        assert_ne!(key("a#2", "c", 1), key("a", "c", 2));
    }
}
