//! What `spec.values` may not say.

use super::*;

#[test]
fn what_the_module_owns_is_refused_by_path() {
    for (user, path) in [
        (json!({ "extraObjects": [] }), "extraObjects"),
        (json!({ "driver": { "version": "1" } }), "driver"),
        (json!({ "driver": null }), "driver"),
        (
            json!({ "clusterPolicy": { "deployCR": false } }),
            "clusterPolicy.deployCR",
        ),
        (json!({ "clusterPolicy": null }), "clusterPolicy"),
        (json!({ "gpuCluster": { "deployCR": true } }), "gpuCluster"),
        (
            json!({ "operator": { "upgradeCRD": true } }),
            "operator.upgradeCRD",
        ),
        (
            json!({ "operator": { "cleanupCRD": true } }),
            "operator.cleanupCRD",
        ),
        (json!({ "operator": "x" }), "operator"),
        (
            json!({ "node-feature-discovery": { "worker": { "enable": false } } }),
            "node-feature-discovery.worker.enable",
        ),
        (json!({ "hostPaths": { "rootFS": "/" } }), "hostPaths"),
        (
            json!({ "sandboxWorkloads": { "enabled": true } }),
            "sandboxWorkloads",
        ),
        (json!({ "nfd": { "enabled": false } }), "nfd.enabled"),
        (json!({ "nfd": null }), "nfd"),
        (
            json!({ "node-feature-discovery": null }),
            "node-feature-discovery",
        ),
        (
            json!({ "node-feature-discovery": { "worker": 1 } }),
            "node-feature-discovery.worker",
        ),
    ] {
        let refused = desired(json!({ "values": user })).unwrap_err();
        assert_eq!(
            refused,
            Refusal::OwnedValue {
                path: path.to_owned()
            },
            "{user}"
        );
    }
    desired(json!({ "values": { "operator": { "logging": { "level": "debug" } }, "clusterPolicy": {} } }))
        .unwrap();
}

#[test]
fn containers_accounts_and_names_of_node_feature_discovery_are_the_modules() {
    let nfd = |values: Value| json!({ "values": { "node-feature-discovery": values } });
    for component in ["master", "worker", "gc"] {
        for (key, value) in [
            (
                "initContainers",
                json!([{ "name": "x", "image": "busybox:1", "securityContext": { "privileged": true } }]),
            ),
            (
                "serviceAccount",
                json!({ "create": false, "name": "gpu-operator" }),
            ),
        ] {
            for version in ["26.7.0", "26.3.3"] {
                let mut spec = nfd(json!({ component: { key: value } }));
                spec["chartVersion"] = version.into();
                let path = format!("node-feature-discovery.{component}.{key}");
                assert_eq!(desired(spec).unwrap_err(), Refusal::OwnedValue { path });
            }
        }
    }
    let topology = nfd(json!({ "topologyUpdater": { "enable": true } }));
    let path = "node-feature-discovery.topologyUpdater".to_owned();
    assert_eq!(desired(topology).unwrap_err(), Refusal::OwnedValue { path });
    for name in ["nameOverride", "fullnameOverride", "namespaceOverride"] {
        let path = format!("node-feature-discovery.{name}");
        let refused = desired(nfd(json!({ name: "gpu-operator" }))).unwrap_err();
        assert_eq!(refused, Refusal::OwnedValue { path });
    }
}

