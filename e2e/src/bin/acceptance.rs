//! `make acceptance KUBECONFIG=...`: the demo's path on a real cluster that the user names and confirms.

use std::io::{IsTerminal as _, stdin, stdout};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::acceptance::{self, Options};
use e2e::demo::{IMAGE, Programs, Screen, Steps};
use e2e::interrupt::{self, Signals};
use e2e::tools::Tools;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};

const USAGE: &str = "name the cluster: make acceptance KUBECONFIG=<file>. CUDA_IMAGE=<image> changes the Pod's image, \
    ACCEPT=yes answers the question";

fn main() -> ExitCode {
    interrupt::main(accept())
}

async fn accept() -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // The default of other programs, ~/.kube/config, would be a guess.
    variable("KUBECONFIG").context(USAGE)?;
    let config = Config::from_kubeconfig(&KubeConfigOptions::default())
        .await
        .context("the kubeconfig cannot be used")?;
    let host = config.cluster_url.host().unwrap_or_default().to_owned();

    let mut signals = Signals::listen()?;
    let mut screen = Screen::new(stdout());
    screen.headline("The GPU module on a real cluster");
    screen.say(&format!(
        "Cluster: {}\n\
         A GpuModule is created there, NVIDIA's driver is loaded on its GPU nodes, a GPU Pod runs, and all is \
         removed again.",
        config.cluster_url
    ));
    if variable("ACCEPT").as_deref() != Some("yes") {
        signals.run(confirm(&mut screen, &host)).await?;
    }
    let options = Options {
        namespace: "gpu-acceptance".to_owned(),
        image: variable("CUDA_IMAGE").unwrap_or_else(|| IMAGE.to_owned()),
    };
    let tools = tokio::task::spawn_blocking(Tools::ensure);
    let tools = signals.run(async { tools.await? }).await?;
    let steps = Steps::new(Client::try_from(config)?, Programs::from_environment(tools));
    signals.run(acceptance::check(&steps, &mut screen)).await?;
    signals
        .run(acceptance::run(&steps, &mut screen, &options))
        .await
        .with_context(|| options.say_how_to_remove())?;
    screen.durations();
    screen.headline("ACCEPTED");
    Ok(())
}

/// Asks for the host's name, which nobody types by mistake.
async fn confirm(screen: &mut Screen<'_>, host: &str) -> Result<()> {
    ensure!(
        stdin().is_terminal(),
        "nobody can be asked here: set ACCEPT=yes to go on"
    );
    screen.say(&format!("To go on, type the name of the host, {host}:"));
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        stdin().read_line(&mut answer).map(|_| answer)
    });
    if answer.await??.trim() != host {
        bail!("that is another name; nothing was done");
    }
    Ok(())
}
