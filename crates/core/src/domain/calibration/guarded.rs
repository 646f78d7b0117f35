//! A token counter that is corrected by a calibration, so that it errs on the safe side.

use std::sync::Arc;

use super::scaled;
use crate::domain::{attachment::Extent, number::i64_or_max, tokens::TokenCounter};

/// An estimating counter times the guard of its calibration. Exact counters are never scaled.
///
/// The factor is rounded up to a hundredth, so that it changes seldom and the method's name shows it in full: `o200k*claude×1.12`.
pub struct GuardedCounter {
    base: Arc<dyn TokenCounter>,
    percent: i64,
    method: String,
}

impl GuardedCounter {
    /// Wraps `base` with a factor in thousandths ([`super::Calibration::guard_permille`]). Returns `base` itself if it is exact or the
    /// rounded factor is 1.
    pub fn over(base: Arc<dyn TokenCounter>, guard_permille: i64) -> Arc<dyn TokenCounter> {
        let percent = (guard_permille + 9) / 10;
        if base.is_exact() || percent == 100 {
            return base;
        }
        let method = format!("{}×{}.{:02}", base.method(), percent / 100, percent % 100);
        Arc::new(Self {
            base,
            percent,
            method,
        })
    }
}

impl TokenCounter for GuardedCounter {
    fn count(&self, text: &str) -> i64 {
        scaled(self.base.count(text), self.percent * 10)
    }

    /// Not scaled: calibrations are learned from text.
    fn count_attachment(&self, media: &str, extent: Extent) -> i64 {
        self.base.count_attachment(media, extent)
    }

    fn method(&self) -> &str {
        &self.method
    }

    fn plain(&self, tokens: i64) -> i64 {
        let plain = (i128::from(tokens.max(0)) * 100 + i128::from(self.percent) / 2)
            / i128::from(self.percent.max(1));
        i64_or_max(plain)
    }
}
