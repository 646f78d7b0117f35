//! What batches cost: it counts against the limits of the day as soon as it is asked, and is told as it was billed.

use recapd::{
    config::{Config, SpendConfig},
    worker::Outcome,
};
use tempfile::TempDir;

use super::{BatchRig, config};
use crate::support::{
    conversation::{agent, native},
    fake_provider::{FakeProvider, Shape, batches::Fate},
};

/// A dollar per million tokens, whatever they are; half of it in a batch.
const PRICES: &str = "as_of = \"2026-11-20\"\nsource = \"nobody\"\n\
                      [models.small-model]\ninput = 1_000_000\ncached_input = 1_000_000\n\
                      cache_write = 1_000_000\noutput = 1_000_000\n\
                      [models.script]\ninput = 1_000_000\ncached_input = 1_000_000\n\
                      cache_write = 1_000_000\noutput = 1_000_000\n";

/// A daemon's configuration with these prices.
fn priced(shape: Shape, fake: &FakeProvider) -> (Config, TempDir) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("prices.toml");
    std::fs::write(&path, PRICES).unwrap();
    let mut config = config(shape, fake);
    config.spend.prices_file = path.display().to_string();
    (config, folder)
}

/// A limit that one question may use up by what is expected of it, and doesn't by what is billed in the end.
fn limits() -> [fn(&mut SpendConfig); 2] {
    [
        |spend| spend.tokens_per_day = 5_000,
        |spend| spend.usd_per_day = 0.002_5,
    ]
}

#[tokio::test]
async fn what_is_out_uses_up_a_limit_until_it_is_billed() {
    for limit in limits() {
        let fake = FakeProvider::start();
        let (mut config, _folder) = priced(Shape::Anthropic, &fake);
        limit(&mut config.spend);
        let one = BatchRig::with(config, fake).await;
        one.rig.say(6).await;
        assert_eq!(one.rig.drain().await, [Outcome::Deferred]);
        for _ in 0..6 {
            let turn = vec![
                native("user", "Please fix the next of the failing tests"),
                native("assistant", "Fixed it."),
            ];
            one.rig.parts.keeper.append(&agent("b"), turn).await.unwrap();
        }
        assert_eq!(one.rig.drain().await, [Outcome::Postponed]);
        one.look().await;
        assert_eq!(one.rig.drain().await, [], "it is on its way");
        one.fake.batches().end(&[Fate::Good]);
        one.look().await;
        let outcomes = one.rig.drain().await;
        assert!(
            outcomes.len() == 2
                && outcomes.contains(&Outcome::Completed)
                && outcomes.contains(&Outcome::Deferred),
            "{outcomes:?}"
        );
        assert_eq!((one.questions("answered").await, one.rig.model.calls()), (1, 0));
    }
}
