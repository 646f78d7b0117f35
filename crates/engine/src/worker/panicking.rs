//! Catches panics during an update. Each panic is a bug, and ends one attempt and nothing else.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use tracing::error;

use recapd_core::domain::work::Lease;
use recapd_store::AttemptError;

/// Returns the result of `work`. If it panics, returns a failed attempt, which is retried and given up like any other. The state
/// of the work is dropped.
pub(super) fn catch_panic<T>(
    lease: &Lease,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, AttemptError>> {
    let ended = AssertUnwindSafe(work).catch_unwind();
    ended.map(move |ended| ended.map_err(|_| panic_error(lease)))
}

/// Returns the error of an attempt that panicked. The panic hook has logged the panic's text, which may quote a conversation, so
/// the error doesn't repeat it.
fn panic_error(lease: &Lease) -> AttemptError {
    error!(agent_id = %lease.agent, attempt = lease.attempt, lease_token = lease.token, "update.panicked");
    AttemptError {
        class: "internal".to_owned(),
        message: "the update panicked; the log says where".to_owned(),
    }
}
