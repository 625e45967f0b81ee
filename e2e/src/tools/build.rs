//! Finds and builds the binaries.
//!
//! A binary gets its name only once it is complete, so an interrupted build leaves nothing that looks usable,
//! and a lock file lets one process build while others wait for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use semver::Version;

use super::cache::{Family, cache_dir, key};
use super::recipe::{Recipe, parse_version, pinned_version};
use super::{Tool, Tools};

/// Name of the folder with KWOK's stages, beside the binaries.
pub(super) const KWOK_STAGES: &str = "kwok-stages";

/// The stages that make fake nodes Ready and play their Pods, relative to the KWOK module. Its binary holds
/// none of them. Leases instead of status updates for the heartbeat, as a real kubelet does it.
const STAGE_FILES: [&str; 5] = [
    "kustomize/stage/node/fast/node-initialize.yaml",
    "kustomize/stage/node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "kustomize/stage/pod/fast/pod-ready.yaml",
    "kustomize/stage/pod/fast/pod-complete.yaml",
    "kustomize/stage/pod/fast/pod-delete.yaml",
];

/// Start of the names of folders in which something is being made.
const UNFINISHED: &str = ".building-";

const BUILD_FLAGS: [&str; 3] = ["build", "-trimpath", "-buildvcs=false"];

/// Finds these tools; builds those that are missing.
pub(super) fn ensure(wanted: &[Tool]) -> Result<Tools> {
    let go_version = go_version()?;
    let root = cache_dir()?.join("tools");
    let dir = root.join(key(&go_version, &BUILD_FLAGS)?);
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;

    let mut assets = BTreeMap::new();
    for tool in wanted {
        if let Some(path) = from_assets(*tool)? {
            assets.insert(*tool, path);
        }
    }
    let tools = Tools { dir, assets };
    let needs_stages = wanted.contains(&Tool::Kwok) && !tools.kwok_stages().is_dir();
    if needs_stages || !missing(&tools, wanted).is_empty() {
        let _lock = lock(&tools.dir)?;
        remove_unfinished(&tools.dir)?;
        build_missing(&tools, wanted)?;
        if needs_stages {
            copy_stages(&tools)?;
        }
    }
    Ok(tools)
}

/// Removes what an interrupted build left. Only for the holder of the lock.
fn remove_unfinished(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            std::fs::remove_dir_all(entry.path())
                .with_context(|| format!("cannot remove {}", entry.path().display()))?;
        }
    }
    Ok(())
}

fn missing(tools: &Tools, wanted: &[Tool]) -> Vec<Tool> {
    let wanted = wanted.iter().copied();
    wanted.filter(|tool| !tools.path(*tool).is_file()).collect()
}

fn build_missing(tools: &Tools, wanted: &[Tool]) -> Result<()> {
    let missing = missing(tools, wanted);
    for (index, tool) in missing.iter().enumerate() {
        let recipe = Recipe::of(*tool);
        let family = Family::read(recipe.family)?;
        let version = pinned_version(&family.go_mod, recipe.module)?;
        let label = format!(
            "[{}/{}] {} v{version}",
            index + 1,
            missing.len(),
            tool.file_name()
        );
        progress(&format!("building {label}"));
        let started = Instant::now();
        build(&recipe, &family, &tools.path(*tool))?;
        progress(&format!("built    {label} in {} s", started.elapsed().as_secs()));
    }
    Ok(())
}

fn build(recipe: &Recipe, family: &Family, target: &Path) -> Result<()> {
    let dir = target.parent().context("a binary needs a folder")?;
    let temporary = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(dir)?;
    let unfinished = temporary.path().join("binary");
    let mut go = go(&family.dir);
    go.args(BUILD_FLAGS)
        .arg("-ldflags")
        .arg(recipe.ldflags(&family.go_mod)?);
    go.arg("-o").arg(&unfinished).arg(recipe.package);
    output(&mut go).with_context(|| format!("cannot build {}", recipe.package))?;
    std::fs::rename(&unfinished, target).with_context(|| format!("cannot write {}", target.display()))
}

