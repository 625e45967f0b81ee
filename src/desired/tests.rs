use serde_json::json;

use super::*;

mod refused;
mod surface;

const FLAGS: &[&str] = &["--server-side=true"];
const NFD: NodeFeatureDiscovery = NodeFeatureDiscovery::Module;

fn spec(value: Value) -> GpuModuleSpec {
    serde_json::from_value(value).unwrap()
}

fn desired(value: Value) -> Result<Desired, Refusal> {
    resolve(&spec(value), &Catalogue::compiled_in().unwrap(), NFD, FLAGS)
}

fn values(value: Value) -> Value {
    desired(value).unwrap().values
}

#[test]
fn values_of_every_version_and_mode_are_golden() {
    for version in ["26.7.0", "26.3.3"] {
        for mode in ["Precompiled", "Preinstalled"] {
            let values = values(json!({ "chartVersion": version, "driver": { "mode": mode } }));
            insta::assert_yaml_snapshot!(format!("values-{version}-{mode}"), values);
        }
    }
}

#[test]
fn empty_spec_means_the_defaults_of_the_catalogue() {
    let empty = desired(json!({})).unwrap();
    let defaults = Catalogue::compiled_in().unwrap().defaults;
    let (branch, release) = (defaults.driver.branch, defaults.driver.installer_release);
    let spelled_out = json!({
        "chartVersion": defaults.chart_version.to_string(),
        "driver": { "mode": "Precompiled", "branch": branch.number(), "installerRelease": release },
    });
    assert_eq!(empty.values, values(spelled_out));
    assert_eq!(empty.driver.status().branch, Some(branch));
}

#[test]
fn typed_driver_reaches_the_object_of_each_layout() {
    let driver = json!({ "branch": 590, "installerRelease": "1.18.0", "repository": "mirror.example/nv" });
    let newer = values(json!({ "driver": driver }));
    assert_eq!(newer["extraObjects"][0]["spec"]["version"], "590");
    assert_eq!(
        newer["extraObjects"][0]["spec"]["repository"],
        "mirror.example/nv/1.18.0"
    );
    assert_eq!(newer["driver"].get("version"), None);

    let older = values(json!({ "driver": driver, "chartVersion": "26.3.3" }));
    assert_eq!(older["driver"]["version"], "590");
    assert_eq!(older["driver"]["repository"], "mirror.example/nv/1.18.0");
    assert_eq!(older.get("extraObjects"), None);
}

#[test]
fn user_values_merge_as_helm_would() {
    let merged = values(json!({ "values": {
        "toolkit": { "installDir": "/opt/elsewhere", "enabled": null },
        "dcgmExporter": null,
        "mig": { "strategy": "mixed" },
        "devicePlugin": { "args": ["a"] },
    }}));
    assert_eq!(merged["toolkit"]["installDir"], "/opt/elsewhere");
    assert_eq!(
        merged["toolkit"]["env"][0]["name"], "RUNTIME_CONFIG_SOURCE",
        "siblings stay"
    );
    assert!(
        merged["toolkit"].as_object().unwrap().contains_key("enabled"),
        "null must reach Helm"
    );
    assert!(merged["dcgmExporter"].is_null());
    assert_eq!(merged["mig"]["strategy"], "mixed");
    assert_eq!(merged["devicePlugin"]["args"], json!(["a"]));
}

