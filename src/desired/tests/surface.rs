//! The typed fields: what each makes of the values, and what may not be said beside it.

use super::*;

/// One spec per field; the end-to-end tests render them too.
fn fields() -> Map<String, Value> {
    serde_saphyr::from_str(include_str!("fields.yaml")).unwrap()
}

fn on(version: &str, mut spec: Value) -> Value {
    spec["chartVersion"] = version.into();
    spec
}

/// What is other in `after`, by path; `null` for what is gone.
fn difference(before: &Value, after: &Value, at: &str, found: &mut Map<String, Value>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        found.insert(at.to_owned(), after.clone());
        return;
    };
    for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
        let at = merge::below(at, key);
        let [old, new] = [old, new].map(|map| map.get(key).unwrap_or(&Value::Null));
        match (old, new) {
            (Value::Null, Value::Object(_)) => difference(&json!({}), new, &at, found),
            // A list of objects is compared one by one.
            (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
                for (index, (old, new)) in old.iter().zip(new).enumerate() {
                    difference(old, new, &format!("{at}[{index}]"), found);
                }
            }
            _ => difference(old, new, &at, found),
        }
    }
}

#[test]
fn every_field_changes_its_values_and_no_others() {
    for version in ["26.7.0", "26.3.3"] {
        let plain = values(on(version, json!({})));
        let changes: Value = fields()
            .into_iter()
            .map(|(name, spec)| {
                let mut found = Map::new();
                difference(&plain, &values(on(version, spec)), "", &mut found);
                (name, Value::Object(found))
            })
            .collect();
        insta::assert_yaml_snapshot!(format!("fields-{version}"), changes);
    }
}

#[test]
fn an_empty_field_says_nothing() {
    let plain = values(json!({}));
    for spec in [
        json!({ "driver": { "upgrade": {} } }),
        json!({ "nodes": { "tolerations": [] } }),
        json!({ "sharing": {}, "mig": {}, "monitoring": {}, "images": {} }),
        json!({ "images": { "pullSecrets": [] } }),
    ] {
        assert_eq!(values(spec.clone()), plain, "{spec}");
    }
}

#[test]
fn a_preinstalled_driver_needs_nothing_but_its_own_absence() {
    // The validator looks for nvidia-smi on the host first, and tells toolkit and device plugin where the driver is.
    for version in ["26.7.0", "26.3.3"] {
        let preinstalled =
            json!({ "driver": { "mode": "Preinstalled" }, "images": { "registry": "m.example" } });
        let values = values(on(version, preinstalled));
        assert_eq!(values["driver"]["enabled"], false, "{version}");
        assert_eq!(values.get("extraObjects"), None, "{version}");
        assert_eq!(values.get("hostPaths"), None, "{version}");
        assert_eq!(values["toolkit"]["installDir"], "/opt/nvidia", "{version}");
    }
}

#[test]
fn another_sharing_is_another_configuration() {
    let config = |replicas: u32| {
        let spec = json!({ "sharing": { "timeSlicing": { "replicas": replicas } } });
        values(spec)["devicePlugin"]["config"].clone()
    };
    let (two, three) = (config(2), config(3));
    assert_ne!(two["name"], three["name"]);
    assert_eq!(two, config(2));
    assert_eq!(two["default"], three["default"]);
    let content: Value = serde_saphyr::from_str(two["data"]["time-slicing"].as_str().unwrap()).unwrap();
    let resources = json!([{ "name": "nvidia.com/gpu", "replicas": 2 }]);
    assert_eq!(
        content,
        json!({ "version": "v1", "sharing": { "timeSlicing": { "resources": resources } } })
    );
}

#[test]
fn shared_gpus_are_never_beside_partitions_of_the_same_name() {
    let strategy = |more: Value| {
        let mut spec = json!({ "sharing": { "timeSlicing": { "replicas": 2 } } });
        spec.as_object_mut().unwrap().append(&mut spec_map(more));
        values(spec)["mig"]["strategy"].clone()
    };
    for version in ["26.7.0", "26.3.3"] {
        assert_eq!(strategy(json!({ "chartVersion": version })), "mixed");
    }
    assert_eq!(strategy(json!({ "mig": {} })), "mixed");
    assert_eq!(strategy(json!({ "mig": { "strategy": "None" } })), "none");
    assert_eq!(
        strategy(json!({ "values": { "mig": { "strategy": "none" } } })),
        "none"
    );
    // Without sharing it is the chart's affair.
    assert_eq!(values(json!({})).get("mig"), None);
}

