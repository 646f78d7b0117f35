//! Versions of the document: what wrote them.

use serde::{Deserialize, Serialize};

/// What wrote a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum VersionKind {
    /// An update: exchanges were summarised, or items grew older.
    Update,
    /// A rewind withdrew items.
    Rewind,
    /// An operator went back to an earlier version.
    Rollback,
    /// An operator threw the items away, to have them made anew.
    Rebuild,
    /// An operator edited or pinned an item.
    Edit,
    /// An operator had something forgotten.
    Forget,
}

impl VersionKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Update,
        Self::Rewind,
        Self::Rollback,
        Self::Rebuild,
        Self::Edit,
        Self::Forget,
    ];

    /// The name under which it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Rewind => "rewind",
            Self::Rollback => "rollback",
            Self::Rebuild => "rebuild",
            Self::Edit => "edit",
            Self::Forget => "forget",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether it may cover less than the version before it.
    pub fn goes_back(self) -> bool {
        matches!(self, Self::Rewind | Self::Rollback | Self::Rebuild)
    }
}
