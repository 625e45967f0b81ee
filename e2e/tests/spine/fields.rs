//! The typed fields at a real API server: each rule refuses what it is for, with its words, and nothing beside it.

use anyhow::{Context as _, Result};
use e2e::cluster::{Cluster, Options};
use e2e::goldens;
use e2e::manager::install_manifests;
use gpu_manager::api::GpuModuleSpec;
use kube::Client;
use serde_json::{Value, json};

use crate::crd::{module, refused, try_create};

/// What is refused, because of what, and what is next to it and accepted.
struct Case {
    refused: Value,
    because: &'static str,
    accepted: Value,
}

fn case(refused: Value, because: &'static str, accepted: Value) -> Case {
    Case {
        refused,
        because,
        accepted,
    }
}

fn driver() -> Vec<Case> {
    let driver = |driver: Value| json!({ "driver": driver });
    let upgrade = |upgrade: Value| json!({ "driver": { "upgrade": upgrade } });
    let drain = |drain: Value| json!({ "driver": { "upgrade": { "drain": drain } } });
    let preinstalled = "mode Preinstalled takes the driver of the node image";
    let not_drained = "nodes are not drained: set drain.enabled to true";
    let unavailable = "spec.driver.upgrade.maxUnavailable";
    let mut cases = vec![
        case(
            driver(json!({ "mode": "Preinstalled", "kernelModuleType": "Open" })),
            preinstalled,
            driver(json!({ "mode": "Precompiled", "kernelModuleType": "Open" })),
        ),
        case(
            driver(json!({ "mode": "Preinstalled", "upgrade": { "maxParallel": 2 } })),
            preinstalled,
            driver(json!({ "upgrade": { "maxParallel": 2 } })),
        ),
        case(
            driver(json!({ "kernelModuleType": "open" })),
            "spec.driver.kernelModuleType",
            driver(json!({ "kernelModuleType": "Proprietary" })),
        ),
        case(
            upgrade(json!({ "maxParallel": 0 })),
            "spec.driver.upgrade.maxParallel",
            upgrade(json!({ "maxParallel": 1000 })),
        ),
        case(
            upgrade(json!({ "podDeletion": { "timeoutSeconds": -1 } })),
            "spec.driver.upgrade.podDeletion.timeoutSeconds",
            upgrade(json!({ "podDeletion": { "timeoutSeconds": 0, "force": true, "deleteEmptyDir": true } })),
        ),
        case(
            drain(json!({ "enabled": true, "timeoutSeconds": 86_401 })),
            "spec.driver.upgrade.drain.timeoutSeconds",
            drain(json!({ "enabled": true, "timeoutSeconds": 86_400 })),
        ),
    ];
    for option in [
        json!({ "force": true }),
        json!({ "enabled": false, "timeoutSeconds": 5 }),
        json!({ "deleteEmptyDir": false }),
    ] {
        let mut drained = option.clone();
        drained["enabled"] = true.into();
        cases.push(case(drain(option), not_drained, drain(drained)));
    }
    for (wrong, right) in [
        (json!(0), json!(1)),
        (json!(1001), json!(1000)),
        (json!("0%"), json!("1%")),
        (json!("101%"), json!("100%")),
        (json!("5"), json!("5%")),
        (json!("abc"), json!("25%")),
        (json!(true), json!(5)),
    ] {
        let with = |value: Value| upgrade(json!({ "maxUnavailable": value }));
        cases.push(case(with(wrong), unavailable, with(right)));
    }
    cases
}

fn tolerations() -> Vec<Case> {
    let of = |tolerations: Value| json!({ "nodes": { "tolerations": tolerations } });
    let one = |toleration: Value| of(json!([toleration]));
    let many = |count: usize| of(vec![json!({ "key": "a" }); count].into());
    let key = "spec.nodes.tolerations[0].key";
    vec![
        case(
            one(json!({ "effect": "NoSchedule" })),
            "its operator must be Exists",
            one(json!({ "operator": "Exists", "effect": "NoSchedule" })),
        ),
        case(
            one(json!({ "operator": "Equal", "value": "a" })),
            "its operator must be Exists",
            one(json!({ "key": "team", "operator": "Equal", "value": "a" })),
        ),
        case(
            one(json!({ "key": "team", "operator": "Exists", "value": "a" })),
            "takes no value",
            one(json!({ "key": "team", "operator": "Exists", "value": "" })),
        ),
        case(
            one(json!({ "key": "team", "effect": "NoSchedule", "tolerationSeconds": 5 })),
            "tolerationSeconds needs effect NoExecute",
            one(json!({ "key": "team", "effect": "NoExecute", "tolerationSeconds": 5 })),
        ),
        case(
            one(json!({ "key": "team", "operator": "Lt" })),
            "spec.nodes.tolerations[0].operator",
            one(json!({ "key": "team" })),
        ),
        case(
            one(json!({ "key": "team", "effect": "Never" })),
            "spec.nodes.tolerations[0].effect",
            one(json!({ "key": "team", "effect": "PreferNoSchedule" })),
        ),
        case(
            one(json!({ "key": "{{ a }}" })),
            key,
            one(json!({ "key": "example.com/Team_1" })),
        ),
        case(one(json!({ "key": "-team" })), key, one(json!({ "key": "t" }))),
        case(
            one(json!({ "key": "a".repeat(64) })),
            key,
            one(json!({ "key": "a".repeat(63) })),
        ),
        case(
            one(json!({ "key": "team", "value": "a".repeat(64) })),
            "spec.nodes.tolerations[0].value",
            one(json!({ "key": "team", "value": "a".repeat(63) })),
        ),
        case(many(17), "spec.nodes.tolerations", many(16)),
    ]
}

