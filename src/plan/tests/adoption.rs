//! Releases of the module's name that somebody else made.

use serde_json::{Map, Value};

use super::*;
use crate::facts::{ExistingContent, ExistingRelease};

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no map"),
    }
}

/// Defaults of the wanted chart, as far as they matter here.
fn defaults() -> Map<String, Value> {
    map(json!({
        "driver": { "enabled": true, "usePrecompiled": false, "repository": "nvcr.io/nvidia", "version": "595.91.07",
            "nvidiaDriverCRD": { "enabled": false, "deployDefaultCR": true },
            "upgradePolicy": { "autoUpgrade": true, "gpuPodDeletion": { "force": false } },
            "kernelModuleConfig": { "name": "" } },
        "mig": { "strategy": "single" },
        "toolkit": { "enabled": true },
    }))
}

/// The values file of the Garden Linux NVIDIA installer 1.17.0.
fn guide() -> Value {
    let rule = json!({
        "name": "gardenlinux-version",
        "labelsTemplate": "{{ range .system.osrelease }}feature.node.kubernetes.io/system-os_release.VERSION_ID=0{{ end }}",
        "matchFeatures": [],
    });
    json!({
        "cdi": { "enabled": true, "default": true },
        "toolkit": { "installDir": "/opt/nvidia" },
        "driver": { "imagePullPolicy": "Always", "usePrecompiled": true, "version": "590",
            "repository": "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0" },
        "node-feature-discovery": { "worker": { "config": { "sources": { "custom": [rule] } } } },
    })
}

fn merged(mut values: Map<String, Value>, over: &Map<String, Value>) -> Map<String, Value> {
    for (key, over) in over {
        let value = match (values.get(key), over) {
            (Some(Value::Object(old)), Value::Object(new)) => Value::Object(merged(old.clone(), new)),
            _ => over.clone(),
        };
        values.insert(key.clone(), value);
    }
    values
}

fn content(chart: &str, values: Value) -> ExistingContent {
    let values = map(values);
    ExistingContent {
        chart_version: chart.parse().unwrap(),
        all_values: merged(defaults(), &values),
        values,
        defaults: defaults(),
    }
}

impl Case {
    /// A release of that chart and those values that somebody made by hand, its newest revision in that status.
    fn by_hand(chart: &str, values: Value, statuses: &[RevisionStatus]) -> Self {
        let mut case = Self::ours(statuses);
        case.recorded = None;
        case.finalizer = false;
        for number in (1..).take(statuses.len()) {
            case.change(number, |revision| {
                *revision = Revision {
                    fingerprint: None,
                    by: None,
                    meant: None,
                    chart: None,
                    layout: None,
                    ..revision.clone()
                };
            });
        }
        case.read(chart, values);
        case
    }

    fn read(&mut self, chart: &str, values: Value) {
        let ReleaseFacts::Read(history) = &self.observed.release else {
            panic!("unreadable")
        };
        let running = history.last_good().or_else(|| history.latest()).unwrap();
        self.observed.existing = Some(std::sync::Arc::new(ExistingRelease {
            uid: running.uid.clone(),
            revision: running.number,
            wanted_chart: "26.7.0".parse().unwrap(),
            content: Some(content(chart, values)),
        }));
    }

    fn dropped(&self) -> Vec<String> {
        match self.plan() {
            Plan::Hold(Hold::Unadopted(unadopted)) => unadopted.listing().unwrap().dropped.clone(),
            plan => panic!("{plan:?}"),
        }
    }

    /// What the status says after this plan, and a later generation in which the user answers.
    fn told(mut self, adopt: bool) -> Self {
        let Plan::Hold(Hold::Unadopted(unadopted)) = self.plan() else {
            panic!("{:?}", self.plan())
        };
        let listing = unadopted.listing().unwrap();
        self.listed = Some(AdoptionStatus {
            chart_version: listing.chart_version.to_string(),
            revision: i64::from(listing.revision),
            dropped_values: listing.dropped.clone(),
            more_dropped_values: u32::try_from(listing.more).unwrap(),
            listed_generation: (!self.adopt).then_some(self.generation),
        });
        self.generation += 1;
        self.adopt = adopt;
        self.finalizer = true;
        self
    }

