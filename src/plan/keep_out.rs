//! Which nodes NVIDIA's operator is to keep off: a label on each, that only the module itself takes back.
//!
//! The label goes before the release, so that the first rollout already leaves such nodes out, and is taken off after it. No release is
//! changed for it.

use super::pauses::Pauses;
use super::{Action, Plan, Situation};
use crate::desired::{Desired, DriverUpgrades};
use crate::facts::NodeFacts;
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
    /// Set it, or take it off.
    pub keep_out: bool,
}

/// Labels that were set or taken off lately.
pub type Labelled = Pauses<NodeLabel, ()>;

/// The labels that go before or after what is decided otherwise.
pub fn step(s: &Situation<'_>, desired: &Desired, plan: Plan) -> Plan {
    if matches!(plan, Plan::Hold(_)) {
        return plan;
    }
    let may_interrupt = lets_drivers_go(&plan) || !changes_driver(s, desired);
    // What runs now may be of another driver. Once nothing is left to do, a node that comes back gets the wanted one.
    let may_take_off = plan == Plan::Keep;
    act(s, |node| match s.nodes.judge(node).kept_out {
        Some(KeptOut::BySomebody) => None,
        Some(KeptOut::BySpec) => Some(true),
        Some(KeptOut::Impossible(_)) => (node.allocatable == 0 || may_interrupt).then_some(true),
        None => may_take_off.then_some(false),
    })
    .unwrap_or(plan)
}

/// Takes every label off before the GpuModule goes. A node that refuses keeps it: a deletion ends.
pub fn end(s: &Situation<'_>, plan: Plan) -> Plan {
    match plan {
        Plan::Act(Action::RemoveFinalizer) => act(s, |_| Some(false)).unwrap_or(plan),
        plan => plan,
    }
}

/// Labels GPU nodes where `wants` asks for another label than there is, and takes it off those that are none any more.
fn act(s: &Situation<'_>, wants: impl Fn(&NodeFacts) -> Option<bool>) -> Option<Plan> {
    let gpu_nodes = s.observed.gpu_nodes.iter();
    let changes = gpu_nodes.filter_map(|node| change(node, wants(node)?));
    let former = s.observed.former_gpu_nodes.iter();
    let changes = changes.chain(former.filter_map(|node| change(node, false)));
    let due = changes.filter(|label| s.labelled.are_over(label, s.now));
    let labels: Vec<_> = due.take(AT_ONCE).collect();
    (!labels.is_empty()).then_some(Plan::Act(Action::LabelNodes { labels }))
}

/// What is to be done to the node's label; somebody else's is left alone.
fn change(node: &NodeFacts, keep_out: bool) -> Option<NodeLabel> {
    let others = node.operands.is_some() && !node.has_own_label();
    (!others && keep_out != node.has_own_label()).then(|| NodeLabel {
        node: node.name.clone(),
        uid: node.uid.clone(),
        keep_out,
    })
}

fn lets_drivers_go(plan: &Plan) -> bool {
    matches!(plan, Plan::Act(Action::Upgrade { to, .. }) if to.drivers == DriverUpgrades::AsConfigured)
}

/// True where the nodes run another driver than is wanted, or nobody knows. What is not supported by the wanted one may then be in use.
fn changes_driver(s: &Situation<'_>, desired: &Desired) -> bool {
    super::held::running(s).is_some_and(|running| running.driver != Some(&desired.driver_id))
}
