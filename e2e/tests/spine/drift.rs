//! Somebody changes objects of the release: what is put right, what is left alone, and what is told.

mod compare;
mod fight;
mod modes;
mod restore;
