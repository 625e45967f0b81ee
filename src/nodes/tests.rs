use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::*;
use crate::api::{DriverBranch, GpuModuleSpec, NodeFeatureDiscovery, NodesSpec};
use crate::catalogue::{Catalogue, GardenLinuxVersion, KernelFlavour};
use crate::desired::{self, Desired};
use crate::facts::{NodeFacts, OperandsLabel, SystemFacts, fixtures};

fn catalogue() -> Catalogue {
    Catalogue::compiled_in().unwrap()
}

fn desired(driver: &Value) -> Desired {
    let spec: GpuModuleSpec = serde_json::from_value(json!({ "driver": driver })).unwrap();
    desired::resolve(&spec, &catalogue(), NodeFeatureDiscovery::Module, &[]).unwrap()
}

fn system(os_image: &str, kernel: &str, architecture: &str) -> SystemFacts {
    SystemFacts {
        os_image: os_image.to_owned(),
        kernel: kernel.to_owned(),
        architecture: architecture.to_owned(),
    }
}

fn judge(driver: &Value, os_image: &str, kernel: &str, architecture: &str) -> Support {
    let system = system(os_image, kernel, architecture);
    Support::of(&system, &desired(driver).driver, &catalogue().drivers)
}

fn word(support: &Support) -> String {
    match support {
        Support::Impossible(why) => format!("{why:?}"),
        support => format!("{support:?}"),
    }
}

#[test]
fn a_node_is_judged_by_what_it_runs() {
    let known = ("Garden Linux 2150.9.0", "6.18.41-cloud-amd64", "amd64");
    for (driver, (os, kernel, architecture), expected) in [
        (json!({}), known, "Supported"),
        (json!({ "branch": 590 }), known, "Supported"),
        (json!({ "repository": "mirror.example/gl" }), known, "Supported"),
        // Metal has no word in its kernels.
        (
            json!({}),
            ("Garden Linux 1877.23", "6.12.72-amd64", "amd64"),
            "Supported",
        ),
        (
            json!({}),
            ("Garden Linux 1592.18", "6.6.63-cloud-amd64", "amd64"),
            "Supported",
        ),
        (
            json!({ "branch": 570 }),
            ("Garden Linux 2150.7.0", "6.18.38-cloud-amd64", "amd64"),
            "Supported",
        ),
        // Newer than the module, a gap in the list, older than the list.
        (
            json!({}),
            ("Garden Linux 2150.10.0", "6.18.44-cloud-amd64", "amd64"),
            "Unknown",
        ),
        (
            json!({}),
            ("Garden Linux 1877.18", "6.12.70-cloud-amd64", "amd64"),
            "Unknown",
        ),
        (
            json!({}),
            ("Garden Linux 1312.3", "6.6.30-cloud-amd64", "amd64"),
            "Unknown",
        ),
        // A kernel of another series, or of a flavour that is not built for.
        (
            json!({}),
            ("Garden Linux 2150.9.0", "6.1.8-cloud-amd64", "amd64"),
            "Unknown",
        ),
        (
            json!({}),
            ("Garden Linux 2150.9.0", "6.18.41-firecracker-amd64", "amd64"),
            "Unknown",
        ),
        (
            json!({}),
            ("Garden Linux today", "6.18.41-cloud-amd64", "amd64"),
            "Unknown",
        ),
        // What cannot be.
        (json!({ "branch": 570 }), known, "ExcludedDriver"),
        (
            json!({ "branch": 570 }),
            ("Garden Linux 2300.0.0", "6.21.1-cloud-amd64", "amd64"),
            "ExcludedDriver",
        ),
        (
            json!({}),
            ("Garden Linux 2150.9.0", "6.18.41-cloud-arm64", "arm64"),
            "UnsupportedArchitecture",
        ),
        (
            json!({}),
            ("Ubuntu 24.04.3 LTS", "6.8.0-50-generic", "amd64"),
            "ForeignOperatingSystem",
        ),
        // Another release may have images for what this one has none for, but not for other systems.
        (
            json!({ "installerRelease": "1.18.0" }),
            ("Garden Linux 2300.0.0", "6.21.1-cloud-arm64", "arm64"),
            "Unjudged",
        ),
        (
            json!({ "installerRelease": "1.18.0", "branch": 570 }),
            known,
            "Unjudged",
        ),
        (
            json!({ "installerRelease": "1.18.0" }),
            ("Ubuntu 24.04.3 LTS", "6.8.0-50-generic", "amd64"),
            "ForeignOperatingSystem",
        ),
        // Nobody needs an image.
        (
            json!({ "mode": "Preinstalled" }),
            ("Ubuntu 24.04.3 LTS", "6.8.0-50-generic", "arm64"),
            "Unjudged",
        ),
        // The kubelet has not said anything yet.
        (json!({}), ("", "", ""), "Unjudged"),
    ] {
        let found = judge(&driver, os, kernel, architecture);
        assert_eq!(word(&found), expected, "{driver} {os} {kernel}");
    }
}

