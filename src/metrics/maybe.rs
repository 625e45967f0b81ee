//! A gauge for a number that is not always known: it is absent then, rather than zero.

use prometheus_client::metrics::{family::Family, gauge::Gauge};
use prometheus_client::registry::Registry;

use super::labels::NoLabels;

/// One number, or none.
#[derive(Debug, Default)]
pub(super) struct Maybe(Family<NoLabels, Gauge>);

impl Maybe {
    /// Shows the number, or nothing.
    pub fn set(&self, number: Option<i64>) {
        self.0.clear();
        if let Some(number) = number {
            self.0.get_or_create(&NoLabels {}).set(number);
        }
    }

    /// Makes it part of the exposition.
    pub fn register(&self, registry: &mut Registry, name: &str, help: &str) {
        registry.register(name, help, self.0.clone());
    }
}
