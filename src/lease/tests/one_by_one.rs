//! One situation each.

use serde_json::json;

use super::{fake::Fault, *};

async fn leader_and_waiting(api: &FakeApi) -> (Replica, Replica) {
    let mut one = Replica::start(api, "one");
    one.until_leading(SECOND).await;
    let mut two = Replica::start(api, "two");
    two.until_waiting_for("one").await;
    (one, two)
}

#[tokio::test(start_paused = true)]
async fn the_first_replica_leads_and_renews_every_ten_seconds() {
    let api = FakeApi::default();
    let mut one = Replica::start(&api, "one");
    one.until_leading(SECOND).await;
    let spec = api.spec().unwrap();
    assert_eq!(spec["holderIdentity"], "one");
    assert_eq!(spec["leaseDurationSeconds"], 30);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);

    let (before, began) = (api.requests(), Instant::now());
    sleep(61 * SECOND).await;
    assert_eq!(api.requests() - before, 6, "one request for each renewal");
    let renewed = api.spec().unwrap();
    assert_eq!(renewed["acquireTime"], spec["acquireTime"]);
    assert_ne!(renewed["renewTime"], spec["renewTime"]);
    assert!(
        one.now().mandate_at(began + 89 * SECOND).is_some(),
        "{:?}",
        one.now()
    );
    assert!(
        one.now().mandate_at(began + 90 * SECOND).is_none(),
        "{:?}",
        one.now()
    );
}

