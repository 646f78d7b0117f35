//! The sizes of shortened results. They are few and the same in every context, so that a shortened result stays unchanged until the next
//! step.

/// A shortened result has at most this many characters, the largest size first. The last size leaves only a note.
const SIZES: [usize; 7] = [256_000, 64_000, 16_000, 4_000, 1_000, 250, 0];
/// The results of this many newest rounds stay whole.
pub(super) const NEW_ROUNDS: usize = 3;
/// After each of these numbers of rounds, a result gets the next smaller size.
const OLDER_ROUNDS: [usize; 3] = [10, 30, 100];

/// The size in which a result is sent. A larger value is a shorter result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResultSize(usize);

impl ResultSize {
    pub(super) const WHOLE: Self = Self(0);
    /// The smallest size that leaves content.
    const SMALL: Self = Self(SIZES.len() - 1);
    /// Leaves only a note of how much is left out.
    pub(super) const NOTE: Self = Self(SIZES.len());

    /// Returns every size of a shortened result, largest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (1..=SIZES.len()).map(Self)
    }

    /// Returns how many characters the result may have; `None` if it stays whole.
    pub(super) fn chars(self) -> Option<usize> {
        self.0.checked_sub(1).and_then(|index| SIZES.get(index)).copied()
    }
}

/// How a step shortens the results that stay in the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Shortens older results more; the newest rounds stay whole. The number is the level.
    ByAge(usize),
    /// Also gives every result at most this size, however new it is.
    AtMost(ResultSize),
}

impl Treatment {
    /// The last level before a step leaves out old exchanges: 4,000 characters for results up to nine rounds ago, 1,000 up to 29 rounds
    /// ago, 250 for older ones.
    pub(super) const FIRM: Self = Self::ByAge(FIRM);

    /// Returns the levels from no shortening to [`Self::FIRM`].
    pub(super) fn mild() -> impl Iterator<Item = Self> {
        (0..=FIRM).map(Self::ByAge)
    }

    /// Returns the levels after [`Self::FIRM`]. The last one reduces all results but those of the newest rounds to notes.
    pub(super) fn hard() -> impl Iterator<Item = Self> {
        (FIRM + 1..=HARDEST).map(Self::ByAge)
    }

    pub(super) fn size(self, rounds_ago: usize) -> ResultSize {
        match self {
            Self::ByAge(_) if rounds_ago < NEW_ROUNDS => ResultSize::WHOLE,
            Self::ByAge(HARDEST) => ResultSize::NOTE,
            Self::ByAge(level) => {
                let older = OLDER_ROUNDS.iter().filter(|&&rounds| rounds_ago >= rounds).count();
                let size = (level + older).saturating_sub(OLDER_ROUNDS.len());
                ResultSize(size).min(ResultSize::SMALL)
            }
            Self::AtMost(size) => size.max(Self::FIRM.size(rounds_ago)),
        }
    }
}

/// The level that gives results of three rounds ago 4,000 characters.
const FIRM: usize = OLDER_ROUNDS.len() + 4;
/// The level after the one that gives all results the smallest size with content.
const HARDEST: usize = OLDER_ROUNDS.len() + SIZES.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_results_are_smaller() {
        let sizes = |treatment: Treatment| {
            let ages = [0, 2, 3, 9, 10, 29, 30, 99, 100, 5_000];
            ages.map(|rounds_ago| treatment.size(rounds_ago).chars())
        };
        assert_eq!(sizes(Treatment::ByAge(0)), [None; 10]);
        let (k4, k1, small) = (Some(4_000), Some(1_000), Some(250));
        assert_eq!(sizes(Treatment::FIRM), [None, None, k4, k4, k1, k1, small, small, small, small]);
        let all: Vec<Treatment> = Treatment::mild().chain(Treatment::hard()).collect();
        assert_eq!(sizes(all[all.len() - 2])[1..3], [None, small]);
        assert_eq!(
            sizes(all[all.len() - 1])[1..],
            [None, Some(0), Some(0), Some(0), Some(0), Some(0), Some(0), Some(0), Some(0)]
        );
        for pair in all.windows(2) {
            for rounds_ago in 0..200 {
                let [milder, harder] = [pair[0], pair[1]].map(|treatment| treatment.size(rounds_ago));
                assert!(milder <= harder && pair[0].size(rounds_ago) <= pair[0].size(rounds_ago + 1));
            }
        }
        assert_eq!(sizes(Treatment::AtMost(ResultSize::all().next().unwrap()))[0], Some(256_000));
        assert_eq!(sizes(Treatment::AtMost(ResultSize::NOTE)), [Some(0); 10]);
    }
}
