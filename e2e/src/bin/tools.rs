//! Builds the binaries of the local cluster that are missing and prints their folder.

use std::process::ExitCode;

use e2e::tools::Tools;

fn main() -> ExitCode {
    match Tools::ensure() {
        Ok(tools) => {
            println!("{}", tools.dir().display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
