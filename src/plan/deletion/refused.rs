//! What the API server refuses to take away, an admission policy for example: a deletion ends all the same, without it.

use jiff::Timestamp;

use super::{Leavings, Leftover, Situation};
use crate::drift::ObjectRef;
use crate::facts::{Remedy, first_few};
use crate::plan::pauses::Pauses;
use crate::plan::{Plan, Wait};

/// After so many refusals something is left where it is. The pauses between them are 31 s together, less up to a fifth.
pub(in crate::plan) const LAST_TRIES: u32 = 6;

/// What keeps NVIDIA's operator off a node, in words; [`crate::facts::OPERANDS_LABEL`].
const OWN_LABELS: &str =
    "label nvidia.com/gpu.deploy.operands=false of nodes, by which NVIDIA's operator leaves them out";

/// Something on one object that is to be taken away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refusable {
    what: Leavings,
    object: ObjectRef,
}

impl Refusable {
    /// What that leftover is.
    pub fn of(what: Leavings, leftover: &Leftover) -> Self {
        Self {
            what,
            object: leftover.object.clone(),
        }
    }
}

/// What was tried, each time with the reason why it is still there, should it be.
pub type Refused = Pauses<Refusable, String>;

/// Why something is there again that was taken away without an error.
const UNDONE: &str = "it was done without an error and is undone each time, by a policy or another tool";

impl Refused {
    /// Notes a try to take something away. One without an error counts as well: where the thing is still there afterwards, or again, it
    /// is put off and given up like any other. `jitter` is a number from 0 to 1.
    pub fn note(
        &mut self,
        what: Leavings,
        leftover: &Leftover,
        error: Option<String>,
        now: Timestamp,
        jitter: f64,
    ) {
        let why = error.unwrap_or_else(|| UNDONE.to_owned());
        self.tried(Refusable::of(what, leftover), why, now, jitter);
    }
}

/// True where a removal ends without it.
pub(super) fn is_given_up(s: &Situation<'_>, what: Leavings, leftover: &Leftover) -> bool {
    what.may_stay() && s.refused.tries(&Refusable::of(what, leftover)).0 >= LAST_TRIES
}

/// The pause until the next try, where one of these was refused.
pub(super) fn wait(s: &Situation<'_>, what: Leavings, open: &[&Leftover]) -> Option<Plan> {
    let open = open.iter().filter(|leftover| leftover.remedy != Remedy::Wait);
    let tried = open.map(|leftover| Refusable::of(what, leftover));
    let tried: Vec<_> = tried.filter(|thing| s.refused.tries(thing).0 > 0).collect();
    let until = tried.iter().filter_map(|thing| s.refused.tries(thing).1).min()?;
    let why = tried.iter().find_map(|thing| s.refused.last(thing)).cloned();
    Some(Plan::Wait {
        until,
        why: Wait::Refused {
            what,
            names: tried.iter().map(|thing| thing.object.to_string()).collect(),
            why: why.unwrap_or_default(),
        },
    })
}

/// What was given up, in words.
pub(super) fn given_up(s: &Situation<'_>) -> impl Iterator<Item = String> {
    Leavings::ALL.into_iter().filter_map(|what| {
        let left = s.observed.left.get(&what)?;
        let up = left
            .objects
            .iter()
            .filter(|leftover| is_given_up(s, what, leftover));
        let up: Vec<_> = up.collect();
        let first = Refusable::of(what, up.first()?);
        let names = first_few(up.iter().map(|leftover| &leftover.object));
        let why = s.refused.last(&first).map_or("", String::as_str);
        Some(format!(
            "{} ({names}), since it could not be taken away: {why}",
            words(what)
        ))
    })
}

const fn words(what: Leavings) -> &'static str {
    match what {
        Leavings::DriverUpgrades => "driver upgrades that are not paused",
        Leavings::Cordons => "cordons of nodes",
        Leavings::Nodes => "labels and annotations of nodes",
        Leavings::Namespace => "the namespace, which admits privileged Pods",
        Leavings::Crds => "the CRDs",
        Leavings::OwnLabels => OWN_LABELS,
        Leavings::Rights => "the operator's RoleBinding, and its labels of the namespace",
        Leavings::Release | Leavings::Stack | Leavings::Pods | Leavings::Hooks => {
            "what Helm's hooks have left"
        }
    }
}