/// Copies KWOK's stages out of its module, which the module cache holds after the build.
fn copy_stages(tools: &Tools) -> Result<()> {
    let target = tools.kwok_stages();
    if target.is_dir() {
        return Ok(());
    }
    let family = Family::read(Recipe::of(Tool::Kwok).family)?;
    let mut download = go(&family.dir);
    output(download.args(["mod", "download", "sigs.k8s.io/kwok"]))?;
    let module = output(go(&family.dir).args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]))?;
    let temporary = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .tempdir_in(tools.dir())?;
    for file in STAGE_FILES {
        let source = Path::new(module.trim()).join(file);
        let name = source.file_name().context("a stage needs a file name")?;
        // Read and write instead of a copy: files of the module cache are read-only and would stay so.
        let text =
            std::fs::read(&source).with_context(|| format!("KWOK has no stage {}", source.display()))?;
        std::fs::write(temporary.path().join(name), text)?;
    }
    std::fs::rename(temporary.path(), &target).with_context(|| format!("cannot write {}", target.display()))
}

/// The binary from `KUBEBUILDER_ASSETS`, if that folder has one of the pinned minor version or a later patch.
fn from_assets(tool: Tool) -> Result<Option<PathBuf>> {
    let Some(dir) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|dir| !dir.is_empty()) else {
        return Ok(None);
    };
    let path = Path::new(&dir).join(tool.file_name());
    if !path.is_file() {
        return Ok(None);
    }
    let recipe = Recipe::of(tool);
    let wanted = pinned_version(&Family::read(recipe.family)?.go_mod, recipe.module)?;
    let printed = output(Command::new(&path).args(recipe.version_args)).unwrap_or_default();
    match printed.split_whitespace().find_map(parse_version) {
        Some(found) if fits(&found, &wanted) => Ok(Some(path)),
        found => {
            let found = found.map_or_else(|| "no version".to_owned(), |version| format!("v{version}"));
            progress(&format!(
                "not using {}: it says {found}, v{wanted} or a later patch of it is needed",
                path.display()
            ));
            Ok(None)
        }
    }
}

fn fits(found: &Version, wanted: &Version) -> bool {
    (found.major, found.minor) == (wanted.major, wanted.minor) && found.patch >= wanted.patch
}

/// The version of the Go tool chain that builds in `hack/tools`.
fn go_version() -> Result<String> {
    let family = Family::read(Recipe::of(Tool::Helm).family)?;
    let version = output(go(&family.dir).args(["env", "GOVERSION"]))?;
    ensure!(
        version.starts_with("go"),
        "'go env GOVERSION' printed '{}' instead of a version",
        version.trim()
    );
    Ok(version.trim().to_owned())
}

fn go(dir: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(dir)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off");
    // The tools run here, whatever the caller's shell compiles for.
    command.env_remove("GOOS").env_remove("GOARCH");
    command
}

/// Runs a command to its end and returns what it printed; its error output becomes the error.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && program == "go" => {
            bail!("Go is not installed: install Go 1.26 or newer (https://go.dev/dl) and run again")
        }
        Err(error) => return Err(error).with_context(|| format!("cannot run {program}")),
    };
    ensure!(
        output.status.success(),
        "{program} ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until no other process builds into the folder. The lock ends with the file, so with the process.
fn lock(dir: &Path) -> Result<File> {
    let path = dir.with_extension("lock");
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => return Ok(file),
        Err(Errno::WOULDBLOCK) => progress("waiting for another process that builds the tools"),
        Err(error) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
    }
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// One line for the person who waits. Straight to standard error, since the test harness swallows `eprintln`
/// until a test has failed, and minutes of silence look like a hang.
fn progress(line: &str) {
    let _ = writeln!(std::io::stderr(), "tools: {line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_patch_fits_and_another_minor_does_not() {
        let wanted = Version::new(1, 36, 3);
        assert!(fits(&Version::new(1, 36, 3), &wanted));
        assert!(fits(&Version::new(1, 36, 9), &wanted));
        assert!(!fits(&Version::new(1, 36, 2), &wanted));
        assert!(!fits(&Version::new(1, 37, 3), &wanted));
        assert!(!fits(&Version::new(2, 36, 3), &wanted));
    }
}
