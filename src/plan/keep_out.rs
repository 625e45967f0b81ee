//! Which nodes NVIDIA's operator is to keep off: a label on each, that only the module itself takes back.
//!
//! The label goes before the release, so that the first rollout already leaves such nodes out, and is taken off after it, at the end of a
//! removal as everything else that is left. No release is changed for it. It takes the driver from the node, so it waits for what runs there as a driver change does.

use jiff::Timestamp;

use super::pauses::Pauses;
use super::work::{WINDOW_LOOK, WORK_LOOK};
use super::{Action, Plan, Reading, Situation};
use crate::api::UpgradePolicy;
use crate::desired::{Desired, DriverUpgrades};
use crate::facts::{NodeFacts, OperandPod, Part, PodState};
use crate::nodes::KeptOut;

/// Most nodes that are labelled in one step.
const AT_ONCE: usize = 100;

/// A label to be set on a node or taken off.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeLabel {
    /// Name of the Node.
    pub node: String,
    /// Its UID: another Node of the same name is left alone.
    pub uid: String,
    /// What is done to it.
    pub change: LabelChange,
}

/// What is done to a node's labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelChange {
    /// Set the label that keeps NVIDIA's operator off.
    KeepOut,
    /// Take that label off again.
    LetIn,
    /// Take off NVIDIA's label of a driver change that has lost its driver. Nothing else ever ends it, and NVIDIA's operator calls
    /// its ClusterPolicy not ready for it.
    EndDriverChange,
}

/// Labels that were set or taken off lately, each with why the last try failed, if it did.
pub type Labelled = Pauses<NodeLabel, Option<String>>;

/// What may be done to a node's label now.
enum Wish {
    /// This: set it, or take it off.
    Now(bool),
    /// It depends on what is to be read first.
    Ask(Reading),
    /// Nothing before that time: the node is in use.
    Later(Timestamp),
}

/// The labels that go before or after what is decided otherwise.
pub fn step(s: &Situation<'_>, desired: &Desired, plan: Plan) -> Plan {
    if matches!(plan, Plan::Hold(_)) {
        return plan;
    }
    let wishes: Vec<_> = wishes(s, desired, &plan).collect();
    let wanted = wishes.iter().filter_map(|(node, wish)| match wish {
        Wish::Now(keep_out) => change(node, *keep_out),
        Wish::Ask(_) | Wish::Later(_) => None,
    });
    let asked = || {
        wishes.iter().find_map(|(_, wish)| match wish {
            Wish::Ask(reading) => Some(Plan::Read(*reading)),
            Wish::Now(_) | Wish::Later(_) => None,
        })
    };
    let gpu_nodes = s.observed.gpu_nodes.iter();
    let stale = gpu_nodes.filter_map(|node| end_of_driver_change(s, node));
    // Nodes that count as GPU nodes no longer.
    let former = s.observed.former_gpu_nodes.iter();
    let former = former.filter_map(|node| change(node, false));
    act(s, wanted.chain(stale).chain(former))
        .or_else(asked)
        .unwrap_or(plan)
}

/// When to look again whether a node that is to be left out is in use no longer; `plan` is what was decided.
pub fn recheck(s: &Situation<'_>, desired: &Desired, plan: &Plan) -> Option<Timestamp> {
    let wishes = wishes(s, desired, plan);
    let later = wishes.filter_map(|(_, wish)| match wish {
        Wish::Later(until) => Some(until),
        Wish::Now(_) | Wish::Ask(_) => None,
    });
    later.min()
}

/// What is wanted of each GPU node's label, where anything is.
fn wishes<'a>(
    s: &'a Situation<'_>,
    desired: &Desired,
    plan: &Plan,
) -> impl Iterator<Item = (&'a NodeFacts, Wish)> {
    let changes_driver = changes_driver(s, desired);
    // Whatever runs is interrupted then, on this node or by the label on it.
    let goes_on = changes_driver && lets_drivers_go(plan);
    // What runs now may be of another driver. Once nothing is left to do, a node that comes back gets the wanted one.
    let may_take_off = *plan == Plan::Keep;
    s.observed.gpu_nodes.iter().filter_map(move |node| {
        let wish = match s.nodes.judge(node).kept_out {
            Some(KeptOut::BySomebody) => None,
            Some(_) if node.has_own_label() || goes_on => Some(Wish::Now(true)),
            // The driver that runs may serve it, and the change may be taken back.
            Some(KeptOut::Impossible(_)) if changes_driver => {
                (!is_served(s, node)).then_some(Wish::Now(true))
            }
            Some(KeptOut::BySpec | KeptOut::Impossible(_)) => {
                let label = NodeLabel::of(node, LabelChange::KeepOut);
                // While a try is put off, nobody needs to know whether the node is idle.
                s.labelled.are_over(&label, s.now).then(|| keep_out(s, node))
            }
            None => may_take_off.then_some(Wish::Now(false)),
        };
        Some((node, wish?))
    })
}

