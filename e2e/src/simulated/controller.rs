//! One pass of NVIDIA's controller: labels, objects, DaemonSets, driver changes, statuses.
//!
//! It follows the real one's order: node labels first, then ClusterPolicy's states one after the
//! other, then each NVIDIADriver. A step that cannot be taken ends up as the status' message.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde_json::Value;

use super::change::{Change, Kind};
use super::faults::Faults;
use super::operands::OPERANDS;
use super::policy::{Setup, UpgradePolicy, at, text};
use super::status::{self, Verdict};
use super::view::{View, has_gpu_label};
use super::{daemon_set, driver, labelling, names, objects, stale, upgrade};

/// The controller's sentence for a DaemonSet that the API server refuses, after the name.
const FORBIDDEN: &str =
    "spec.template.spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";

/// Changes the labels and annotations of `nodes` and returns all other changes.
pub fn pass(view: &View, faults: &Faults, nodes: &mut [Node], tick: bool, now: Timestamp) -> Vec<Change> {
    if faults.operator_dead {
        return Vec::new();
    }
    let Some(setup) = Setup::find(view) else {
        return Vec::new();
    };
    labelling::label_nodes(&setup, view, nodes);

    let mut pass = Pass {
        setup,
        view,
        faults,
        changes: Vec::new(),
    };
    let verdict = pass.serve_policy(nodes);
    if setup.uses_nvidia_drivers() {
        pass.changes
            .extend(stale::replaced_layout(view, setup.since_26_7));
    }
    for nvidia_driver in &view.nvidia_drivers {
        let verdict = pass.serve_nvidia_driver(nvidia_driver, nodes);
        pass.report(Kind::NvidiaDriver, nvidia_driver, &verdict, now);
    }
    for name in upgrade::advance(&setup, view, nodes, tick) {
        pass.changes.push(Change::DeletePod { name });
    }
    if !faults.no_cluster_policy_status {
        pass.report(Kind::ClusterPolicy, setup.policy, &verdict, now);
    }
    pass.changes
}

struct Pass<'a> {
    setup: Setup<'a>,
    view: &'a View,
    faults: &'a Faults,
    changes: Vec<Change>,
}

