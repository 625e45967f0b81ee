//! Writes `hack/deploy/rbac/release.yaml` from what the charts render, or checks
//! that it is up to date (`--check`).

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use e2e::{
    rbac::{Sources, charts_dir, derive},
    tools::{Tool, Tools, repository_root},
};

/// Derive the rights that helm needs from the charts.
#[derive(Parser)]
struct Args {
    /// Compare with the file instead of writing it.
    #[arg(long)]
    check: bool,
    /// Folder with the chart archives gpu-operator-<version>.tgz.
    #[arg(long, default_value_os_t = charts_dir())]
    charts: PathBuf,
    /// The helm binary; the one that ships is built when none is given.
    #[arg(long, env = "HELM_BIN")]
    helm: Option<PathBuf>,
    /// Folder that holds release.yaml and values/.
    #[arg(long, default_value_os_t = repository_root().join("hack/deploy/rbac"))]
    dir: PathBuf,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let path = args.dir.join("release.yaml");
    let helm = match args.helm {
        Some(helm) => helm,
        None => Tools::ensure()?.path(Tool::Helm),
    };
    let wanted = derive(&Sources {
        helm,
        charts: args.charts,
        values: args.dir.join("values"),
    })?
    .to_yaml()?;
    if args.check {
        let found =
            fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        ensure!(
            found == wanted,
            "{} is out of date: run `cargo run -p e2e --bin rbac` and commit the file\n{}",
            path.display(),
            first_difference(&found, &wanted)
        );
    } else {
        fs::write(&path, wanted).with_context(|| format!("{} cannot be written", path.display()))?;
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
