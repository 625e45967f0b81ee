//! Everything in a cluster, and that nothing escapes it.

mod proof;

pub use e2e::inventory::Inventory;
