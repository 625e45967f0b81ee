//! The spine on a real API server with real helm: a GpuModule becomes a running release, stays one, and goes again.
//!
//! The operator runs as its own process with a token of exactly its ServiceAccount; NVIDIA's controller is simulated.

mod adoption;
mod api_server;
mod bad_input;
mod beside;
mod by_hand;
mod changes;
mod cleanup;
mod commands;
mod crd;
mod delete;
mod drift;
mod fields;
mod foreign;
mod gone;
mod helm3;
mod install;
mod interrupted;
mod inventory;
mod killed;
mod lab;
mod lines;
mod many;
mod nfd;
mod nodes;
mod pod;
mod preinstalled;
mod protected;
mod quiet;
mod readiness;
mod recovery;
mod replicas;
mod rights;
mod samples;
mod start;
mod surface;
mod upgrade;
mod work;
