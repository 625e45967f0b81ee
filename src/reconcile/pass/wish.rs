//! A spec and the release that it asks for, which belong together on every step of the way.

use std::borrow::Cow;

use crate::api::{GpuModule, GpuModuleSpec, NodeFeatureDiscovery};
use crate::catalogue::Catalogue;
use crate::desired::{self, Desired, Refusal, Step};
use crate::helm::RELEASE_FLAGS;

/// A spec and the release that it asks for.
pub(super) struct Wish<'a> {
    spec: Cow<'a, GpuModuleSpec>,
    pub(super) desired: Desired,
}

impl<'a> Wish<'a> {
    fn new(
        spec: Cow<'a, GpuModuleSpec>,
        catalogue: &Catalogue,
        nfd: NodeFeatureDiscovery,
    ) -> Result<Self, Refusal> {
        let desired = desired::resolve(&spec, catalogue, nfd, RELEASE_FLAGS)?;
        Ok(Self { spec, desired })
    }

    /// That of the GpuModule; and if it is refused and the GpuModule is going, another one by which a removal lets Helm know again what
    /// stands: any release will do for that.
    pub(super) fn of(
        module: &'a GpuModule,
        catalogue: &Catalogue,
        nfd: NodeFeatureDiscovery,
    ) -> (Result<Self, Refusal>, Option<Self>) {
        let wanted = Self::new(Cow::Borrowed(&module.spec), catalogue, nfd);
        let needs_another = wanted.is_err() && module.metadata.deletion_timestamp.is_some();
        let any = || Self::new(Cow::Owned(GpuModuleSpec::default()), catalogue, nfd).ok();
        (wanted, needs_another.then(any).flatten())
    }

    /// The release of a step on the way; `None` for the last one, which is the release itself.
    pub(super) fn on_the_way(&self, catalogue: &Catalogue, to: &Step) -> Result<Option<Desired>, Refusal> {
        if *to == self.desired.step {
            return Ok(None);
        }
        let nfd = self.desired.node_feature_discovery;
        desired::resolve_step(&self.spec, catalogue, nfd, to, RELEASE_FLAGS).map(Some)
    }
}