    /// The newest revision was compared too.
    fn compared_as(self, chart: &str) -> Self {
        let mut case = self.compared(1, json!({}));
        let comparison = case.observed.comparison.as_mut().unwrap();
        comparison.content = Some(RevisionContent {
            chart_version: chart.parse().unwrap(),
            values_digest: "theirs".to_owned(),
        });
        case
    }

    fn adopting(mut self) -> Self {
        self.adopt = true;
        self.finalizer = true;
        self
    }

    fn reason(&self) -> &'static str {
        held(self).reason()
    }
}

const DEPLOYED: &[RevisionStatus] = &[RevisionStatus::Deployed];

fn adopt(chart: &str, layout: DriverLayout, drivers: DriverUpgrades) -> Plan {
    Plan::Act(Action::Upgrade {
        to: step(chart, layout, drivers),
        cause: Cause::Adopt,
    })
}

#[test]
fn it_is_read_before_anything_is_said_of_it_and_nothing_is_changed() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
    let read = case.observed.existing.take();
    assert_eq!(case.plan(), Plan::Inspect { revision: 1 });
    case.observed.existing = read;
    assert_eq!(case.reason(), "ReleaseNotAdopted");
    assert!(!case.finalizer, "a GpuModule that goes no further is let go");
    case.deleting = true;
    assert_eq!(case.plan(), Plan::Keep);

    // The chart that is wanted is another one now: other defaults, another list.
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
    case.desired = resolve(json!({ "chartVersion": "26.3.3" }));
    assert_eq!(case.plan(), Plan::Inspect { revision: 1 });
}

#[test]
fn what_took_the_place_of_the_modules_release_is_not_the_modules_whatever_was_recorded() {
    let mut case = Case::by_hand("26.7.0", guide(), DEPLOYED);
    case.recorded = Some(recorded(1));
    assert_eq!(case.reason(), "ReleaseNotAdopted");
    case.suspended = true;
    assert_eq!(case.reason(), "ReleaseNotAdopted", "suspension does not hide it");
    case.deleting = true;
    case.finalizer = true;
    assert_eq!(
        case.plan(),
        Plan::Act(Action::RemoveFinalizer),
        "it is not uninstalled"
    );
}

#[test]
fn of_the_garden_linux_guide_only_another_driver_is_lost() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
    assert_eq!(case.dropped(), ["driver.version"]);
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    assert_eq!(case.dropped(), Vec::<String>::new());
    // Its first release had no release in the path of the images.
    let path = "ghcr.io/gardenlinux/gardenlinux-nvidia-installer";
    let old = json!({ "driver": { "usePrecompiled": true, "version": "590", "repository": path } });
    case.read("26.3.3", old);
    assert_eq!(case.dropped(), ["driver.repository"]);
}

