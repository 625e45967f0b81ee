//! Condition `Deleted`: what holds a deletion, and since when. It is there only while the GpuModule is being deleted.

use super::conditions::{Verdict, whole_seconds};
use super::{Report, namespace};
use crate::api::{ConditionType, DeletionCrds, State, condition};
use crate::facts::{GpuPod, Leavings, first, first_few};
use crate::plan::{Action, Held, Plan, Protection, Wait};

/// Most names that are listed of one kind.
const NAMED: usize = 5;

/// Reasons of a deletion that is held.
const REASONS: [&str; 2] = ["WorkloadsUsingGpu", "WorkUnreadable"];

/// The reason of one that goes on.
const REMOVING: &str = "Removing";

/// True for a reason of condition `Deleted` that only somebody else can remove.
pub fn is_held(reason: &str) -> bool {
    REASONS.contains(&reason)
}

/// The verdict, and whether a person must act.
pub struct Deleted {
    pub verdict: Verdict,
    pub is_held: bool,
}

impl Deleted {
    /// The state, where nothing has failed.
    pub const fn state(&self) -> State {
        if self.is_held {
            State::Warning
        } else {
            State::Deleting
        }
    }

    /// True where it explains the state. What a removal waits for is told by the release's own condition.
    pub fn decides(&self, state: State, plan: &Plan) -> bool {
        let waits = matches!(
            plan,
            Plan::Wait {
                why: Wait::ForeignOperation(_),
                ..
            }
        );
        state == self.state() && (self.is_held || !waits)
    }
}

/// Says how far a deletion is; `None` where the GpuModule is not being deleted.
pub fn judge(report: &Report<'_>) -> Option<Deleted> {
    let since = whole_seconds(report.deleting?);
    let held = |reason, message: String| Deleted {
        verdict: Verdict::no(reason, message),
        is_held: true,
    };
    let removing = || Deleted {
        verdict: Verdict::no(REMOVING, progress(report)),
        is_held: false,
    };
    Some(match report.protection {
        Protection::Held(Held::Work(pods)) => held(
            REASONS[0],
            format!(
                "{}, so the module, whose deletion was asked for at {since}, stays until they end; delete them, or set spec.deletion.workloads to Ignore",
                work(pods)
            ),
        ),
        Protection::Held(Held::Unreadable(why)) => held(
            REASONS[1],
            format!(
                "it is not known whether Pods use GPUs ({why}), so the module, whose deletion was asked for at {since}, stays; apply the module's ClusterRoles again, or set spec.deletion.workloads to Ignore"
            ),
        ),
        // Nobody has looked in this pass: what was said before still stands.
        Protection::Unknown => before(report).unwrap_or_else(removing),
        Protection::Nothing => removing(),
    })
}

fn before(report: &Report<'_>) -> Option<Deleted> {
    let old = condition(report.previous?, ConditionType::Deleted)?;
    let reason = REASONS.into_iter().find(|reason| old.reason == *reason)?;
    Some(Deleted {
        verdict: Verdict::no(reason, &old.message),
        is_held: true,
    })
}

/// How many Pods, in which namespaces, and the first of them by name.
fn work(pods: &[GpuPod]) -> String {
    let mut namespaces: Vec<_> = pods.iter().map(|pod| pod.namespace.as_str()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    let word = if namespaces.len() == 1 {
        "namespace"
    } else {
        "namespaces"
    };
    let names = pods.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name));
    let uses = if pods.len() == 1 {
        "Pod uses a GPU"
    } else {
        "Pods use GPUs"
    };
    format!(
        "{} {uses} in {word} {} ({})",
        pods.len(),
        first(NAMED, namespaces.iter()),
        first(NAMED, names)
    )
}

/// The steps of a removal that leaves the CRDs.
const STEPS: usize = 8;

/// Which step is taken, and what it is about.
fn progress(report: &Report<'_>) -> String {
    let steps = match report.deletion_crds {
        DeletionCrds::Keep => STEPS,
        DeletionCrds::Delete => STEPS + 1,
    };
    let (step, doing) = match report.plan {
        Plan::Act(Action::Clear { what, objects }) => {
            let names = objects.iter().map(|leftover| &leftover.object);
            on_the_way(*what, objects.len(), &first_few(names))
        }
        Plan::AwaitRemoval { what, names } => {
            let (step, doing) = on_the_way(*what, names.len(), &first_few(names.iter()));
            (step, format!("{doing}{}", held(report, *what)))
        }
        Plan::Wait {
            why: Wait::Refused { what, names, why },
            ..
        } => {
            let (step, doing) = on_the_way(*what, names.len(), &first_few(names.iter()));
            (
                step,
                format!("{doing}, which is not possible yet and tried again: {why}"),
            )
        }
        Plan::Wait {
            why: Wait::NamespaceTerminating,
            ..
        } => {
            let (step, doing) = step(Leavings::Namespace);
            (step, format!("{doing}{}", namespace::held(report)))
        }
        Plan::Act(Action::RemoveFinalizer) => (steps, "the GpuModule itself is going".to_owned()),
        Plan::Hold(_)
        | Plan::Wait {
            why: Wait::Backoff, ..
        } if let Some(old) = removing_before(report) => return old,
        _ => (3, "the Helm release is being uninstalled".to_owned()),
    };
    format!("step {step} of {steps} of the removal: {doing}")
}

/// Why the step does not end, where Kubernetes tells.
fn held(report: &Report<'_>, what: Leavings) -> String {
    match what {
        Leavings::Namespace => namespace::held(report),
        _ => String::new(),
    }
}

/// What was said of the step at which a removal has stopped for now.
fn removing_before(report: &Report<'_>) -> Option<String> {
    let old = condition(report.previous?, ConditionType::Deleted)?;
    (old.reason == REMOVING).then(|| old.message.clone())
}

/// The step, what is done, and how much of it is left.
fn on_the_way(what: Leavings, count: usize, names: &str) -> (usize, String) {
    let (step, doing) = step(what);
    (step, format!("{doing} ({count} left: {names})"))
}

const fn step(what: Leavings) -> (usize, &'static str) {
    match what {
        Leavings::DriverUpgrades => (1, "driver upgrades are being paused"),
        Leavings::Cordons => (
            2,
            "nodes that were cordoned for a driver upgrade are being uncordoned",
        ),
        Leavings::Release => (3, "objects of the release are being deleted without Helm"),
        Leavings::Stack => (4, "Kubernetes is removing what NVIDIA's operator had made"),
        Leavings::Pods => (5, "Pods of NVIDIA's stack are ending, which can take minutes"),
        Leavings::Hooks => (6, "what is left of Helm's hooks is being deleted"),
        Leavings::Nodes => (7, "labels and annotations are being taken off nodes"),
        Leavings::Namespace => (8, "the namespace is going"),
        Leavings::Rights => (8, "the operator gives back its rights in the namespace"),
        Leavings::Crds => (9, "CustomResourceDefinitions are being deleted"),
        Leavings::OwnLabels => (8, "the module's labels are being taken off nodes"),
    }
}
