//! `chart-values/restarts.yaml`: which values restart what on a GPU node when they change.
//!
//! Only data; what it means for running work is decided in `plan`. The end-to-end tests compare it with what the charts
//! render.

use serde::Deserialize;

use super::DriverLayout;

/// What a change of values restarts, by the object that describes the driver.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restarts {
    #[serde(rename = "ClusterPolicy")]
    cluster_policy: Vec<ValueRestart>,
    #[serde(rename = "NVIDIADriver")]
    nvidia_driver: Vec<ValueRestart>,
}

/// What a change of one value restarts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueRestart {
    /// Dotted path; a list on the way stands for each of its elements.
    pub path: String,
    /// What restarts.
    pub restarts: Restart,
    /// Why, for the reader of the data.
    pub why: String,
}

/// What restarts on a GPU node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Restart {
    /// The driver's Pods, and with them whatever uses a GPU on the node.
    Driver,
    /// The container toolkit, and containerd with it. Running containers go on.
    Toolkit,
    /// No Pod.
    Nothing,
}

impl Restarts {
    /// What the data says for a layout.
    pub fn of(&self, layout: DriverLayout) -> &[ValueRestart] {
        match layout {
            DriverLayout::ClusterPolicy => &self.cluster_policy,
            DriverLayout::NvidiaDriver => &self.nvidia_driver,
        }
    }

    /// Paths of the values whose change restarts that.
    pub fn paths(&self, layout: DriverLayout, restart: Restart) -> impl Iterator<Item = &str> {
        let fits = move |value: &&ValueRestart| value.restarts == restart;
        self.of(layout)
            .iter()
            .filter(fits)
            .map(|value| value.path.as_str())
    }
}
