//! What is told of worker pools, and what their nodes make of the state.

use super::*;
use crate::api::{MAX_POOLS, MAX_PROBLEMS, NodeProblem, WorkerPoolStatus};
use crate::facts::fixtures::{DRIVER_IMAGE, daemon_sets, pod, ready_pods};
use crate::facts::{DriverChange, OperandPod, OperandPods, Part, PodState};

/// A release on these nodes, with all of NVIDIA's DaemonSets and these Pods.
fn case(nodes: Vec<NodeFacts>, pods: Vec<OperandPod>) -> Case {
    let mut case = Case::deployed(nodes);
    case.observed.daemon_sets = daemon_sets();
    case.observed.operand_pods = Some(OperandPods::new(pods));
    case
}

/// Pods of which the driver's has no image.
fn without_image(node: &str) -> Vec<OperandPod> {
    let missing = PodState::ImageMissing {
        image: DRIVER_IMAGE.into(),
        is_absent: true,
    };
    vec![
        pod(node, Part::Driver, missing),
        pod(node, Part::Toolkit, PodState::Starting),
    ]
}

fn of_pool(mut node: NodeFacts, pool: &str) -> NodeFacts {
    node.pool = Some(pool.to_owned());
    node
}

fn pools(case: &Case) -> Vec<WorkerPoolStatus> {
    case.compute().status.worker_pools
}

/// Reason, number of nodes and their names.
fn told(problem: &NodeProblem) -> (&str, u32, String) {
    (&problem.reason, problem.nodes, problem.names.join(","))
}

#[test]
fn a_pull_secret_that_is_missing_is_named_as_the_cause() {
    let refused = |is_absent| PodState::ImageMissing {
        image: DRIVER_IMAGE.into(),
        is_absent,
    };
    let mut case = case(vec![node("a", 0)], vec![pod("a", Part::Driver, refused(false))]);
    let todo = |case: &Case| pools(case)[0].problems[0].message.clone();
    assert!(case.observed.may_lack_images());
    assert!(!todo(&case).contains("create Secret"), "nobody has looked");
    case.observed.missing_pull_secrets = Some(vec!["mirror".to_owned(), "other".to_owned()]);
    assert_eq!(
        todo(&case),
        "the driver image cannot be pulled without Secret mirror: create Secret mirror, which spec.images.pullSecrets names, in \
         namespace gpu-operator"
    );
    case.now = NOW + LATER;
    let description = case.compute().status.description;
    assert!(description.contains("create Secret mirror"), "{description}");
    // The registry knows that there is no such image.
    case.observed.operand_pods = Some(OperandPods::new(vec![pod("a", Part::Driver, refused(true))]));
    assert!(!todo(&case).contains("create Secret"));
    // NVIDIA's controller has the same pull Secrets, and no Pod of it is seen.
    case.observed.policies.clear();
    let description = case.compute().status.description;
    assert!(description.contains("create Secret mirror"), "{description}");
}

#[test]
fn nobody_looks_for_pull_secrets_where_all_runs() {
    let mut case = case(vec![node("a", 1)], ready_pods("a"));
    case.observed.controller_runs = true;
    assert!(!case.observed.may_lack_images());
    case.observed.controller_runs = false;
    assert!(case.observed.may_lack_images());
    case.observed.release = ReleaseFacts::Read(crate::facts::History::default());
    assert!(!case.observed.may_lack_images(), "nothing is installed");
}

#[test]
fn a_pool_tells_what_its_nodes_have_in_common() {
    let mut first = node("a", 4);
    first.gpu.product = Some("Tesla-T4-SHARED".to_owned());
    first.gpu.driver_version = Some("580.178.04".to_owned());
    first.gpu.cuda_version = Some("13.0".to_owned());
    first.gpu.sharing_strategy = Some("time-slicing".to_owned());
    first.gpu.replicas = Some(4);
    let mut second = node("b", 4);
    second.gpu.sharing_strategy = Some("none".to_owned());
    second.gpu.replicas = Some(1);
    second.allocatable = 0;
    let mut alone = node("c", 1);
    alone.pool = None;
    let pods = [ready_pods("a"), without_image("b"), ready_pods("c")].concat();
    let pools = pools(&case(vec![first, second, alone], pods));
    insta::assert_yaml_snapshot!(pools);
}

