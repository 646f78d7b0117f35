//! Tokens: kept, used, revoked, and their reach.

use std::collections::BTreeSet;

use recapd_api::access::digest_of;
use recapd_core::domain::access::{AccessNames, Reach, Scope, TokenName};
use recapd_store::access::{NewToken, TOKENS_MAX, Token, TokenOutcome};

use crate::support::{
    backend::Backend,
    conversation::{T0, agent, make, minute},
};

fn name(text: &str) -> TokenName {
    text.parse().unwrap()
}

fn new(called: &str, secret: &str) -> NewToken {
    NewToken {
        name: name(called),
        digest: digest_of(secret),
        scope: Scope::Write,
        reach: Reach::Only(named(&["coder"], &["web"])),
        expires_at: Some(minute(60)),
    }
}

fn named(agents: &[&str], projects: &[&str]) -> AccessNames {
    AccessNames {
        agents: agents.iter().map(|id| agent(id)).collect(),
        projects: projects.iter().map(|id| id.parse().unwrap()).collect(),
    }
}

async fn only(db: &dyn Backend) -> Token {
    let [token] = db.access().tokens().await.unwrap().try_into().unwrap();
    token
}

pub(crate) async fn a_token_is_kept_until_it_is_revoked(db: &dyn Backend) {
    let access = db.access();
    assert_eq!(access.tokens().await.unwrap(), []);
    assert_eq!(access.keep_token(new("a", "one"), T0).await.unwrap(), TokenOutcome::Done);
    let kept = only(db).await;
    let expected = Token {
        name: name("a"),
        digest: digest_of("one"),
        scope: Scope::Write,
        reach: Reach::Only(named(&["coder"], &["web"])),
        created_at: T0,
        expires_at: Some(minute(60)),
        revoked_at: None,
        last_used_at: None,
    };
    assert_eq!(kept, expected);

    let again = access.keep_token(new("a", "two"), minute(1)).await.unwrap();
    assert_eq!(again, TokenOutcome::NameTaken);
    assert_eq!(only(db).await, expected);

    assert!(access.revoke_token(&name("a"), minute(2)).await.unwrap());
    assert!(access.revoke_token(&name("a"), minute(3)).await.unwrap());
    assert!(!access.revoke_token(&name("b"), minute(3)).await.unwrap());
    assert_eq!(only(db).await.revoked_at, Some(minute(2)));

    // A revoked token makes room for another of its name.
    let again = access.keep_token(new("a", "two"), minute(4)).await.unwrap();
    assert_eq!(again, TokenOutcome::Done);
    let kept = only(db).await;
    assert_eq!((kept.digest, kept.revoked_at, kept.created_at), (digest_of("two"), None, minute(4)));
    assert_eq!(access.reset_tokens().await.unwrap(), 1);
    assert_eq!(access.tokens().await.unwrap(), []);
}

pub(crate) async fn a_token_remembers_its_last_use(db: &dyn Backend) {
    let access = db.access();
    let token = NewToken { reach: Reach::All, expires_at: None, ..new("a", "one") };
    access.keep_token(token, T0).await.unwrap();
    for at in [minute(5), minute(3)] {
        access.note_token_use(&name("a"), at).await.unwrap();
    }
    let kept = only(db).await;
    assert_eq!((kept.last_used_at, kept.expires_at, kept.reach), (Some(minute(5)), None, Reach::All));
}

pub(crate) async fn the_number_of_tokens_is_limited(db: &dyn Backend) {
    let access = db.access();
    access.keep_token(new("first", "first"), T0).await.unwrap();
    let rows: Vec<String> = (1..TOKENS_MAX)
        .map(|number| format!("('t{number}', '{}', 'read', '\"all\"')", digest_of(&number.to_string())))
        .collect();
    // Times are copied from the first one: their types differ.
    let sql = format!(
        "INSERT INTO access_tokens (name, digest, scope, reach, created_at) SELECT v.column1, v.column2, v.column3, \
         v.column4, t.created_at FROM (VALUES {}) AS v CROSS JOIN access_tokens AS t",
        rows.join(", ")
    );
    db.raw(&sql).await;
    let more = access.keep_token(new("more", "more"), T0).await.unwrap();
    assert_eq!(more, TokenOutcome::TooMany);
    access.revoke_token(&name("first"), T0).await.unwrap();
    let again = access.keep_token(new("first", "again"), T0).await.unwrap();
    assert_eq!(again, TokenOutcome::Done);
}

pub(crate) async fn a_token_reaches_agents_by_name_and_by_project(db: &dyn Backend) {
    let access = db.access();
    for id in ["a", "b", "c", "d"] {
        make(db, id).await;
    }
    let web = "web".parse().unwrap();
    db.store().set_project(&agent("c"), Some(&web), minute(1)).await.unwrap();
    assert_eq!(access.project_of(&agent("c")).await.unwrap(), Some(web));
    assert_eq!(access.project_of(&agent("a")).await.unwrap(), None);
    assert_eq!(access.project_of(&agent("nobody")).await.unwrap(), None);

    let reach = named(&["b", "nobody"], &["web", "other"]);
    let all = access.named_agents(&reach, None, 10).await.unwrap();
    assert_eq!(all, [agent("b"), agent("c")]);
    let first = access.named_agents(&reach, None, 1).await.unwrap();
    assert_eq!(first, [agent("b")]);
    let rest = access.named_agents(&reach, first.last(), 10).await.unwrap();
    assert_eq!(rest, [agent("c")]);
    let none = AccessNames { agents: BTreeSet::new(), projects: BTreeSet::new() };
    assert_eq!(access.named_agents(&none, None, 10).await.unwrap(), []);
}
