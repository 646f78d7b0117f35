//! The worker after a rewind, a fork and a clear.

use recapd_core::domain::lineage::Step;

use crate::support::{
    backend::Backend as _,
    conversation::agent,
    rig::{Rig, config},
};

#[tokio::test]
async fn the_worker_goes_on_after_rewind_fork_and_clear() {
    let rig = Rig::new(&config()).await;
    let mark = || Some("here".to_owned());
    rig.say(6).await;
    rig.drain_later().await;
    rig.parts.ingestor.step(&rig.agent, &Step::Mark(mark())).await.unwrap();
    rig.say(6).await;
    rig.drain_later().await;
    let before = rig.verify().await;
    assert!(before.covered > 6, "{before:?}");
    rig.parts.ingestor.step(&rig.agent, &Step::Rewind(mark())).await.unwrap();
    let rewound = rig.verify().await;
    assert!(rewound.set_aside >= 6 && rewound.covered < before.covered, "{rewound:?}");
    let child = agent("child");
    rig.parts.ingestor.fork(&rig.agent, &child).await.unwrap();
    rig.parts.ingestor.step(&child, &Step::Clear).await.unwrap();
    rig.say(3).await;
    rig.drain_later().await;
    for name in [&rig.agent, &child] {
        let report = rig.db.store().verify(name).await.unwrap();
        Rig::assert_clean(&report);
        assert_eq!(report.pending, 0, "{report:?}");
    }
    let provisional = "SELECT count(*) FROM summary_items WHERE provisional = 1 AND removed_version IS NULL";
    assert_eq!(rig.db.number(provisional).await, Some(0));
    assert_eq!(rig.db.number("SELECT count(*) FROM summary_update_queue").await, Some(0));
}
