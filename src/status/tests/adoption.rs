//! `status.adoption` and what it leads to.

use super::*;
use crate::api::AdoptionStatus;
use crate::facts::History;
use crate::plan::{Listing, Unadopted};

fn listing() -> Listing {
    Listing {
        chart_version: "26.3.3".parse().unwrap(),
        revision: 1,
        dropped: vec!["driver.version".to_owned()],
        more: 2,
    }
}

fn shown(listed_generation: Option<i64>) -> AdoptionStatus {
    AdoptionStatus {
        chart_version: "26.3.3".to_owned(),
        revision: 1,
        dropped_values: vec!["driver.version".to_owned()],
        more_dropped_values: 2,
        listed_generation,
    }
}

/// A release that somebody else made, and that plan.
fn by_hand(plan: Unadopted) -> Case {
    let mut case = Case::deployed(vec![node("a", 1)]);
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    let mut revision = history.latest().unwrap().clone();
    (revision.by, revision.meant) = (None, None);
    case.observed.release = ReleaseFacts::Read(History::new(vec![revision]));
    case.plan = Plan::Hold(Hold::Unadopted(plan));
    case.generation = 4;
    case
}

#[test]
fn what_would_be_lost_is_listed_with_the_generation_that_has_not_asked_for_it() {
    let mut case = by_hand(Unadopted::NotAsked {
        listing: Some(listing()),
    });
    assert_eq!(case.state(), State::Warning);
    assert_eq!(case.reason(ConditionType::Configured), "ReleaseNotAdopted");
    assert_eq!(case.reason(ConditionType::Installed), "NotInstalled");
    assert_eq!(case.status_of(ConditionType::OperandsReady), "Unknown");
    let status = case.compute().status;
    assert!(
        status.description.contains("drops 3 of its values"),
        "{}",
        status.description
    );
    assert_eq!(status.adoption, Some(shown(Some(4))));

    case.adopt = true;
    case.plan = Plan::Hold(Hold::Unadopted(Unadopted::NotConfirmed { listing: listing() }));
    assert_eq!(case.reason(ConditionType::Configured), "AdoptionNotConfirmed");
    assert_eq!(case.compute().status.adoption, Some(shown(None)));
}

#[test]
fn a_confirmed_list_stays_until_the_release_is_the_modules() {
    let mut case = by_hand(Unadopted::NotAsked { listing: None });
    let mut previous = case.compute().status;
    previous.adoption = Some(shown(Some(3)));
    case.previous = Some(previous);
    assert_eq!(
        case.compute().status.adoption,
        Some(shown(Some(3))),
        "not read yet"
    );
    case.adopt = true;
    case.plan = Plan::Wait {
        until: NOW + LATER,
        why: Wait::Backoff,
    };
    assert_eq!(case.compute().status.adoption, Some(shown(Some(3))));
    // Its first step may fail, and leave it as it was.
    case.observed.release = fixtures::history(&[RevisionStatus::Deployed, RevisionStatus::Failed], "f");
    assert_eq!(case.compute().status.adoption, Some(shown(Some(3))));
    case.plan = Plan::Keep;
    assert_eq!(case.compute().status.adoption, None);
    // Or the release goes.
    case.plan = Plan::Look;
    case.observed.release = ReleaseFacts::Read(History::default());
    assert_eq!(case.compute().status.adoption, None);
}
