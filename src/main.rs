//! `gpu-manager`: command line and exit codes; everything else is in the library.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use gpu_manager::config::{CleanupArgs, Cli, Command, RunArgs};
use gpu_manager::telemetry::Format;
use gpu_manager::{crds, run, telemetry};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command.unwrap_or(Command::Run) {
        Command::Crds => crds::render().map(|yaml| print!("{yaml}")).map_err(Into::into),
        Command::Run => operate(cli.run),
        Command::Cleanup(wishes) => clean_up(cli.run, wishes),
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
    runtime()?.block_on(run::run(args))
}

fn clean_up(args: RunArgs, wishes: CleanupArgs) -> anyhow::Result<()> {
    // What a person has to know comes on stdout, in plain lines.
    let asked = args.log_level != telemetry::DEFAULT_FILTER;
    telemetry::init(Format::Text, if asked { &args.log_level } else { "off" })?;
    let say = |line: &str| println!("{line}");
    runtime()?.block_on(run::cleanup(args, wishes, Arc::new(say)))
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
