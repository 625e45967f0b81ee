//! What belongs to one pass.

use super::*;

impl World<'_> {
    pub(super) fn begin_pass(&mut self) {
        self.case.failed = false;
        self.done.clear();
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.case.attempts.failed(failure, self.now, 0.5);
        self.case.failed = true;
    }

    /// As a pass judges what it did.
    pub(super) fn is_in_vain(&mut self, plan: &Plan) -> bool {
        let Some(failure) = in_vain(&self.done, plan) else {
            if went_on(&self.done, plan) {
                self.case.attempts.succeeded();
            }
            return false;
        };
        self.done.clear();
        self.fail(failure);
        true
    }
}
