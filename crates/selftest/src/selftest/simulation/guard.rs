//! The guards of the protocol. The tables can disable each of them, to show that the simulation would notice.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use recapd_store::Fence;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Guard {
    /// A completion needs the row's fencing token; without this guard, any daemon can finish the row.
    Lease,
    /// A completion needs the version that it read; without this guard, it may follow any version.
    Version,
    /// A completion needs the watermark that it read, and the boundary after it.
    Watermark,
    /// A completion needs as many live exchanges in its range as it read.
    Exchanges,
    /// A rewind revokes the current lease.
    Void,
    /// A completion re-arms a row that was woken meanwhile or has more to do; without this guard, the row is deleted.
    Rearm,
}

impl Guard {
    pub const ALL: [Self; 6] =
        [Self::Lease, Self::Version, Self::Watermark, Self::Exchanges, Self::Void, Self::Rearm];

    pub fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Version => "version",
            Self::Watermark => "watermark",
            Self::Exchanges => "exchanges",
            Self::Void => "void",
            Self::Rearm => "rearm",
        }
    }

    /// The guard that raises a fence; `None` for a fence that no update meets.
    pub fn of(fence: Fence) -> Option<Self> {
        match fence {
            Fence::Lease => Some(Self::Lease),
            Fence::Version => Some(Self::Version),
            Fence::Watermark => Some(Self::Watermark),
            Fence::Exchanges => Some(Self::Exchanges),
            Fence::Inbox => None,
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no guard; there are {names}", names = Guard::ALL.map(Guard::name).join(", "))]
pub struct UnknownGuard(String);

impl FromStr for Guard {
    type Err = UnknownGuard;

    fn from_str(name: &str) -> Result<Self, UnknownGuard> {
        let found = Self::ALL.into_iter().find(|guard| guard.name() == name);
        found.ok_or_else(|| UnknownGuard(name.to_owned()))
    }
}
