//! Projects: which agents belong to one, and the material of their shared document.

use recapd_core::domain::project::ProjectId;
use recapd_store::{PROJECT_AGENTS_MAX, StoreError};

use super::{clean, with_pending};
use crate::support::{
    backend::Backend,
    conversation::{ALL, agent, append, claim, items, minute, patch, turn, turns},
};

fn project(name: &str) -> ProjectId {
    name.parse().unwrap()
}

/// Creates an agent whose first `exchanges` exchanges are summarised.
async fn summarised(db: &dyn Backend, name: &str, exchanges: i64) {
    let agent = with_pending(db, name, exchanges).await;
    let leases = db.store().claim(claim("daemon", 10, minute(60))).await.unwrap();
    let lease = leases.into_iter().find(|lease| lease.agent == agent).unwrap();
    let material = db.store().material(&lease, ALL).await.unwrap();
    let update = patch(&material, items(&material), minute(60));
    db.store().complete(&lease, update).await.unwrap();
}

async fn join(db: &dyn Backend, name: &str, to: Option<&str>) {
    let to = to.map(project);
    db.store().set_project(&agent(name), to.as_ref(), minute(1)).await.unwrap();
}

/// Returns the agents that the document of `name` shows.
async fn members(db: &dyn Backend, name: &str) -> Vec<String> {
    let found = db.store().project(&project(name)).await.unwrap();
    let members = found.map(|(_, row)| row.members).unwrap_or_default();
    members.iter().map(|member| member.agent.to_string()).collect()
}

pub(crate) async fn agents_join_and_leave_projects(db: &dyn Backend) {
    for name in ["c", "a", "b"] {
        db.store().append(append(&agent(name), turn(1).to_vec())).await.unwrap();
        join(db, name, Some("ikigai")).await;
    }
    assert_eq!(members(db, "ikigai").await, ["a", "b", "c"]);
    join(db, "b", Some("other")).await;
    join(db, "c", None).await;
    assert_eq!(members(db, "ikigai").await, ["a"]);
    assert_eq!(members(db, "other").await, ["b"]);
    let listed = db.store().projects(None, 10).await.unwrap();
    let listed: Vec<(&str, i64)> =
        listed.iter().map(|figures| (figures.project.as_str(), figures.agents)).collect();
    assert_eq!(listed, [("ikigai", 1), ("other", 1)]);
    let after = db.store().projects(Some(&project("ikigai")), 10).await.unwrap();
    assert_eq!(after.len(), 1);
    assert_eq!(db.store().project(&project("nobody")).await.unwrap(), None);
    assert_eq!(db.store().project_stamp(&project("nobody")).await.unwrap(), None);
    let (nobody, p) = (agent("x"), project("p"));
    let unknown = db.store().set_project(&nobody, Some(&p), minute(1)).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(_))));
    clean(db, &agent("a")).await;
}

pub(crate) async fn a_project_reads_the_items_of_its_agents(db: &dyn Backend) {
    summarised(db, "a", 3).await;
    with_pending(db, "b", 2).await;
    join(db, "a", Some("ikigai")).await;
    join(db, "b", Some("ikigai")).await;
    let (stamp, row) = db.store().project(&project("ikigai")).await.unwrap().unwrap();
    assert_eq!((row.agents, stamp.agents), (2, 2));
    assert_eq!(Some(stamp), db.store().project_stamp(&project("ikigai")).await.unwrap());
    let [a, b] = &row.members[..] else { panic!("two members") };
    assert_eq!((a.version, a.covers_through, a.pending.len()), (1, 3, 0));
    assert!(!a.items.is_empty());
    assert_eq!((b.version, b.items.len(), b.pending.len()), (0, 0, 2));
    // A fork belongs to the same project.
    db.store().fork(&agent("a"), &agent("child"), minute(2)).await.unwrap();
    assert_eq!(members(db, "ikigai").await, ["a", "b", "child"]);
}

pub(crate) async fn a_stamp_changes_with_every_change_of_a_project(db: &dyn Backend) {
    let stamp = async || db.store().project_stamp(&project("p")).await.unwrap().unwrap();
    with_pending(db, "a", 2).await;
    join(db, "a", Some("p")).await;
    let joined = stamp().await;
    db.store().append(append(&agent("a"), turns(4..=5))).await.unwrap();
    let appended = stamp().await;
    assert_ne!(joined, appended);
    summarised(db, "b", 1).await;
    assert_eq!(stamp().await, appended, "nobody of the project did anything");
    join(db, "b", Some("p")).await;
    assert_ne!(stamp().await, appended);
}

pub(crate) async fn a_project_of_many_agents_shows_the_last_active_ones(db: &dyn Backend) {
    for number in 0..PROJECT_AGENTS_MAX + 3 {
        let name = format!("agent-{number:03}");
        let mut request = append(&agent(&name), turn(1).to_vec());
        request.now = minute(number);
        db.store().append(request).await.unwrap();
        db.store().set_project(&agent(&name), Some(&project("p")), minute(number)).await.unwrap();
    }
    let (_, row) = db.store().project(&project("p")).await.unwrap().unwrap();
    assert_eq!(row.agents, PROJECT_AGENTS_MAX + 3);
    assert_eq!(row.members.len(), usize::try_from(PROJECT_AGENTS_MAX).unwrap());
    assert_eq!(row.members[0].agent, agent("agent-003"));
}
