//! By what a driver is known: two releases with an equal [`DriverId`] run the same driver Pods.
//!
//! It is computed from the chart version and the values alone, so that it can be told of a release of somebody else's too,
//! and it is kept as a label, so that a new process knows what the nodes run.

use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde_json::{Map, Value};

use super::{digest, path};
use crate::catalogue::{DriverLayout, Restart, Restarts};

/// Hexadecimal digits that are kept of the digest: enough to tell drivers apart, few enough for a label.
const DIGITS: usize = 16;

/// Most characters that are kept of each word; all of them and the digest are to fit into the 63 of a label.
const MAX_WORD: usize = 14;

/// Stands for the driver version where no driver is brought onto the nodes.
const NONE: &str = "preinstalled";

/// What a release makes of the driver: a few words for people, and a digest of all that is in the driver's Pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverId {
    chart: String,
    version: String,
    source: String,
    digest: String,
}

impl DriverId {
    /// The driver of a release with that chart and these values.
    pub fn of(chart: &Version, values: &Value, restarts: &Restarts) -> Self {
        let empty = Map::new();
        let values = values.as_object().unwrap_or(&empty);
        let enabled = path::get(values, "driver.enabled") != Some(&Value::Bool(false));
        let layout = if path::get(values, "driver.nvidiaDriverCRD.enabled") == Some(&Value::Bool(true)) {
            DriverLayout::NvidiaDriver
        } else {
            DriverLayout::ClusterPolicy
        };
        let spec = match layout {
            DriverLayout::NvidiaDriver => nvidia_driver(values),
            DriverLayout::ClusterPolicy => values.get("driver"),
        };
        let text = |field: &str| spec.and_then(|spec| spec[field].as_str()).unwrap_or_default();
        let release = text("repository").rsplit('/').next().unwrap_or_default();
        Self {
            chart: word(&chart.to_string()),
            version: word(if enabled { text("version") } else { NONE }),
            source: word(if enabled { release } else { "" }),
            digest: driver_digest(chart, values, layout, restarts),
        }
    }

    /// True where NVIDIA's operator brings the driver onto the nodes.
    pub fn is_managed(&self) -> bool {
        self.version != NONE
    }
}

/// True where these values let NVIDIA's operator replace no running driver by itself.
pub fn holds_drivers(values: &Value) -> bool {
    let policies = [
        &values["driver"]["upgradePolicy"],
        values
            .as_object()
            .and_then(nvidia_driver)
            .map_or(&Value::Null, |spec| &spec["upgradePolicy"]),
    ];
    policies.iter().any(|policy| policy["autoUpgrade"] == false)
}

fn nvidia_driver(values: &Map<String, Value>) -> Option<&Value> {
    let mut objects = values.get("extraObjects")?.as_array()?.iter();
    Some(&objects.find(|object| object["kind"] == "NVIDIADriver")?["spec"])
}

fn driver_digest(
    chart: &Version,
    values: &Map<String, Value>,
    layout: DriverLayout,
    restarts: &Restarts,
) -> String {
    let mut values = Value::Object(values.clone());
    if let Some(objects) = values.get_mut("extraObjects").and_then(Value::as_array_mut) {
        objects.retain(|object| object["kind"] == "NVIDIADriver");
    }
    for path in restarts.paths(layout, Restart::Nothing) {
        path::remove(&mut values, path);
    }
    let relevant = restarts.paths(layout, Restart::Driver).filter_map(|path| {
        let value = path::get(values.as_object()?, path)?;
        Some(format!("{path}={}", super::fingerprint::as_kept_by_helm(value)))
    });
    let parts: Vec<String> = std::iter::once(chart.to_string()).chain(relevant).collect();
    let mut text = digest(parts.iter().map(String::as_bytes));
    text.truncate(DIGITS);
    text
}

/// A part of a label. What others wrote may have any characters.
fn word(text: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    text.chars().filter(allowed).take(MAX_WORD).collect()
}

/// As a label: chart, driver version and source, then the digest.
impl fmt::Display for DriverId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}_{}_{}_{}",
            self.chart, self.version, self.source, self.digest
        )
    }
}

/// The label is not one of a driver.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no driver's label")]
pub struct ParseDriverIdError;

impl FromStr for DriverId {
    type Err = ParseDriverIdError;

    fn from_str(label: &str) -> Result<Self, ParseDriverIdError> {
        let parts: Vec<_> = label.split('_').map(ToOwned::to_owned).collect();
        let Ok([chart, version, source, digest]) = <[String; 4]>::try_from(parts) else {
            return Err(ParseDriverIdError);
        };
        if chart.is_empty() || digest.is_empty() {
            return Err(ParseDriverIdError);
        }
        Ok(Self {
            chart,
            version,
            source,
            digest,
        })
    }
}

/// In words, what becomes another one.
#[derive(Clone, Copy, Debug)]
pub struct DriverDifference<'a> {
    /// What the nodes were last told to run; `None` where nobody knows.
    pub from: Option<&'a DriverId>,
    /// What is wanted.
    pub to: &'a DriverId,
}