#[test]
fn a_missing_image_is_a_warning_at_once_that_names_it_also_where_no_node_is_left() {
    let mut case = case(
        vec![node("a", 1), node("b", 0)],
        [ready_pods("a"), without_image("b")].concat(),
    );
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverImageMissing");
    let image = DRIVER_IMAGE;
    assert!(status.description.contains(image), "{}", status.description);
    assert_eq!(status.worker_pools[0].problems[0].image.as_deref(), Some(image));
    assert_eq!(
        (status.worker_pools[0].nodes, status.worker_pools[0].usable),
        (2, 1)
    );
    case.observed.gpu_nodes.remove(0);
    assert_eq!(case.state(), State::Warning, "a user can act");
    // Where another try may help, there is some time.
    let state = PodState::ImageMissing {
        image: DRIVER_IMAGE.into(),
        is_absent: false,
    };
    case.observed.operand_pods = Some(OperandPods::new(vec![pod("b", Part::Driver, state)]));
    assert_eq!(case.state(), State::Processing);
    case.wait();
    assert!(case.now < NOW + STARTING_LIMIT);
    assert_eq!(case.state(), State::Warning);
}

#[test]
fn each_image_that_is_missing_is_named() {
    let missing = |node: &str, image: &str| {
        let state = PodState::ImageMissing {
            image: image.into(),
            is_absent: true,
        };
        pod(node, Part::DevicePlugin, state)
    };
    let mut pods = [ready_pods("a"), ready_pods("b")].concat();
    pods.retain(|pod| pod.part != Part::DevicePlugin);
    pods.extend([missing("a", "m/plugin:1"), missing("b", "m/plugin:2")]);
    let case = case(vec![node("a", 0), node("b", 0)], pods);
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning, "a user can put them there");
    assert_eq!(case.reason(ConditionType::OperandsReady), "DevicePluginNotReady");
    for (node, image) in [("a", "m/plugin:1"), ("b", "m/plugin:2")] {
        let words = format!("is not ready, since its image {image} cannot be pulled ({node}), put it");
        assert!(status.description.contains(&words), "{}", status.description);
    }
    assert_eq!(status.worker_pools[0].problems.len(), 2);
}

#[test]
fn the_driver_images_are_shown_before_they_are_asked_for() {
    let mut case = case(
        vec![node("a", 1), node("b", 1), of_pool(node("c", 1), "own")],
        ["a", "b", "c"].map(ready_pods).concat(),
    );
    case.observed.gpu_nodes[1].system.kernel = "6.18.41-cloud-amd64".to_owned();
    case.observed.gpu_nodes[2].has_own_driver = true;
    let spec = serde_json::from_value(json!({ "driver": { "branch": 590 } })).unwrap();
    let catalogue = Catalogue::compiled_in().unwrap();
    case.desired = crate::desired::resolve(&spec, &catalogue, crate::api::NodeFeatureDiscovery::Module, &[]);
    let images = |pool: usize| pools(&case)[pool].driver_images.clone();
    let image = |kernel: &str| {
        format!(
            "ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:590-{kernel}-cloud-amd64-gardenlinux0"
        )
    };
    assert_eq!(images(0), [image("6.18.38"), image("6.18.41")]);
    assert_eq!(images(1), Vec::<String>::new());
}

#[test]
fn a_driver_that_never_starts_is_an_error_after_its_time_where_no_node_is_left() {
    let looping = |restarts| vec![pod("a", Part::Driver, PodState::CrashLoop { restarts })];
    let mut case = case(vec![node("a", 0)], looping(1));
    assert_eq!(case.state(), State::Processing);
    assert_eq!(case.reason(ConditionType::OperandsReady), "RollingOut");
    let description = case.compute().status.description;
    assert!(
        description.contains("being set up: the driver ends again and again (a)"),
        "{description}"
    );
    case.wait();
    assert_eq!(case.state(), State::Error);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverCrashLoop");
    // Five minutes of pauses need no further proof.
    case.now = NOW;
    case.observed.operand_pods = Some(OperandPods::new(looping(4)));
    assert_eq!(case.state(), State::Error);
}

