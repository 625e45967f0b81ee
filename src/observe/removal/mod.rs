//! Reads what a removal has to know and what is left to remove. Asked for by a decision, never watched.

mod drivers;

pub use drivers::unfinished_driver_upgrades;