/// Takes the driver from a node when a new one might be put onto it.
fn keep_out(s: &Situation<'_>, node: &NodeFacts) -> Wish {
    if !is_served(s, node) {
        return Wish::Now(true);
    }
    match s.upgrade_policy {
        UpgradePolicy::Immediate => Wish::Now(true),
        UpgradePolicy::WhenIdle => match s.observed.gpu_work.as_ref().map(|work| work.is_used(&node.name)) {
            None | Some(None) => Wish::Ask(Reading::GpuWork),
            Some(Some(true)) => Wish::Later(s.now + WORK_LOOK),
            Some(Some(false)) => Wish::Now(true),
        },
        UpgradePolicy::Window => match &s.observed.maintenance {
            None => Wish::Ask(Reading::MaintenanceWindow),
            Some(Ok(window)) if window.contains(s.now) => Wish::Now(true),
            Some(Ok(window)) => Wish::Later(window.next_begin(s.now).min(s.now + WINDOW_LOOK)),
            Some(Err(_)) => Wish::Later(s.now + WINDOW_LOOK),
        },
    }
}

/// True where Pods may use GPUs of a node by what the release brings. The kubelet announces none while the device plugin or it
/// itself starts, so a part that is ready counts too.
fn is_served(s: &Situation<'_>, node: &NodeFacts) -> bool {
    let serves = |pod: &OperandPod| {
        matches!(pod.part, Part::Driver | Part::Toolkit | Part::DevicePlugin) && pod.state == PodState::Ready
    };
    let pods = s.observed.operand_pods.as_ref();
    let has_parts = || pods.is_none_or(|pods| pods.on(&node.name).iter().any(serves));
    s.observed.release.latest().is_some() && (node.allocatable > 0 || has_parts())
}

/// Changes labels that are due.
fn act(s: &Situation<'_>, wanted: impl Iterator<Item = NodeLabel>) -> Option<Plan> {
    let due = wanted.filter(|label| s.labelled.are_over(label, s.now));
    let labels: Vec<_> = due.take(AT_ONCE).collect();
    (!labels.is_empty()).then_some(Plan::Act(Action::LabelNodes { labels }))
}

/// What is to be done to the node's label; somebody else's is left alone.
fn change(node: &NodeFacts, keep_out: bool) -> Option<NodeLabel> {
    let others = node.operands.is_some() && !node.has_own_label();
    let change = if keep_out {
        LabelChange::KeepOut
    } else {
        LabelChange::LetIn
    };
    (!others && keep_out != node.has_own_label()).then(|| NodeLabel::of(node, change))
}

/// What a driver change has left on a node that NVIDIA's operator was told to keep off meanwhile, once the driver is gone from it.
fn end_of_driver_change(s: &Situation<'_>, node: &NodeFacts) -> Option<NodeLabel> {
    let pods = s.observed.operand_pods.as_ref()?.on(&node.name);
    let has_driver = pods.iter().any(|pod| pod.part == Part::Driver);
    let is_stale = node.is_kept_off() && node.driver_change.is_some() && !has_driver && !node.leaving;
    is_stale.then(|| NodeLabel::of(node, LabelChange::EndDriverChange))
}

impl NodeLabel {
    fn of(node: &NodeFacts, change: LabelChange) -> Self {
        Self {
            node: node.name.clone(),
            uid: node.uid.clone(),
            change,
        }
    }
}

fn lets_drivers_go(plan: &Plan) -> bool {
    matches!(plan, Plan::Act(Action::Upgrade { to, .. }) if to.drivers == DriverUpgrades::AsConfigured)
}

/// True where the nodes run another driver than is wanted, or nobody knows. What is not supported by the wanted one may then be in use.
fn changes_driver(s: &Situation<'_>, desired: &Desired) -> bool {
    super::held::running(s).is_some_and(|running| running.driver != Some(&desired.driver_id))
}