#[test]
fn nodes_for_which_there_is_no_driver_are_a_warning_and_keep_nobody_back() {
    let mut foreign = of_pool(node("b", 0), "ubuntu");
    foreign.system.os_image = "Ubuntu 24.04.2 LTS".to_owned();
    let mut case = case(vec![node("a", 1), foreign], ready_pods("a"));
    let status = case.compute().status;
    assert_eq!(status.state, State::Warning);
    assert_eq!(status.gpu_nodes.summary, "1/2");
    assert_eq!(
        case.reason(ConditionType::OperandsReady),
        "ForeignOperatingSystem"
    );
    assert_eq!(case.reason(ConditionType::Configured), "Configured");
    assert_eq!(
        told(&status.worker_pools[1].problems[0]),
        ("ForeignOperatingSystem", 1, "b".to_owned())
    );
    case.observed.gpu_nodes.remove(0);
    assert_eq!(case.state(), State::Warning, "it is no failure of the module");
}

#[test]
fn nodes_that_the_spec_leaves_out_are_no_warning_and_do_not_count() {
    let mut case = case(
        vec![node("a", 1), of_pool(node("b", 0), "tests")],
        ready_pods("a"),
    );
    case.nodes = Some(serde_json::from_value(json!({ "exclude": ["tests"] })).unwrap());
    let status = case.compute().status;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Ready, "1/1")
    );
    assert_eq!(
        told(&status.worker_pools[1].problems[0]),
        ("Excluded", 1, "b".to_owned())
    );
    case.observed.gpu_nodes.remove(0);
    assert_eq!(case.state(), State::Ready);
    assert!(case.compute().status.description.contains("left out"));
}

#[test]
fn several_causes_are_told_together() {
    let mut cordoned = node("c", 1);
    cordoned.schedulable = false;
    let pods = [ready_pods("a"), without_image("b"), ready_pods("c")].concat();
    let case = case(vec![node("a", 1), node("b", 0), cordoned], pods);
    assert_eq!(case.reason(ConditionType::OperandsReady), "NodesNotUsable");
    let description = case.compute().status.description;
    assert!(
        description.starts_with(&format!(
            "2 of 3 GPU nodes cannot be used: the driver image {DRIVER_IMAGE} cannot be pulled (b), choose"
        )),
        "{description}"
    );
    assert!(
        description.ends_with(
            "; the node is cordoned, so that no Pod can start there (c), run kubectl uncordon for each"
        ),
        "{description}"
    );
}

#[test]
fn an_image_that_nobody_knows_is_shown_before_the_rollout_and_not_once_it_runs() {
    let mut newer = node("a", 1);
    newer.system.os_image = "Garden Linux 2222.0.0".to_owned();
    let mut case = case(vec![newer], ready_pods("a"));
    assert_eq!(pools(&case)[0].problems, []);
    let spec = serde_json::from_value(json!({ "driver": { "branch": 590 } })).unwrap();
    case.desired = crate::desired::resolve(
        &spec,
        &Catalogue::compiled_in().unwrap(),
        crate::api::NodeFeatureDiscovery::Module,
        &[],
    );
    let problems = &pools(&case)[0].problems;
    assert_eq!(told(&problems[0]), ("DriverImageUnknown", 1, "a".to_owned()));
    let image = problems[0].image.as_deref().unwrap();
    assert!(
        image.ends_with("/driver:590-6.18.38-cloud-amd64-gardenlinux0"),
        "{image}"
    );
    // Without a release nothing else is told: everything is missing everywhere.
    case.observed.release = fixtures::history(&[], "f");
    case.observed.operand_pods = Some(OperandPods::default());
    case.observed.gpu_nodes[0].allocatable = 0;
    assert_eq!(pools(&case)[0].problems.len(), 1);
}

#[test]
fn a_node_that_joins_or_goes_does_not_flap_the_state() {
    let mut young = node("b", 0);
    young.created = NOW + LATER;
    let mut going = node("c", 1);
    going.schedulable = false;
    going.leaving = true;
    let mut case = case(vec![node("a", 1), young, going], ready_pods("a"));
    case.now = NOW + LATER;
    let status = case.compute().status;
    assert_eq!(
        (status.state, status.gpu_nodes.summary.as_str()),
        (State::Ready, "1/2")
    );
    assert_eq!(
        told(&status.worker_pools[0].problems[0]),
        ("Starting", 1, "b".to_owned())
    );
    assert_eq!(status.worker_pools[0].problems.len(), 1);
    case.observed.gpu_nodes.truncate(1);
    case.observed.gpu_nodes[0].leaving = true;
    assert_eq!(case.reason(ConditionType::OperandsReady), "NoGpuNodes");
    assert_eq!(pools(&case), []);
}

