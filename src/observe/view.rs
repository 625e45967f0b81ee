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
    facts: BTreeMap<Key, F>,
    /// Facts of a list under way; they replace the others when it is complete.
    listing: BTreeMap<Key, F>,
}

/// Facts by object, shared between the watch that fills them and the reconciler that reads them.
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

/// What an object is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    name: String,
    namespace: Option<String>,
}

impl Key {
    fn of(object: &impl ResourceExt) -> Self {
        Self {
            name: object.name_any(),
            namespace: object.namespace(),
        }
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

    /// The facts that `fit`, in the order of names.
    pub fn select(&self, fits: impl Fn(&F) -> bool) -> Vec<F> {
        self.read(|collected| {
            let all = collected.facts.values();
            all.filter(|facts| fits(facts)).cloned().collect()
        })
    }

    /// All facts, taken together without a copy of them.
    pub fn fold<T>(&self, begin: T, add: impl FnMut(T, &F) -> T) -> T {
        self.read(|collected| collected.facts.values().fold(begin, add))
    }

    /// All facts by name, for views of a kind without namespaces or of one namespace.
    pub fn by_name(&self) -> BTreeMap<String, F> {
        self.read(|collected| {
            let named = collected.facts.iter();
            named
                .map(|(key, facts)| (key.name.clone(), facts.clone()))
                .collect()
        })
    }

    /// The facts of that name, for the same views.
    pub fn get(&self, name: &str) -> Option<F> {
        self.read(|collected| {
            let mut named = collected.facts.iter();
            named
                .find(|(key, _)| key.name == name)
                .map(|(_, facts)| facts.clone())
        })
    }

    /// Whether there is an object of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.read(|collected| collected.facts.keys().any(|key| key.name == name))
    }

    /// Takes in one event; true where the facts, or the access to them, are others now.
    pub fn take_in<K: ResourceExt>(&self, event: Event<K>, reduce: impl Fn(&K) -> Option<F>) -> bool {
        self.write(|collected| match event {
            Event::Init => {
                collected.listing.clear();
                false
            }
            Event::InitApply(object) => {
                if let Some(facts) = reduce(&object) {
                    collected.listing.insert(Key::of(&object), facts);
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
                let key = Key::of(&object);
                match reduce(&object) {
                    Some(facts) if collected.facts.get(&key) == Some(&facts) => false,
                    Some(facts) => {
                        collected.facts.insert(key, facts);
                        true
                    }
                    None => collected.facts.remove(&key).is_some(),
                }
            }
            Event::Delete(object) => collected.facts.remove(&Key::of(&object)).is_some(),
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
