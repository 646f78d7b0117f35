//! The totals of what the proxies did for an agent.

use recapd_core::domain::proxy_traffic::{ProxyReport, ProxyTraffic};
use recapd_store::{StoreError, operate::ProxyTotals};

use crate::support::{
    backend::Backend,
    conversation::{agent, make, minute},
};

fn report(name: &str, requests: i64) -> ProxyReport {
    let counts = std::array::from_fn(|at| requests + i64::try_from(at).unwrap());
    ProxyReport { report: name.to_owned(), traffic: ProxyTraffic::from_counts(counts) }
}

pub(super) async fn reports_are_added_up_once(db: &dyn Backend) {
    let (operator, coder) = (db.operator(), agent("coder"));
    let unknown = operator.count_proxy_traffic(&coder, &report("a-1", 1), minute(1)).await;
    assert!(matches!(unknown, Err(StoreError::UnknownAgent(_))), "{unknown:?}");
    make(db, "coder").await;
    make(db, "other").await;
    assert_eq!(operator.proxy_totals(&coder).await.unwrap(), ProxyTotals::default());

    let count = async |name: &str, requests, at| {
        let counted = operator.count_proxy_traffic(&coder, &report(name, requests), minute(at)).await;
        counted.unwrap()
    };
    let first = count("a-1", 1, 5).await;
    assert_eq!(first.traffic, report("", 1).traffic);
    assert_eq!((first.first_at, first.last_at), (Some(minute(5)), Some(minute(5))));
    count("b-1", 2, 6).await;
    // Each report came twice, the second time after that of another proxy.
    count("a-1", 1, 7).await;
    let last = count("b-1", 2, 8).await;
    let mut sum = report("", 1).traffic;
    sum.add(&report("", 2).traffic);
    let expected = ProxyTotals { traffic: sum, first_at: Some(minute(5)), last_at: Some(minute(6)) };
    assert_eq!(last, expected);
    assert_eq!(operator.proxy_totals(&coder).await.unwrap(), expected);
    let others = operator.proxy_totals(&agent("other")).await;
    assert_eq!(others.unwrap(), ProxyTotals::default());

    db.store().delete_agent(&coder, minute(9)).await.unwrap();
    assert_eq!(db.number("SELECT count(*) FROM proxy_traffic").await, Some(0));
}
