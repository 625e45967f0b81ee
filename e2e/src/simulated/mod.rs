//! The simulated operator: plays NFD, GFD, NVIDIA's controller and the kubelets on a local cluster.
//!
//! NVIDIA's containers cannot run there, so this stands in for them, driven only by what it sees in
//! the cluster and checked against recordings of the real controller. It can be told to fail.
//! [`plan`] is the whole decision, a pure function; [`Operator`] watches, plans and writes.

mod cache;
mod change;
mod controller;
mod daemon_set;
mod device_plugin;
mod driver;
mod faults;
mod gfd;
mod hardware;
pub mod hash;
mod kubelet;
mod labelling;
pub mod memory;
mod mig_manager;
pub mod names;
mod nfd;
mod objects;
mod operands;
mod operator;
mod policy;
mod programs;
mod stale;
mod status;
#[cfg(test)]
mod tests;
mod upgrade;
mod view;
mod writer;

use jiff::Timestamp;

pub use change::{Change, Kind};
pub use faults::{Faults, Where};
pub use operator::{Operator, Options};
pub use view::{View, is_ready, node_of};

/// What belongs to one moment and not to the cluster.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// Whether the upgrade controller looks at the driver Pods now.
    pub tick: bool,
    /// Whether NFD's post-delete Job has run and its labels must go.
    pub prune: bool,
}

/// Everything to be done to the cluster as it stands. Objects other than DaemonSets are listed
/// whether they are there or not; all else is a difference.
pub fn plan(view: &View, faults: &Faults, moment: Moment) -> Vec<Change> {
    let mut nodes = view.nodes.clone();
    if moment.prune {
        nfd::prune(&mut nodes);
    } else {
        nfd::label_nodes(view, &mut nodes);
    }
    mig_manager::pass(view, &mut nodes);
    let of_controller = controller::pass(view, faults, &mut nodes, moment.tick, moment.now);
    // Labels come first, as with the real controller: a status never speaks of labels that are still to be set.
    let mut changes: Vec<Change> = view
        .nodes
        .iter()
        .zip(&nodes)
        .filter_map(|(before, after)| change::node_difference(before, after))
        .collect();
    changes.extend(of_controller);
    changes.extend(kubelet::pass(view, faults, moment.now));
    changes
}
