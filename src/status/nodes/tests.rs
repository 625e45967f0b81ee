//! Every reason, each by what shows it.

use std::collections::BTreeSet;

use super::judge::Stack;
use super::standing::Times;
use super::*;
use crate::facts::fixtures::{DRIVER_IMAGE, NOW, daemon_sets, node, pod, ready_pods};
use crate::facts::{FeatureLabels, OperandPod, Part, PodState};
use crate::nodes::{Impossible, KeptOut};
use crate::status::Sightings;

/// A node with its Pods, in a cluster with every DaemonSet of NVIDIA's.
struct Case {
    node: NodeFacts,
    pods: Vec<OperandPod>,
    kept_out: Option<KeptOut>,
    sets: Vec<crate::facts::DaemonSetFacts>,
    driver_is_managed: bool,
}

impl Case {
    /// A node on which all is well.
    fn good() -> Self {
        Self {
            node: node("a", 1),
            pods: ready_pods("a"),
            kept_out: None,
            sets: daemon_sets(),
            driver_is_managed: true,
        }
    }

    fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut case = Self::good();
        change(&mut case);
        case
    }

    /// The part's Pod is in another state, and the GPUs are gone.
    fn part(part: Part, state: PodState) -> Self {
        Self::with(|case| {
            case.node.allocatable = 0;
            case.pods.retain(|pod| pod.part != part);
            case.pods.push(pod("a", part, state));
        })
    }

    /// No Pod of the stack has come, and these are the labels.
    fn bare(features: FeatureLabels) -> Self {
        Self::with(|case| {
            case.node = node("a", 0);
            case.node.features = features;
            case.pods.clear();
        })
    }

    fn find(&self) -> Option<Finding> {
        let pods = OperandPods::new(self.pods.clone());
        Stack::of(&self.sets, &pods, self.driver_is_managed).find(&self.node, self.kept_out.as_ref())
    }

    fn reason(&self) -> Option<NodeReason> {
        self.find().map(|found| found.reason)
    }
}

fn absent_image() -> PodState {
    PodState::ImageMissing {
        image: DRIVER_IMAGE.into(),
        is_absent: true,
    }
}

fn changing(change: DriverChange, schedulable: bool) -> Case {
    Case::with(|case| {
        case.node.driver_change = Some(change);
        case.node.schedulable = schedulable;
    })
}

fn impossible(why: Impossible) -> Case {
    Case::with(|case| case.kept_out = Some(KeptOut::Impossible(why)))
}

/// What shows each reason, and whether waiting can help.
fn reasons() -> Vec<(NodeReason, bool, Case)> {
    use NodeReason as Why;
    let os_image = "Ubuntu 24.04.2 LTS".to_owned();
    let architecture = "arm64".to_owned();
    let why = "no".to_owned();
    let excluded = Impossible::ExcludedDriver {
        os_image: "Garden Linux 2150.9.0".to_owned(),
        why,
    };
    let lasting = vec![
        (
            Why::ForeignOperatingSystem,
            impossible(Impossible::ForeignOperatingSystem { os_image }),
        ),
        (
            Why::UnsupportedArchitecture,
            impossible(Impossible::UnsupportedArchitecture { architecture }),
        ),
        (Why::ExcludedDriver, impossible(excluded)),
        (
            Why::Excluded,
            Case::with(|case| case.kept_out = Some(KeptOut::BySpec)),
        ),
        (
            Why::Excluded,
            Case::with(|case| case.kept_out = Some(KeptOut::BySomebody)),
        ),
        (Why::DriverImageMissing, Case::part(Part::Driver, absent_image())),
        (
            Why::DriverCrashLoop,
            Case::part(Part::Driver, PodState::CrashLoop { restarts: 4 }),
        ),
        (Why::UpgradeFailed, changing(DriverChange::Failed, false)),
        (Why::Cordoned, Case::with(|case| case.node.schedulable = false)),
    ];
    let passing = vec![
        (Why::NodeNotReady, Case::with(|case| case.node.ready = false)),
        (Why::WaitingForNFD, Case::bare(FeatureLabels::Absent)),
        (Why::MissingVersionLabel, Case::bare(FeatureLabels::NoVersion)),
        (Why::DriverNotReady, Case::bare(FeatureLabels::Complete)),
        (Why::DriverNotReady, Case::part(Part::Driver, PodState::Starting)),
        (
            Why::DriverNotReady,
            Case::part(Part::Driver, PodState::Unschedulable),
        ),
        (
            Why::DriverCrashLoop,
            Case::part(Part::Driver, PodState::CrashLoop { restarts: 2 }),
        ),
        (
            Why::ToolkitNotReady,
            Case::part(Part::Toolkit, PodState::Starting),
        ),
        (
            Why::DevicePluginNotReady,
            Case::part(Part::DevicePlugin, PodState::Leaving),
        ),
        (
            Why::ValidatorNotReady,
            Case::part(Part::Validator, PodState::Starting),
        ),
        (
            Why::NoAllocatableGpu,
            Case::with(|case| case.node.allocatable = 0),
        ),
        (Why::UpgradeInProgress, changing(DriverChange::UnderWay, false)),
    ];
    let lasting = lasting.into_iter().map(|(reason, case)| (reason, true, case));
    let passing = passing.into_iter().map(|(reason, case)| (reason, false, case));
    lasting.chain(passing).collect()
}