impl fmt::Display for DriverDifference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = self.to;
        let Some(from) = self.from else {
            return write!(f, "to driver {} of chart {}", to.version, to.chart);
        };
        let words = [
            ("driver", &from.version, &to.version),
            ("installer release", &from.source, &to.source),
            ("chart", &from.chart, &to.chart),
        ];
        let changed: Vec<String> = words
            .iter()
            .filter(|(_, from, to)| from != to && !from.is_empty() && !to.is_empty())
            .map(|(what, from, to)| format!("{what} {from} to {to}"))
            .collect();
        if changed.is_empty() {
            write!(f, "of settings of driver {}", to.version)
        } else {
            write!(f, "from {}", changed.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::catalogue::Catalogue;

    fn id(chart: &str, values: &Value) -> DriverId {
        let restarts = Catalogue::compiled_in().unwrap().restarts;
        DriverId::of(&chart.parse().unwrap(), values, &restarts)
    }

    fn in_policy(driver: &Value, rest: &Value) -> DriverId {
        let mut values = json!({ "driver": driver });
        for (key, value) in rest.as_object().unwrap() {
            values[key] = value.clone();
        }
        id("26.3.3", &values)
    }

    #[test]
    fn only_what_is_in_the_drivers_pods_makes_another_driver() {
        let driver = json!({ "version": "580", "repository": "r.example/nv/1.17.0" });
        let plain = in_policy(&driver, &json!({}));
        for same in [
            json!({ "mig": { "strategy": "mixed" } }),
            json!({ "toolkit": { "enabled": true } }),
            json!({ "daemonsets": { "updateStrategy": "OnDelete" } }),
        ] {
            assert_eq!(in_policy(&driver, &same), plain, "{same}");
        }
        for other in [
            json!({ "daemonsets": { "tolerations": [{ "key": "team" }] } }),
            json!({ "gdrcopy": { "enabled": true } }),
        ] {
            assert_ne!(in_policy(&driver, &other), plain, "{other}");
        }
        assert_ne!(id("26.3.4", &json!({ "driver": driver })), plain);
    }

    #[test]
    fn the_upgrade_policy_makes_no_other_driver_in_either_layout() {
        let with = |auto: bool| {
            let policy = json!({ "autoUpgrade": auto });
            let section = json!({ "driver": { "version": "580", "upgradePolicy": policy } });
            let object = json!({
                "driver": { "enabled": true, "nvidiaDriverCRD": { "enabled": true } },
                "extraObjects": [{ "kind": "NVIDIADriver", "spec": { "version": "580", "upgradePolicy": policy } }],
            });
            (section, object)
        };
        let ((section, object), (held_section, held_object)) = (with(true), with(false));
        assert_eq!(id("26.3.3", &section), id("26.3.3", &held_section));
        assert_eq!(id("26.7.0", &object), id("26.7.0", &held_object));
        assert_ne!(id("26.7.0", &section), id("26.7.0", &object));
        assert!(holds_drivers(&held_section) && holds_drivers(&held_object));
        let mut other_object = object.clone();
        let objects = other_object["extraObjects"].as_array_mut().unwrap();
        objects.push(json!({ "kind": "NodeFeatureRule" }));
        assert_eq!(id("26.7.0", &object), id("26.7.0", &other_object));
        assert!(!holds_drivers(&section) && !holds_drivers(&object) && !holds_drivers(&json!({})));
    }

    #[test]
    fn a_label_fits_and_comes_back() {
        let driver = json!({ "version": "580", "repository": "r.example/nv/1.17.0" });
        let long =
            json!({ "version": "a/very long:version_of somebody", "repository": "x/123456789.123456789.1" });
        let off = json!({ "enabled": false, "version": "580" });
        for driver in [driver, long, off, json!({})] {
            let id = in_policy(&driver, &json!({}));
            let label = id.to_string();
            assert!(label.len() <= 63, "{label}");
            assert!(
                label
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)),
                "{label}"
            );
            assert_eq!(label.parse(), Ok(id), "{label}");
        }
        for label in ["", "unknown", "a_b_c", "_b_c_d", "a_b_c_d_e"] {
            assert_eq!(label.parse::<DriverId>(), Err(ParseDriverIdError), "{label}");
        }
    }

    #[test]
    fn a_change_names_what_is_another_one() {
        let driver = |chart: &str, version: &str, release: &str| {
            let spec = json!({ "version": version, "repository": format!("r.example/{release}") });
            id(chart, &json!({ "driver": spec }))
        };
        let from = driver("26.3.3", "580", "1.17.0");
        let text = |to: &DriverId| {
            let from = Some(&from);
            DriverDifference { from, to }.to_string()
        };
        assert_eq!(text(&driver("26.3.3", "590", "1.17.0")), "from driver 580 to 590");
        assert_eq!(
            text(&driver("26.3.4", "580", "1.18.0")),
            "from installer release 1.17.0 to 1.18.0, chart 26.3.3 to 26.3.4"
        );
        let off = id("26.3.3", &json!({ "driver": { "enabled": false } }));
        assert_eq!(text(&off), "from driver 580 to preinstalled");
        assert!(from.is_managed() && !off.is_managed());
        assert_eq!(text(&from), "of settings of driver 580");
    }
}
