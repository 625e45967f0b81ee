//! Opens what needs no Lease: the catalogue, helm, and the client for the API server.

use anyhow::Context as _;
use kube::{Client, Config};

use crate::catalogue::Catalogue;
use crate::config::RunArgs;
use crate::contact::{self, Contacts};
use crate::helm::{self, Helm, Interrupter};
use crate::metrics::Metrics;

/// What is ready before the Lease is asked for.
pub(super) struct Opened {
    /// The charts.
    pub(super) catalogue: Catalogue,
    /// The binary, checked.
    pub(super) helm: Helm,
    /// Stops helm.
    pub(super) interrupter: Interrupter,
    /// Shared by all.
    pub(super) metrics: Metrics,
    /// Notes the answers that `client` gets.
    pub(super) contacts: Contacts,
    /// For the API server.
    pub(super) client: Client,
}

impl Opened {
    /// Fails where the configuration, helm or the cluster's address cannot be used; the cluster is not asked yet.
    pub(super) async fn open(args: &RunArgs) -> anyhow::Result<Self> {
        let mut catalogue = match &args.catalogue_dir {
            Some(folder) => Catalogue::from_folder(folder)?,
            None => Catalogue::compiled_in()?,
        };
        if !args.allowed_registries.is_empty() {
            catalogue
                .defaults
                .allowed_registries
                .clone_from(&args.allowed_registries);
        }
        if let Some(open) = args.open_values()? {
            catalogue.defaults.open_values = Some(open);
        }
        if args.fips_mode {
            tracing::warn!(
                "KYMA_FIPS_MODE_ENABLED is true, but neither this program nor its helm uses a validated cryptographic module"
            );
        }
        let settings = helm::Settings {
            binary: args.helm_binary()?,
            work_dir: args.work_dir.clone(),
            api: args.api_access()?,
            environment: args.helm_environment(),
        };
        let (interrupter, interrupt) = helm::interrupt();
        let helm = Helm::open(settings, interrupt).await?;
        let metrics = Metrics::new();
        let contacts = Contacts::new(metrics.api_requests());
        let client = contact::client(cluster(args).await?, &contacts)?;
        Ok(Self {
            catalogue,
            helm,
            interrupter,
            metrics,
            contacts,
            client,
        })
    }
}

/// The cluster to talk to.
async fn cluster(args: &RunArgs) -> anyhow::Result<Config> {
    let Some(path) = &args.kubeconfig else {
        return Config::incluster().context("the Pod's ServiceAccount cannot be used");
    };
    // The texts of kube's errors hold those of their causes already.
    let unusable = |error: kube::config::KubeconfigError| {
        let text = error.to_string();
        let reason = text.lines().next().unwrap_or_default();
        anyhow::anyhow!("kubeconfig {} cannot be used: {reason}", path.display())
    };
    let kubeconfig = kube::config::Kubeconfig::read_from(path).map_err(unusable)?;
    Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
        .await
        .map_err(unusable)
}
