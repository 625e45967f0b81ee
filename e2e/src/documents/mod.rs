//! The documentation: what of it is generated, and the commands that it shows.
//!
//! The tables of the GpuModule's reference come from its CRD, and the diagrams from text: `make reference` and `make diagrams`
//! write them, `make generated` and the tests compare. Commands are run by `e2e/tests/spine/commands.rs`.

pub mod commands;
mod diagrams;
mod pages;
mod reference;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::tools::repository_root;

pub use pages::Place;

/// A file that is generated as a whole.
pub struct Generated {
    /// Where it lies in the repository.
    pub path: PathBuf,
    /// What it should hold.
    pub content: String,
}

impl Generated {
    /// True where the file holds what it should.
    pub fn is_fresh(&self) -> bool {
        fs::read_to_string(repository_root().join(&self.path)).is_ok_and(|found| found == self.content)
    }

    /// Writes the file.
    pub fn write(&self) -> Result<()> {
        let path = repository_root().join(&self.path);
        fs::write(&path, &self.content).with_context(|| format!("write {}", path.display()))
    }
}

/// The page that describes every field of the GpuModule.
pub fn reference() -> Result<Generated> {
    reference::page()
}

/// Every diagram as SVG.
pub fn diagrams() -> Result<Vec<Generated>> {
    diagrams::all()
}

#[cfg(test)]
mod tests {
    use super::{diagrams, reference};

    #[test]
    fn what_is_generated_is_up_to_date() {
        let mut all = diagrams::all().unwrap();
        assert!(all.len() > 2);
        all.push(reference::page().unwrap());
        for file in all {
            assert!(
                file.is_fresh(),
                "{} is out of date: run make reference diagrams",
                file.path.display()
            );
        }
    }
}
