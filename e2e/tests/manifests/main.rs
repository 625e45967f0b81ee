//! The files of a release, as `make manifests` writes them: no trap of Kyma's tools lies in them, and an API server takes them in
//! the ways in which Kyma's CLI and Lifecycle Manager bring and remove them.

#![expect(
    clippy::expect_used,
    reason = "a lint may stop at a file that is not understood"
)]

mod cli;
mod community;
mod files;
mod images;
mod lab;
mod lifecycle_manager;
mod managed;
mod module;
mod modulectl;
mod names;
mod network;
mod order;
mod roles;
mod running;
mod security;
mod text;
mod trap;
