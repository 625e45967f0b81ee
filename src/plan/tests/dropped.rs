//! Which values of a release are lost with its adoption.

use serde_json::Value;

use super::by_hand::{DEPLOYED, guide, map, merged};
use super::*;

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
