//! Watches what the release consists of, as metadata: one watch per kind, begun when a manifest names the kind and ended when
//! none does any more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Resource as KubeResource;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::kinds::{Kinds, Served};
use super::reduce;
use super::view::{Access, View};
use super::watch::Watched;
use crate::api::LABEL_MANAGED_BY;
use crate::contact::Resource;
use crate::drift::{Kind, Manifest, Mark, ObjectRef};
use crate::facts::Seen;

/// How soon a kind that is not served is asked for again, besides after each change that the operator makes.
const NOT_SERVED_PAUSE: Duration = Duration::from_secs(15);

/// A kind, and the namespace where the manifest names one.
type Place = (Kind, Option<String>);

#[derive(Debug)]
struct Followed {
    view: View<Mark>,
    _stop: DropGuard,
}

/// The watches of the release's objects; clones share them.
#[derive(Clone, Debug)]
pub struct ObjectViews {
    kinds: Kinds,
    watched: Watched,
    tracker: TaskTracker,
    stop: CancellationToken,
    followed: Arc<Mutex<BTreeMap<Place, Followed>>>,
}

impl ObjectViews {
    /// Watches nothing yet. All watches run on `tracker` and end with `stop`.
    pub fn new(kinds: Kinds, watched: Watched, tracker: &TaskTracker, stop: &CancellationToken) -> Self {
        Self {
            kinds,
            watched,
            tracker: tracker.clone(),
            stop: stop.clone(),
            followed: Arc::default(),
        }
    }

    /// How kinds are served.
    pub fn kinds(&self) -> Kinds {
        self.kinds.clone()
    }

    /// Watches exactly these kinds from now on.
    pub fn follow(&self, places: &BTreeSet<Place>) {
        let mut followed = self.followed();
        followed.retain(|place, _| places.contains(place));
        for place in places {
            followed
                .entry(place.clone())
                .or_insert_with(|| self.begin(place.clone()));
        }
    }

    /// What the watches see of the objects; left out where a watch has not been answered or is refused.
    pub fn see(&self, manifest: &Manifest) -> BTreeMap<ObjectRef, Seen> {
        let followed = self.followed();
        let see = |object: &ObjectRef| {
            let place = (object.kind.clone(), object.namespace.clone());
            let view = &followed.get(&place)?.view;
            let seen = match view.access() {
                Access::Granted => view.get(&object.name).map_or(Seen::Absent, Seen::Marked),
                Access::NotServed => Seen::Absent,
                Access::Unknown | Access::Forbidden => return None,
            };
            Some((object.clone(), seen))
        };
        manifest.refs().filter_map(see).collect()
    }

    fn begin(&self, place: Place) -> Followed {
        let (view, stop) = (View::default(), self.stop.child_token());
        let task = self.clone().watch(place, view.clone(), stop.clone());
        self.tracker.spawn(task);
        Followed {
            view,
            _stop: stop.drop_guard(),
        }
    }

    async fn watch(self, (kind, namespace): Place, view: View<Mark>, stop: CancellationToken) {
        let served = stop.run_until_cancelled(self.served(&kind, &view)).await;
        let Some(served) = served else {
            return;
        };
        let namespace = namespace.as_deref();
        let resource = Resource::new(
            &served.resource.group,
            &served.resource.plural,
            served.namespace(namespace),
        );
        let api = served.api::<PartialObjectMeta<DynamicObject>>(self.kinds.client(), namespace);
        // An object that loses the label leaves the watch, which is as good as a change.
        let of_helm = watcher::Config::default().labels(&format!("{LABEL_MANAGED_BY}=Helm"));
        let watching = self
            .watched
            .clone()
            .run(api, of_helm, resource.clone(), view, mark);
        stop.run_until_cancelled(watching).await;
        self.watched.contacts.forget(&resource);
    }

    /// Waits until the kind is served.
    async fn served(&self, kind: &Kind, view: &View<Mark>) -> Served {
        loop {
            match self.kinds.resolve(kind).await {
                Ok(Some(served)) => return served,
                Ok(None) => {
                    if view.refuse(Access::NotServed) {
                        self.watched.tell();
                    }
                }
                Err(error) => tracing::warn!(%error, "objects of this kind are not watched yet"),
            }
            tokio::select! {
                () = tokio::time::sleep(NOT_SERVED_PAUSE) => {}
                () = self.watched.retry.notified() => {}
            }
        }
    }

    fn followed(&self) -> MutexGuard<'_, BTreeMap<Place, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object of the release; others may have charts of their own.
fn mark(object: &PartialObjectMeta<DynamicObject>) -> Option<Mark> {
    let ours = reduce::owner(object.meta()).is_some_and(|owner| owner.is_module_release());
    ours.then(|| Mark::of(object.meta()))
}
