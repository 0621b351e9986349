//! One URL option: a name and a text, and the few ways to parse the text.
//!
//! Every option gets its error in the same words. The errors quote the text, so a secret is taken
//! from [`Setting::value`] and never parsed in another way.

use std::time::Duration;

use tidelock_store::{Result, StoreError};

/// An option's name and value, decoded. It has no `Debug`, because one of them is the password.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
}

impl Setting<'_> {
    /// Parses a number within bounds.
    pub(crate) fn number<N: TryFrom<u64>>(&self, least: u64, most: u64) -> Result<N> {
        let number =
            self.value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| self.must_be(&format!("a number from {least} to {most}")))
    }

    /// Parses a switch.
    pub(crate) fn switch(&self) -> Result<bool> {
        match self.value {
            "1" => Ok(true),
            "0" => Ok(false),
            _ => Err(self.must_be("1 for yes, or 0 for no")),
        }
    }

    /// Parses a duration in milliseconds.
    pub(crate) fn millis(&self, least: u64, most: u64) -> Result<Duration> {
        self.number(least, most).map(Duration::from_millis)
    }

    /// Parses a duration in seconds.
    pub(crate) fn seconds(&self, least: u64, most: u64) -> Result<Duration> {
        self.number(least, most).map(Duration::from_secs)
    }

    /// Parses one of a few words.
    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T> {
        let chosen = choices.iter().find(|(word, _)| *word == self.value);
        chosen.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
            self.must_be(&format!("one of {}", words.join(", ")))
        })
    }

    /// The error for an unsuitable value.
    pub(crate) fn must_be(&self, what: &str) -> StoreError {
        StoreError::invalid(format!("option {}={}: must be {what}", self.name, self.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_outside_its_bounds_is_refused_with_the_bounds() {
        let setting = |value| Setting { name: "readers", value };
        assert_eq!(setting("64").number::<usize>(1, 64).unwrap(), 64);
        for bad in ["0", "65", "-1", "", "four", "18446744073709551616"] {
            let refused = setting(bad).number::<usize>(1, 64).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("check: option readers={bad}: must be a number from 1 to 64")
            );
        }
    }

    #[test]
    fn a_switch_is_on_or_off_and_says_how_either_is_written() {
        let setting = |value| Setting { name: "migrate", value };
        assert_eq!(["1", "0"].map(|value| setting(value).switch().unwrap()), [true, false]);
        let refused = setting("false").switch().unwrap_err();
        assert_eq!(refused.context(), "option migrate=false: must be 1 for yes, or 0 for no");
    }

    #[test]
    fn a_word_that_is_no_choice_is_refused_with_the_choices() {
        let setting = Setting { name: "prepare", value: "sometimes" };
        let refused = setting.choice(&[("always", true), ("never", false)]).unwrap_err();
        assert_eq!(refused.context(), "option prepare=sometimes: must be one of always, never");
    }
}
