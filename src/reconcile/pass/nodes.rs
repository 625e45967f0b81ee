//! The steps of a pass that are about nodes: by what they are judged, and their labels.

use super::{Acted, Pass};
use crate::act;
use crate::nodes::NodeRules;
use crate::plan::NodeLabel;

impl Pass<'_> {
    /// By what nodes are judged.
    pub(super) fn node_rules(&self) -> NodeRules<'_> {
        NodeRules {
            spec: self.module.spec.nodes.as_ref(),
            driver: self.desired().ok().map(|desired| &desired.driver),
            matrix: &self.context.catalogue.drivers,
        }
    }

    /// Sets and takes off labels. One that is refused is tried again after a pause of its own and keeps nothing else back: a node that
    /// cannot work is no worse with the label missing than it was.
    pub(super) async fn label_nodes(&mut self, labels: &[NodeLabel]) -> Acted {
        let Some(mandate) = (self.context.mandates)() else {
            return Acted::Interrupted;
        };
        let results = act::nodes::label(&self.context.actor.client, mandate, labels).await;
        let now = self.now();
        for (label, result) in labels.iter().zip(results) {
            let refused = result.err().map(|error| error.to_string());
            if let Some(error) = &refused {
                tracing::warn!(
                    node = label.node,
                    error,
                    "a node keeps its label, or the lack of it"
                );
            }
            self.memory
                .labelled
                .tried(label.clone(), refused, now, fastrand::f64());
        }
        Acted::Done
    }
}
