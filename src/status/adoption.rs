//! `status.adoption`: what taking over a release that the module did not make would drop.

use super::Report;
use crate::api::AdoptionStatus;
use crate::facts::ReleaseFacts;
use crate::plan::{Hold, Plan};

pub fn status(report: &Report<'_>) -> Option<AdoptionStatus> {
    let previous = report.previous.and_then(|previous| previous.adoption.clone());
    let listing = match report.plan {
        Plan::Hold(Hold::Unadopted(unadopted)) => unadopted.listing(),
        _ => None,
    };
    let Some(listing) = listing else {
        // Until all is as wanted: an adoption that was confirmed has to be tried again after a failure or a restart.
        return previous.filter(|_| *report.plan != Plan::Keep && !is_gone(report));
    };
    Some(AdoptionStatus {
        chart_version: listing.chart_version.to_string(),
        revision: i64::from(listing.revision),
        dropped_values: listing.dropped.clone(),
        more_dropped_values: u32::try_from(listing.more).unwrap_or(u32::MAX),
        listed_generation: (!report.adopt).then_some(report.generation),
    })
}

fn is_gone(report: &Report<'_>) -> bool {
    matches!(&report.observed.release, ReleaseFacts::Read(history) if history.is_empty())
}
