//! Writes the files of a release into a folder (`make manifests`), the list of images that they name
//! (`make images`), or the chart versions that the dashboard offers (`make form`).

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, Subcommand};
use e2e::charts::Charts;
use e2e::interrupt;
use e2e::manifests::form::{self, FORM_FILE};
use e2e::manifests::{Bundle, IMAGES_FILE, Release, images, patch_for};
use e2e::tools::{Tool, Tools, repository_root};
use gpu_manager::catalogue::Catalogue;

/// Make the files of a release.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the manifests and what Kyma reads about the module.
    Build {
        /// The version, for example 1.2.3.
        #[arg(long)]
        version: String,
        /// The operator's image without its tag, which is the version.
        #[arg(long)]
        image: Option<String>,
        /// The repository whose releases have the files, for example `https://github.com/kyma-project/gpu-manager`.
        #[arg(long)]
        repository: Option<String>,
        /// Folder for the files.
        #[arg(long, default_value = "dist")]
        dir: PathBuf,
    },
    /// Write the images of NVIDIA's stack into hack/deploy.
    Images {
        /// Compare with the file instead of writing it.
        #[arg(long)]
        check: bool,
    },
    /// Write the chart versions that can be installed into the dashboard's form.
    Form {
        /// Compare with the file instead of writing it.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    interrupt::main(run(Args::parse().command))
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Build {
            version,
            image,
            repository,
            dir,
        } => build(&version, image, repository, &dir),
        Command::Images { check } => list_images(check).await,
        Command::Form { check } => {
            let form = read(FORM_FILE)?;
            let wanted = form::with_versions(&form, &Catalogue::compiled_in()?)?;
            write(FORM_FILE, &wanted, check, "make form")
        }
    }
}

fn build(
    version: &str,
    image: Option<String>,
    repository: Option<String>,
    dir: &std::path::Path,
) -> Result<()> {
    let mut release = Release::new(version)?;
    if let Some(image) = image.filter(|image| !image.is_empty()) {
        release = release.with_image(&image)?;
    }
    if let Some(repository) = repository.filter(|repository| !repository.is_empty()) {
        release = release.with_repository(&repository)?;
    }
    let bundle = Bundle::build(&Tools::only(Tool::Kubectl)?, &release)?;
    bundle.write(dir)?;
    for (name, _) in bundle.files() {
        println!("{}", dir.join(name).display());
    }
    Ok(())
}

async fn list_images(check: bool) -> Result<()> {
    let tools = Tools::with(Tool::Helm)?;
    let catalogue = Catalogue::compiled_in()?;
    let versions: Vec<String> = catalogue.installable().iter().map(ToString::to_string).collect();
    let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
    let Some(charts) = Charts::nvidia(&tools, &versions, "the list of images").await? else {
        return Ok(());
    };
    let wanted = patch_for(&images(&tools, &charts).await?);
    write(IMAGES_FILE, &wanted, check, "make images")
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(repository_root().join(file)).with_context(|| format!("cannot read {file}"))
}

/// Writes a generated file of the repository, or compares it with what it should be.
fn write(file: &str, wanted: &str, check: bool, make: &str) -> Result<()> {
    if check {
        ensure!(read(file)? == wanted, "{file} is out of date: run `{make}`");
        return Ok(());
    }
    fs::write(repository_root().join(file), wanted).with_context(|| format!("cannot write {file}"))
}
