//! The sizes that shortened results have: few, and the same in every context, so that a result that was shortened to one of
//! them stays as it is until the next step.

/// The most characters of a shortened result, from the mildest size on. The last leaves nothing but the note.
const SIZES: [usize; 7] = [256_000, 64_000, 16_000, 4_000, 1_000, 250, 0];
/// So many rounds are new: their results are whole.
pub(super) const NEW_ROUNDS: usize = 3;
/// From so many rounds ago on a result gets the next smaller size.
const OLDER_ROUNDS: [usize; 3] = [10, 30, 100];

/// How much of a result is sent; more is less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ResultSize(usize);

impl ResultSize {
    /// All of it.
    pub(super) const WHOLE: Self = Self(0);
    /// The smallest that says anything.
    const SMALL: Self = Self(SIZES.len() - 1);
    /// Nothing but a note of what is left out.
    pub(super) const NOTE: Self = Self(SIZES.len());

    /// Every size of a shortened result, the mildest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        (1..=SIZES.len()).map(Self)
    }

    /// Its characters; `None` for all of a result.
    pub(super) fn chars(self) -> Option<usize> {
        self.0.checked_sub(1).and_then(|at| SIZES.get(at)).copied()
    }
}

/// What a step does to results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// The older a result is, the smaller it gets; those of the newest rounds stay as they are.
    ByAge(usize),
    /// No result is bigger, however new it is.
    AtMost(ResultSize),
}

impl Treatment {
    /// The last one that leaves something of all results of the last rounds: 4,000 characters of those up to nine rounds ago,
    /// 1,000 up to 29 rounds ago, 250 before.
    pub(super) const FIRM: Self = Self::ByAge(FIRM);

    /// From nothing at all to [`Self::FIRM`].
    pub(super) fn mild() -> impl Iterator<Item = Self> {
        (0..=FIRM).map(Self::ByAge)
    }

    /// What is harder than that, to the hardest: nothing is left of results but those of the newest rounds.
    pub(super) fn hard() -> impl Iterator<Item = Self> {
        (FIRM + 1..=HARDEST).map(Self::ByAge)
    }

    /// The size of a result of so many rounds ago.
    pub(super) fn size(self, rounds_ago: usize) -> ResultSize {
        match self {
            Self::ByAge(_) if rounds_ago < NEW_ROUNDS => ResultSize::WHOLE,
            Self::ByAge(HARDEST) => ResultSize::NOTE,
            Self::ByAge(level) => {
                let older = OLDER_ROUNDS
                    .iter()
                    .filter(|&&rounds| rounds_ago >= rounds)
                    .count();
                let size = (level + older).saturating_sub(OLDER_ROUNDS.len());
                ResultSize(size).min(ResultSize::SMALL)
            }
            Self::AtMost(size) => size.max(Self::FIRM.size(rounds_ago)),
        }
    }
}

/// The level that gives results of three rounds ago 4,000 characters.
const FIRM: usize = OLDER_ROUNDS.len() + 4;
/// The level behind the one that leaves all results the smallest size that says anything.
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
        assert_eq!(
            sizes(Treatment::FIRM),
            [None, None, k4, k4, k1, k1, small, small, small, small]
        );
        let all: Vec<Treatment> = Treatment::mild().chain(Treatment::hard()).collect();
        assert_eq!(sizes(all[all.len() - 2])[1..3], [None, small]);
        assert_eq!(
            sizes(all[all.len() - 1])[1..],
            [
                None,
                Some(0),
                Some(0),
                Some(0),
                Some(0),
                Some(0),
                Some(0),
                Some(0),
                Some(0)
            ]
        );
        for pair in all.windows(2) {
            for rounds_ago in 0..200 {
                let [milder, harder] = [pair[0], pair[1]].map(|treatment| treatment.size(rounds_ago));
                assert!(milder <= harder && pair[0].size(rounds_ago) <= pair[0].size(rounds_ago + 1));
            }
        }
        assert_eq!(
            sizes(Treatment::AtMost(ResultSize::all().next().unwrap()))[0],
            Some(256_000)
        );
        assert_eq!(sizes(Treatment::AtMost(ResultSize::NOTE)), [Some(0); 10]);
    }
}
