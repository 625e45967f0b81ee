//! The dashboard's extension in `hack/deploy/base/busola`, without a dashboard: it is complete, it names nothing that is not
//! there, and on real GpuModules it says what it should. The pages of each sample are in `snapshots/`.
//!
//! `docs/contributor/dashboard.md` says what these tests cannot see.

mod expressions;
mod extension;
mod form;
mod jsonata;
mod page;
mod pages;
mod samples;
mod schema;
mod translations;
mod widgets;
