//! Condition `Drifted`: whether objects of the release are other than the release made them.

use super::Report;
use super::conditions::Verdict;
use crate::api::DriftMode;
use crate::api::State;
use crate::drift::{Finding, ObjectRef, Repair};
use crate::facts::first_few;
use crate::plan::drift::{describe, lost_crds};
use crate::plan::{Hold, Plan};

/// The verdict, and whether a person must act.
pub struct Drifted {
    pub verdict: Verdict,
    pub needs_help: bool,
}

impl Drifted {
    /// True where somebody must act because of changed objects and because of nothing worse.
    pub const fn decides(&self, operands: State) -> bool {
        self.needs_help && matches!(operands, State::Ready | State::Processing)
    }
}

pub fn judge(report: &Report<'_>) -> Drifted {
    let calm = |verdict| Drifted {
        verdict,
        needs_help: false,
    };
    if !report.undeleted.is_empty() {
        return undeleted(report);
    }
    if report.drift_mode == DriftMode::Ignore {
        return calm(Verdict::unknown(
            "Ignored",
            "objects of the release are not compared, since spec.drift.mode is Ignore",
        ));
    }
    if report.drift.manifest().is_none() {
        return calm(Verdict::unknown(
            "NotCompared",
            "there is no finished release whose objects could be compared",
        ));
    }
    let (unread, mut findings): (Vec<_>, Vec<_>) = report
        .drift
        .findings()
        .partition(|(_, finding)| finding.is_unread());
    let crds = lost(report);
    findings.extend(crds.iter().map(|(object, finding)| (object, finding)));
    if report.drift_mode == DriftMode::Report && !findings.is_empty() {
        return Drifted {
            verdict: Verdict::yes(
                "DriftFound",
                format!(
                    "changed by others and left so, since spec.drift.mode is Report: {}; undo that, or set the mode to Correct",
                    describe(findings.into_iter())
                ),
            ),
            needs_help: true,
        };
    }
    if let Some(verdict) = returning(report) {
        return Drifted {
            verdict,
            needs_help: true,
        };
    }
    if findings.is_empty() && !unread.is_empty() {
        let what = describe(unread.into_iter());
        return calm(Verdict::unknown(
            "NotCompared",
            format!("these could not be compared and are tried again: {what}"),
        ));
    }
    if findings.is_empty() {
        return calm(Verdict::no(
            "InSync",
            "the objects of the release are as it made them",
        ));
    }
    let found = describe(findings.into_iter());
    if matches!(report.plan, Plan::Hold(Hold::Suspended)) {
        return calm(Verdict::yes(
            "DriftFound",
            format!("changed by others and left so while spec.suspend is true: {found}"),
        ));
    }
    calm(Verdict::yes(
        "Correcting",
        format!("changed by others and about to be put right: {found}"),
    ))
}

/// Says what cannot be deleted.
fn undeleted(report: &Report<'_>) -> Drifted {
    let words = report
        .undeleted
        .iter()
        .map(|(object, why)| format!("{object} ({why})"));
    let what = first_few(words);
    Drifted {
        verdict: Verdict::yes(
            "DriftNotCorrected",
            format!(
                "left behind beside the release and not to be deleted: {what}; change what keeps them, or delete them by hand"
            ),
        ),
        needs_help: true,
    }
}

fn returning(report: &Report<'_>) -> Option<Verdict> {
    let (unread, all): (Vec<_>, Vec<_>) = report
        .drift
        .returning()
        .partition(|(_, finding)| finding.is_unread());
    let refused = |(_, finding): &&(_, &Finding)| finding.is_impossible();
    let refused: Vec<_> = all.iter().filter(refused).copied().collect();
    if !refused.is_empty() {
        let what = describe(refused.into_iter());
        return Some(Verdict::yes(
            "DriftNotCorrected",
            format!(
                "the API server does not let these be put right: {what}; delete them, and they are made anew"
            ),
        ));
    }
    if !unread.is_empty() {
        let what = describe(unread.into_iter());
        return Some(Verdict::unknown(
            "DriftNotCorrected",
            format!(
                "the API server does not let these be compared: {what}; change what refuses it, an admission webhook for example"
            ),
        ));
    }
    (!all.is_empty()).then(|| {
        let what = describe(all.into_iter());
        Verdict::yes(
            "DriftReturns",
            format!(
                "changed again each time they are put right, which is therefore done more and more rarely: {what}; stop the other writer, or set spec.drift.mode to Report"
            ),
        )
    })
}

/// CRDs of the chart that are gone or changed.
fn lost(report: &Report<'_>) -> Vec<(ObjectRef, Finding)> {
    // Only then are the CRDs of the wanted chart those of the installed one.
    let (Plan::Keep, Ok(desired)) = (report.plan, report.desired) else {
        return Vec::new();
    };
    let crds = lost_crds(report.observed, desired).into_iter();
    let finding = |crd: ObjectRef| {
        let changed = || Finding {
            fields: vec!["spec".to_owned()],
            managers: Vec::new(),
            repair: Repair::Apply,
        };
        let is_there = report.observed.crds.contains_key(&crd.name);
        let finding = if is_there { changed() } else { Finding::missing() };
        (crd, finding)
    };
    crds.map(finding).collect()
}
