//! What a release wants its objects to be, and whether an object still is so. Pure.
//!
//! Helm leaves it at one apply; whatever changes an object afterwards is drift. Two kinds of it are told apart: fields of the
//! manifest that have another value now (a server-side-apply dry run shows them), and fields that somebody added (only
//! `managedFields` shows them, since an apply leaves them alone). Labels and annotations that people add are no drift, also those
//! of Pod templates: `kubectl rollout restart` works through one.

mod diff;
mod fields;
mod judge;
mod manifest;
mod mark;

pub use judge::{Finding, Repair, judge, refused};
pub use manifest::{Kind, Manifest, ObjectRef};
pub use mark::Mark;

#[cfg(test)]
mod tests;
