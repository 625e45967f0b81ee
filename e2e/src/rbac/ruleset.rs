//! A union of RBAC rules that stays small and prints in one order.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;

/// What a right is about: API group, resource, and the one object's name it is
/// limited to, if any.
type Subject = (String, String, Option<String>);

/// A set of rights, as the verbs on each subject.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RuleSet(BTreeMap<Subject, BTreeSet<String>>);

impl RuleSet {
    /// Adds verbs on a resource; `names` empty means all objects.
    pub fn allow(&mut self, group: &str, resource: &str, names: &[&str], verbs: &[&str]) {
        let names: Vec<Option<String>> = if names.is_empty() {
            vec![None]
        } else {
            names.iter().map(|name| Some((*name).to_owned())).collect()
        };
        for name in names {
            self.0
                .entry((group.to_owned(), resource.to_owned(), name))
                .or_default()
                .extend(verbs.iter().map(ToString::to_string));
        }
    }

    /// Adds the rights of another set.
    pub fn join(&mut self, other: &Self) {
        for (subject, verbs) in &other.0 {
            let known = self.0.entry(subject.clone()).or_default();
            known.extend(verbs.iter().cloned());
        }
    }

    /// Adds a rule of a chart's role. Wildcards and rules about URLs are refused:
    /// whether the operator may hold them is for a person to decide.
    pub fn grant(&mut self, rule: &PolicyRule) -> Result<()> {
        ensure!(
            list(rule.non_resource_urls.as_ref()).is_empty(),
            "a rule about URLs cannot be held by the operator"
        );
        let groups = list(rule.api_groups.as_ref());
        let resources = list(rule.resources.as_ref());
        let verbs = list(Some(&rule.verbs));
        for part in groups.iter().chain(&resources).chain(&verbs) {
            ensure!(
                !part.contains('*'),
                "a rule with the wildcard {part:?} cannot be held by the operator"
            );
        }
        self.add(rule);
        Ok(())
    }

    /// Adds a rule as it is.
    pub fn add(&mut self, rule: &PolicyRule) {
        let names = list(rule.resource_names.as_ref());
        let verbs = list(Some(&rule.verbs));
        for group in list(rule.api_groups.as_ref()) {
            for resource in list(rule.resources.as_ref()) {
                self.allow(group, resource, &names, &verbs);
            }
        }
    }

    /// The rights of this set that `other` does not give.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let left = self.0.iter().map(|(subject, verbs)| {
            let missing = verbs.iter().filter(|verb| !other.gives(subject, verb));
            (subject.clone(), missing.cloned().collect::<BTreeSet<String>>())
        });
        Self(left.filter(|(_, verbs)| !verbs.is_empty()).collect())
    }

    /// The rights whose group, resource and verb pass.
    #[must_use]
    pub fn filter(&self, passes: impl Fn(&str, &str, &str) -> bool) -> Self {
        let left = self.0.iter().map(|(subject, verbs)| {
            let (group, resource, _) = subject;
            let left = verbs.iter().filter(|verb| passes(group, resource, verb));
            (subject.clone(), left.cloned().collect::<BTreeSet<String>>())
        });
        Self(left.filter(|(_, verbs)| !verbs.is_empty()).collect())
    }

    /// The same verbs on the same resources, whatever the names of the objects.
    #[must_use]
    pub fn without_names(&self) -> Self {
        let mut all = Self::default();
        for ((group, resource, _), verbs) in &self.0 {
            let known = all.0.entry((group.clone(), resource.clone(), None)).or_default();
            known.extend(verbs.iter().cloned());
        }
        all
    }

    /// Whether this set gives the verb on the subject, by its name or for all names.
    fn gives(&self, subject: &Subject, verb: &str) -> bool {
        let has = |subject| self.0.get(subject).is_some_and(|verbs| verbs.contains(verb));
        has(subject) || has(&(subject.0.clone(), subject.1.clone(), None))
    }

    /// The set as few rules in a fixed order, each list sorted. Resources with equal
    /// verbs share a rule, and so do the names of one resource with equal verbs; a
    /// name is left out where all names are allowed.
    pub fn rules(&self) -> Vec<PolicyRule> {
        let mut joined: BTreeMap<_, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
        for (subject, verbs) in &self.0 {
            let (group, resource, name) = subject;
            let all = (group.clone(), resource.clone(), None);
            let verbs: BTreeSet<&String> = verbs
                .iter()
                .filter(|verb| name.is_none() || !self.gives(&all, verb))
                .collect();
            if !verbs.is_empty() {
                let only = name.as_ref().map(|_| resource);
                let (resources, names) = joined.entry((group, only, verbs)).or_default();
                resources.insert(resource.clone());
                names.extend(name.clone());
            }
        }
        let mut rules: Vec<PolicyRule> = joined
            .into_iter()
            .map(|((group, _, verbs), (resources, names))| PolicyRule {
                api_groups: Some(vec![group.clone()]),
                resources: Some(resources.into_iter().collect()),
                resource_names: (!names.is_empty()).then(|| names.into_iter().collect()),
                verbs: verbs.into_iter().cloned().collect(),
                ..PolicyRule::default()
            })
            .collect();
        rules.sort_by(|a, b| order(a).cmp(&order(b)));
        rules
    }
}

/// What rules are sorted by.
fn order(rule: &PolicyRule) -> impl Ord + '_ {
    (&rule.api_groups, &rule.resources, &rule.resource_names)
}

/// A rule's optional list as strings.
fn list(field: Option<&Vec<String>>) -> Vec<&str> {
    field.map_or_else(Vec::new, |list| list.iter().map(String::as_str).collect())
}
