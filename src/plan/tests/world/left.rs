//! What a release leaves behind, and what the status says of an operation that has begun.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::api::{Operation, OperationKind, Outcome};
use crate::facts::{Left, Leftover, Remedy, Surroundings};

impl World<'_> {
    pub(super) fn read_left(&mut self, what: Leavings) {
        let leftover = Leftover {
            object: ObjectRef::crd("left"),
            uid: String::new(),
            remedy: match what {
                Leavings::Pods => Remedy::Wait,
                _ => Remedy::Delete,
            },
        };
        let around = self.case.observed.surroundings.as_ref();
        let remains = match what {
            Leavings::Release => around.is_some_and(Surroundings::has_role_of_module_release),
            what => self.remains.contains(&what),
        };
        let left = Left {
            objects: remains.then_some(leftover).into_iter().collect(),
            stays: Vec::new(),
        };
        self.case.observed.left.insert(what, left);
    }

    /// It is done, or strikes keep it from that.
    pub(super) fn clear(&mut self, what: Leavings, objects: &[Leftover]) -> Result<(), Strike> {
        let strike = self.strike();
        if matches!(strike, Strike::None | Strike::Hollow) {
            for leftover in objects {
                self.case.refused.note(what, leftover, None, self.now, 0.5);
            }
        }
        match strike {
            Strike::Hollow => Ok(()),
            Strike::None => {
                self.remains.remove(&what);
                if what == Leavings::Release {
                    let around = self.case.observed.surroundings.as_mut().unwrap();
                    around.cluster_role = None;
                }
                if what == Leavings::Namespace {
                    let around = self.case.observed.surroundings.as_mut().unwrap();
                    around.namespace = SurroundingNamespace::Absent;
                }
                Ok(())
            }
            strike => Err(strike),
        }
    }
}

pub(super) fn begun(action: &Action, newest: Option<u32>) -> Option<Operation> {
    let (operation, revision) = match action {
        Action::Upgrade { .. } => (OperationKind::Upgrade, newest.map_or(1, |newest| newest + 1)),
        Action::Rollback { .. } => (OperationKind::Rollback, newest.map_or(1, |newest| newest + 1)),
        Action::Uninstall { .. } => (OperationKind::Uninstall, newest?),
        _ => return None,
    };
    Some(Operation {
        time: Time(NOW),
        operation,
        from: None,
        to: None,
        revision: Some(i64::from(revision)),
        outcome: Outcome::Running,
        message: String::new(),
    })
}
