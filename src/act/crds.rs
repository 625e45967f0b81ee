//! Applies the CRDs of a chart and its subchart before Helm runs.
//!
//! Helm never updates CRDs, and NVIDIA's hook that does needs a schedulable node. Server-side apply with force leaves no
//! conflict with whoever applied them before. Nothing is sent where the same spec is already there.

use std::collections::BTreeMap;
use std::path::Path;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::api::{
    ANNOTATION_SPEC_DIGEST, ANNOTATION_SPEC_GENERATION, FIELD_MANAGER, KYMA_MODULE, LABEL_KYMA_MODULE,
};
use crate::desired::digest;
use crate::drift::ObjectRef;
use crate::facts::CrdFacts;
use crate::helm::HelmError;
use crate::kube_api::{self, API_DEADLINE, ApiError, deadline};
use crate::plan::NfdCrds;

use super::established;

/// CRDs that are sent at once. The API server takes them up one by one, and each connection has to be made first.
const AT_ONCE: usize = 3;

/// Why CRDs are not applied.
#[derive(Debug, thiserror::Error)]
pub enum CrdError {
    /// The chart's CRDs cannot be read.
    #[error("the CRDs in chart archive {archive} cannot be read: {reason}")]
    Unreadable {
        /// File name of the archive.
        archive: String,
        /// What is wrong with them.
        reason: String,
    },
    /// Helm cannot print them.
    #[error(transparent)]
    Helm(#[from] HelmError),
    /// The API server refuses one.
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The API server has one and does not serve it.
    #[error("CRD {0} is not served after {secs} s, look at its conditions", secs = established::LIMIT.as_secs())]
    NotEstablished(String),
}

/// A CRD as a chart brings it.
#[derive(Debug)]
struct Crd {
    known: KnownCrd,
    spec: Value,
}

/// What is kept of a CRD of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCrd {
    name: String,
    spec_digest: String,
}

impl KnownCrd {
    /// Whether it has to be applied. `present` are the CRDs of the cluster.
    pub fn is_due(&self, present: &BTreeMap<String, CrdFacts>, nfd: NfdCrds) -> bool {
        let present = present.get(&self.name);
        let as_wanted = present.is_some_and(|present| {
            present.spec_digest.as_ref() == Some(&self.spec_digest) && present.as_applied
        });
        nfd.includes(&self.name, present) && !as_wanted
    }
}

/// Which CRDs of the chart are applied.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those that are not there yet in this form; of Node Feature Discovery's, those that count.
    Due(NfdCrds),
    /// These.
    These(&'a [ObjectRef]),
}

/// Applies CRDs of the chart, and returns all that the chart has. `documents` is what `helm show crds` prints of it, `present` are the
/// CRDs of the cluster.
pub async fn apply(
    client: &Client,
    archive: &Path,
    documents: String,
    present: &BTreeMap<String, CrdFacts>,
    which: Which<'_>,
) -> Result<Vec<KnownCrd>, CrdError> {
    let unreadable = |reason| CrdError::Unreadable {
        archive: archive
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        reason,
    };
    let mut crds = parse(&documents).map_err(unreadable)?;
    drop(documents);
    let known = crds.iter().map(|crd| crd.known.clone()).collect();
    match which {
        Which::Due(nfd) => crds.retain(|crd| crd.known.is_due(present, nfd)),
        Which::These(these) => {
            if let Some(strange) = these
                .iter()
                .find(|crd| crds.iter().all(|own| own.known.name != crd.name))
            {
                return Err(unreadable(format!("{} is not among them", strange.name)));
            }
            crds.retain(|crd| these.iter().any(|this| this.name == crd.known.name));
        }
    }
    let names: Vec<String> = crds.iter().map(|crd| crd.known.name.clone()).collect();
    let sends = crds.into_iter().map(|crd| {
        let before = present.get(&crd.known.name);
        apply_one(client, crd, before.map_or(1, |before| before.generation + 1))
    });
    let sends: Vec<_> = sends.collect();
    let sent = stream::iter(sends).buffer_unordered(AT_ONCE).try_collect::<()>();
    let served = async {
        established::until(client, names)
            .await
            .map_err(CrdError::NotEstablished)
    };
    tokio::try_join!(sent, served)?;
    Ok(known)
}

