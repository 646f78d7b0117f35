//! Panics during an update: each is a defect, and ends one attempt and nothing else.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use tracing::error;

use recapd_core::domain::work::Lease;
use recapd_store::AttemptError;

/// Returns the result of `work`, or a failed attempt if it panics, which is retried and given up like any other. The state of the work is
/// dropped and not looked at again.
pub(super) fn caught<T>(
    lease: &Lease,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, AttemptError>> {
    let ended = AssertUnwindSafe(work).catch_unwind();
    ended.map(move |ended| ended.map_err(|_| panicked(lease)))
}

/// The panic hook has logged the panic's text. It may quote a conversation, so it is kept nowhere else.
fn panicked(lease: &Lease) -> AttemptError {
    error!(agent_id = %lease.agent, attempt = lease.attempt, lease_token = lease.token, "update.panicked");
    AttemptError {
        class: "internal".to_owned(),
        message: "the update panicked; the log says where".to_owned(),
    }
}
