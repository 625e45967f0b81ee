//! Sentences about nodes.

use std::collections::BTreeMap;

use super::{Finding, Judged, NodeReason, Nodes, Standing};
use crate::facts::first_few;

/// So many causes are told; `status.workerPools` has all of them.
const TOLD: usize = 3;

impl Nodes<'_> {
    pub(super) fn lost_words(&self) -> String {
        let lost = |judged: &Judged<'_>| matches!(judged.standing, Standing::Lost(_));
        let count = self.all.iter().filter(|judged| lost(judged)).count();
        let groups = self.groups(|standing| match standing {
            Standing::Lost(found) => Some(found),
            _ => None,
        });
        let mut causes: Vec<_> = groups.iter().take(TOLD).map(Group::cause_and_cure).collect();
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
            Standing::Rolling { why, .. } => Some(why),
            _ => None,
        });
        let causes: Vec<_> = groups.iter().take(TOLD).map(Group::cause).collect();
        format!(
            "{} of {} GPU nodes can be used, the others are being set up: {}",
            self.usable(),
            self.total(),
            causes.join("; ")
        )
    }

    pub(super) fn changing_words(&self) -> String {
        let (usable, total) = (self.usable(), self.total());
        let open = self.all.iter().filter(|judged| judged.is_changing).count();
        let mut cordoned: Vec<_> = self
            .all
            .iter()
            .filter(|judged| judged.is_changing && !judged.node.schedulable)
            .map(|judged| judged.node.name.as_str())
            .collect();
        cordoned.sort_unstable();
        let cordoned = if cordoned.is_empty() {
            String::new()
        } else {
            format!(" ({} cordoned for it)", first_few(cordoned.iter()))
        };
        format!(
            "the driver is being replaced node by node, {} of {total} done{cordoned}; {usable} of {total} GPU nodes can be used",
            total.saturating_sub(open)
        )
    }

    /// The nodes of some standing by reason.
    fn groups(&self, pick: impl Fn(&Standing) -> Option<&Finding>) -> Vec<Group<'_>> {
        let mut groups: BTreeMap<NodeReason, Group<'_>> = BTreeMap::new();
        for judged in &self.all {
            let Some(found) = pick(&judged.standing) else {
                continue;
            };
            let group = groups.entry(found.reason).or_insert_with(|| Group {
                reason: found.reason,
                image: found.image.as_deref(),
                names: Vec::new(),
            });
            group.names.push(&judged.node.name);
        }
        groups.into_values().collect()
    }
}

/// Nodes with one cause.
struct Group<'a> {
    reason: NodeReason,
    image: Option<&'a str>,
    names: Vec<&'a str>,
}

impl Group<'_> {
    fn cause(&self) -> String {
        let image = self.image.map(|image| format!(" {image}")).unwrap_or_default();
        format!("{}{image} ({})", self.reason.what(), first_few(self.names.iter()))
    }

    fn cause_and_cure(&self) -> String {
        format!("{}, {}", self.cause(), self.reason.todo())
    }
}