#[test]
fn the_image_is_the_one_that_the_node_will_ask_for() {
    let system = system("Garden Linux 2150.9.0", "6.18.41-cloud-amd64", "amd64");
    let image = |driver: Value| driver_image(&system, &desired(&driver));
    assert_eq!(
        image(json!({})).unwrap(),
        "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:580-6.18.41-cloud-amd64-gardenlinux0"
    );
    let elsewhere =
        json!({ "branch": 590, "installerRelease": "1.18.0", "repository": "mirror.example:5000/gl" });
    assert_eq!(
        image(elsewhere).unwrap(),
        "mirror.example:5000/gl/1.18.0/driver:590-6.18.41-cloud-amd64-gardenlinux0"
    );
    assert_eq!(image(json!({ "mode": "Preinstalled" })), None);
    let ubuntu = self::system("Ubuntu 24.04.3 LTS", "6.8.0-50-generic", "amd64");
    assert_eq!(driver_image(&ubuntu, &desired(&json!({}))), None);
}

/// `versions.yaml` of the Garden Linux NVIDIA installer.
#[derive(Deserialize)]
struct Published {
    os_versions: Vec<GardenLinuxVersion>,
    kernel_flavour: Vec<KernelFlavour>,
    cpu_arch: Vec<String>,
    nvidia_drivers: Vec<String>,
    excluded_combinations: Vec<PublishedExclusion>,
}

#[derive(Deserialize)]
struct PublishedExclusion {
    os_version_min: GardenLinuxVersion,
    driver_version_prefix: String,
}

#[test]
fn the_matrix_is_what_the_installer_publishes() {
    let matrix = catalogue().drivers;
    let name = format!(
        "../shared/data/gardenlinux-nvidia-installer-{}-versions.yaml",
        matrix.installer_release
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        let missing = format!("NO {}", path.display());
        assert!(option_env!("REQUIRE_TEST_DATA") != Some("true"), "{missing}");
        eprintln!("{missing}: THE COMPARISON WITH WHAT THE INSTALLER PUBLISHES IS LEFT OUT");
        return;
    };
    let published: Published = serde_saphyr::from_str(&text).unwrap();
    let own: BTreeSet<_> = matrix
        .garden_linux
        .iter()
        .flat_map(|line| &line.versions)
        .collect();
    assert_eq!(own, published.os_versions.iter().collect());
    assert_eq!(matrix.kernel_flavours, published.kernel_flavour);
    assert_eq!(matrix.architectures, published.cpu_arch);
    assert_eq!(matrix.drivers, published.nvidia_drivers);
    let own = matrix
        .excluded
        .iter()
        .map(|e| (e.from, e.branch.to_string()))
        .collect::<Vec<_>>();
    let theirs = published.excluded_combinations.iter();
    let theirs = theirs.map(|e| (e.os_version_min, e.driver_version_prefix.clone()));
    assert_eq!(own, theirs.collect::<Vec<_>>());
    assert!(
        DriverBranch::ALL
            .iter()
            .all(|branch| matrix.driver(*branch).is_some())
    );
}

fn verdict(node: &NodeFacts, spec: &Value, driver: &Value) -> Verdict {
    let spec: NodesSpec = serde_json::from_value(spec.clone()).unwrap();
    let rules = NodeRules {
        spec: Some(&spec),
        driver: Some(&desired(driver).driver),
        matrix: &catalogue().drivers,
    };
    rules.judge(node)
}

#[test]
fn who_keeps_a_node_out_is_told_by_the_label_then_the_spec_then_the_system() {
    let ubuntu = {
        let mut node = fixtures::node("a", 0);
        node.system.os_image = "Ubuntu 24.04.3 LTS".to_owned();
        node
    };
    let labelled = |node: &NodeFacts, value: &str, is_ours| NodeFacts {
        operands: Some(OperandsLabel {
            value: value.to_owned(),
            is_ours,
        }),
        ..node.clone()
    };
    let (all, without) = (json!({}), json!({ "exclude": ["gpu"] }));
    let good = fixtures::node("a", 1);
    let foreign = KeptOut::Impossible(Impossible::ForeignOperatingSystem);
    for (node, spec, kept_out) in [
        (good.clone(), &all, None),
        (good.clone(), &without, Some(KeptOut::BySpec)),
        (ubuntu.clone(), &all, Some(foreign.clone())),
        (ubuntu.clone(), &without, Some(KeptOut::BySpec)),
        (labelled(&good, "false", true), &all, None),
        (labelled(&ubuntu, "false", true), &all, Some(foreign)),
        (labelled(&good, "false", true), &without, Some(KeptOut::BySpec)),
        (
            labelled(&ubuntu, "false", false),
            &without,
            Some(KeptOut::BySomebody),
        ),
        (labelled(&good, "false", false), &all, Some(KeptOut::BySomebody)),
        (labelled(&ubuntu, "true", false), &without, None),
    ] {
        assert_eq!(verdict(&node, spec, &json!({})).kept_out, kept_out, "{node:?}");
    }
    let insisted = verdict(&labelled(&ubuntu, "true", false), &all, &json!({}));
    assert_eq!(word(&insisted.support), "ForeignOperatingSystem");
    let preinstalled = verdict(&ubuntu, &all, &json!({ "mode": "Preinstalled" }));
    assert_eq!(
        (preinstalled.support, preinstalled.kept_out),
        (Support::Unjudged, None)
    );
}
