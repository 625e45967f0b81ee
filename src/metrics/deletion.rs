//! A deletion of the GpuModule, which may be held for days.

use jiff::Timestamp;

use super::Metrics;
use super::labels::NoLabels;

impl Metrics {
    /// Since when the GpuModule is being deleted, and whether that is held; `None` while it is not.
    pub fn set_deletion(&self, since_and_held: Option<(Timestamp, bool)>) {
        let families = self.families();
        families.deletion_since.clear();
        families.deletion_held.clear();
        if let Some((since, held)) = since_and_held {
            families
                .deletion_since
                .get_or_create(&NoLabels {})
                .set(since.as_second());
            families
                .deletion_held
                .get_or_create(&NoLabels {})
                .set(i64::from(held));
        }
    }
}
