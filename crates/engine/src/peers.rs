//! Passes changes by other daemons on the same database to this process's workers and readers.
//!
//! ```text
//! commit elsewhere ──► trigger: NOTIFY ──► Member::hear ──► follow ──► Notices ──► worker, snapshots, projects
//! ```
//!
//! Only freshness depends on this. The queue is polled anyway, and after a lost connection everything is read again.

use std::convert::Infallible;

use tracing::{error, info, warn};

use recapd_platform::{clock::Clock, notice::Notices};
use recapd_store::postgres::{Member, PeerMessage};

/// Passes on the messages that `member` receives. Runs until the future is dropped, which releases the member's name.
pub async fn follow(mut member: Member, notices: &Notices, clock: &dyn Clock) -> Infallible {
    loop {
        forward(member.hear().await, notices, clock);
    }
}

fn forward(message: PeerMessage, notices: &Notices, clock: &dyn Clock) {
    match message {
        PeerMessage::Queue => notices.wake_queue(),
        PeerMessage::Agent(agent) => notices.agent_changed(&agent),
        PeerMessage::Lost(reason) => {
            if notices.contact().lost_since().is_none() {
                warn!(reason, "peers.lost");
            }
            notices.contact().lost(clock.now());
        }
        PeerMessage::Back { has_name } => {
            if has_name {
                info!("peers.back");
            } else {
                error!(
                    "peers.name_taken: another connection has its name, which it tries again; see queue.owner"
                );
            }
            notices.contact().regained();
            notices.all_changed();
            notices.wake_queue();
        }
        PeerMessage::Named => info!("peers.name_regained"),
    }
}
