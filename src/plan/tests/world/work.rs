//! What runs on the GPUs.

use super::*;

impl World<'_> {
    /// GPU nodes run that driver, and a Pod may use one of them.
    pub fn uses_gpus(&mut self, driver: DriverId, busy: bool) {
        self.case.observed.gpu_nodes = vec![fixtures::node("gpu-0", 1)];
        (self.nodes_run, self.busy) = (Some(driver), busy);
    }

    /// A Pod uses a GPU of the module's, whose removal has not begun.
    pub fn is_protected(&self) -> bool {
        self.busy && self.nodes_run.is_some() && self.case.removal.is_none()
    }

    pub(super) fn look_for_work(&mut self) {
        let pod = GpuPod {
            namespace: "team".to_owned(),
            name: "train".to_owned(),
            node: "gpu-0".to_owned(),
        };
        let pods = self.busy.then_some(pod).into_iter().collect();
        self.case.observed.gpu_work = Some(WorkFacts::Read(pods));
    }

    /// The driver changes on the nodes, unless it is held.
    pub(super) fn roll(&mut self, to: &Step) {
        if to.drivers == DriverUpgrades::AsConfigured {
            let wanted = self.case.desired.as_ref().ok().or(self.case.stand_in.as_ref());
            let wanted = &wanted.unwrap().driver_id;
            let busy = self.busy && !self.case.deleting;
            let interrupts = busy && self.nodes_run.as_ref().is_some_and(|driver| driver != wanted);
            assert!(!interrupts, "running work is interrupted: {:#?}", self.told);
            self.nodes_run = self.nodes_run.is_some().then(|| wanted.clone());
        }
    }
}
