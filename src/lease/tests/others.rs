//! A process that is no replica beside those that are.

use super::{fake::Fault, *};

async fn lookout(api: &FakeApi) -> Lookout {
    Lookout::begin(api.client().0, "cleanup").await.unwrap()
}

fn sign(holder: &str, namespace: &str) -> SignOfLife {
    SignOfLife {
        holder: holder.to_owned(),
        namespace: namespace.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_one_who_renews_is_seen_wherever_its_lease_is() {
    let api = FakeApi::default();
    api.write("gpu-manager", "living", 1);
    api.write(HOME, "dead", 1);
    let lookout = lookout(&api).await;
    let places = lookout.places();
    let holders: Vec<_> = places
        .iter()
        .map(|place| place.holder.as_deref().unwrap())
        .collect();
    assert_eq!(holders, ["living", "dead"]);

    let watched = timeout(60 * SECOND, lookout.sign_of_life(Timing::default())).await;
    assert!(watched.is_err(), "nobody has renewed anything: {watched:?}");
    api.write("gpu-manager", "living", 11);
    let watched = timeout(60 * SECOND, lookout.sign_of_life(Timing::default())).await;
    assert_eq!(watched.unwrap(), sign("living", "gpu-manager"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_taken_later_is_seen_and_the_own_one_is_not() {
    let api = FakeApi::default();
    api.write("elsewhere", "", 1);
    let lookout = lookout(&api).await;
    let mut own = Replica::start(&api, "cleanup");
    own.until_leading(SECOND).await;
    sleep(20 * SECOND).await;
    assert_eq!(lookout.look().await.unwrap(), None);

    api.write("gpu-manager", "reinstalled", 1);
    assert_eq!(
        lookout.look().await.unwrap(),
        Some(sign("reinstalled", "gpu-manager"))
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_no_sign_of_life_and_no_silence() {
    let api = FakeApi::default();
    let (client, link) = api.client();
    let lookout = Lookout::begin(client, "cleanup").await.unwrap();
    link.set(Fault::Refused(403));
    assert!(lookout.look().await.is_err());
    let watched = timeout(60 * SECOND, lookout.sign_of_life(Timing::default())).await;
    assert!(watched.is_err(), "{watched:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_removed_only_as_it_was_given_back() {
    let api = FakeApi::default();
    let mut one = Replica::start(&api, "one");
    one.until_leading(SECOND).await;
    one.handle.take().unwrap().release_and_remove().await.unwrap();
    assert_eq!(api.spec(), None);

    // Another one takes it between the release and the removal.
    let mut one = Replica::start(&api, "one");
    one.until_leading(SECOND).await;
    let (mut requests, taker) = (0, api.clone());
    one.link.vary(move || {
        requests += 1;
        // After the read and the write of the release.
        if requests == 3 {
            taker.seize("two");
        }
        Fault::None
    });
    one.handle.take().unwrap().release_and_remove().await.unwrap();
    assert_eq!(api.holder().as_deref(), Some("two"));

    // And what another one holds already is not touched at all.
    let mut three = Replica::start(&api, "three");
    three.until_waiting_for("two").await;
    three.handle.take().unwrap().release_and_remove().await.unwrap();
    assert_eq!(api.holder().as_deref(), Some("two"));
}
