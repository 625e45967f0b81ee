//! The operator's watches, reconciler and controller on a fake Kubernetes API with a fake helm, in paused time: what only
//! shows when the API server refuses, hangs, forgets or talks too much.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

mod failures;
mod helm;
mod isolation;
mod lab;
mod module;
mod nodes;
mod objects;
mod server;
mod time;
mod unchanged;
mod undone;
mod watches;
