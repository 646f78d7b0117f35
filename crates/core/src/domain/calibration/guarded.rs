//! A token counter that a calibration corrects, so that it errs on the safe side.

use std::sync::Arc;

use super::scale;
use crate::domain::{attachment::Extent, number::i64_or_max, tokens::TokenCounter};

/// Multiplies the counts of an estimating counter by a guard. Exact counters are never scaled.
///
/// The factor is rounded up to a hundredth. So it seldom changes, and the method's name shows it in full: `o200k*claude×1.12`.
pub struct GuardedCounter {
    base: Arc<dyn TokenCounter>,
    percent: i64,
    method: String,
}

impl GuardedCounter {
    /// Wraps `base` with a guard in thousandths ([`super::Calibration::guard_permille`]). Returns `base` itself if it is exact or the
    /// rounded guard is 1.
    pub fn over(base: Arc<dyn TokenCounter>, guard_permille: i64) -> Arc<dyn TokenCounter> {
        let percent = (guard_permille + 9) / 10;
        if base.is_exact() || percent == 100 {
            return base;
        }
        let method = format!("{}×{}.{:02}", base.method(), percent / 100, percent % 100);
        Arc::new(Self { base, percent, method })
    }
}

impl TokenCounter for GuardedCounter {
    fn count(&self, text: &str) -> i64 {
        scale(self.base.count(text), self.percent * 10)
    }

    /// Doesn't scale the count, because calibrations learn from text alone.
    fn count_attachment(&self, media: &str, extent: Extent) -> i64 {
        self.base.count_attachment(media, extent)
    }

    fn method(&self) -> &str {
        &self.method
    }

    fn without_guard(&self, tokens: i64) -> i64 {
        let plain = (i128::from(tokens.max(0)) * 100 + i128::from(self.percent) / 2)
            / i128::from(self.percent.max(1));
        i64_or_max(plain)
    }
}