impl Pass<'_> {
    fn serve_policy(&mut self, nodes: &[Node]) -> Verdict {
        let setup = self.setup;
        let gpu_nodes: Vec<&Node> = nodes.iter().filter(|node| has_gpu_label(node)).collect();
        let drivers = match self.policy_drivers(&gpu_nodes, nodes) {
            Ok(drivers) => drivers,
            // Before 26.7 a failure this early left the state as it was.
            Err(message) => {
                let state = setup.since_26_7.then_some("notReady");
                return Verdict {
                    state,
                    ..Verdict::failed("ReconcileFailed", message)
                };
            }
        };
        self.apply(objects::of_policy(&setup));
        if let Some(message) = self.refused(&gpu_nodes, &drivers) {
            return Verdict::failed("ReconcileFailed", message);
        }
        let mut not_ready = Vec::new();
        let served = gpu_nodes.is_empty() || self.serve_daemon_sets(&drivers);
        if !served || self.holds_outdated(&drivers) {
            not_ready.push("state-driver");
        }
        for operand in &OPERANDS {
            if !objects::is_enabled(&setup, operand) {
                self.changes.extend(stale::switched_off(self.view, operand.name));
            } else if !gpu_nodes.is_empty()
                && !self.serve_daemon_sets(&[daemon_set::of_operand(&setup, operand)])
            {
                not_ready.push(operand.state);
            }
        }
        self.judge(&not_ready, nodes, gpu_nodes.is_empty())
    }

    /// ClusterPolicy's own driver DaemonSets; an error if nodes cannot be told apart.
    fn policy_drivers(&self, gpu_nodes: &[&Node], nodes: &[Node]) -> Result<Vec<Value>, String> {
        let setup = &self.setup;
        let Some(first) = gpu_nodes.first() else {
            return Ok(Vec::new());
        };
        let first_os = driver::os_tag(first)
            .map_err(|message| format!("failed to retrieve GPU node OS info: {message}"))?;
        if !setup.driver_enabled() || setup.uses_nvidia_drivers() {
            return Ok(Vec::new());
        }
        let kernels = if setup.precompiled() {
            driver::kernels(nodes)?
        } else {
            BTreeMap::new()
        };
        Ok(driver::of_policy(setup, &first_os, &kernels))
    }

    fn refused(&self, gpu_nodes: &[&Node], drivers: &[Value]) -> Option<String> {
        if !self.faults.privileged_refused || gpu_nodes.is_empty() {
            return None;
        }
        let toolkit = daemon_set::of_operand(&self.setup, &OPERANDS[0]);
        let (state, refused) = match drivers.first() {
            Some(driver) => ("state-driver", driver),
            None => (OPERANDS[0].state, &toolkit),
        };
        Some(format!("Failed to reconcile {state}: {}", invalid(refused)))
    }

    fn judge(&self, not_ready: &[&str], nodes: &[Node], no_gpu: bool) -> Verdict {
        let setup = &self.setup;
        let changing = setup.since_26_7 && setup.uses_nvidia_drivers() && upgrade::is_incomplete(nodes);
        if !not_ready.is_empty() || changing {
            let mut parts = vec!["ClusterPolicy is not ready".to_owned()];
            if !not_ready.is_empty() {
                parts.push(format!("states not ready: [{}]", not_ready.join(" ")));
            }
            if changing {
                parts.push("NVIDIADriver upgrade has not completed".to_owned());
                parts.push(
                    "one or more NVIDIADriver-owned Nodes are marked pending, in-progress, or failed"
                        .to_owned(),
                );
            }
            let separator = if setup.since_26_7 { "; " } else { ", " };
            return Verdict::failed("OperandNotReady", parts.join(separator));
        }
        if !nodes
            .iter()
            .any(|node| node.labels().keys().any(|key| key.starts_with(names::NFD_PREFIX)))
        {
            return Verdict::ready("NFDLabelsMissing", "No NFD labels found");
        }
        if no_gpu {
            return Verdict::ready(
                "NoGPUNodes",
                "No GPU node found, watching for new nodes to join the cluster.",
            );
        }
        Verdict::ready(
            "Reconciled",
            "ClusterPolicy is ready as all resources have been successfully reconciled",
        )
    }

    fn serve_nvidia_driver(&mut self, nvidia_driver: &DynamicObject, nodes: &[Node]) -> Verdict {
        let setup = self.setup;
        if !setup.uses_nvidia_drivers() {
            let message = "useNvidiaDriverCRD is not enabled in ClusterPolicy".to_owned();
            return Verdict {
                state: Some("disabled"),
                ..Verdict::failed("Reconciled", message)
            };
        }
        if let Some(message) = labelling::conflict(&self.view.nvidia_drivers, nodes) {
            return Verdict::failed("ConflictingNodeSelector", message);
        }
        let daemon_sets = driver::of_nvidia_driver(&setup, nvidia_driver, nodes);
        if let Some(first) = daemon_sets.first().filter(|_| self.faults.privileged_refused) {
            let message = format!(
                "Error syncing state state-driver: failed to create/update objects: {}",
                invalid(first)
            );
            return Verdict::failed("ReconcileFailed", message);
        }
        self.changes
            .extend(stale::lost_pools(self.view, nvidia_driver, &daemon_sets));
        self.apply(objects::of_nvidia_driver(nvidia_driver, nodes));
        self.apply_daemon_sets(&daemon_sets);
        let ready = daemon_sets.iter().all(|wanted| {
            objects::is_up_to_date(self.view, wanted)
                && self
                    .view
                    .daemon_set(text(wanted, "/metadata/name"))
                    .is_some_and(status::is_driver_ready)
        });
        if ready {
            Verdict::ready("Reconciled", "All resources have been successfully reconciled")
        } else {
            Verdict::failed("DriverNotReady", "Waiting for driver pod to be ready".to_owned())
        }
    }

    /// Applies DaemonSets of ClusterPolicy, and says whether they are ready.
    fn serve_daemon_sets(&mut self, wanted: &[Value]) -> bool {
        self.changes.extend(stale::unused_kernels(self.view, wanted));
        self.apply_daemon_sets(wanted);
        wanted.iter().all(|daemon_set| {
            objects::is_up_to_date(self.view, daemon_set)
                && self
                    .view
                    .daemon_set(text(daemon_set, "/metadata/name"))
                    .is_some_and(status::is_operand_ready)
        })
    }

    /// While it replaces no driver by itself, the controller calls a driver DaemonSet whose Pods are outdated not ready
    /// (seen with 26.3.3 and 26.7.0).
    fn holds_outdated(&self, drivers: &[Value]) -> bool {
        let held = !UpgradePolicy::of_policy(&self.setup).auto_upgrade;
        held && drivers.iter().any(|driver| {
            let daemon_set = self.view.daemon_set(text(driver, "/metadata/name"));
            daemon_set.is_some_and(|daemon_set| !status::is_driver_ready(daemon_set))
        })
    }

    fn apply_daemon_sets(&mut self, wanted: &[Value]) {
        let outdated = wanted
            .iter()
            .filter(|daemon_set| !objects::is_up_to_date(self.view, daemon_set));
        let changes = outdated.map(|object| Change::Apply {
            kind: Kind::DaemonSet,
            object: object.clone(),
        });
        self.changes.extend(changes);
    }

    fn apply(&mut self, objects: Vec<objects::Object>) {
        self.changes.extend(
            objects
                .into_iter()
                .map(|(kind, object)| Change::Apply { kind, object }),
        );
    }

    fn report(&mut self, kind: Kind, object: &DynamicObject, verdict: &Verdict, now: Timestamp) {
        let namespace = (kind == Kind::ClusterPolicy).then_some(names::NAMESPACE);
        if let Some(patch) = status::patch(verdict, at(&object.data, "/status"), namespace, now) {
            self.changes.push(Change::Status {
                kind,
                name: object.name_any(),
                patch,
            });
        }
    }
}

fn invalid(daemon_set: &Value) -> String {
    format!(
        "DaemonSet.apps \"{}\" is invalid: {FORBIDDEN}",
        text(daemon_set, "/metadata/name")
    )
}
