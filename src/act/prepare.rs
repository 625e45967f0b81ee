//! What has to be there before Helm runs: the namespace with the operator's rights in it, and the CRDs.

use std::path::Path;

use super::crds::{self, CrdError, Which};
use super::{ActError, Actor, Subject, namespace};
use crate::catalogue::Chart;
use crate::drift::ObjectRef;
use crate::kube_api::ApiError;

impl Actor {
    /// Makes the namespace where it is to be ours, and gives the operator its rights in it.
    pub(super) async fn open_namespace(&self, subject: &Subject<'_>) -> Result<(), ApiError> {
        // Somebody else's namespace is left as it is until it is known that no release of theirs is in it.
        if subject.namespace_is_ours {
            namespace::make(&self.client).await?;
        }
        namespace::bind_role(&self.client, &self.own_namespace).await?;
        namespace::await_rights(&self.client).await
    }

    /// Has Helm print the chart's CRDs, which an install needs next and which takes it a tenth of a second. What fails here fails
    /// again where it is needed, and is told then.
    pub(super) async fn read_crds_ahead(&self, subject: &Subject<'_>) {
        let Some(chart) = subject.desired.map(|desired| &desired.chart) else {
            return;
        };
        if !self.charts.knows_crds(chart)
            && let Ok(archive) = self.charts.verified(chart)
            && let Ok(documents) = self.helm.show_crds(&archive).await
        {
            self.charts.keep_documents(chart, documents);
        }
    }

    /// Makes the namespace ready for the release, whoever made it.
    pub(super) async fn prepare_namespace(&self, subject: &Subject<'_>) -> Result<(), ApiError> {
        self.open_namespace(subject).await?;
        if !subject.namespace_is_ours {
            namespace::borrow(&self.client).await?;
        }
        Ok(())
    }

    /// Applies the CRDs of the chart that are due. Helm is not asked for them where it is known that none is.
    pub(super) async fn apply_crds(
        &self,
        chart: &Chart,
        archive: &Path,
        subject: &Subject<'_>,
    ) -> Result<(), CrdError> {
        let (present, nfd) = (subject.crds, subject.nfd_crds);
        let known = self.charts.known_crds(chart);
        if known.is_some_and(|known| known.iter().all(|crd| !crd.is_due(present, nfd))) {
            return Ok(());
        }
        let documents = match self.charts.take_documents(chart) {
            Some(documents) => documents,
            None => self.helm.show_crds(archive).await?,
        };
        let known = crds::apply(&self.client, archive, documents, present, Which::Due(nfd)).await?;
        self.charts.remember_crds(chart, known);
        Ok(())
    }

    /// Applies these CRDs of the chart.
    pub(super) async fn restore_crds(
        &self,
        crds: &[ObjectRef],
        subject: &Subject<'_>,
    ) -> Result<(), ActError> {
        let Some(desired) = subject.desired else {
            return Ok(());
        };
        let archive = self.charts.verified(&desired.chart)?;
        let documents = self.helm.show_crds(&archive).await.map_err(CrdError::from)?;
        let which = Which::These(crds);
        crds::apply(&self.client, &archive, documents, subject.crds, which).await?;
        Ok(())
    }
}
