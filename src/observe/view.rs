//! Facts that one watch has collected.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use kube::ResourceExt;
use kube::runtime::watcher::Event;

/// Whether the API server lets the operator see the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It has not answered yet.
    #[default]
    Unknown,
    /// It has listed them.
    Granted,
    /// It has refused to show them (403).
    Forbidden,
    /// There is no such kind (404).
    NotServed,
}

#[derive(Debug)]
struct Collected<F> {
    access: Access,
    facts: BTreeMap<String, F>,
    /// Facts of a list under way; they replace the others when it is complete.
    listing: BTreeMap<String, F>,
}

/// Facts by object name, shared between the watch that fills them and the reconciler that reads them.
#[derive(Debug)]
pub struct View<F>(Arc<RwLock<Collected<F>>>);

impl<F> Clone for View<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> Default for View<F> {
    fn default() -> Self {
        let collected = Collected {
            access: Access::default(),
            facts: BTreeMap::new(),
            listing: BTreeMap::new(),
        };
        Self(Arc::new(RwLock::new(collected)))
    }
}

impl<F: Clone + PartialEq> View<F> {
    /// Whether the objects can be seen.
    pub fn access(&self) -> Access {
        self.read(|collected| collected.access)
    }

    /// All facts, in the order of names.
    pub fn all(&self) -> Vec<F> {
        self.read(|collected| collected.facts.values().cloned().collect())
    }

    /// All facts by name.
    pub fn by_name(&self) -> BTreeMap<String, F> {
        self.read(|collected| collected.facts.clone())
    }

    /// The facts of that name.
    pub fn get(&self, name: &str) -> Option<F> {
        self.read(|collected| collected.facts.get(name).cloned())
    }

    /// Whether there is an object of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.read(|collected| collected.facts.contains_key(name))
    }

    /// Takes in one event; true where the facts, or the access to them, are others now.
    pub fn take_in<K: ResourceExt>(&self, event: Event<K>, reduce: impl Fn(&K) -> Option<F>) -> bool {
        self.write(|collected| match event {
            Event::Init => {
                collected.listing.clear();
                false
            }
            Event::InitApply(object) => {
                let name = object.name_any();
                if let Some(facts) = reduce(&object) {
                    collected.listing.insert(name, facts);
                }
                false
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut collected.listing);
                let changed = collected.access != Access::Granted || collected.facts != listed;
                collected.access = Access::Granted;
                collected.facts = listed;
                changed
            }
            Event::Apply(object) => {
                let name = object.name_any();
                match reduce(&object) {
                    Some(facts) if collected.facts.get(&name) == Some(&facts) => false,
                    Some(facts) => {
                        collected.facts.insert(name, facts);
                        true
                    }
                    None => collected.facts.remove(&name).is_some(),
                }
            }
            Event::Delete(object) => collected.facts.remove(&object.name_any()).is_some(),
        })
    }

    /// Forgets everything, since the API server does not show the objects; true where that is news.
    pub fn refuse(&self, access: Access) -> bool {
        self.write(|collected| {
            let changed = collected.access != access || !collected.facts.is_empty();
            collected.access = access;
            collected.facts.clear();
            collected.listing.clear();
            changed
        })
    }

    fn read<T>(&self, look: impl FnOnce(&Collected<F>) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Collected<F>) -> T) -> T {
        change(&mut self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
