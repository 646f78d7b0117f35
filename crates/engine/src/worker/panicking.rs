//! Panics in the middle of an update: each is a defect, and ends one attempt and nothing else.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use tracing::error;

use recapd_core::domain::work::Lease;
use recapd_store::AttemptError;

/// The result of `work`. A panic in it is a failed attempt, which is retried and given up like any other. The state
/// that the work held is dropped, and nothing of it is looked at again.
pub(super) fn caught<T>(
    lease: &Lease,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, AttemptError>> {
    let ended = AssertUnwindSafe(work).catch_unwind();
    ended.map(move |ended| ended.map_err(|_| panicked(lease)))
}

/// The panic's text has gone through the panic hook already. It may quote a conversation, so it is kept nowhere else.
fn panicked(lease: &Lease) -> AttemptError {
    error!(agent_id = %lease.agent, attempt = lease.attempt, lease_token = lease.token, "update.panicked");
    AttemptError {
        class: "internal".to_owned(),
        message: "the update panicked; where, stands in the log".to_owned(),
    }
}