#[test]
fn every_reason_is_found_by_what_shows_it() {
    for (reason, lasts, case) in reasons() {
        let found = case.find();
        let told = found.map(|found| (found.reason, found.limit.is_none()));
        assert_eq!(told, Some((reason, lasts)), "{:?} {:?}", case.node, case.pods);
    }
    let shown: BTreeSet<_> = reasons().into_iter().map(|(reason, ..)| reason).collect();
    // These two are no missing link: one is a matter of age, the other of the support matrix (see the tests of `status`).
    let others = [NodeReason::Starting, NodeReason::DriverImageUnknown];
    let all: BTreeSet<_> = shown.into_iter().chain(others).collect();
    assert_eq!(all, NodeReason::ALL.into());
}

#[test]
fn every_reason_says_what_is_wrong_and_what_to_do_in_few_words() {
    let words: BTreeSet<_> = NodeReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(words.len(), NodeReason::ALL.len());
    for reason in NodeReason::ALL {
        let text = format!("{}: {}", reason.what(), reason.todo());
        assert!(text.len() < crate::api::MAX_TEXT, "{text}");
        assert!(!text.ends_with('.') && !reason.todo().is_empty(), "{text}");
    }
}

#[test]
fn a_node_with_all_links_is_usable() {
    assert_eq!(Case::good().find(), None);
}

#[test]
fn the_first_missing_link_is_told() {
    let mut case = Case::good();
    case.node.allocatable = 0;
    case.node.schedulable = false;
    for part in [Part::Validator, Part::DevicePlugin, Part::Toolkit, Part::Driver] {
        case.pods.retain(|pod| pod.part != part);
        case.pods.push(pod("a", part, PodState::Starting));
        let expected = match part {
            Part::Driver => NodeReason::DriverNotReady,
            Part::Toolkit => NodeReason::ToolkitNotReady,
            Part::DevicePlugin => NodeReason::DevicePluginNotReady,
            Part::Validator | Part::NodeFeatureDiscovery => NodeReason::ValidatorNotReady,
        };
        assert_eq!(case.reason(), Some(expected));
    }
    case.node.ready = false;
    assert_eq!(case.reason(), Some(NodeReason::NodeNotReady));
}

#[test]
fn gpus_that_are_still_announced_make_no_node_usable() {
    let mut case = Case::part(Part::Validator, PodState::Starting);
    case.node.allocatable = 1;
    assert_eq!(case.reason(), Some(NodeReason::ValidatorNotReady));
}

#[test]
fn a_driver_counts_only_for_its_kernel() {
    let mut case = Case::good();
    case.node.system.kernel = "6.18.50-cloud-amd64".to_owned();
    assert_eq!(case.reason(), Some(NodeReason::DriverNotReady));
    // One that builds the driver for any kernel.
    for pod in &mut case.pods {
        if let Some(driver) = &mut pod.driver {
            driver.kernel = None;
        }
    }
    assert_eq!(case.reason(), None);
}

#[test]
fn of_two_drivers_the_one_that_runs_counts() {
    // As while drivers are held: the newer one waits.
    let mut case = Case::good();
    case.pods.push(pod("a", Part::Driver, PodState::Unschedulable));
    assert_eq!(case.reason(), None);
}

#[test]
fn a_preinstalled_driver_needs_no_pod() {
    let mut case = Case::good();
    case.pods.retain(|pod| pod.part != Part::Driver);
    assert_eq!(case.reason(), Some(NodeReason::DriverNotReady));
    case.driver_is_managed = false;
    assert_eq!(case.reason(), None);
    case.node.driver_change = Some(DriverChange::Failed);
    assert_eq!(case.reason(), None, "the label is a left-over");
    case.pods.retain(|pod| pod.part != Part::Toolkit);
    assert_eq!(case.reason(), Some(NodeReason::ToolkitNotReady));
}

