//! `gpu-manager` turns one `GpuModule` into a running release of NVIDIA's gpu-operator and tells the truth about it.
//!
//! Data goes one way; each arrow is one call in [`reconcile`], and nothing points back:
//!
//! ```text
//! GpuModule --> desired --> observe --> plan --> act --> status --> publish
//!    api         pure      read-only    pure    helm,    pure      status,
//!                             I/O               API                Events
//! ```
//!
//! - Every decision is in [`plan`] (what to do) or [`status`] (what to say); both take the time as an argument.
//! - `helm/process.rs` alone starts processes, [`config`] alone reads the environment, [`publish`] alone writes the status.
//! - Only the GpuModule is in kube's Controller ([`controller`]); every other watch is isolated ([`observe`]).
//! - [`helm`] knows nothing of Kubernetes' API, [`desired`] and [`plan`] know nothing of I/O.
//!
//! `docs/contributor/architecture.md` says why; `tests/architecture.rs` keeps it so.

pub mod act;
pub mod admin;
pub mod api;
pub mod catalogue;
pub mod config;
pub mod contact;
pub mod controller;
pub mod crds;
pub mod desired;
pub mod drift;
pub mod facts;
pub mod helm;
pub mod kube_api;
pub mod lease;
pub mod memory;
pub mod metrics;
pub mod nodes;
pub mod observe;
pub mod plan;
pub mod publish;
pub mod reconcile;
pub mod run;
pub mod status;
pub mod telemetry;
