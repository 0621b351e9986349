//! What was found: which thing, what is the matter with it, since when, and what mends it.

use std::collections::BTreeMap;

use serde::Serialize;
use tidelock::Timestamp;

use crate::failure::Failure;
use crate::output::{Look, Output};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Nothing is wrong; it is only said.
    Fact,
    /// It may pass by itself.
    Notice,
    /// It does not mend itself.
    Sick,
}

/// What kind of thing it is, by the file that looks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Store,
    HeldUp,
    Route,
    Unrouted,
    Blocked,
    Ambiguous,
    Expired,
    ExpiryLoop,
    Unserved,
    Retrying,
    Expiring,
    Unfinished,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) severity: Severity,
    /// The thing, by the name that people know it under.
    pub(super) thing: String,
    pub(super) since: Option<Timestamp>,
    pub(super) what: String,
    /// A command, or what else to do.
    pub(super) mend: Option<String>,
}

/// Findings that were not shown.
#[derive(Debug, Serialize)]
struct More {
    kind: Kind,
    more: usize,
}

/// All that was found; of each kind the first few are kept.
#[derive(Debug)]
pub(super) struct Findings {
    kept: BTreeMap<Kind, Vec<Finding>>,
    counts: BTreeMap<Kind, usize>,
    sick: usize,
    show: usize,
}

impl Findings {
    pub(super) fn new(show: usize) -> Self {
        Self { kept: BTreeMap::new(), counts: BTreeMap::new(), sick: 0, show: show.max(1) }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.sick += usize::from(finding.severity == Severity::Sick);
        *self.counts.entry(finding.kind).or_default() += 1;
        let kept = self.kept.entry(finding.kind).or_default();
        if kept.len() < self.show {
            kept.push(finding);
        }
    }

    /// How many things are wrong, shown or not.
    pub(super) fn sick(&self) -> usize {
        self.sick
    }

    pub(super) fn tell(&self, out: &mut Output) -> Result<(), Failure> {
        for (kind, findings) in &self.kept {
            findings.iter().try_for_each(|finding| finding.tell(out))?;
            let more = self.counts.get(kind).copied().unwrap_or_default() - findings.len();
            if more > 0 {
                More { kind: *kind, more }.tell(out)?;
            }
        }
        Ok(())
    }
}

impl Finding {
    fn tell(&self, out: &mut Output) -> Result<(), Failure> {
        if out.is_json() {
            return Ok(out.json(self)?);
        }
        let look = match self.severity {
            Severity::Fact => Look::Faint,
            Severity::Notice => Look::Plain,
            Severity::Sick => Look::Alarm,
        };
        let since = self.since.map_or_else(String::new, |since| format!(" (since {since})"));
        out.line(look, &format!("{}: {}{since}", self.thing, self.what))?;
        if let Some(mend) = &self.mend {
            out.line(Look::Plain, &format!("  try: {mend}"))?;
        }
        Ok(())
    }
}

impl More {
    fn tell(&self, out: &mut Output) -> Result<(), Failure> {
        match out.is_json() {
            true => out.json(self)?,
            false => out.line(Look::Faint, &format!("  and {} more like these", self.more))?,
        }
        Ok(())
    }
}