#[test]
fn a_part_that_the_stack_does_not_have_is_not_missed() {
    let mut case = Case::good();
    case.pods.retain(|pod| pod.part != Part::Toolkit);
    case.sets.retain(|set| !set.name.contains("toolkit"));
    assert_eq!(case.reason(), None);
}

#[test]
fn an_image_that_cannot_be_pulled_is_named_whatever_it_is_of() {
    let state = PodState::ImageMissing {
        image: "nvcr.io/x:1".into(),
        is_absent: false,
    };
    for (part, reason) in [
        (Part::Driver, NodeReason::DriverImageMissing),
        (Part::Toolkit, NodeReason::ToolkitNotReady),
        (Part::Validator, NodeReason::ValidatorNotReady),
    ] {
        let found = Case::part(part, state.clone()).find().unwrap();
        assert_eq!(
            (found.reason, found.image.as_deref()),
            (reason, Some("nvcr.io/x:1"))
        );
        assert!(found.limit.is_some(), "another try may succeed");
    }
    let mut case = Case::bare(FeatureLabels::Absent);
    case.pods.push(pod("a", Part::NodeFeatureDiscovery, state));
    let found = case.find().unwrap();
    assert_eq!(
        (found.reason, found.image.as_deref()),
        (NodeReason::WaitingForNFD, Some("nvcr.io/x:1"))
    );
}

#[test]
fn a_driver_change_hides_what_belongs_to_it_and_no_more() {
    let under_way = |part, state| {
        let mut case = Case::part(part, state);
        case.node.driver_change = Some(DriverChange::UnderWay);
        case.node.schedulable = false;
        case.reason()
    };
    let hidden = Some(NodeReason::UpgradeInProgress);
    assert_eq!(under_way(Part::Driver, PodState::Starting), hidden);
    assert_eq!(under_way(Part::Toolkit, PodState::Starting), hidden);
    // NVIDIA's operator would wait for ever.
    let missing = under_way(Part::Driver, absent_image());
    assert_eq!(missing, Some(NodeReason::DriverImageMissing));
    let crashing = under_way(Part::Driver, PodState::CrashLoop { restarts: 8 });
    assert_eq!(crashing, Some(NodeReason::DriverCrashLoop));
    // Its turn has not come: the old driver works, and a cordon is somebody else's.
    assert_eq!(changing(DriverChange::Waiting, true).reason(), None);
    let cordoned = changing(DriverChange::Waiting, false).reason();
    assert_eq!(cordoned, Some(NodeReason::Cordoned));
}

#[test]
fn what_passes_has_its_time_from_when_it_began() {
    let hours = |hours| NOW + SignedDuration::from_hours(hours);
    let begin = hours(10);
    let old = node("a", 1);
    let standing = |node: &NodeFacts, since, at, first| {
        let found = Finding {
            since,
            ..Case::part(Part::Driver, PodState::Starting).find().unwrap()
        };
        let times = Times {
            now: at,
            installed: NOW,
            changed: hours(1),
        };
        let unknown = Sightings::default();
        standing(node, found, times, &mut Sighted::new(&unknown, at, first))
    };
    let until = begin + STARTING_LIMIT;
    // A Pod that was made anew ten hours after node and release.
    let rolling = standing(&old, Some(begin), begin, NOW);
    assert!(matches!(rolling, Standing::Rolling { until: found, .. } if found == until));
    assert!(matches!(
        standing(&old, Some(begin), until, NOW),
        Standing::Lost(_)
    ));
    // No object tells since when: since it was first seen.
    assert!(matches!(
        standing(&old, None, begin, begin),
        Standing::Rolling { .. }
    ));
    assert!(matches!(standing(&old, None, until, begin), Standing::Lost(_)));
    // The release has changed lately.
    assert!(matches!(
        standing(&old, Some(NOW), hours(1), NOW),
        Standing::Rolling { .. }
    ));
    let mut young = node("b", 0);
    young.created = NOW + SignedDuration::from_mins(50);
    let starting = standing(&young, None, hours(1), hours(1));
    let until = young.created + STARTING_LIMIT;
    assert_eq!(
        starting,
        Standing::Starting { until },
        "older than the revision only"
    );
    assert!(matches!(
        standing(&young, None, hours(10), NOW),
        Standing::Lost(_)
    ));
}
