//! A release that the module did not make, as Helm knows it.

use semver::Version;
use serde_json::{Map, Value};

use crate::catalogue::DriverLayout;

/// What was read for the adoption of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingRelease {
    /// UID of the Secret that was read.
    pub uid: String,
    /// The revision that was read.
    pub revision: u32,
    /// Version of the chart whose defaults are in [`ExistingContent::defaults`].
    pub wanted_chart: Version,
    /// What is in it; `None` where Helm cannot decode it.
    pub content: Option<ExistingContent>,
}

/// What Helm has stored of such a revision, and what it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingContent {
    /// Its chart version.
    pub chart_version: Version,
    /// The values that it was made with. They may be secret and go nowhere from here.
    pub values: Map<String, Value>,
    /// The same over the defaults of its own chart.
    pub all_values: Map<String, Value>,
    /// The defaults of the chart that is wanted.
    pub defaults: Map<String, Value>,
}

impl ExistingContent {
    /// Which of NVIDIA's objects describes the driver.
    pub fn layout(&self) -> DriverLayout {
        let driver = self.all_values.get("driver");
        if driver.is_some_and(|driver| driver["nvidiaDriverCRD"]["enabled"] == true) {
            DriverLayout::NvidiaDriver
        } else {
            DriverLayout::ClusterPolicy
        }
    }
}
