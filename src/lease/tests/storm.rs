//! Many replicas, bad links, crashes and restarts, drawn at random from fixed seeds.

use super::{fake::Fault, *};

/// A small deterministic generator, so that a failing seed can be run again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn fault(&mut self) -> Fault {
        match self.below(8) {
            0 | 1 => Fault::None,
            2 => Fault::Cut,
            3 => Fault::AnswerLost,
            4 => Fault::Late(Duration::from_millis(self.below(5_000))),
            5 => Fault::Late(SECOND * u32::try_from(self.below(90)).unwrap()),
            6 => Fault::Refused(409),
            _ => Fault::Refused([403, 404, 500, 503][usize::try_from(self.below(4)).unwrap()]),
        }
    }

    /// Good or bad weather on one link for a while: steady, or new for each request.
    fn change(&mut self, link: &Link) {
        match self.below(4) {
            0 => link.set(Fault::None),
            1 => link.set(self.fault()),
            _ => {
                let mut dice = Self(self.below(u64::MAX - 1) + 1);
                link.vary(move || dice.fault());
            }
        }
    }
}

/// Three replicas on bad links, with crashes, releases and restarts, for an hour.
async fn storm(seed: u64) -> usize {
    let api = FakeApi::default();
    let mut dice = Dice(seed * 0x9E37_79B9 + 1);
    let mut replicas: Vec<Replica> = (0..3).map(|n| Replica::start(&api, &format!("{n}.0"))).collect();
    let (mut terms, mut acting_before) = (0, None);
    for step in 0..7_200_u32 {
        sleep(Duration::from_millis(400 + dice.below(200))).await;
        let acting: Vec<&str> = replicas
            .iter()
            .filter(|r| r.may_act())
            .map(|r| r.name.as_str())
            .collect();
        assert!(
            acting.len() <= 1,
            "seed {seed}, step {step}: {acting:?} act at the same time"
        );
        let acting = acting.first().map(|name| (*name).to_owned());
        terms += usize::from(acting.is_some() && acting != acting_before);
        acting_before = acting;

        let replica = &mut replicas[usize::try_from(dice.below(3)).unwrap()];
        match dice.below(120) {
            0..12 => dice.change(&replica.link),
            12 if replica.handle.is_some() => replica.crash().await,
            13 if replica.handle.is_some() => {
                // What it ran has ended by now, so from here on it no longer acts.
                replica.release().await.ok();
                replica.leadership = watch::channel(Leadership::Waiting { holder: None }).1;
            }
            14..20 => {}
            _ => continue,
        }
        // A process that has stopped is started again under a new identity, once its child is dead.
        let stopped = replica.handle.is_none() || matches!(replica.now(), Leadership::Lost { .. });
        if stopped && !replica.may_act() {
            *replica = Replica::start(&api, &format!("{}.{step}", &replica.name[..1]));
        }
    }
    // In good weather somebody leads again.
    for replica in &mut replicas {
        *replica = Replica::start(&api, &format!("{}.end", &replica.name[..1]));
    }
    sleep(200 * SECOND).await;
    assert_eq!(
        replicas.iter().filter(|replica| replica.may_act()).count(),
        1,
        "seed {seed}"
    );
    terms
}

#[tokio::test(start_paused = true)]
async fn two_replicas_never_act_at_the_same_time() {
    let mut terms = 0;
    for seed in 1..=20 {
        terms += storm(seed).await;
    }
    assert!(
        terms > 200,
        "only {terms} changes of leader: the storm tests too little"
    );
}
