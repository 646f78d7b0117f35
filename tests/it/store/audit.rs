//! The audit: what is kept of it, and in which order it is read.

use recapd_store::audit::{AuditEvent, AuditKind, AuditQuery, AuditRow};

use crate::support::{
    backend::Backend,
    conversation::{agent, append, minute, turns},
};

const ALL: AuditQuery = AuditQuery { agent: None, since: None, until: None, before: None, limit: 100 };

fn event(number: i64, kind: AuditKind, of: Option<&str>) -> AuditEvent {
    AuditEvent {
        at: minute(number),
        kind,
        token: (number % 2 == 0).then(|| "coder".to_owned()),
        peer: "127.0.0.1".to_owned(),
        method: "POST".to_owned(),
        route: "/v1/agents/{id}/pause".to_owned(),
        agent_id: of.map(agent),
        request_id: format!("r{number}"),
        status: 200,
        outcome: "done".to_owned(),
    }
}

fn requests(rows: &[AuditRow]) -> Vec<&str> {
    rows.iter().map(|row| row.what.request_id.as_str()).collect()
}

pub(crate) async fn events_are_kept_and_read_newest_first(db: &dyn Backend) {
    let audit = db.audit();
    assert_eq!(audit.audit(ALL).await.unwrap(), []);
    audit.record_audit(Vec::new()).await.unwrap();
    let events = vec![
        event(1, AuditKind::Append, Some("a")),
        event(2, AuditKind::Refusal, None),
        event(3, AuditKind::SignIn, None),
        event(4, AuditKind::Change, Some("a")),
    ];
    audit.record_audit(events.clone()).await.unwrap();
    let rows = audit.audit(ALL).await.unwrap();
    let told: Vec<AuditEvent> = rows.iter().rev().map(|row| row.what.clone()).collect();
    assert_eq!(told, events);
    let of = async |query| audit.audit(query).await.unwrap();
    let of_agent = AuditQuery { agent: Some(agent("a")), ..ALL };
    assert_eq!(requests(&of(of_agent).await), ["r4", "r1"]);
    let late = AuditQuery { since: Some(minute(3)), ..ALL };
    assert_eq!(requests(&of(late).await), ["r4", "r3"]);
    let early = AuditQuery { until: Some(minute(3)), ..ALL };
    assert_eq!(requests(&of(early).await), ["r2", "r1"]);
    let page = AuditQuery { before: Some(rows[0].event), limit: 2, ..ALL };
    assert_eq!(requests(&of(page).await), ["r3", "r2"]);
}

pub(crate) async fn the_oldest_of_each_kind_go(db: &dyn Backend) {
    let audit = db.audit();
    let appends = (1..=9).map(|number| event(number, AuditKind::Append, None));
    let change = event(0, AuditKind::Change, None);
    let events = [change].into_iter().chain(appends).collect();
    audit.record_audit(events).await.unwrap();
    let prune = async |kind, limit| audit.prune_audit(kind, 3, limit).await.unwrap();
    assert_eq!(prune(AuditKind::Append, 4).await, 4);
    assert_eq!(prune(AuditKind::Append, 4).await, 2);
    assert_eq!(prune(AuditKind::Append, 4).await, 0);
    assert_eq!(prune(AuditKind::Change, 4).await, 0);
    let left = audit.audit(ALL).await.unwrap();
    assert_eq!(requests(&left), ["r9", "r8", "r7", "r0"]);
}

pub(crate) async fn a_deleted_agent_leaves_its_events(db: &dyn Backend) {
    let audit = db.audit();
    let said = append(&agent("a"), turns(1..=1));
    db.store().append(said).await.unwrap();
    let events = vec![event(1, AuditKind::Append, Some("a"))];
    audit.record_audit(events.clone()).await.unwrap();
    db.store().delete_agent(&agent("a"), minute(2)).await.unwrap();
    let rows = audit.audit(ALL).await.unwrap();
    let told: Vec<AuditEvent> = rows.into_iter().map(|row| row.what).collect();
    assert_eq!(told, events);
}
