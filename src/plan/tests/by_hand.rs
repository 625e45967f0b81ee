//! A release of the module's name that somebody else made, for tests.

use serde_json::{Map, Value};

use super::*;
use crate::facts::{ExistingContent, ExistingRelease};

pub fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no map"),
    }
}

/// Defaults of the wanted chart, as far as they matter here.
fn defaults() -> Map<String, Value> {
    map(json!({
        "driver": { "enabled": true, "usePrecompiled": false, "repository": "nvcr.io/nvidia", "version": "595.91.07",
            "nvidiaDriverCRD": { "enabled": false, "deployDefaultCR": true },
            "upgradePolicy": { "autoUpgrade": true, "gpuPodDeletion": { "force": false } },
            "kernelModuleConfig": { "name": "" } },
        "mig": { "strategy": "single" },
        "toolkit": { "enabled": true },
    }))
}

/// The values file of the Garden Linux NVIDIA installer 1.17.0.
pub fn guide() -> Value {
    let rule = json!({
        "name": "gardenlinux-version",
        "labelsTemplate": "{{ range .system.osrelease }}feature.node.kubernetes.io/system-os_release.VERSION_ID=0{{ end }}",
        "matchFeatures": [],
    });
    json!({
        "cdi": { "enabled": true, "default": true },
        "toolkit": { "installDir": "/opt/nvidia" },
        "driver": { "imagePullPolicy": "Always", "usePrecompiled": true, "version": "590",
            "repository": "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0" },
        "node-feature-discovery": { "worker": { "config": { "sources": { "custom": [rule] } } } },
    })
}

pub fn merged(mut values: Map<String, Value>, over: &Map<String, Value>) -> Map<String, Value> {
    for (key, over) in over {
        let value = match (values.get(key), over) {
            (Some(Value::Object(old)), Value::Object(new)) => Value::Object(merged(old.clone(), new)),
            _ => over.clone(),
        };
        values.insert(key.clone(), value);
    }
    values
}

fn content(chart: &str, values: Value) -> ExistingContent {
    let values = map(values);
    ExistingContent {
        chart_version: chart.parse().unwrap(),
        all_values: merged(defaults(), &values),
        values,
        defaults: defaults(),
    }
}

impl Case {
    /// A release of that chart and those values that somebody made by hand, its newest revision in that status.
    pub fn by_hand(chart: &str, values: Value, statuses: &[RevisionStatus]) -> Self {
        let mut case = Self::ours(statuses);
        case.recorded = None;
        case.finalizer = false;
        for number in (1..).take(statuses.len()) {
            case.change(number, |revision| {
                *revision = Revision {
                    fingerprint: None,
                    by: None,
                    meant: None,
                    chart: None,
                    layout: None,
                    ..revision.clone()
                };
            });
        }
        case.read(chart, values);
        case
    }

    pub fn read(&mut self, chart: &str, values: Value) {
        let ReleaseFacts::Read(history) = &self.observed.release else {
            panic!("unreadable")
        };
        let running = history.last_good().or_else(|| history.latest()).unwrap();
        self.observed.existing = Some(std::sync::Arc::new(ExistingRelease {
            uid: running.uid.clone(),
            revision: running.number,
            wanted_chart: "26.7.0".parse().unwrap(),
            content: Some(content(chart, values)),
        }));
    }

    pub fn dropped(&self) -> Vec<String> {
        match self.plan() {
            Plan::Hold(Hold::Unadopted(unadopted)) => unadopted.listing().unwrap().dropped.clone(),
            plan => panic!("{plan:?}"),
        }
    }

    /// What the status says after this plan, and a later generation in which the user answers.
    pub fn told(mut self, adopt: bool) -> Self {
        let Plan::Hold(Hold::Unadopted(unadopted)) = self.plan() else {
            panic!("{:?}", self.plan())
        };
        let listing = unadopted.listing().unwrap();
        self.listed = Some(AdoptionStatus {
            chart_version: listing.chart_version.to_string(),
            revision: i64::from(listing.revision),
            dropped_values: listing.dropped.clone(),
            more_dropped_values: u32::try_from(listing.more).unwrap(),
            listed_generation: (!self.adopt).then_some(self.generation),
        });
        self.generation += 1;
        self.adopt = adopt;
        self.finalizer = true;
        self
    }

    /// The newest revision was compared too.
    pub fn compared_as(self, chart: &str) -> Self {
        let mut case = self.compared(1, json!({}));
        let comparison = case.observed.comparison.as_mut().unwrap();
        let content = comparison.content.as_mut().unwrap();
        content.chart_version = chart.parse().unwrap();
        content.values_digest = "theirs".to_owned();
        case
    }

    pub fn adopting(mut self) -> Self {
        self.adopt = true;
        self.finalizer = true;
        self
    }

    pub fn reason(&self) -> &'static str {
        held(self).reason()
    }
}

pub const DEPLOYED: &[RevisionStatus] = &[RevisionStatus::Deployed];

pub fn adopt(chart: &str, layout: DriverLayout, drivers: DriverUpgrades) -> Plan {
    Plan::Act(Action::Upgrade {
        to: step(chart, layout, drivers),
        cause: Cause::Adopt,
    })
}
