//! Step 1, pure: spec and catalogue become [`Desired`], the release that is wanted, or a [`Refusal`].
//!
//! Values are base + overlay of the chart version + typed spec + `spec.values`, merged as Helm would. Whatever leaves
//! this module is safe to hand to Helm: no value of the module was overridden and no user text is template code.

mod driver;
mod driver_upgrade;
mod fingerprint;
mod identity;
mod images;
mod kernel_modules;
mod lines;
mod merge;
mod mig;
mod monitoring;
mod owned;
mod path;
mod refusal;
mod sharing;
mod step;
mod tolerations;
mod typed;

use semver::Version;
use serde_json::{Map, Value, json};

use crate::api::{GpuModuleSpec, NodeFeatureDiscovery, RELEASE_NAME, RELEASE_NAMESPACE};
use crate::catalogue::{Catalogue, Chart, DriverLayout, Stage};

pub use driver::ResolvedDriver;
pub use fingerprint::{Fingerprint, digest, file_digest, same_values, values_digest};
pub use identity::{DriverDifference, DriverId, holds_drivers};
pub use refusal::Refusal;
pub use step::{DriverUpgrades, Step};

#[cfg(test)]
mod tests;

/// Most bytes that the merged values may have as JSON; Helm stores them in each release Secret, whose limit is 1 MiB.
pub const MAX_VALUES_BYTES: usize = 256 * 1024;

/// The release that is wanted. Only [`resolve`] makes one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Desired {
    /// The chart to install.
    pub chart: Chart,
    /// The same chart as the last step of the way to it.
    pub step: Step,
    /// The driver as resolved from the spec and the defaults.
    pub driver: ResolvedDriver,
    /// Whose Node Feature Discovery labels the nodes.
    pub node_feature_discovery: NodeFeatureDiscovery,
    /// The values for Helm.
    pub values: Value,
    /// SHA-256 of the values, in hexadecimal.
    pub values_digest: String,
    /// Identifies chart, values and Helm flags together.
    pub fingerprint: Fingerprint,
    /// What it makes of the driver.
    pub driver_id: DriverId,
    /// The same release with drivers held; `None` where that is no other one.
    pub held: Option<HeldRelease>,
}

/// By what a release is known in which NVIDIA's operator replaces no running driver by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRelease {
    /// SHA-256 of its values, in hexadecimal.
    pub values_digest: String,
    /// Identifies chart, values and Helm flags together.
    pub fingerprint: Fingerprint,
}

/// Turns a spec into the wanted release. `nfd` is the one fact of the cluster that counts for it; `flags` are the fixed flags of
/// `helm upgrade`, part of the fingerprint.
pub fn resolve(
    spec: &GpuModuleSpec,
    catalogue: &Catalogue,
    nfd: NodeFeatureDiscovery,
    flags: &[&str],
) -> Result<Desired, Refusal> {
    let chart = wanted_chart(spec.chart_version.as_deref(), catalogue)?;
    let step = Step {
        chart: chart.version.clone(),
        layout: chart.driver_layout,
        drivers: DriverUpgrades::AsConfigured,
    };
    let mut desired = build(spec, catalogue, nfd, chart, step, flags)?;
    let held = build(spec, catalogue, nfd, chart, desired.held_step(), flags)?;
    if held.fingerprint != desired.fingerprint {
        desired.held = Some(HeldRelease {
            values_digest: held.values_digest,
            fingerprint: held.fingerprint,
        });
    }
    Ok(desired)
}

/// Turns a spec into the release of a step on the way to the wanted one.
pub fn resolve_step(
    spec: &GpuModuleSpec,
    catalogue: &Catalogue,
    nfd: NodeFeatureDiscovery,
    step: &Step,
    flags: &[&str],
) -> Result<Desired, Refusal> {
    let chart = catalogue
        .chart(&step.chart)
        .ok_or_else(|| unknown_chart(&step.chart.to_string(), catalogue))?;
    build(spec, catalogue, nfd, chart, step.clone(), flags)
}

