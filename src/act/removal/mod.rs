//! Takes away what a helm uninstall leaves, one kind of thing after the other.

mod begin;
mod clear;

pub use begin::begin;
pub use clear::NotCleared;
