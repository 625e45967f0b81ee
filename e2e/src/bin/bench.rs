//! `make bench`: measures the operator on a local cluster, prints a table and writes `target/bench.json`.

use std::io::stdout;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use e2e::bench::{self, Options, Report, Section};
use e2e::demo::Screen;
use e2e::interrupt::{self, Signals};
use e2e::manager::{release_binary, target_folder};

/// Measures the operator on a local cluster.
#[derive(Debug, clap::Parser)]
struct Cli {
    /// Seconds for which the unchanged world is looked at.
    #[arg(long, env = "BENCH_IDLE", default_value_t = 600, value_parser = clap::value_parser!(u64).range(10..))]
    idle: u64,
    /// Fail where a goal is not met.
    #[arg(long)]
    check: bool,
    /// Only this section; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Section>,
    /// Another operator than the release build of this source, to compare two.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    interrupt::main(measure(cli))
}

async fn measure(cli: Cli) -> Result<()> {
    let mut signals = Signals::listen()?;
    let mut screen = Screen::new(stdout());
    screen.headline("The operator measured on a local cluster");
    let program = match cli.program {
        Some(program) => program,
        None => tokio::task::spawn_blocking(release_binary).await??,
    };
    screen.say(&format!("The operator is {}.", program.display()));
    let options = Options {
        sections: if cli.only.is_empty() {
            Section::ALL.to_vec()
        } else {
            cli.only
        },
        idle: Duration::from_secs(cli.idle),
    };
    let run = Box::pin(bench::run(program, &options, &mut screen));
    let report = signals.run(run).await?;
    screen.durations();
    show(&report, &mut screen);

    let path = target_folder()?.join("bench.json");
    std::fs::write(&path, report.json()?).with_context(|| format!("cannot write {}", path.display()))?;
    screen.say(&format!("\nThe rows are in {}.", path.display()));
    let (unmeasured, unmet) = (report.unmeasured(), report.unmet());
    ensure!(unmeasured.is_empty(), "not measured: {}", unmeasured.join("; "));
    ensure!(
        !cli.check || unmet.is_empty(),
        "goals that are not met: {}",
        unmet.join("; ")
    );
    Ok(())
}

fn show(report: &Report, screen: &mut Screen<'_>) {
    screen.headline("Figures");
    screen.table(Report::HEADER, &report.table());
    screen.headline("Remarks");
    for note in report.notes() {
        screen.say(&note);
    }
}