#[test]
fn tolerations_are_added_to_the_defaults_everywhere() {
    let toleration = json!({ "key": "team", "operator": "Exists" });
    let nvidia = json!({ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" });
    let merged = values(json!({ "values": {
        "daemonsets": { "tolerations": [toleration, nvidia] },
        "node-feature-discovery": { "worker": { "tolerations": [toleration] } },
    }}));
    assert_eq!(merged["daemonsets"]["tolerations"], json!([nvidia, toleration]));
    assert_eq!(
        merged["extraObjects"][0]["spec"]["tolerations"],
        json!([nvidia, toleration])
    );
    assert_eq!(
        merged["node-feature-discovery"]["worker"]["tolerations"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        values(json!({ "values": { "daemonsets": { "tolerations": null } } }))["daemonsets"]["tolerations"],
        json!([nvidia]),
        "the default toleration cannot be emptied"
    );
}

#[test]
fn toolkit_environment_is_merged_by_name() {
    let merged = values(json!({ "values": { "toolkit": { "env": [
        { "name": "RUNTIME_CONFIG_SOURCE", "value": "command" },
        { "name": "DEBUG", "value": "1" },
    ]}}}));
    assert_eq!(
        merged["toolkit"]["env"],
        json!([
            { "name": "RUNTIME_CONFIG_SOURCE", "value": "command" },
            { "name": "DEBUG", "value": "1" },
        ])
    );
}

#[test]
fn user_rules_of_nfd_are_added_and_the_modules_rule_cannot_be_replaced() {
    let custom = |rules: Value| json!({ "values": { "node-feature-discovery": { "worker": { "config": { "sources": { "custom": rules } } } } } });
    let merged = values(custom(json!([{ "name": "mine" }])));
    let rules = merged["node-feature-discovery"]["worker"]["config"]["sources"]["custom"]
        .as_array()
        .unwrap();
    let names: Vec<_> = rules.iter().map(|rule| rule["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gardenlinux-version", "mine"]);

    let path = "node-feature-discovery.worker.config.sources.custom".to_owned();
    for rules in [
        json!([{ "name": "gardenlinux-version" }]),
        json!(null),
        json!("text"),
    ] {
        assert_eq!(
            desired(custom(rules)).unwrap_err(),
            Refusal::OwnedValue { path: path.clone() }
        );
    }
}

#[test]
fn versions_that_are_not_offered_name_those_that_are() {
    for (asked, reason) in [
        ("26.6.9", "UnknownChartVersion"),
        ("25.10.1", "RetiredChartVersion"),
    ] {
        let refused = desired(json!({ "chartVersion": asked })).unwrap_err();
        assert_eq!(refused.reason(), reason);
        assert!(
            refused.to_string().ends_with("use one of 26.7.0, 26.3.3"),
            "{refused}"
        );
    }
}

#[test]
fn a_step_on_the_way_keeps_running_drivers_whatever_the_user_says() {
    let catalogue = Catalogue::compiled_in().unwrap();
    let step = |version: &str, value: Value| {
        let chart = catalogue.chart(&version.parse().unwrap()).unwrap();
        let step = Step {
            chart: chart.version.clone(),
            layout: chart.driver_layout,
            drivers: DriverUpgrades::Held,
        };
        resolve_step(&spec(value), &catalogue, NFD, &step, FLAGS)
            .unwrap()
            .values
    };
    let user = json!({ "values": { "driver": { "upgradePolicy": { "autoUpgrade": true, "maxParallelUpgrades": 3 } } } });
    let older = step("26.3.3", user);
    assert_eq!(
        older["driver"]["upgradePolicy"],
        json!({ "autoUpgrade": false, "maxParallelUpgrades": 3 })
    );
    let newer = step("26.7.0", json!({}));
    assert_eq!(
        newer["extraObjects"][0]["spec"]["upgradePolicy"]["autoUpgrade"],
        false
    );
    assert_eq!(
        values(json!({}))["extraObjects"][0]["spec"]["upgradePolicy"]["autoUpgrade"],
        true
    );
    let preinstalled = step("26.3.3", json!({ "driver": { "mode": "Preinstalled" } }));
    assert_eq!(preinstalled["driver"].get("upgradePolicy"), None);
}

#[test]
fn the_newest_chart_can_carry_the_old_layout_on_the_way() {
    let catalogue = Catalogue::compiled_in().unwrap();
    let step = Step {
        chart: Version::new(26, 7, 0),
        layout: DriverLayout::ClusterPolicy,
        drivers: DriverUpgrades::Held,
    };
    let values = resolve_step(&spec(json!({})), &catalogue, NFD, &step, FLAGS)
        .unwrap()
        .values;
    assert_eq!(values.get("extraObjects"), None);
    assert_eq!(values["driver"]["nvidiaDriverCRD"]["enabled"], false);
    assert_eq!(values["driver"]["usePrecompiled"], true);
    assert_eq!(values["driver"]["version"], "580");
    assert_eq!(values["driver"]["upgradePolicy"]["autoUpgrade"], false);
}

#[test]
fn driver_images_are_known_by_their_beginning() {
    let prefix = |value| desired(value).unwrap().driver_image_prefix();
    let defaults = Catalogue::compiled_in().unwrap().defaults.driver;
    let installer = format!("{}/{}/driver", defaults.repository, defaults.installer_release);
    for version in ["26.7.0", "26.3.3"] {
        assert_eq!(
            prefix(json!({ "chartVersion": version, "driver": { "branch": 590 } })),
            Some(format!("{installer}:590-"))
        );
    }
    let mirrored = json!({ "driver": { "repository": "r.example/nvidia", "installerRelease": "1.16.0" } });
    assert_eq!(prefix(mirrored).unwrap(), "r.example/nvidia/1.16.0/driver:580-");
    assert_eq!(prefix(json!({ "driver": { "mode": "Preinstalled" } })), None);
}

#[test]
fn values_over_the_limit_are_refused() {
    let args = json!([("x".repeat(MAX_VALUES_BYTES))]);
    let refused = desired(json!({ "values": { "devicePlugin": { "args": args } } })).unwrap_err();
    assert!(matches!(refused, Refusal::ValuesTooLarge { bytes } if bytes > MAX_VALUES_BYTES));
}

#[test]
fn fingerprint_changes_with_chart_values_and_flags_and_with_nothing_else() {
    let catalogue = Catalogue::compiled_in().unwrap();
    let of =
        |value: Value, flags: &[&str]| resolve(&spec(value), &catalogue, NFD, flags).unwrap().fingerprint;
    let plain = of(json!({}), FLAGS);
    assert_eq!(plain.as_str().len(), 32);
    assert_eq!(plain, of(json!({ "suspend": true, "values": {} }), FLAGS));
    let others = [
        of(json!({ "chartVersion": "26.3.3" }), FLAGS),
        of(json!({ "values": { "mig": { "strategy": "mixed" } } }), FLAGS),
        of(json!({}), &["--server-side=false"]),
    ];
    for other in others {
        assert_ne!(plain, other);
    }
}

#[test]
fn digests_do_not_depend_on_the_order_of_keys() {
    // Guards against a dependency that switches serde_json to insertion order.
    let one: Value = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
    assert_eq!(one.to_string(), r#"{"a":2,"b":1}"#);
    assert_ne!(digest([&b"ab"[..], b"c"]), digest([&b"a"[..], b"bc"]));
}

#[test]
fn values_read_back_from_helm_have_the_digest_of_those_given() {
    // Left as given, right as `helm get values --output=json` of Helm 4.3.1 prints it.
    let pairs = [
        ("1.0", "1"),
        ("1e5", "100000"),
        ("1e21", "1e+21"),
        ("-0.0", "-0"),
        ("9007199254740993", "9007199254740992"),
        ("9223372036854775807", "9223372036854776000"),
        ("-9223372036854775808", "-9223372036854776000"),
        ("18446744073709551615", "18446744073709552000"),
        ("5e-324", "5e-324"),
    ];
    for (given, found) in pairs {
        let values = |number: &str| -> Value {
            serde_json::from_str(&format!(r#"{{"a":[{number},null,{{}}],"b":{{"c":{number}}}}}"#)).unwrap()
        };
        assert_eq!(
            values_digest(&values(given)),
            values_digest(&values(found)),
            "{given}"
        );
    }
    let digests =
        [json!({"a": 1}), json!({"a": "1"}), json!({"a": null}), json!({})].map(|v| values_digest(&v));
    for (at, one) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(one), "{digests:?}");
    }
}

#[test]
fn a_number_is_read_exactly() {
    // Guards serde_json's feature float_roundtrip: read fast, each of these ends in another digit.
    for text in ["986.9937712240247", "933.6086627037175", "941.4792951677277"] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(value.to_string(), text);
    }
}

#[test]
fn with_a_node_feature_discovery_of_the_clusters_a_rule_takes_the_place_of_the_modules() {
    let catalogue = Catalogue::compiled_in().unwrap();
    for (version, kinds) in [
        ("26.7.0", &["NVIDIADriver", "NodeFeatureRule"][..]),
        ("26.3.3", &["NodeFeatureRule"]),
    ] {
        let spec = spec(json!({ "chartVersion": version }));
        let of = |whose| resolve(&spec, &catalogue, whose, FLAGS).unwrap();
        let (module, cluster) = (of(NFD), of(NodeFeatureDiscovery::Cluster));
        assert_eq!(module.values.get("nfd"), None);
        assert_eq!(cluster.values["nfd"], json!({ "enabled": false }));
        assert_ne!(module.fingerprint, cluster.fingerprint);
        let objects = cluster.values["extraObjects"].as_array().unwrap();
        let found: Vec<_> = objects
            .iter()
            .map(|object| object["kind"].as_str().unwrap())
            .collect();
        assert_eq!(found, kinds);
        // The chart runs these objects as templates.
        let rule = objects.last().unwrap().to_string();
        assert!(!rule.contains("{{"), "{rule}");
        assert!(rule.contains("system-os_release.VERSION_ID\":\"0\""), "{rule}");
        assert_eq!(cluster.driver_image_prefix(), module.driver_image_prefix());
        assert_eq!(cluster.driver_spec(), module.driver_spec());
    }
    // Every chart that is installed, or gone through, knows extraObjects.
    let installed = catalogue.charts().filter(|chart| chart.stage == Stage::Install);
    assert!(
        installed
            .into_iter()
            .all(|chart| chart.version >= Version::new(26, 3, 0))
    );
}
