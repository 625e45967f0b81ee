//! What is cleaned up: the GpuModule as it is, or one that stands for it where it is gone already.

use anyhow::{bail, ensure};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DeserializeGuard;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Duration, sleep};

use crate::api::{DeletionSpec, FINALIZER, GpuModule, MODULE_NAME};
use crate::config::CleanupArgs;
use crate::kube_api::{API_DEADLINE, ApiError, deadline, found};
use crate::observe;

/// Looks, a fifth of a second apart, until a GpuModule without finalizers is gone.
const LOOKS: u32 = 25;

/// The GpuModule, where there is one.
pub(super) struct Subject(Option<Box<GpuModule>>);

impl Subject {
    /// Reads it. Its CRD may be gone too.
    pub(super) async fn find(client: &Client) -> Result<Self, ApiError> {
        let modules = Api::<DeserializeGuard<GpuModule>>::all(client.clone());
        let what = format!("read GpuModule {MODULE_NAME}");
        let read = found(deadline(API_DEADLINE, what, modules.get(MODULE_NAME)).await)?;
        let readable = match read {
            None => None,
            Some(DeserializeGuard(Ok(module))) => Some(module),
            Some(DeserializeGuard(Err(_))) => observe::read_readable(client, MODULE_NAME).await?,
        };
        Ok(Self(readable.map(Box::new)))
    }

    /// True where there is a GpuModule.
    pub(super) const fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Fails for a GpuModule that nobody has deleted: its module is wanted.
    pub(super) fn ensure_may_go(&self) -> anyhow::Result<()> {
        let living = |module: &GpuModule| module.metadata.deletion_timestamp.is_none();
        if self.0.as_deref().is_some_and(living) {
            bail!(
                "GpuModule {MODULE_NAME} is not being deleted; delete it first: kubectl delete gpumodule {MODULE_NAME} --wait=false"
            );
        }
        Ok(())
    }

    /// The GpuModule as the removal takes it: being deleted, with the module's finalizer, and with what the command line asks for.
    pub(super) fn as_going(&self, wishes: CleanupArgs, now: Timestamp) -> GpuModule {
        // No object of the API server has this UID and this version, so whatever is written to it by mistake is refused.
        let nobody = || GpuModule {
            metadata: ObjectMeta {
                name: Some(MODULE_NAME.to_owned()),
                uid: Some("gone".to_owned()),
                resource_version: Some("1".to_owned()),
                ..ObjectMeta::default()
            },
            ..GpuModule::default()
        };
        let mut module = self.0.as_deref().cloned().unwrap_or_else(nobody);
        module.metadata.deletion_timestamp.get_or_insert(Time(now));
        if !module.finalizers().iter().any(|name| name == FINALIZER) {
            module.finalizers_mut().push(FINALIZER.to_owned());
        }
        let deletion = module.spec.deletion.get_or_insert_with(DeletionSpec::default);
        deletion.workloads = wishes.workloads().or(deletion.workloads);
        deletion.crds = wishes.crds().or(deletion.crds);
        module
    }

    /// Waits until the GpuModule is gone; other finalizers than the module's are somebody else's affair.
    pub(super) async fn ensure_is_gone(&self, client: &Client) -> anyhow::Result<()> {
        for _ in 0..LOOKS {
            let Self(Some(module)) = Self::find(client).await? else {
                return Ok(());
            };
            let others = module.finalizers();
            ensure!(
                others.is_empty(),
                "GpuModule {MODULE_NAME} is still there because of finalizers that are not the module's: {}",
                others.join(", ")
            );
            sleep(Duration::from_millis(200)).await;
        }
        bail!("GpuModule {MODULE_NAME} is still there")
    }
}
