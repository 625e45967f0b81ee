//! `make charts`: copies the archives that the image needs into `charts/`, their digests checked.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use e2e::charts::{Charts, Origin};
use e2e::interrupt;
use e2e::tools::{Tool, Tools, repository_root};
use gpu_manager::catalogue::Catalogue;
use gpu_manager::desired::file_digest;

fn main() -> ExitCode {
    interrupt::main(copy())
}

async fn copy() -> Result<()> {
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<_> = catalogue.installable().iter().map(ToString::to_string).collect();
    let tools = Tools::with(Tool::Helm)?;
    let wanted: Vec<_> = versions.iter().map(String::as_str).collect();
    let found = Charts::find(&tools, &wanted).await?;
    ensure!(
        found.origin() == Origin::Nvidia,
        "the stand-in chart must not go into an image"
    );
    let folder = repository_root().join("charts");
    // What an earlier catalogue named would go into the image, too.
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    for version in catalogue.installable() {
        let chart = catalogue
            .chart(version)
            .context("the catalogue contradicts itself")?;
        let content = fs::read(found.archive(&version.to_string()))?;
        let digest = file_digest(&content);
        ensure!(
            digest == chart.sha256,
            "{} has SHA-256 {digest}, the catalogue wants {}",
            chart.archive(),
            chart.sha256
        );
        fs::write(folder.join(chart.archive()), content)?;
        println!("charts/{}", chart.archive());
    }
    Ok(())
}
