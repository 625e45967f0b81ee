//! Sentences about nodes.

use std::collections::BTreeMap;

use super::cause::Cause;
use super::{Judged, Nodes, Standing};
use crate::facts::first_few;

/// So many causes are told; `status.workerPools` has all of them.
const TOLD: usize = 3;

impl Nodes<'_> {
    pub(super) fn lost_words(&self) -> String {
        let lost = |judged: &Judged<'_>| matches!(judged.standing, Standing::Lost(_));
        let count = self.all.iter().filter(|judged| lost(judged)).count();
        let groups = self.groups(|standing| match standing {
            Standing::Lost(found) => Some(&found.cause),
            _ => None,
        });
        let told = groups.iter().take(TOLD);
        let mut causes: Vec<_> = told
            .map(|(why, names)| format!("{}, {}", named(why, names), why.todo()))
            .collect();
        if groups.len() > TOLD {
            causes.push("see status.workerPools for the rest".to_owned());
        }
        format!(
            "{count} of {} GPU nodes cannot be used: {}",
            self.total(),
            causes.join("; ")
        )
    }

    pub(super) fn rolling_words(&self) -> String {
        let groups = self.groups(|standing| match standing {
            Standing::Rolling { why, .. } => Some(&why.cause),
            _ => None,
        });
        let told = groups.iter().take(TOLD);
        let causes: Vec<_> = told.map(|(why, names)| named(why, names)).collect();
        format!(
            "{} of {} GPU nodes can be used, the others are being set up: {}",
            self.usable(),
            self.total(),
            causes.join("; ")
        )
    }

    pub(super) fn changing_words(&self) -> String {
        let (usable, total, with_driver) = (self.usable(), self.total(), self.with_driver());
        let cordoned = self.changes().filter(|judged| !judged.node.schedulable);
        let mut cordoned: Vec<_> = cordoned.map(|judged| judged.node.name.as_str()).collect();
        cordoned.sort_unstable();
        let cordoned = if cordoned.is_empty() {
            String::new()
        } else {
            format!(" ({} cordoned for it)", first_few(cordoned.iter()))
        };
        format!(
            "the driver is being replaced node by node, {} of {with_driver} done{cordoned}; {usable} of {total} GPU nodes can be used",
            with_driver.saturating_sub(self.changes().count())
        )
    }

    /// The nodes of some standing by cause, in the order in which causes are told.
    fn groups(&self, pick: impl Fn(&Standing) -> Option<&Cause>) -> BTreeMap<&Cause, Vec<&str>> {
        let mut groups: BTreeMap<_, Vec<&str>> = BTreeMap::new();
        for judged in &self.all {
            if let Some(cause) = pick(&judged.standing) {
                groups.entry(cause).or_default().push(&judged.node.name);
            }
        }
        groups
    }
}

fn named(cause: &Cause, names: &[&str]) -> String {
    format!("{} ({})", cause.what(), first_few(names.iter()))
}