#[test]
fn a_driver_change_is_shown_as_a_rolling_operation() {
    let mut under_way = node("b", 1);
    under_way.driver_change = Some(DriverChange::UnderWay);
    under_way.schedulable = false;
    let mut waiting = node("c", 1);
    waiting.driver_change = Some(DriverChange::Waiting);
    let pods = ["a", "b", "c"].map(ready_pods).concat();
    let case = case(vec![node("a", 1), under_way, waiting], pods);
    assert_eq!(case.reason(ConditionType::OperandsReady), "DriverRollingOut");
    assert_eq!(
        case.compute().status.description,
        "the driver is being replaced node by node, 1 of 3 done (b cordoned for it); 2 of 3 GPU nodes can be used"
    );
    assert_eq!(
        told(&pools(&case)[0].problems[0]),
        ("UpgradeInProgress", 1, "b".to_owned())
    );
}

#[test]
fn pods_that_cannot_be_seen_are_said_and_nothing_is_guessed() {
    let mut case = Case::deployed(vec![node("a", 1)]);
    case.observed.operand_pods = None;
    assert_eq!(case.state(), State::Processing, "the RoleBinding is young");
    assert_eq!(case.status_of(ConditionType::OperandsReady), "Unknown");
    assert_eq!(case.reason(ConditionType::OperandsReady), "Forbidden");
    case.wait();
    assert_eq!(case.state(), State::Error);
}

#[test]
fn the_status_does_not_grow_with_the_number_of_nodes() {
    let cluster = |nodes: usize, pools: usize| {
        let name = |number: usize| format!("shoot--project--cluster-gpu-z1-{number:05}-abcde");
        let make = |number: usize| {
            let mut node = of_pool(node(&name(number), 0), &format!("pool-{:03}", number % pools));
            node.system.kernel = format!("6.18.{number}-cloud-amd64");
            node.system.os_image = format!("Garden Linux 2150.{number}.0");
            node.instance_type = Some(format!("g4dn.{number}xlarge"));
            node
        };
        let missing = |number: usize| {
            let image =
                format!("ghcr.io/gardenlinux/gardenlinux-nvidia-installer/1.17.0/driver:580-6.18.{number}");
            let state = PodState::ImageMissing {
                image: image.into(),
                is_absent: true,
            };
            let mut pod = pod(&name(number), Part::Driver, state);
            pod.driver = None;
            pod
        };
        let case = case((0..nodes).map(make).collect(), (0..nodes).map(missing).collect());
        let status = case.compute().status;
        let told = status.worker_pools.len();
        assert_eq!(
            (told, status.more_worker_pools as usize),
            (pools.min(MAX_POOLS), pools.saturating_sub(MAX_POOLS))
        );
        assert!(
            status
                .worker_pools
                .iter()
                .all(|pool| pool.problems.len() <= MAX_PROBLEMS)
        );
        serde_json::to_string(&status).unwrap().len()
    };
    let (some, many) = (cluster(1_000, 60), cluster(5_000, 60));
    assert!(many < some + 4_000, "{some} and {many} bytes");
    assert!(many < 200_000, "{many} bytes");
}

#[test]
fn pools_with_problems_go_first_where_not_all_fit() {
    let mut nodes: Vec<_> = (0..60)
        .map(|number| of_pool(node(&format!("n{number:02}"), 1), &format!("p{number:02}")))
        .collect();
    let pods = (0..60)
        .flat_map(|number| ready_pods(&format!("n{number:02}")))
        .collect();
    nodes[59].schedulable = false;
    let pools = pools(&case(nodes, pods));
    assert_eq!(pools.len(), MAX_POOLS);
    assert_eq!(pools[MAX_POOLS - 1].name, "p59");
    assert!(pools.is_sorted_by_key(|pool| pool.name.clone()));
}
