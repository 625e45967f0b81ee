//! Writes the roles and the admission policy in `hack/deploy/rbac` and the tables of `docs/contributor/rbac.md`, or checks
//! that they are up to date (`--check`).

use std::{fs, path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use e2e::{
    charts::Charts,
    interrupt,
    rbac::{Sources, derive, versions},
    tools::{Tool, Tools, repository_root},
};

/// Derive the rights of the operator from its own list and the charts.
#[derive(Parser)]
struct Args {
    /// Compare with the files instead of writing them.
    #[arg(long)]
    check: bool,
    /// Folder with NVIDIA's chart archives, gpu-operator-v<version>.tgz; looked for when none is given.
    #[arg(long)]
    charts: Option<PathBuf>,
    /// The helm binary; the one that ships is built when none is given.
    #[arg(long, env = "HELM_BIN")]
    helm: Option<PathBuf>,
}

fn main() -> ExitCode {
    interrupt::main(generate(Args::parse()))
}

async fn generate(args: Args) -> Result<()> {
    let tools = Tools::ensure()?;
    let charts = if let Some(charts) = args.charts {
        charts
    } else {
        let versions = versions()?;
        let versions: Vec<_> = versions.iter().map(String::as_str).collect();
        let Some(found) = Charts::nvidia(&tools, &versions, "the derivation of the rights").await? else {
            return Ok(());
        };
        found.dir().to_owned()
    };
    let helm = args.helm.unwrap_or_else(|| tools.path(Tool::Helm));
    let root = repository_root();
    let wanted = derive(&Sources {
        helm,
        charts,
        values: root.join("hack/deploy/rbac/values"),
    })?;
    for (path, wanted) in wanted.files(root)? {
        if args.check {
            let found =
                fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            ensure!(
                found == wanted,
                "{} is out of date: run `make rbac` and commit the file\n{}",
                path.display(),
                first_difference(&found, &wanted)
            );
        } else {
            fs::write(&path, wanted).with_context(|| format!("{} cannot be written", path.display()))?;
        }
    }
    Ok(())
}

/// The first line that differs, as a diff.
fn first_difference(found: &str, wanted: &str) -> String {
    let same = found
        .lines()
        .zip(wanted.lines())
        .take_while(|(a, b)| a == b)
        .count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("(end of file)").to_owned();
    format!("line {}:\n- {}\n+ {}", same + 1, line(found), line(wanted))
}