/// `generation` is the one that the spec will have, unless somebody else writes it at the same time.
async fn apply_one(client: &Client, crd: Crd, generation: i64) -> Result<(), CrdError> {
    let Crd { known, spec } = crd;
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": known.name,
            "labels": { LABEL_KYMA_MODULE: KYMA_MODULE },
            "annotations": {
                ANNOTATION_SPEC_DIGEST: known.spec_digest,
                ANNOTATION_SPEC_GENERATION: generation.to_string(),
            },
        },
        "spec": spec,
    });
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    let applied = kube_api::apply(&api, &known.name, &object).await?;
    note_generation(&api, &known.name, &applied).await?;
    tracing::info!(crd = known.name, "CRD applied");
    Ok(())
}

/// Notes on the CRD which generation of its spec is ours, if it is another one than expected. Each write of a CRD takes the API server
/// up to a fifth of a second while it takes up others.
async fn note_generation(
    api: &Api<CustomResourceDefinition>,
    name: &str,
    applied: &ObjectMeta,
) -> Result<(), ApiError> {
    let generation = applied.generation.unwrap_or_default().to_string();
    let noted = applied
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_SPEC_GENERATION));
    if noted == Some(&generation) {
        return Ok(());
    }
    let patch =
        Patch::Merge(json!({ "metadata": { "annotations": { ANNOTATION_SPEC_GENERATION: generation } } }));
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let what = format!("annotate CustomResourceDefinition {name}");
    deadline(API_DEADLINE, what, api.patch_metadata(name, &params, &patch)).await?;
    Ok(())
}

/// Reads the documents that `helm show crds` prints.
fn parse(documents: &str) -> Result<Vec<Crd>, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(documents).map_err(|error| error.to_string())?;
    let crds = documents
        .into_iter()
        .filter(|document| !document.is_null())
        .map(|mut document| {
            let name = document["metadata"]["name"].as_str().map(ToOwned::to_owned);
            let name = name.ok_or("one of them has no name")?;
            if document["kind"] != "CustomResourceDefinition" {
                return Err(format!("{name} is no CustomResourceDefinition"));
            }
            let spec = document["spec"].take();
            let known = KnownCrd {
                name,
                spec_digest: digest([spec.to_string().as_bytes()]),
            };
            Ok(Crd { known, spec })
        });
    crds.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::fixtures::crd as crd_facts;

    const DOCUMENTS: &str = "---\n---\nkind: CustomResourceDefinition\nmetadata: {name: a.nvidia.com}\nspec: {group: nvidia.com}\n---\nkind: CustomResourceDefinition\nmetadata: {name: b.nfd.k8s-sigs.io}\nspec: {group: nfd.k8s-sigs.io}\n";

    #[test]
    fn documents_become_crds_with_digests() {
        let crds = parse(DOCUMENTS).unwrap();
        assert_eq!(
            crds.iter().map(|crd| crd.known.name.as_str()).collect::<Vec<_>>(),
            ["a.nvidia.com", "b.nfd.k8s-sigs.io"]
        );
        assert_ne!(crds[0].known.spec_digest, crds[1].known.spec_digest);
        assert!(
            parse("kind: ConfigMap\nmetadata: {name: x}\n")
                .unwrap_err()
                .contains("x is no")
        );
        assert!(
            parse("kind: CustomResourceDefinition\n")
                .unwrap_err()
                .contains("no name")
        );
        assert!(parse("a: [").is_err());
    }

    #[test]
    fn only_what_is_missing_or_other_is_sent() {
        let [nvidia, nfd] = <[Crd; 2]>::try_from(parse(DOCUMENTS).unwrap()).unwrap();
        let (nvidia, nfd) = (nvidia.known, nfd.known);
        let with = |crd: &KnownCrd, spec_digest: Option<&str>| {
            BTreeMap::from([(crd.name.clone(), crd_facts(spec_digest))])
        };
        for (crd, whose) in [
            (&nvidia, NfdCrds::All),
            (&nvidia, NfdCrds::None),
            (&nfd, NfdCrds::All),
            (&nfd, NfdCrds::Own),
        ] {
            assert!(crd.is_due(&BTreeMap::new(), whose));
            assert!(!crd.is_due(&with(crd, Some(&crd.spec_digest)), whose));
            assert!(crd.is_due(&with(crd, Some("older")), whose));
            let in_others_use = crd.name == nfd.name && whose == NfdCrds::Own;
            assert_eq!(crd.is_due(&with(crd, None), whose), !in_others_use);
        }
        for present in [BTreeMap::new(), with(&nfd, None), with(&nfd, Some("older"))] {
            assert!(!nfd.is_due(&present, NfdCrds::None), "{present:?}");
        }
    }
}