fn spec_map(spec: Value) -> Map<String, Value> {
    match spec {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

#[test]
fn a_repository_of_the_drivers_own_comes_before_the_registry() {
    let spec = json!({
        "driver": { "repository": "drivers.example/nv" },
        "images": { "registry": "mirror.example" },
    });
    let prefix = |spec| desired(spec).unwrap().driver_image_prefix().unwrap();
    let release = Catalogue::compiled_in()
        .unwrap()
        .defaults
        .driver
        .installer_release;
    assert_eq!(prefix(spec), format!("drivers.example/nv/{release}/driver:580-"));
    assert_eq!(
        prefix(json!({ "images": { "registry": "mirror.example" } })),
        format!("mirror.example/gardenlinux/gardenlinux-nvidia-installer/{release}/driver:580-")
    );
}

#[test]
fn values_that_contradict_a_field_are_refused_naming_both() {
    let registry = json!({ "images": { "registry": "mirror.example" } });
    let sharing = json!({ "sharing": { "timeSlicing": { "replicas": 4 } } });
    let cases = [
        (
            json!({ "mig": { "strategy": "Mixed" } }),
            json!({ "mig": { "strategy": "none" } }),
            "spec.mig.strategy",
            "mig.strategy",
        ),
        (
            json!({ "mig": { "strategy": "Mixed" } }),
            json!({ "mig": null }),
            "spec.mig.strategy",
            "mig",
        ),
        (
            sharing.clone(),
            json!({ "mig": { "strategy": "single" } }),
            "spec.sharing.timeSlicing",
            "mig.strategy",
        ),
        (
            sharing.clone(),
            json!({ "devicePlugin": { "config": { "data": { "mine": "version: v1" } } } }),
            "spec.sharing.timeSlicing",
            "devicePlugin.config",
        ),
        (
            sharing,
            json!({ "devicePlugin": { "enabled": false } }),
            "spec.sharing.timeSlicing",
            "devicePlugin.enabled",
        ),
        (
            json!({ "monitoring": { "serviceMonitor": true } }),
            json!({ "dcgmExporter": { "enabled": false } }),
            "spec.monitoring.serviceMonitor",
            "dcgmExporter.enabled",
        ),
        (
            json!({ "monitoring": { "dcgmExporter": true } }),
            json!({ "dcgmExporter": { "enabled": false } }),
            "spec.monitoring.dcgmExporter",
            "dcgmExporter.enabled",
        ),
        (
            registry,
            json!({ "node-feature-discovery": { "image": { "repository": "other.example/nfd" } } }),
            "spec.images.registry",
            "node-feature-discovery.image.repository",
        ),
        (
            json!({ "images": { "pullSecrets": ["one"] } }),
            json!({ "operator": { "imagePullSecrets": ["two"] } }),
            "spec.images.pullSecrets",
            "operator.imagePullSecrets",
        ),
        (
            json!({ "nodes": { "tolerations": [{ "operator": "Exists" }] } }),
            json!({ "daemonsets": { "tolerations": {} } }),
            "spec.nodes.tolerations",
            "daemonsets.tolerations",
        ),
        (
            json!({ "chartVersion": "26.3.3", "driver": { "upgrade": { "podDeletion": { "force": true } } } }),
            json!({ "driver": { "upgradePolicy": { "gpuPodDeletion": { "force": false } } } }),
            "spec.driver.upgrade",
            "driver.upgradePolicy.gpuPodDeletion.force",
        ),
        (
            json!({ "chartVersion": "26.3.3", "driver": { "kernelModuleType": "Open" } }),
            json!({ "driver": { "kernelModuleType": "auto" } }),
            "spec.driver.kernelModuleType",
            "driver.kernelModuleType",
        ),
    ];
    for (mut spec, user, field, path) in cases {
        spec["values"] = user;
        let refused = desired(spec.clone()).unwrap_err();
        let path = path.to_owned();
        assert_eq!(refused, Refusal::Contradiction { field, path }, "{spec}");
        assert!(
            refused.to_string().contains(field) && refused.reason() == "ContradictingValues",
            "{refused}"
        );
    }
}

#[test]
fn the_same_and_something_else_of_a_component_contradict_nothing() {
    let registry = json!({ "images": { "registry": "mirror.example" } });
    for (mut spec, user) in [
        (
            json!({ "mig": { "strategy": "Mixed" } }),
            json!({ "mig": { "strategy": "mixed" } }),
        ),
        (
            json!({ "nodes": { "tolerations": [{ "operator": "Exists" }] } }),
            json!({ "daemonsets": { "tolerations": [{ "key": "team" }] } }),
        ),
        (registry, json!({ "dcgm": { "enabled": true } })),
        (
            json!({ "monitoring": { "serviceMonitor": true } }),
            json!({ "dcgmExporter": { "serviceMonitor": { "interval": "1m" } } }),
        ),
    ] {
        spec["values"] = user;
        desired(spec).unwrap();
    }
}

#[test]
fn tolerations_of_field_and_values_are_added_up() {
    let team = json!({ "key": "team", "operator": "Exists" });
    let other = json!({ "key": "other", "operator": "Exists" });
    let merged = values(json!({
        "nodes": { "tolerations": [team] },
        "values": { "daemonsets": { "tolerations": [other, team] }, "node-feature-discovery": { "gc": { "tolerations": [other] } } },
    }));
    let nvidia = json!({ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" });
    assert_eq!(merged["daemonsets"]["tolerations"], json!([nvidia, team, other]));
    assert_eq!(
        merged["node-feature-discovery"]["gc"]["tolerations"],
        json!([team, other])
    );
}

#[test]
fn only_allowed_registries_may_be_named() {
    let mut catalogue = Catalogue::compiled_in().unwrap();
    let under = |catalogue: &Catalogue, value: &Value| resolve(&spec(value.clone()), catalogue, NFD, FLAGS);
    let cases = [
        (
            json!({ "images": { "registry": "evil.example" } }),
            "spec.images.registry",
        ),
        (
            // Not below it, only of the same beginning.
            json!({ "images": { "registry": "mirror.example/team-other" } }),
            "spec.images.registry",
        ),
        (
            json!({ "driver": { "repository": "evil.example/nv" } }),
            "spec.driver.repository",
        ),
        (
            json!({ "values": { "dcgm": { "repository": "evil.example" } } }),
            "spec.values.dcgm.repository",
        ),
        (
            json!({ "values": { "dcgm": { "repository": "", "version": "", "image": "evil.example/dcgm:1" } } }),
            "spec.values.dcgm.image",
        ),
        (
            // NVIDIA's operator would take it for a whole reference, and the container runtime for one of Docker Hub.
            json!({ "values": { "toolkit": { "repository": "", "version": "", "image": "busybox:1" } } }),
            "spec.values.toolkit.repository",
        ),
        (
            json!({ "values": { "toolkit": { "repository": null, "version": null, "image": "busybox:1" } } }),
            "spec.values.toolkit.repository",
        ),
        (
            json!({ "values": { "toolkit": { "repository": "" } } }),
            "spec.values.toolkit.repository",
        ),
        (
            json!({ "values": { "operator": { "env": [{ "name": "VALIDATOR_IMAGE", "valueFrom": { "configMapKeyRef": { "name": "n", "key": "k" } } }] } } }),
            "spec.values.operator.env",
        ),
        (
            json!({ "values": { "node-feature-discovery": { "image": { "repository": "evil.example/nfd" } } } }),
            "spec.values.node-feature-discovery.image.repository",
        ),
        (
            json!({ "values": { "operator": { "env": [{ "name": "VALIDATOR_IMAGE", "value": "evil.example/v:1" }] } } }),
            "spec.values.operator.env",
        ),
        (
            // The chart has no repository for it, so the image stands alone.
            json!({ "values": { "kataManager": { "image": "busybox:1" } } }),
            "spec.values.kataManager.image",
        ),
        (
            json!({ "chartVersion": "26.3.3", "values": { "operator": { "initContainer": { "image": "busybox:1" } } } }),
            "spec.values.operator.initContainer.image",
        ),
        (
            json!({ "values": { "kataManager": { "repository": "", "image": "busybox:1" } } }),
            "spec.values.kataManager.repository",
        ),
        (
            // No chart reads it. In a list each element is a container, to which a repository beside the image says nothing.
            json!({ "values": { "new": { "containers": [{ "image": "busybox:1", "repository": "second.example" }] } } }),
            "spec.values.new.containers",
        ),
    ];
    for (value, _) in &cases {
        under(&catalogue, value).unwrap();
    }
    catalogue.defaults.allowed_registries =
        vec!["mirror.example/team".to_owned(), "second.example".to_owned()];
    for (value, named) in &cases {
        let refused = under(&catalogue, value).unwrap_err();
        let Refusal::RegistryNotAllowed { field, allowed, .. } = &refused else {
            panic!("{value}: {refused}")
        };
        assert_eq!(
            (field.as_str(), allowed.as_str()),
            (*named, "mirror.example/team, second.example")
        );
        assert_eq!(refused.reason(), "RegistryNotAllowed");
    }
    for value in [
        json!({}),
        json!({ "images": { "registry": "mirror.example/team" } }),
        json!({ "images": { "registry": "mirror.example/team/gpu" }, "driver": { "repository": "second.example/nv" } }),
        json!({ "values": { "dcgm": { "repository": "second.example", "image": "dcgm", "version": "4" } } }),
        json!({ "values": { "dcgm": { "image": "dcgm" } } }),
        json!({ "values": { "kataManager": { "repository": "second.example", "image": "kata", "version": "1" } } }),
        json!({ "values": { "new": { "containers": [{ "image": "second.example/busybox:1" }] } } }),
        json!({ "values": { "operator": { "env": [{ "name": "OTHER", "value": "a/b" }] } } }),
    ] {
        under(&catalogue, &value).unwrap();
    }
}
