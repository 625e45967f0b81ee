//! Starting, stopping and watching over the processes of a cluster.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::Api;

use super::{Cluster, Options, Process};
use crate::wait::eventually;

/// How long a control plane may take to start. It takes about three seconds on two cores.
const START_DEADLINE: Duration = Duration::from_mins(2);

/// Pause between two looks at whether the processes still run.
const DEATH_CHECK: Duration = Duration::from_millis(100);

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";

impl Cluster {
    /// Starts everything and waits until it serves.
    pub(super) async fn start_processes(&self, options: Options) -> Result<()> {
        self.run(ETCD, self.components.etcd())?;
        self.start_api_server().await?;
        if options.controllers {
            self.run("kube-controller-manager", self.components.controller_manager()?)?;
        }
        if options.scheduler {
            self.run("kube-scheduler", self.components.scheduler()?)?;
        }
        if options.kwok {
            self.run("kwok", self.components.kwok()?)?;
        }
        if options.controllers {
            self.wait_for_controllers().await?;
        }
        Ok(())
    }

    /// Kills the API server, as a crash would. Its data stays.
    pub fn stop_api_server(&self) {
        let process = self.processes().remove(API_SERVER);
        drop(process);
    }

    /// Starts the API server again, on the same address, and waits until it serves.
    pub async fn start_api_server(&self) -> Result<()> {
        self.run(API_SERVER, self.components.api_server())?;
        self.wait_for("a ready API server", async || {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            self.client.request_text(request).await?;
            Ok(())
        })
        .await
    }

    /// Kills the API server and starts it again.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.stop_api_server();
        self.start_api_server().await
    }

    fn processes(&self) -> MutexGuard<'_, BTreeMap<&'static str, Process>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, name: &'static str, command: Command) -> Result<()> {
        let process = self.spawn(name, command)?;
        self.processes().insert(name, process);
        Ok(())
    }

    /// Waits until the controllers have prepared the namespace `default`; from then on Pods can be created.
    async fn wait_for_controllers(&self) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::default_namespaced(self.client());
        let maps: Api<ConfigMap> = Api::default_namespaced(self.client());
        self.wait_for("the controllers' work in the namespace 'default'", async || {
            accounts.get("default").await?;
            maps.get("kube-root-ca.crt").await?;
            Ok(())
        })
        .await
    }

    /// Waits for a step of the start, but not longer than all processes live.
    async fn wait_for(&self, what: &str, condition: impl AsyncFnMut() -> Result<()>) -> Result<()> {
        let step = eventually(what, START_DEADLINE, condition);
        tokio::select! {
            done = step => done.with_context(|| self.log_tails()),
            death = self.first_death() => Err(death),
        }
    }

    /// Returns once one of the cluster's processes has ended, with the end of its log.
    async fn first_death(&self) -> anyhow::Error {
        loop {
            if let Err(death) = self
                .processes()
                .values_mut()
                .try_for_each(Process::ensure_running)
            {
                return death;
            }
            tokio::time::sleep(DEATH_CHECK).await;
        }
    }

    fn log_tails(&self) -> String {
        let processes = self.processes();
        let tails = processes
            .iter()
            .map(|(name, process)| format!("{name}:\n{}", process.log_tail()));
        format!(
            "the cluster did not start; its logs end so:\n{}",
            tails.collect::<Vec<_>>().join("\n")
        )
    }
}
