//! Every reason, each by what shows it.

use std::collections::BTreeSet;

use super::cause::{Cause, Image, ImageTrouble};
use super::judge::{Finding, Stack};
use super::standing::Times;
use super::*;
use crate::facts::fixtures::{DRIVER_IMAGE, NOW, daemon_sets, node, pod, ready_pods};
use crate::facts::{FeatureLabels, MachineUpdate, OperandPod, OperandsLabel, Part, PodState};
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
        self.find().map(|found| found.cause.reason)
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
    Case::with(|case| {
        case.node.allocatable = 0;
        case.kept_out = Some(KeptOut::Impossible(why));
    })
}

fn updated(update: MachineUpdate, ready: bool) -> Case {
    Case::with(|case| {
        case.node.machine_update = Some(update);
        case.node.ready = ready;
        case.node.schedulable = false;
    })
}

fn label(value: &str) -> OperandsLabel {
    OperandsLabel {
        value: value.to_owned(),
        is_ours: true,
    }
}

/// What shows each reason, and whether waiting can help.
fn reasons() -> Vec<(NodeReason, bool, Case)> {
    use NodeReason as Why;
    let lasting = vec![
        (
            Why::ForeignOperatingSystem,
            impossible(Impossible::ForeignOperatingSystem),
        ),
        (
            Why::UnsupportedArchitecture,
            impossible(Impossible::UnsupportedArchitecture),
        ),
        (Why::ExcludedDriver, impossible(Impossible::ExcludedDriver)),
        (
            Why::Rejoining,
            Case::with(|case| case.node.operands = Some(label("false"))),
        ),
        (Why::NodeUpdateFailed, updated(MachineUpdate::Failed, true)),
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
        (Why::NodeUpdateInProgress, updated(MachineUpdate::UnderWay, true)),
        (Why::NodeUpdateInProgress, updated(MachineUpdate::UnderWay, false)),
    ];
    let lasting = lasting.into_iter().map(|(reason, case)| (reason, true, case));
    let passing = passing.into_iter().map(|(reason, case)| (reason, false, case));
    lasting.chain(passing).collect()
}

