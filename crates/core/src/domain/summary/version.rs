//! The causes of versions of the document.

use serde::{Deserialize, Serialize};

/// Why a version was made.
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
    /// An operator discarded the items, so that they are made anew.
    Rebuild,
    /// An operator edited or pinned an item.
    Edit,
    /// An operator removed messages for good.
    Forget,
}

impl VersionKind {
    /// All kinds, in the order of the enum.
    pub const ALL: [Self; 6] =
        [Self::Update, Self::Rewind, Self::Rollback, Self::Rebuild, Self::Edit, Self::Forget];

    /// Returns the stored name.
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

    /// Parses a stored name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns true if the version may cover less than the one before it.
    pub fn goes_back(self) -> bool {
        matches!(self, Self::Rewind | Self::Rollback | Self::Rebuild)
    }
}