fn build(
    spec: &GpuModuleSpec,
    catalogue: &Catalogue,
    nfd: NodeFeatureDiscovery,
    chart: &Chart,
    step: Step,
    flags: &[&str],
) -> Result<Desired, Refusal> {
    let driver = ResolvedDriver::new(spec, &catalogue.defaults.driver);
    let empty = Map::new();
    let user = spec.values.as_ref().unwrap_or(&empty);
    let lists = &catalogue.defaults.merged_lists;

    owned::check(
        user,
        catalogue.defaults.owned_values.iter().chain(&chart.owned_values),
    )?;
    if let Some(open) = &catalogue.defaults.open_values {
        owned::check_open(user, open)?;
    }
    lines::check(user, &catalogue.defaults.multiline_values)?;
    merge::check_reserved(user, &catalogue.base, lists)?;
    images::check(spec, chart, &catalogue.defaults.allowed_registries)?;
    let typed = typed::all(spec, chart, step.layout);
    typed::check(&typed, user, lists)?;

    let mut values = catalogue.base.clone();
    merge::merge(&mut values, &chart.values, lists);
    for typed in &typed {
        merge::merge(&mut values, &typed.values, lists);
    }
    merge::merge(&mut values, &driver.values(step.layout), &[]);
    merge::merge(&mut values, user, lists);
    merge::merge(&mut values, &driver.upgrade_values(&step), &[]);
    let mut objects = Vec::new();
    if let Some(object) = driver.object(spec, chart, &values, &step) {
        owned::refuse_template_text(&object)?;
        objects.push(object);
    }
    if nfd == NodeFeatureDiscovery::Cluster {
        merge::merge(&mut values, &without_nfd(), &[]);
        // Every chart that the module installs or goes through has extraObjects: 26.3 and newer.
        objects.push(Value::Object(catalogue.defaults.node_feature_rule.clone()));
    }
    if !objects.is_empty() {
        values.insert("extraObjects".to_owned(), Value::Array(objects));
    }

    let values = Value::Object(values);
    let bytes = values.to_string().len();
    if bytes > MAX_VALUES_BYTES {
        return Err(Refusal::ValuesTooLarge { bytes });
    }
    let values_digest = values_digest(&values);
    let fingerprint = Fingerprint::of(&chart.sha256, &values_digest, flags);
    let driver_id = DriverId::of(&chart.version, &values, &catalogue.restarts);
    Ok(Desired {
        chart: chart.clone(),
        step,
        driver,
        node_feature_discovery: nfd,
        values,
        values_digest,
        fingerprint,
        driver_id,
        held: None,
    })
}

fn without_nfd() -> Map<String, Value> {
    Map::from_iter([("nfd".to_owned(), json!({ "enabled": false }))])
}

fn wanted_chart<'a>(asked: Option<&str>, catalogue: &'a Catalogue) -> Result<&'a Chart, Refusal> {
    let chart = match asked {
        None => catalogue
            .default_chart()
            .ok_or_else(|| unknown_chart("default", catalogue))?,
        Some(asked) => {
            let version = Version::parse(asked).map_err(|_| unknown_chart(asked, catalogue))?;
            catalogue
                .chart(&version)
                .ok_or_else(|| unknown_chart(asked, catalogue))?
        }
    };
    match chart.stage {
        Stage::Install => Ok(chart),
        Stage::UpgradeFrom | Stage::Retired => Err(Refusal::RetiredChartVersion {
            asked: chart.version.to_string(),
            known: known_charts(catalogue),
        }),
    }
}

fn unknown_chart(asked: &str, catalogue: &Catalogue) -> Refusal {
    Refusal::UnknownChartVersion {
        asked: asked.to_owned(),
        known: known_charts(catalogue),
    }
}

fn known_charts(catalogue: &Catalogue) -> String {
    catalogue
        .installable()
        .into_iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

impl Desired {
    /// True where one NVIDIADriver describes the driver.
    pub fn uses_driver_object(&self) -> bool {
        self.step.layout == DriverLayout::NvidiaDriver && self.driver.is_managed()
    }

    /// Spec of the NVIDIADriver, where one describes the driver.
    pub fn driver_spec(&self) -> Option<&Value> {
        let objects = self.values.get("extraObjects")?.as_array()?;
        let driver = objects.iter().find(|object| object["kind"] == "NVIDIADriver")?;
        Some(&driver["spec"])
    }

    /// What the reference of every driver image begins with; `None` where no driver is brought onto the nodes.
    pub fn driver_image_prefix(&self) -> Option<String> {
        let driver = match self.driver_spec() {
            Some(spec) => spec,
            None if self.driver.is_managed() => &self.values["driver"],
            None => return None,
        };
        let (repository, version) = (driver["repository"].as_str()?, driver["version"].as_str()?);
        let image = driver["image"].as_str().unwrap_or("driver");
        Some(format!("{repository}/{image}:{version}-"))
    }

    /// What the user calls NVIDIA's RuntimeClass, if not by its usual name.
    pub fn runtime_class(&self) -> Option<&str> {
        self.values["operator"]["runtimeClass"].as_str()
    }

    /// The last step with drivers held.
    pub fn held_step(&self) -> Step {
        Step {
            drivers: DriverUpgrades::Held,
            ..self.step.clone()
        }
    }

    /// Where the release lives, in words: `gpu-operator/gpu-operator`.
    pub fn release_path() -> String {
        format!("{RELEASE_NAMESPACE}/{RELEASE_NAME}")
    }
}
