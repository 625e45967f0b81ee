//! Writes what of the documentation is generated, or says with `--check` what is out of date.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use e2e::documents;

/// Generates the reference of the GpuModule and the diagrams.
#[derive(Parser)]
struct Cli {
    /// What to generate; both without it.
    part: Option<Part>,
    /// Write nothing, and fail where a file is out of date.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Reference,
    Diagrams,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let wanted = |part| cli.part.is_none_or(|asked| asked == part);
    let mut files = vec![];
    if wanted(Part::Reference) {
        files.push(documents::reference()?);
    }
    if wanted(Part::Diagrams) {
        files.extend(documents::diagrams()?);
    }
    let mut is_fresh = true;
    for file in files {
        if !cli.check {
            file.write()?;
        } else if !file.is_fresh() {
            is_fresh = false;
            eprintln!(
                "{} is out of date: run make reference diagrams",
                file.path.display()
            );
        }
    }
    Ok(if is_fresh {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