#[tokio::test(start_paused = true)]
async fn a_term_counts_from_the_sending_of_its_write() {
    let api = FakeApi::default();
    let mut one = Replica::start(&api, "one");
    one.link.set(Fault::Late(4 * SECOND));
    let began = Instant::now();
    let Leadership::Leading { until } = one.until_leading(10 * SECOND).await else {
        unreachable!()
    };
    let (waited, term) = (began.elapsed(), until - began);
    assert!(
        waited >= 8 * SECOND,
        "a read and a write of 4 s each took {waited:?}"
    );
    assert!((34 * SECOND..35 * SECOND).contains(&term), "{term:?}");
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let api = FakeApi::default();
    let (mut one, mut two) = leader_and_waiting(&api).await;
    one.release().await.unwrap();
    two.until_leading(3 * SECOND).await;
    assert_eq!(api.spec().unwrap()["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_replica_releases_nothing() {
    let api = FakeApi::default();
    let (one, mut two) = leader_and_waiting(&api).await;
    two.release().await.unwrap();
    assert_eq!(api.holder().as_deref(), Some("one"));
    assert!(one.may_act());
}

#[tokio::test(start_paused = true)]
async fn a_dead_leaders_lease_is_taken_after_its_expiry_and_not_before() {
    let api = FakeApi::default();
    let (mut one, mut two) = leader_and_waiting(&api).await;
    one.crash().await;
    let Leadership::Leading { until } = one.now() else {
        panic!("{:?}", one.now())
    };
    two.until_leading(33 * SECOND).await;
    assert!(Instant::now() >= until);
}

#[tokio::test(start_paused = true)]
async fn a_cut_off_leader_stops_before_another_leads() {
    for fault in [
        Fault::Cut,
        Fault::AnswerLost,
        Fault::Refused(500),
        Fault::Refused(403),
        Fault::Refused(409),
    ] {
        let api = FakeApi::default();
        let (mut one, mut two) = leader_and_waiting(&api).await;
        let Leadership::Leading { until } = one.now() else {
            panic!("{:?}", one.now())
        };
        one.link.set(fault);
        let lost = one
            .until("lost", 21 * SECOND, |state| {
                matches!(state, Leadership::Lost { .. })
            })
            .await;
        assert_eq!(
            lost,
            Leadership::Lost {
                kill_by: until - 2 * SECOND
            },
            "{fault:?}"
        );
        assert_eq!(
            Instant::now(),
            until - 10 * SECOND,
            "{fault:?}: it gave up 20 s after its last renewal"
        );
        two.until_leading(45 * SECOND).await;
        assert!(Instant::now() >= until, "{fault:?}");
        assert!(!one.may_act());
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_nothing() {
    let api = FakeApi::default();
    let (mut one, two) = leader_and_waiting(&api).await;
    one.link.set(Fault::Cut);
    sleep(16 * SECOND).await;
    one.link.set(Fault::None);
    sleep(40 * SECOND).await;
    assert!(one.may_act());
    assert_eq!(
        two.now(),
        Leadership::Waiting {
            holder: Some("one".to_owned())
        }
    );
    one.until_leading(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn refusals_delay_a_start_but_never_end_it() {
    for code in [403, 404, 409, 500] {
        let api = FakeApi::default();
        let mut one = Replica::start(&api, "one");
        one.link.set(Fault::Refused(code));
        sleep(300 * SECOND).await;
        assert_eq!(one.now(), Leadership::Waiting { holder: None }, "HTTP {code}");
        one.link.set(Fault::None);
        one.until_leading(3 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_call_ends_at_its_deadline() {
    let api = FakeApi::default();
    let mut one = Replica::start(&api, "one");
    one.link.set(Fault::Cut);
    sleep(SECOND).await;
    one.link.set(Fault::None);
    let began = Instant::now();
    one.until_leading(10 * SECOND).await;
    assert_eq!(
        began.elapsed(),
        6 * SECOND,
        "4 s left of the call, then 2 s to the next try"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hung_release_ends_at_its_deadline() {
    let api = FakeApi::default();
    let (mut one, _two) = leader_and_waiting(&api).await;
    one.link.set(Fault::Cut);
    let began = Instant::now();
    let error = one.release().await.unwrap_err();
    assert_eq!(began.elapsed(), 5 * SECOND);
    assert!(error.to_string().contains("kyma-system/gpu-manager"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_sees_another_holder_stops_at_once() {
    let api = FakeApi::default();
    let (mut one, _two) = leader_and_waiting(&api).await;
    api.seize("three");
    let lost = one
        .until("lost", 13 * SECOND, |state| {
            matches!(state, Leadership::Lost { .. })
        })
        .await;
    assert_eq!(
        lost,
        Leadership::Lost {
            kill_by: Instant::now()
        }
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_does_not_let_another_in() {
    let api = FakeApi::default();
    let (mut one, two) = leader_and_waiting(&api).await;
    api.delete();
    for _ in 0..60 {
        sleep(SECOND).await;
        assert!(one.may_act() && !two.may_act(), "{:?} {:?}", one.now(), two.now());
    }
    assert_eq!(api.holder().as_deref(), Some("one"));
    one.until_leading(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn wall_clocks_do_not_matter() {
    let epoch = Timestamp::from_second(1_800_000_000).unwrap();
    for skew in [-86_400, 0, 86_400] {
        let api = FakeApi::default();
        // The leader's clock stands still; the other's is a day off.
        let mut one = Replica::start_with_clock(&api, "one", move || epoch);
        one.until_leading(SECOND).await;
        let mut two = Replica::start_with_clock(&api, "two", clock_that_is_off_by(skew));
        for _ in 0..120 {
            sleep(SECOND).await;
            assert!(
                one.may_act() && !two.may_act(),
                "skew {skew}: {:?} {:?}",
                one.now(),
                two.now()
            );
        }
        one.crash().await;
        two.until_leading(33 * SECOND).await;
        assert!(!one.may_act());
    }
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_a_foreign_shape_is_waited_for() {
    // An object written by hand: no times, an empty holder counts as free.
    let api = FakeApi::default();
    let (mut one, _) = leader_and_waiting(&api).await;
    one.crash().await;
    api.seize("");
    assert_eq!(api.spec().unwrap()["holderIdentity"], json!(""));
    let mut three = Replica::start(&api, "three");
    three.until_leading(SECOND).await;
}
