//! [`Helm`] against fake binaries: shell scripts that answer as helm does.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::testing::install_script;
use super::*;

mod errors;
mod interrupts;
mod left_over;
mod opening;
mod values_file;

/// A folder with a fake helm in it. Its script sees the folder as `$DIR` and helm's arguments as they are.
struct Fake {
    dir: TempDir,
}

impl Fake {
    /// A helm 4.3.1 that does what `script` says for every other command.
    fn new(script: &str) -> Self {
        Self::with_version("printf v4.3.1", script)
    }

    /// A helm that answers `helm version` by a script too.
    fn with_version(version: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let text = format!(
            "#!/bin/sh\nDIR={}\nif [ \"$1\" = version ]; then\n{version}\nexit\nfi\n{script}\n",
            dir.path().display()
        );
        install_script(&dir.path().join("helm"), &text);
        Self { dir }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    fn write(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("a file for the fake helm");
    }

    async fn makes(&self, name: &str) {
        testing::until(&format!("the fake helm makes {name}"), || {
            self.file(name).exists()
        })
        .await;
    }

    fn settings(&self) -> Settings {
        settings(self.dir.path())
    }

    async fn try_open(&self) -> Result<(Helm, Interrupter), OpenError> {
        let (interrupter, interrupt) = interrupt();
        Ok((Helm::open(self.settings(), interrupt).await?, interrupter))
    }

    async fn open(&self) -> (Helm, Interrupter) {
        self.try_open().await.expect("a usable helm")
    }
}

fn settings(dir: &Path) -> Settings {
    Settings {
        binary: dir.join("helm"),
        work_dir: dir.join("work"),
        api: ApiAccess::InCluster {
            host: "10.0.0.1".into(),
            port: "443".into(),
        },
        environment: Vec::new(),
    }
}

fn release() -> ReleaseRef {
    ReleaseRef {
        name: "gpu-operator".into(),
        namespace: "gpu-namespace".into(),
    }
}

async fn upgrade(helm: &Helm, values: &Value) -> Result<Finished, HelmError> {
    let options = UpgradeOptions {
        labels: std::collections::BTreeMap::new(),
        description: "test".into(),
        history_max: 5,
        timeout: Duration::from_mins(1),
    };
    helm.upgrade_install(&release(), Path::new("/charts/c.tgz"), values, &options)
        .await
}

async fn uninstall(helm: &Helm) -> Result<Option<Finished>, HelmError> {
    let options = UninstallOptions {
        no_hooks: false,
        timeout: Duration::from_mins(1),
    };
    helm.uninstall(&release(), &options).await
}

async fn rollback(helm: &Helm) -> Result<Finished, HelmError> {
    let options = RollbackOptions {
        history_max: 5,
        timeout: Duration::from_mins(1),
    };
    helm.rollback(&release(), 1, &options).await
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o7777
}
