//! Commands of the documentation, run as an administrator types them, and its GpuModules, taken by the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::documents::commands::{self, Check, Command};
use e2e::manifests::{Bundle, Release};
use e2e::tools::{Tool, repository_root};
use gpu_manager::api::{GpuModule, MODULE_NAME};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;

use crate::lab::Lab;

/// What stands for something that differs from cluster to cluster.
const PLACEHOLDERS: [(&str, &str); 5] = [
    ("<node>", "gpu-0"),
    (
        "<pod>",
        "$(kubectl get pods -n gpu-operator -o jsonpath='{.items[0].metadata.name}')",
    ),
    ("<release>", "gpu-operator"),
    ("<revision>", "1"),
    ("<namespace>", "gpu-operator"),
];

/// Verbs that would take away what later commands need.
const ONLY_TRIED: [&str; 6] = ["cordon", "delete", "drain", "label", "patch", "uncordon"];

const DEADLINE: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread")]
async fn of_the_documentation_can_be_run_and_its_modules_are_accepted() -> Result<()> {
    let lab = Lab::start().await?;
    let _manager = lab.ready().await?;
    // A test scales it to zero, which nobody does who installs.
    lab.cluster
        .kubectl(&["delete", "deployment", "gpu-manager", "-n", "gpu-manager"])
        .await?;
    let folder = folder(&lab)?;
    let mut failed = vec![];
    for command in commands::all()? {
        if command.check()? == Check::Run
            && let Err(error) = run(&lab, &folder, &command).await
        {
            failed.push(format!("{}: {}\n{error:#}", command.place, command.text));
        }
    }
    let modules: Api<GpuModule> = Api::all(lab.cluster.client());
    for (place, text) in commands::modules()? {
        let module: Value = serde_saphyr::from_str(&text).with_context(|| place.to_string())?;
        let params = PatchParams {
            dry_run: true,
            ..PatchParams::apply("documentation").force()
        };
        if let Err(error) = modules.patch(MODULE_NAME, &params, &Patch::Apply(&module)).await {
            failed.push(format!("{place}: {error}"));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// A copy of what the commands name of the repository, and the files of a release; it may be written to.
fn folder(lab: &Lab) -> Result<PathBuf> {
    let folder = lab.cluster.dir().join("repository");
    for name in ["crds", "docs", "hack"] {
        copy(&repository_root().join(name), &folder.join(name))?;
    }
    let files = Bundle::build(&lab.cluster.tools().path(Tool::Kubectl), &Release::current()?)?;
    files.write(&folder.join("dist"))?;
    Ok(folder)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if !from.is_dir() {
        std::fs::copy(from, to).with_context(|| from.display().to_string())?;
        return Ok(());
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let name = entry?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

async fn run(lab: &Lab, folder: &Path, command: &Command) -> Result<()> {
    let mut text = command.text.clone();
    for (placeholder, name) in PLACEHOLDERS {
        text = text.replace(placeholder, name);
    }
    let text = possible_here(&text);
    let tools = lab.cluster.tools();
    let programs = [Tool::Kubectl, Tool::Helm].map(|tool| tools.path(tool));
    let programs = programs
        .iter()
        .filter_map(|path| path.parent().map(Path::to_owned));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(programs.chain(std::env::split_paths(&path)))?;
    let mut shell = tokio::process::Command::new("bash");
    shell
        .args(["-euo", "pipefail", "-c", &text])
        .current_dir(folder)
        .env("PATH", path)
        .env("KUBECONFIG", lab.cluster.kubeconfig())
        .env("HOME", lab.cluster.dir())
        .kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, shell.output())
        .await
        .with_context(|| format!("'{text}' took longer than {DEADLINE:?}"))??;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "'{text}': {}", errors.trim());
    ensure!(
        !command.text.contains(" logs ") || !output.stdout.is_empty(),
        "'{text}' finds nothing: {}",
        errors.trim()
    );
    Ok(())
}

/// The command as far as it goes here: nothing is taken away, and whose log is asked for is looked up, since no container runs.
fn possible_here(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.as_slice() {
        ["kubectl", verb, ..] if ONLY_TRIED.contains(verb) => format!("{text} --dry-run=server"),
        ["helm", "uninstall", ..] => format!("{text} --dry-run"),
        // Without its ServiceAccount it takes no Pod; people type slower than that comes.
        ["kubectl", "create", "namespace", name] => {
            format!("{text} && kubectl wait serviceaccount/default -n {name} --for=create --timeout=30s")
        }
        ["kubectl", "logs", rest @ ..] => {
            const OF_LOGS: [&str; 2] = ["--all-containers", "--prefix"];
            let mut rest: Vec<_> = rest.to_vec();
            rest.retain(|word| !OF_LOGS.contains(word) && !word.starts_with("--tail"));
            // As `kubectl logs` has it: a name alone, or a label, is about Pods.
            let is_of_pods = rest.contains(&"-l") || !rest.iter().any(|word| word.contains('/'));
            let kind = if is_of_pods { "pods " } else { "" };
            format!("kubectl get --output name {kind}{}", rest.join(" "))
        }
        _ => text.to_owned(),
    }
}
