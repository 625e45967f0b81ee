//! The two stages of a Pod-like run, each in new namespaces of the kernel; [`e2e::pod`] says what for.

use std::process::ExitCode;

use anyhow::{Result, bail};
use e2e::pod::{Settings, network, root};

fn main() -> ExitCode {
    match stage() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pod: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn stage() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [stage, settings] = arguments.as_slice() else {
        bail!("expected a stage and its settings")
    };
    let settings: Settings = serde_json::from_str(settings)?;
    match stage.as_str() {
        "network" => network::run(&settings),
        "root" => root::run(&settings).map(|never| match never {}),
        other => bail!("there is no stage {other}"),
    }
}
