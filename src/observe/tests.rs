//! What objects are reduced to, and how a view follows its watch. The whole on a fake API: `tests/fake_api`.

mod daemon_sets;
mod pods;
mod reduction;
mod view;
