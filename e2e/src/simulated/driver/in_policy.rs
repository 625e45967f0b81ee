//! Driver DaemonSets in ClusterPolicy's layout: one per kernel.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{driver_image, finish, sanitized};
use crate::simulated::daemon_set::Template;
use crate::simulated::names;
use crate::simulated::policy::{Setup, at};

/// The driver DaemonSets of ClusterPolicy's layout.
///
/// `first_os` is the system of the first GPU node, `kernels` what [`super::kernels`] found.
pub fn of_policy(setup: &Setup<'_>, first_os: &str, kernels: &BTreeMap<String, String>) -> Vec<Value> {
    let precompiled = setup.precompiled();
    let one = |kernel: Option<(&String, &String)>| {
        let driver = setup.part("driver");
        let name = kernel.map_or_else(
            || names::POLICY_DRIVER.to_owned(),
            |(kernel, os)| format!("{}-{}-{os}", names::POLICY_DRIVER, sanitized(kernel)),
        );
        let labels = BTreeMap::from([
            ("app".to_owned(), names::POLICY_DRIVER.to_owned()),
            (names::COMPONENT.to_owned(), names::DRIVER_COMPONENT.to_owned()),
            ("nvidia.com/precompiled".to_owned(), precompiled.to_string()),
        ]);
        let selector = kernel.map(|(kernel, _)| (names::KERNEL.to_owned(), kernel.clone()));
        let deploy = (names::DEPLOY_DRIVER.to_owned(), "true".to_owned());
        let mut template = Template::of_policy(setup, name, labels);
        template.annotations = BTreeMap::from([("openshift.io/scc".to_owned(), "nvidia-driver".to_owned())]);
        template.selector.retain(|key, _| key == "app");
        template.node_selector = [deploy].into_iter().chain(selector).collect();
        "nvidia-driver".clone_into(&mut template.service_account);
        finish(
            template,
            driver,
            &driver_image(driver, kernel.map(|(kernel, _)| kernel.as_str()), first_os),
            &setup.image(at(driver, "/manager"), "DRIVER_MANAGER_IMAGE"),
            &["nvidia-driver"],
        )
    };
    if precompiled {
        kernels.iter().map(|kernel| one(Some(kernel))).collect()
    } else {
        vec![one(None)]
    }
}