#[test]
fn a_value_is_kept_where_the_module_the_spec_or_the_chart_has_it_too() {
    let dropped = |values: Value, spec: Value| {
        let mut case = Case::by_hand("26.3.3", merged(map(guide()), &map(values)).into(), DEPLOYED);
        case.desired = resolve(merged(map(json!({ "driver": { "branch": 590 } })), &map(spec)).into());
        case.dropped()
    };
    let none = Vec::<String>::new();
    assert_eq!(
        dropped(json!({ "mig": { "strategy": "mixed" } }), json!({})),
        ["mig.strategy"]
    );
    assert_eq!(
        dropped(json!({ "mig": { "strategy": "single" } }), json!({})),
        none
    );
    let mixed = json!({ "mig": { "strategy": "mixed" } });
    assert_eq!(dropped(mixed.clone(), json!({ "values": mixed })), none);

    // Lists that the module adds to.
    let taint = json!({ "key": "gpu", "operator": "Exists" });
    let tolerations = json!({ "daemonsets": { "tolerations": [taint] } });
    assert_eq!(
        dropped(tolerations.clone(), json!({})),
        ["daemonsets.tolerations"]
    );
    assert_eq!(
        dropped(tolerations.clone(), json!({ "values": tolerations })),
        none
    );

    // What the module says in the NVIDIADriver.
    let policy = |pods: Value| json!({ "driver": { "upgradePolicy": { "gpuPodDeletion": pods } } });
    assert_eq!(
        dropped(
            policy(json!({ "force": false, "timeoutSeconds": 300.0 })),
            json!({})
        ),
        none
    );
    assert_eq!(
        dropped(policy(json!({ "force": true })), json!({})),
        ["driver.upgradePolicy.gpuPodDeletion.force"]
    );
    let module =
        json!({ "driver": { "kernelModuleConfig": { "name": "mine" }, "kernelModuleType": "auto" } });
    assert_eq!(dropped(module, json!({})), ["driver.kernelModuleConfig.name"]);
    // `null` takes a default away.
    assert_eq!(
        dropped(json!({ "toolkit": { "enabled": null } }), json!({})),
        ["toolkit.enabled"]
    );
    assert_eq!(dropped(json!({ "nothing": null }), json!({})), none);
}

#[test]
fn a_driver_that_came_from_the_charts_defaults_counts_too() {
    let plain = Case::by_hand("26.3.3", json!({}), DEPLOYED);
    assert_eq!(
        plain.dropped(),
        ["driver.repository", "driver.usePrecompiled", "driver.version"]
    );
    let mut preinstalled = Case::by_hand("26.3.3", json!({ "driver": { "enabled": false } }), DEPLOYED);
    assert!(preinstalled.dropped().contains(&"driver.enabled".to_owned()));
    preinstalled.desired = resolve(json!({ "driver": { "mode": "Preinstalled" } }));
    assert_eq!(preinstalled.dropped(), Vec::<String>::new());
    let mut object = guide();
    object["driver"]["nvidiaDriverCRD"] = json!({ "enabled": true });
    let object = Case::by_hand("26.7.0", object, DEPLOYED);
    assert!(
        object
            .dropped()
            .contains(&"driver.nvidiaDriverCRD.enabled".to_owned()),
        "another NVIDIADriver takes the place of its own"
    );
}

#[test]
fn it_is_taken_over_when_the_user_asks_for_it_after_the_list_was_shown() {
    let asked_later = Case::by_hand("26.3.3", guide(), DEPLOYED)
        .told(true)
        .compared_as("26.3.3");
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(asked_later.plan(), first);

    let asked_at_once = Case::by_hand("26.3.3", guide(), DEPLOYED).adopting();
    assert_eq!(asked_at_once.reason(), "AdoptionNotConfirmed");
    let changed_meanwhile = asked_at_once.told(true);
    assert_eq!(
        changed_meanwhile.reason(),
        "AdoptionNotConfirmed",
        "another change of the spec confirms nothing"
    );
    let taken_back = changed_meanwhile.told(false);
    assert_eq!(taken_back.reason(), "ReleaseNotAdopted");
    assert_eq!(taken_back.told(true).compared_as("26.3.3").plan(), first);
}

#[test]
fn only_what_was_listed_is_confirmed() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED).told(true);
    let mut more = guide();
    more["mig"] = json!({ "strategy": "mixed" });
    case.read("26.3.3", more);
    assert_eq!(case.reason(), "AdoptionNotConfirmed");

    // Of what is past the end of the list only the number is known.
    let many: Map<String, Value> = (0..60).map(|i| (format!("key{i:02}"), json!(i))).collect();
    let mut case = Case::by_hand("26.3.3", Value::Object(many.clone()), DEPLOYED).told(true);
    let listed = case.listed.clone().unwrap();
    assert_eq!(
        (listed.dropped_values.len(), listed.more_dropped_values),
        (50, 13)
    );
    case.observed.comparison = None;
    assert_eq!(case.plan(), Plan::Compare, "confirmed");
    let mut more = many;
    more.insert("key99".to_owned(), json!(1));
    case.read("26.3.3", Value::Object(more));
    assert_eq!(case.reason(), "AdoptionNotConfirmed");
}