#[test]
fn no_line_of_a_value_becomes_structure() {
    let pod = "mixed\n---\napiVersion: v1\nkind: Pod\n";
    for (values, path) in [
        (json!({ "mig": { "strategy": pod } }), "mig.strategy"),
        (json!({ "mig": { "strategy": "a\rb" } }), "mig.strategy"),
        // YAML's other line breaks.
        (json!({ "mig": { "strategy": "a\u{85}b" } }), "mig.strategy"),
        (json!({ "mig": { "strategy": "a\u{2028}b" } }), "mig.strategy"),
        (json!({ "mig": { "strategy": "a\u{2029}b" } }), "mig.strategy"),
        (json!({ "mig": { "strategy": ["a", ["b\n"]] } }), "mig.strategy"),
        (
            json!({ "node-feature-discovery": { "featureGates": { "a\nb": true } } }),
            "node-feature-discovery.featureGates",
        ),
        // In the lines of a configuration file no other break may stand: the chart indents after line feeds alone.
        (
            json!({ "dcgmExporter": { "config": { "data": "a\rb" } } }),
            "dcgmExporter.config.data",
        ),
        // Only what lies below it is a configuration file.
        (
            json!({ "dcgmExporter": { "config": { "database": pod } } }),
            "dcgmExporter.config.database",
        ),
    ] {
        for version in ["26.7.0", "26.3.3"] {
            let refused = desired(json!({ "chartVersion": version, "values": values })).unwrap_err();
            assert_eq!(refused.reason(), "LineBreak", "{values}: {refused}");
            assert!(
                refused.to_string().starts_with(&format!("spec.values.{path} ")),
                "{refused}"
            );
        }
    }
    for values in [
        json!({ "dcgmExporter": { "config": { "create": true, "data": "a, b\nc, d\n" } } }),
        json!({ "devicePlugin": { "config": { "data": { "any": "version: v1\nflags: {}\n" } } } }),
        json!({ "migManager": { "config": { "data": { "config.yaml": "version: v1\n" } } } }),
        json!({ "node-feature-discovery": { "worker": { "config": { "sources": { "custom": [
            { "name": "mine", "labelsTemplate": "a=1\nb=2\n" },
        ] } } } } }),
    ] {
        desired(json!({ "values": values })).unwrap();
    }
}

#[test]
fn driver_values_are_open_before_nvidiadriver_but_for_what_the_typed_driver_says() {
    let catalogue = Catalogue::compiled_in().unwrap();
    for version in ["26.3.3", "25.10.1"] {
        let step = Step {
            chart: version.parse().unwrap(),
            layout: DriverLayout::ClusterPolicy,
            drivers: DriverUpgrades::AsConfigured,
        };
        let at = |driver: Value| {
            let spec = spec(json!({ "chartVersion": version, "values": { "driver": driver } }));
            resolve_step(&spec, &catalogue, NFD, &step, FLAGS)
        };
        at(json!({ "upgradePolicy": { "maxParallelUpgrades": 2 } })).unwrap();
        for (driver, path) in [
            (
                json!({ "nvidiaDriverCRD": { "enabled": true } }),
                "driver.nvidiaDriverCRD",
            ),
            (json!({ "enabled": false }), "driver.enabled"),
            (json!({ "usePrecompiled": null }), "driver.usePrecompiled"),
            (json!({ "repository": "r.example" }), "driver.repository"),
            (json!({ "image": "other" }), "driver.image"),
            (json!({ "version": "sha256:00" }), "driver.version"),
            (json!(null), "driver"),
        ] {
            let expected = Refusal::OwnedValue {
                path: path.to_owned(),
            };
            assert_eq!(at(driver).unwrap_err(), expected, "chart {version}");
        }
    }
}

#[test]
fn template_text_never_reaches_extra_objects() {
    for tolerations in [
        json!([{ "key": "{{ lookup \"v1\" \"Secret\" \"kube-system\" \"x\" }}" }]),
        json!([{ "{{ x }}": "key" }]),
        json!({ "nested": [["{{"]] }),
    ] {
        let refused =
            desired(json!({ "values": { "daemonsets": { "tolerations": tolerations } } })).unwrap_err();
        assert!(
            matches!(refused, Refusal::TemplateText { .. }),
            "{tolerations}: {refused}"
        );
        assert!(!refused.to_string().contains("lookup"), "{refused}");
    }
    desired(json!({ "values": { "devicePlugin": { "args": ["{{ not bound for extraObjects }}"] } } }))
        .unwrap();
}
