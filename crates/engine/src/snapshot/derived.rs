//! Keeps a value together with the snapshot from which it was derived, such as a response that is sent again.

use std::{
    any::Any,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A value derived from a snapshot once. It lives as long as the snapshot but isn't part of it: comparisons ignore it, and clones
/// begin without it.
#[derive(Debug, Default)]
pub struct DerivedValue {
    value: OnceLock<Box<dyn Any + Send + Sync>>,
    bytes: AtomicUsize,
}

impl DerivedValue {
    /// Returns the kept value, or makes and keeps it. Returns `None` if a value of another type is kept.
    pub fn get_or_make<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.value.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// Returns the kept value; `None` if there is none or it has another type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.value.get()?.downcast_ref()
    }

    pub(super) fn grow(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Clone for DerivedValue {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for DerivedValue {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for DerivedValue {}