#[test]
fn with_nothing_to_lose_one_yes_is_enough() {
    let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED)
        .adopting()
        .compared_as("26.3.3");
    case.desired = resolve(json!({ "driver": { "branch": 590 } }));
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(case.plan(), first);
    case.finalizer = false;
    assert_eq!(case.plan(), Plan::Act(Action::AddFinalizer));
    case.suspended = true;
    assert_eq!(held(&case), Hold::Suspended);
    case.suspended = false;
    case.desired = resolve(json!({ "chartVersion": "1.0.0" }));
    assert!(matches!(held(&case), Hold::Refused(_)));
}

#[test]
fn the_way_begins_with_what_the_release_has_not_with_what_its_chart_usually_has() {
    let from = |chart: &str| {
        Case::by_hand(chart, guide(), DEPLOYED)
            .told(true)
            .compared_as(chart)
    };
    let held_policy = |chart| adopt(chart, DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(from("25.10.0").plan(), held_policy("26.3.3"));
    assert_eq!(from("26.3.1").plan(), held_policy("26.7.0"));
    let moves = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::Held);
    assert_eq!(
        from("26.7.0").plan(),
        moves,
        "the guide's driver is in the ClusterPolicy"
    );
    assert_eq!(from("25.3.4").reason(), "UpgradePathRefused");
    assert!(
        held(&from("25.3.4"))
            .to_string()
            .contains("a 25.10 chart with Helm first")
    );
    assert_eq!(from("26.7.1").reason(), "DowngradeRefused");
}

#[test]
fn between_the_steps_of_an_adoption_the_new_controller_is_waited_for() {
    let mut case = Case::by_hand(
        "26.3.3",
        guide(),
        &[RevisionStatus::Superseded, RevisionStatus::Deployed],
    );
    case.adopt = true;
    case.finalizer = true;
    case.change_latest(|latest| {
        latest.by = Some("gpu-manager-0".to_owned());
        latest.meant = Some(2);
        latest.chart = Some("26.7.0".parse().unwrap());
        latest.layout = Some(DriverLayout::ClusterPolicy);
    });
    assert!(
        matches!(
            case.plan(),
            Plan::Wait {
                why: Wait::Step { .. },
                ..
            }
        ),
        "{:?}",
        case.plan()
    );
}

#[test]
fn a_release_that_is_as_wanted_is_marked_as_the_modules() {
    let desired = resolve(json!({})).unwrap();
    let case = Case::by_hand("26.7.0", desired.values, DEPLOYED);
    assert_eq!(
        case.dropped(),
        Vec::<String>::new(),
        "its NVIDIADriver is the module's"
    );
    let wanted = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(case.told(true).compared(1, json!({})).plan(), wanted);
}

#[test]
fn one_that_is_not_deployed_goes_by_the_rules_for_the_modules_own() {
    let good = RevisionStatus::Superseded;
    let of = |statuses: &[RevisionStatus]| Case::by_hand("26.3.3", guide(), statuses).told(true);
    let first = adopt("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(
        of(&[RevisionStatus::Deployed, RevisionStatus::Failed]).plan(),
        first
    );
    let none_worked = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(of(&[RevisionStatus::Failed]).plan(), none_worked);
    for status in [RevisionStatus::PendingUpgrade, RevisionStatus::Uninstalling] {
        let case = of(&[good, status]);
        let until = NOW + FOREIGN_OPERATION_LIMIT;
        let waits = Plan::Wait {
            until,
            why: Wait::ForeignOperation(status),
        };
        assert_eq!(case.plan(), waits);
        let to = if status.is_pending() { 1 } else { 2 };
        let freed = Plan::Act(Action::Rollback { to, found: status });
        assert_eq!(case.plan_at(until), freed);
        let mut not_asked = case;
        not_asked.adopt = false;
        assert_eq!(held_at(&not_asked, until).reason(), "ReleaseNotAdopted");
    }
}

