//! Starts that cannot succeed: one clear sentence and an exit code, no crash loop where waiting could help.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::manager::binary;
use e2e::tools::{Tool, Tools};

/// How long a start may take to fail.
const LIMIT: Duration = Duration::from_secs(30);

/// Runs the operator with these flags besides a working folder of its own, and returns what it says at its end.
async fn last_words(folder: &Path, flags: &[&str]) -> Result<String> {
    Ok(words(folder, flags, &[]).await?.1)
}

/// What such a start logs, and what it says at its end.
async fn words(folder: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Result<(String, String)> {
    let mut command = tokio::process::Command::new(binary()?);
    command.env_clear().envs(variables.iter().copied());
    command.arg("run").args(flags).kill_on_drop(true);
    command.arg("--work-dir").arg(folder.join("work"));
    command.args(["--health-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"]);
    let output = tokio::time::timeout(LIMIT, command.output())
        .await
        .with_context(|| format!("still running: {flags:?}"))??;
    let said = String::from_utf8(output.stderr)?;
    ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
    let (log, own): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with('{'));
    ensure!(own.len() == 1, "more than one sentence: {said}");
    Ok((log.join("\n"), own[0].to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_usable_helm_cluster_or_catalogue() -> Result<()> {
    let tools = Tools::ensure()?;
    let path = |tool: Tool| tools.path(tool).display().to_string();
    let (helm, helm3, kubectl) = (path(Tool::Helm), path(Tool::Helm3), path(Tool::Kubectl));
    let folder = tempfile::tempdir()?;
    let broken = folder.path().join("broken.kubeconfig");
    std::fs::write(&broken, "clusters: [")?;
    let empty = folder.path().join("empty.kubeconfig");
    std::fs::write(&empty, "{}")?;
    let broken = broken.display().to_string();
    let empty = empty.display().to_string();
    let missing = folder.path().join("missing").display().to_string();

    let cases: [(&[&str], &str); 8] = [
        (
            &["--helm", &missing, "--kubeconfig", &empty],
            "there is no helm binary at",
        ),
        (
            &["--helm", &helm3, "--kubeconfig", &empty],
            "is too old; version 4 or newer is needed",
        ),
        (
            &["--helm", &kubectl, "--kubeconfig", &empty],
            "does not work as helm",
        ),
        (&["--kubeconfig", &empty], "no helm binary is in PATH"),
        (&["--helm", &helm], "name the cluster with --kubeconfig"),
        (&["--helm", &helm, "--kubeconfig", &missing], "cannot be used"),
        (&["--helm", &helm, "--kubeconfig", &broken], "cannot be used"),
        (
            &[
                "--helm",
                &helm,
                "--kubeconfig",
                &empty,
                "--catalogue-dir",
                &missing,
            ],
            "of the chart catalogue cannot be read",
        ),
    ];
    for (flags, sentence) in cases {
        let said = last_words(folder.path(), flags).await?;
        ensure!(
            said.starts_with("gpu-manager: ") && said.contains(sentence),
            "{flags:?}: {said}"
        );
    }
    Ok(())
}

/// Kyma asks for validated cryptography by a variable. There is none, and only silence about it would be a claim.
#[tokio::test(flavor = "multi_thread")]
async fn asked_for_fips_mode_it_logs_that_nothing_is_validated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let cases: [(&[(&str, &str)], bool); 4] = [
        (&[("KYMA_FIPS_MODE_ENABLED", "true")], true),
        (&[("KYMA_FIPS_MODE_ENABLED", "false")], false),
        (&[("KYMA_FIPS_MODE_ENABLED", "")], false),
        (&[], false),
    ];
    for (variables, warns) in cases {
        // No helm, so the start ends by itself once it has said this.
        let (log, _) = words(folder.path(), &[], variables).await?;
        let said = log.lines().any(|line| {
            line.contains("\"WARN\"") && line.contains("nor its helm uses a validated cryptographic module")
        });
        ensure!(said == warns, "{variables:?}: {log}");
    }
    Ok(())
}
