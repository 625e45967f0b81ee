//! Every typed field at once, on real API servers and charts: what the charts make of them is accepted, and a change of
//! sharing reaches the nodes without a new driver.

use anyhow::{Context as _, Result, ensure};
use e2e::manager::Manager;
use e2e::wait::eventually;
use gpu_manager::api::{ConditionType, RELEASE_NAMESPACE, State};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Map, Value, json};

use crate::lab::{Lab, STEP};

const MIRROR: &str = "mirror.example:5000/gpu";

/// The specs of all fields merged, with that chart.
fn everything(chart: &str) -> Result<Value> {
    let fields: Map<String, Value> =
        serde_saphyr::from_str(include_str!("../../../src/desired/tests/fields.yaml"))?;
    let mut spec = json!({ "chartVersion": chart });
    for field in fields.values() {
        merge(&mut spec, field);
    }
    // A ServiceMonitor needs the exporter, and each of the two has its own golden.
    spec["monitoring"]["dcgmExporter"] = true.into();
    spec["upgrade"] = json!({ "policy": "Immediate" });
    Ok(spec)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Names of the ConfigMaps with a sharing configuration.
async fn sharing(lab: &Lab) -> Result<Vec<String>> {
    let maps = Api::<ConfigMap>::namespaced(lab.cluster.client(), RELEASE_NAMESPACE);
    let maps = maps.list(&ListParams::default()).await?.items;
    let names = maps.iter().map(kube::ResourceExt::name_any);
    Ok(names
        .filter(|name| name.starts_with("gpu-manager-time-slicing-"))
        .collect())
}

/// Waits for Ready with that chart, and for the device plugin's ConfigMap that the ClusterPolicy then names.
async fn ready(lab: &Lab, chart: &str) -> Result<String> {
    lab.until_status(&format!("Ready with chart {chart}"), |status| {
        let release = status.release.as_ref();
        status.state == State::Ready && release.is_some_and(|release| release.chart_version == chart)
    })
    .await?;
    let policy = lab.cluster_policy().await?["spec"].clone();
    let name = policy["devicePlugin"]["config"]["name"]
        .as_str()
        .context("no configuration")?;
    let found = sharing(lab).await?;
    ensure!(found == [name], "{found:?} instead of {name}");
    Ok(name.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_is_installed_and_goes_to_the_next_chart() -> Result<()> {
    let lab = Lab::start().await?;
    let options = lab.options().with_allowed_registries("mirror.example:5000");
    let _manager = Manager::start(&lab.cluster, &options).await?;
    lab.apply(json!({ "images": { "registry": "mirror.example" } }))
        .await?;
    let status = lab
        .until_reason(ConditionType::Configured, "RegistryNotAllowed")
        .await?;
    ensure!(
        status.description.contains(
            "spec.images.registry names mirror.example, but the operator allows only mirror.example:5000"
        ),
        "{}",
        status.description
    );

    lab.apply(everything("26.3.3")?).await?;
    let first = ready(&lab, "26.3.3").await?;
    let policy = lab.cluster_policy().await?["spec"].clone();
    let repository = format!("{MIRROR}/gardenlinux/gardenlinux-nvidia-installer/1.17.0");
    ensure!(
        policy["driver"]["repository"] == repository,
        "{}",
        policy["driver"]
    );
    ensure!(
        policy["driver"]["upgradePolicy"]["podDeletion"]["force"] == true,
        "{}",
        policy["driver"]
    );
    lab.until_drivers_run(|pod| pod.image.starts_with(&repository))
        .await?;

    lab.apply(everything("26.7.0")?).await?;
    let second = ready(&lab, "26.7.0").await?;
    ensure!(second == first, "{second}");
    let driver = lab.nvidia_driver().await?["spec"].clone();
    for (field, wanted) in [
        ("/kernelModuleType", json!("open")),
        ("/repository", json!(repository)),
        ("/imagePullSecrets", json!(["one", "two"])),
        (
            "/manager/repository",
            json!(format!("{MIRROR}/nvidia/cloud-native")),
        ),
        ("/upgradePolicy/maxParallelUpgrades", json!(3)),
        ("/upgradePolicy/drain/enable", json!(true)),
        ("/tolerations/1/key", json!("team")),
    ] {
        ensure!(driver.pointer(field) == Some(&wanted), "{field}: {driver}");
    }
    lab.until_drivers_run(|pod| pod.app.starts_with("nvidia-gpu-driver-"))
        .await?;

    // Another number of replicas is another ConfigMap and no other driver.
    let (generation, drivers) = (
        lab.nvidia_driver().await?["metadata"]["generation"].clone(),
        lab.running_drivers().await?,
    );
    let mut more = everything("26.7.0")?;
    more["sharing"]["timeSlicing"]["replicas"] = 8.into();
    lab.apply(more).await?;
    let third = eventually("another configuration", STEP, async || {
        let name = ready(&lab, "26.7.0").await?;
        ensure!(name != second, "still {name}");
        Ok(name)
    })
    .await?;
    ensure!(third != first, "{third}");
    ensure!(lab.nvidia_driver().await?["metadata"]["generation"] == generation);
    let now = lab.running_drivers().await?;
    ensure!(now.names() == drivers.names(), "{now:?} after {drivers:?}");
    Ok(())
}