fn operands() -> Vec<Case> {
    let replicas = |replicas: Value| json!({ "sharing": { "timeSlicing": { "replicas": replicas } } });
    let with_mig = |strategy: &str| {
        let mut spec = replicas(json!(4));
        spec["mig"] = json!({ "strategy": strategy });
        spec
    };
    let monitoring = |monitoring: Value| json!({ "monitoring": monitoring });
    let number = "spec.sharing.timeSlicing.replicas";
    vec![
        case(replicas(json!(1)), number, replicas(json!(2))),
        case(replicas(json!(49)), number, replicas(json!(48))),
        case(
            json!({ "sharing": { "timeSlicing": {} } }),
            number,
            json!({ "sharing": {} }),
        ),
        case(
            with_mig("Single"),
            "MIG strategy Single calls partitions nvidia.com/gpu too",
            with_mig("Mixed"),
        ),
        case(
            with_mig("Single"),
            "use Mixed or None, or remove sharing",
            json!({ "mig": { "strategy": "Single" }, "sharing": {} }),
        ),
        case(
            json!({ "mig": { "strategy": "mixed" } }),
            "spec.mig.strategy",
            with_mig("None"),
        ),
        case(
            monitoring(json!({ "dcgmExporter": false, "serviceMonitor": true })),
            "serviceMonitor needs the DCGM exporter",
            monitoring(json!({ "dcgmExporter": false, "serviceMonitor": false })),
        ),
        case(
            monitoring(json!({ "dcgmExporter": "yes" })),
            "spec.monitoring.dcgmExporter",
            monitoring(json!({ "serviceMonitor": true })),
        ),
    ]
}

fn images() -> Vec<Case> {
    let registry = |registry: &str| json!({ "images": { "registry": registry } });
    let secrets = |names: Value| json!({ "images": { "pullSecrets": names } });
    let at = "spec.images.registry";
    vec![
        case(registry("https://a.example"), at, registry("a.example")),
        case(registry("a.example/"), at, registry("a.example/b")),
        case(registry("{{ a }}"), at, registry("a.example:5000/b/c-d")),
        case(registry(""), at, registry("a")),
        case(registry(&"a".repeat(256)), at, registry(&"a".repeat(255))),
        case(
            secrets(json!(["One"])),
            "spec.images.pullSecrets[0]",
            secrets(json!(["one.two"])),
        ),
        case(
            secrets(json!(["a", "b", "c", "d", "e"])),
            "spec.images.pullSecrets",
            secrets(json!(["a", "b", "c", "d"])),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_refuses_what_it_is_for_and_nothing_beside_it() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    install_manifests(&cluster).await?;
    let client = cluster.client();
    let cases = [driver(), tolerations(), operands(), images()];
    for case in cases.iter().flatten() {
        refused(&client, &module("default", &case.refused), case.because).await?;
        let accepted = module("default", &case.accepted);
        let kept = try_create(&client, &accepted)
            .await
            .with_context(|| format!("refused: {accepted}"))?;
        // Nothing is added, dropped or rewritten.
        assert_eq!(kept["spec"], case.accepted);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_the_goldens_is_accepted_and_a_null_is_as_absent() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    install_manifests(&cluster).await?;
    let client = cluster.client();
    for (name, spec) in goldens::fields()? {
        try_create(&client, &module("default", &spec))
            .await
            .with_context(|| format!("refused: {name}"))?;
    }
    for spec in [
        json!({ "driver": { "mode": "Preinstalled", "branch": null, "kernelModuleType": null, "upgrade": null } }),
        json!({ "nodes": { "tolerations": [{ "key": "team", "operator": "Exists", "value": null }] } }),
        json!({ "sharing": null, "mig": { "strategy": "Single" } }),
        json!({ "monitoring": { "dcgmExporter": null, "serviceMonitor": true } }),
        json!({ "driver": { "upgrade": { "drain": { "enabled": null, "force": null } } } }),
        json!({ "images": { "registry": null }, "mig": { "strategy": null } }),
        json!({ "images": null, "monitoring": null, "mig": null, "nodes": null, "driver": null, "chartVersion": null }),
    ] {
        try_create(&client, &module("default", &spec))
            .await
            .with_context(|| format!("refused: {spec}"))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_can_be_taken_back_by_server_side_apply() -> Result<()> {
    let cluster = Cluster::start(Options::api_server_only()).await?;
    install_manifests(&cluster).await?;
    let client = cluster.client();
    for (name, spec) in goldens::fields()? {
        apply(&client, &spec).await.with_context(|| name.clone())?;
        let kept = apply(&client, &emptied(&spec))
            .await
            .with_context(|| name.clone())?;
        serde_json::from_value::<GpuModuleSpec>(kept["spec"].clone())
            .with_context(|| format!("{name}: {}", kept["spec"]))?;
    }
    Ok(())
}

/// With its objects and lists, but nothing in them.
fn emptied(spec: &Value) -> Value {
    match spec {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| value.is_object() || value.is_array())
            .map(|(key, value)| (key.clone(), emptied(value)))
            .collect(),
        _ => json!([]),
    }
}

async fn apply(client: &Client, spec: &Value) -> Result<Value> {
    let object = module("default", spec);
    let path = "/apis/operator.kyma-project.io/v1alpha1/gpumodules/default?fieldManager=test";
    let request = http::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(object.to_string().into_bytes())?;
    Ok(client.request(request).await?)
}