#[test]
fn every_reason_is_found_by_what_shows_it() {
    for (reason, lasts, case) in reasons() {
        let found = case.find();
        let told = found.map(|found| (found.cause.reason, found.limit.is_none()));
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
    let plain = NodeReason::ALL.map(Cause::from);
    let of_image = |(reason, trouble)| Cause {
        reason,
        image: Some(Image {
            name: "r/x:1".into(),
            trouble,
        }),
    };
    let without_secret = || ImageTrouble::WithoutSecret("mirror".into());
    let of_images = [
        (NodeReason::DriverImageMissing, ImageTrouble::Absent),
        (NodeReason::DriverImageMissing, ImageTrouble::OfOtherSystem),
        (NodeReason::DriverImageMissing, ImageTrouble::Refused),
        (NodeReason::DriverNotReady, ImageTrouble::Absent),
        (NodeReason::ToolkitNotReady, ImageTrouble::Refused),
        (NodeReason::DriverImageMissing, without_secret()),
        (NodeReason::ToolkitNotReady, without_secret()),
        (NodeReason::DriverImageUnknown, ImageTrouble::Unknown),
    ];
    let all = plain.into_iter().chain(of_images.map(of_image));
    let lines: Vec<_> = all
        .map(|cause| {
            let brief = format!("{}: {}", cause.what_briefly(), cause.todo());
            assert!(
                brief.len() < crate::api::MAX_TEXT && !brief.ends_with('.'),
                "{brief}"
            );
            format!(
                "{} - {} (a), {}",
                cause.reason.as_str(),
                cause.what(),
                cause.todo()
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
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
    let state = |image: &str, is_absent| PodState::ImageMissing {
        image: image.into(),
        is_absent,
    };
    let told = |case: &Case| {
        let cause = case.find().unwrap().cause;
        assert_eq!(cause.affair(), Affair::User);
        let image = cause.image.unwrap();
        (cause.reason, image.name.to_string(), image.trouble)
    };
    for (part, reason) in [
        // An init container of its Pod.
        (Part::Driver, NodeReason::DriverNotReady),
        (Part::Toolkit, NodeReason::ToolkitNotReady),
        (Part::Validator, NodeReason::ValidatorNotReady),
    ] {
        let case = Case::part(part, state("nvcr.io/x:1", false));
        let expected = (reason, "nvcr.io/x:1".to_owned(), ImageTrouble::Refused);
        assert_eq!(told(&case), expected);
        assert!(case.find().unwrap().limit.is_some(), "another try may succeed");
    }
    let mut case = Case::bare(FeatureLabels::Absent);
    let worker = pod("a", Part::NodeFeatureDiscovery, state("r/nfd:1", true));
    case.pods.push(worker);
    let expected = (
        NodeReason::WaitingForNFD,
        "r/nfd:1".to_owned(),
        ImageTrouble::Absent,
    );
    assert_eq!(told(&case), expected);
}

#[test]
fn a_driver_image_for_another_system_is_told_from_one_that_is_not_there() {
    let trouble = |image: &str, is_absent, os_image: &str| {
        let missing = PodState::ImageMissing {
            image: image.into(),
            is_absent,
        };
        let mut case = Case::part(Part::Driver, missing);
        case.node.system.os_image = os_image.to_owned();
        case.pods
            .iter_mut()
            .filter_map(|pod| pod.driver.as_mut())
            .for_each(|driver| driver.image = image.into());
        let found = case.find().unwrap();
        assert_eq!(found.cause.reason, NodeReason::DriverImageMissing);
        found.cause.image.unwrap().trouble
    };
    let garden = "Garden Linux 2150.7.0";
    // As chart 26.3.3 asks where the first GPU node runs Ubuntu.
    let of_ubuntu = "r/driver:580-6.18.38-cloud-amd64-ubuntu24.04";
    assert_eq!(trouble(DRIVER_IMAGE, true, garden), ImageTrouble::Absent);
    assert_eq!(trouble(DRIVER_IMAGE, false, garden), ImageTrouble::Refused);
    assert_eq!(trouble(of_ubuntu, true, garden), ImageTrouble::OfOtherSystem);
    assert_eq!(
        trouble(of_ubuntu, true, "Ubuntu 24.04.2 LTS"),
        ImageTrouble::Absent
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
    let init = PodState::ImageMissing {
        image: "r/k8s-driver-manager:1".into(),
        is_absent: true,
    };
    assert_eq!(under_way(Part::Driver, init), Some(NodeReason::DriverNotReady));
    // Before its turn, which may be a day away, nothing of what is missing belongs to it.
    let mut waiting = Case::part(Part::Toolkit, PodState::Starting);
    waiting.node.driver_change = Some(DriverChange::Waiting);
    assert_eq!(waiting.reason(), Some(NodeReason::ToolkitNotReady));
    // Its turn has not come: the old driver works, and a cordon is somebody else's.
    assert_eq!(changing(DriverChange::Waiting, true).reason(), None);
    let cordoned = changing(DriverChange::Waiting, false).reason();
    assert_eq!(cordoned, Some(NodeReason::Cordoned));
}

#[test]
fn a_failed_driver_change_is_told_where_it_keeps_pods_away_and_nothing_else_does() {
    let failed = |mut case: Case| {
        case.node.driver_change = Some(DriverChange::Failed);
        case.reason()
    };
    assert_eq!(failed(Case::good()), None);
    let starting = failed(Case::part(Part::Driver, PodState::Starting));
    assert_eq!(starting, Some(NodeReason::UpgradeFailed));
    let crashing = failed(Case::part(Part::Driver, PodState::CrashLoop { restarts: 8 }));
    assert_eq!(crashing, Some(NodeReason::DriverCrashLoop));
}

#[test]
fn an_update_by_gardener_hides_its_cordon_and_no_more() {
    let mut case = updated(MachineUpdate::UnderWay, true);
    case.pods.retain(|pod| pod.part != Part::Driver);
    assert_eq!(case.reason(), Some(NodeReason::NodeUpdateInProgress));
    case.pods.push(pod("a", Part::Driver, absent_image()));
    assert_eq!(case.reason(), Some(NodeReason::DriverImageMissing));
    let mut chosen = Case::good();
    chosen.node.machine_update = Some(MachineUpdate::UnderWay);
    assert_eq!(chosen.reason(), None, "it works until it is cordoned");
}

#[test]
fn a_node_that_brings_its_own_driver_needs_no_driver_pod_and_others_do() {
    let mut case = Case::good();
    case.pods.retain(|pod| pod.part != Part::Driver);
    case.sets.retain(|set| set.driver.is_none());
    assert_eq!(case.reason(), Some(NodeReason::DriverNotReady));
    case.node.has_own_driver = true;
    assert_eq!(case.reason(), None);
}

#[test]
fn what_cannot_work_with_the_next_driver_works_until_it_is_left_out() {
    let mut case = impossible(Impossible::ExcludedDriver);
    case.node.allocatable = 1;
    assert_eq!(case.reason(), None);
    case.node.operands = Some(label("false"));
    assert_eq!(case.reason(), Some(NodeReason::ExcludedDriver));
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
