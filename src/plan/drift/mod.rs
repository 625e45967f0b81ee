//! What to do about objects of the release that somebody has changed.
//!
//! An object is compared when a watch sees that somebody wrote it, once after each new revision and start, and once an hour;
//! never because time has passed in an unchanged world. What differs is put right at once; what differs again and again is put
//! right at growing intervals, so that two writers never make a storm.

mod state;

use super::{Action, NfdCrds, Plan, Situation, left_drivers, orphans};
use crate::api::DriftMode;
use crate::desired::Desired;
use crate::drift::{Finding, Manifest, ObjectRef, Repair};
use crate::facts::{Observed, Revision, Seen, first_few};
use crate::helm::RevisionStatus;

pub use state::DriftState;

/// The next step once the newest revision is deployed and as wanted.
pub(super) fn step(s: &Situation<'_>, desired: &Desired, latest: &Revision) -> Plan {
    if let Some(plan) = orphans::step(s, latest).or_else(|| left_drivers::step(s, desired)) {
        return plan;
    }
    if s.drift_mode == DriftMode::Ignore {
        return Plan::Keep;
    }
    let corrects = s.drift_mode == DriftMode::Correct;
    // Nothing of a kind can come back before its CRD.
    if is_crd_terminating(s.observed, desired) {
        return Plan::Keep;
    }
    let crds = lost_crds(s.observed, desired).into_iter();
    let crds: Vec<_> = crds.filter(|crd| s.drift.may_correct(crd, s.now)).collect();
    if corrects && !crds.is_empty() {
        return Plan::Act(Action::RestoreCrds { crds });
    }
    objects(s, latest)
}

/// The next step about the objects of a revision, CRDs of its chart aside.
pub(super) fn objects(s: &Situation<'_>, latest: &Revision) -> Plan {
    if s.drift_mode == DriftMode::Ignore {
        return Plan::Keep;
    }
    let corrects = s.drift_mode == DriftMode::Correct;
    let Some(manifest) = s.drift.manifest_of(latest) else {
        return Plan::ReadManifest {
            revision: latest.number,
            uid: latest.uid.clone(),
        };
    };
    let moved = moved(s, manifest);
    if !moved.is_empty() {
        return Plan::Inspect(moved);
    }
    let due: Vec<_> = s
        .drift
        .findings()
        .filter(|(object, finding)| !finding.is_impossible() && s.drift.may_correct(object, s.now))
        .collect();
    if corrects && !due.is_empty() {
        return Plan::Act(Action::Reapply {
            why: describe(due.iter().copied()),
            objects: due.into_iter().map(|(object, _)| object.clone()).collect(),
        });
    }
    Plan::Keep
}

/// Objects to look at while the module is suspended: nothing is put right and helm is not started, but the status stays true.
pub(super) fn look_while_suspended(s: &Situation<'_>) -> Option<Plan> {
    let latest = s.observed.release.latest();
    let latest = latest.filter(|latest| latest.status == RevisionStatus::Deployed)?;
    let manifest = s.drift.manifest_of(latest)?;
    let moved = moved(s, manifest);
    let may = s.drift_mode != DriftMode::Ignore && !s.is_paused();
    (may && !moved.is_empty()).then_some(Plan::Inspect(moved))
}

/// Objects that were never inspected, that somebody has written or deleted since, or whose repair was refused some time ago.
fn moved(s: &Situation<'_>, manifest: &Manifest) -> Vec<ObjectRef> {
    let has_moved = |object: &&ObjectRef| match (s.drift.inspected(object), s.observed.objects.get(object)) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(before), Some(Seen::Absent)) => before.is_some(),
        (Some(before), Some(Seen::Marked(mark))) => before.as_ref() != Some(mark),
    };
    let refused = |object: &&ObjectRef| {
        s.drift.finding(object).is_some_and(Finding::is_impossible) && s.drift.may_correct(object, s.now)
    };
    let moved = manifest
        .refs()
        .filter(|object| has_moved(object) || refused(object));
    moved.cloned().collect()
}

/// Nothing of a kind can be made while its CRD goes.
fn is_crd_terminating(observed: &Observed, desired: &Desired) -> bool {
    let mut crds = desired
        .chart
        .crds
        .iter()
        .filter_map(|name| observed.crds.get(name));
    crds.any(|crd| crd.terminating)
}

/// CRDs of the wanted chart that are gone, or that somebody has changed.
pub fn lost_crds(observed: &Observed, desired: &Desired) -> Vec<ObjectRef> {
    let nfd = NfdCrds::of(desired.node_feature_discovery, observed).without_others();
    let lost = |name: &&String| {
        let present = observed.crds.get(*name);
        let as_applied = present.is_some_and(|crd| crd.spec_digest.is_some() && crd.as_applied);
        nfd.includes(name, present) && !as_applied
    };
    let names = desired.chart.crds.iter().filter(lost);
    names.map(|name| ObjectRef::crd(name)).collect()
}

/// Objects, their fields and who wrote them, in a few words: `ConfigMap a (data.x, by kubectl-edit), Role b (missing) and 2 more`.
pub fn describe<'a>(findings: impl Iterator<Item = (&'a ObjectRef, &'a Finding)>) -> String {
    let all: Vec<_> = findings.collect();
    let words = all.iter();
    first_few(words.map(|(object, finding)| format!("{object} ({})", what(finding))))
}

fn what(finding: &Finding) -> String {
    let fields = match &finding.repair {
        Repair::Create => return "missing".to_owned(),
        Repair::Impossible(message) | Repair::Unread(message) => return message.clone(),
        Repair::Apply | Repair::Disown { .. } => finding.fields.join(", "),
    };
    if finding.managers.is_empty() {
        fields
    } else {
        format!("{fields}, by {}", finding.managers.join(" and "))
    }
}
