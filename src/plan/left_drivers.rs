//! DaemonSets of drivers that NVIDIA's operator leaves behind when the driver is switched off, as with mode `Preinstalled`: their Pods would
//! keep a driver on the nodes that nobody wants (seen with 26.3.3 and 26.7.0).

use super::{LeftBy, Plan, Situation, prune};
use crate::desired::Desired;
use crate::drift::{Kind, ObjectRef};
use crate::facts::{DriverImage, Orphan};

/// The next step about them once the newest revision is deployed and as wanted.
pub fn step(s: &Situation<'_>, desired: &Desired) -> Option<Plan> {
    prune::step(s, left(s, desired).into_iter(), LeftBy::FormerDriver)
}

/// What is still there of them and not going yet. Nothing makes them anew: the ClusterPolicy wants no drivers, and no NVIDIADriver is there
/// that asked for them.
pub fn left(s: &Situation<'_>, desired: &Desired) -> Vec<Orphan> {
    let mut policies = s.observed.policies.iter();
    let policy = policies.find(|policy| policy.is_of_module_release());
    if desired.driver.is_managed() || policy.is_none_or(|policy| policy.drivers_enabled) {
        return Vec::new();
    }
    let asked_for = |driver: &DriverImage| s.observed.drivers.iter().any(|one| one.name == driver.owner);
    let sets = s.observed.daemon_sets.iter();
    let left = sets.filter(|set| !set.terminating).filter_map(|set| {
        let driver = set.driver.as_ref().filter(|driver| !asked_for(driver))?;
        Some(Orphan {
            object: ObjectRef {
                kind: Kind::new("apps/v1", "DaemonSet"),
                namespace: None,
                name: set.name.clone(),
            },
            uid: driver.uid.clone(),
        })
    });
    left.collect()
}