fn held_at(case: &Case, now: Timestamp) -> Hold {
    match case.plan_at(now) {
        Plan::Hold(hold) => hold,
        plan => panic!("{plan:?}"),
    }
}

#[test]
fn after_a_first_step_that_failed_the_way_still_begins_with_what_the_release_has() {
    let mut case = Case::by_hand(
        "26.3.3",
        guide(),
        &[RevisionStatus::Deployed, RevisionStatus::Failed],
    );
    case.adopt = true;
    case.finalizer = true;
    case.change_latest(|latest| {
        latest.by = Some("gpu-manager-0".to_owned());
        latest.meant = Some(2);
        latest.chart = Some("26.7.0".parse().unwrap());
    });
    let to = step("26.7.0", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    let cause = Cause::Retry;
    assert_eq!(case.plan(), Plan::Act(Action::Upgrade { to, cause }));
    // Another process has not read it yet.
    case.observed.existing = None;
    assert_eq!(case.plan(), Plan::Inspect { revision: 1 });
    case.change_latest(|latest| latest.status = RevisionStatus::PendingUpgrade);
    assert_eq!(case.plan(), Plan::Inspect { revision: 1 });
    case.read("26.3.3", guide());
    let why = Obstacle::AnotherLine;
    assert_eq!(case.plan(), Plan::Act(Action::Discard { revision: 2, why }));
}

fn latest_uid(case: &Case) -> String {
    let ReleaseFacts::Read(history) = &case.observed.release else {
        panic!("unreadable")
    };
    history.latest().unwrap().uid.clone()
}

#[test]
fn one_that_helm_cannot_decode_is_left_alone() {
    for adopt in [false, true] {
        let mut case = Case::by_hand("26.3.3", guide(), DEPLOYED);
        case.adopt = adopt;
        case.observed.existing = Some(std::sync::Arc::new(ExistingRelease {
            uid: latest_uid(&case),
            revision: 1,
            wanted_chart: "26.7.0".parse().unwrap(),
            content: None,
        }));
        assert_eq!(held(&case), Hold::Foreign(Foreign::Undecodable { revision: 1 }));
    }
}

#[test]
fn objects_whose_secrets_are_gone_are_installed_over_when_the_user_asks_for_it() {
    let mut case = Case::new();
    case.observed.surroundings.as_mut().unwrap().cluster_role = Some(Some(owner(RELEASE_NAME)));
    assert_eq!(case.reason(), "ReleaseUnrecorded");
    case.observed.policies = vec![fixtures::policy(Some(owner(RELEASE_NAME)), None)];
    assert_eq!(case.reason(), "ReleaseUnrecorded");
    let mut asked = case.adopting();
    let unknown = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::AsConfigured);
    assert_eq!(asked.plan(), unknown);
    // The chart that made them, with the driver where it is, and then on from there.
    asked.observed.policies[0].chart = Some("26.3.3".parse().unwrap());
    let again = adopt("26.3.3", DriverLayout::ClusterPolicy, DriverUpgrades::Held);
    assert_eq!(asked.plan(), again);
    asked.observed.policies[0].chart = Some("26.7.0".parse().unwrap());
    let moves = adopt("26.7.0", DriverLayout::NvidiaDriver, DriverUpgrades::Held);
    assert_eq!(asked.plan(), moves);
    asked.observed.policies[0].owner = None;
    assert_eq!(asked.reason(), "UnmanagedStack");
}
