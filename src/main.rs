//! `gpu-manager`: command line and exit codes; everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use gpu_manager::config::{Cli, Command, RunArgs};
use gpu_manager::{crds, run, telemetry};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command.unwrap_or(Command::Run) {
        Command::Crds => crds::render().map(|yaml| print!("{yaml}")).map_err(Into::into),
        Command::Run => operate(cli.run),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Once, with all causes; the logs may not be set up yet.
            eprintln!("gpu-manager: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn operate(args: RunArgs) -> anyhow::Result<()> {
    telemetry::init(args.log_format, &args.log_level)?;
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(run::run(args))
}
