//! Stems: what the forms of a word have in common. One rule serves all languages, since the language of a text is unknown.
//!
//! The rule cuts endings of plurals, tenses and cases. It is made for English; German, Spanish, Portuguese, Italian and French share many
//! of these endings. Index and queries use the same rule, so a stem needn't be a word. If the rule changes, all archives must be indexed
//! again.

use std::{collections::HashSet, sync::LazyLock};

use super::words::folded;
use crate::domain::text::floor_cut;

/// Compares this many bytes of a word. A longer word is probably data.
const WORD_BYTES_MAX: usize = 64;

/// Stop words: words that don't help to find an answer to a question. Articles, pronouns, auxiliaries and prepositions of six languages, in
/// lower case and separated by blanks.
pub const STOP_WORDS: &str = "\
a an the and or but if of in on at to for from by with about as is are was were be been being do does did have has had \
having i you he she it we they me my your his her its our their this that these those what which who whom when where \
why how can could should would will shall may might must not no so than then there here just also into over out up \
down off again more most some other such only own same too very don isn aren wasn didn doesn won couldn wouldn shouldn \
der die das den dem des ein eine einen einem einer und oder aber wenn dann so von zu in im an auf für aus bei mit als \
nach vor ist sind war waren sein bin hat haben hatte ich du er sie es wir ihr mich dich sich uns mein dein nicht kein \
ja nein auch nur noch schon sehr mehr was wer wie wo warum dass kann könnte würde soll wird werden doch mal \
le la les un une des et ou mais si de du à au aux en dans pour par sur avec est sont était être ai as avez avons ont \
je tu il elle nous vous ils elles me te se mon ton son ne pas que qui quoi où comment pourquoi ce cette ces plus très \
el los las una unos y o pero del al con por para es son era ser estar he ha han yo tú él ella nosotros mi su no sí que \
quién cómo dónde porque este esta esto más muy um uma os eu você ele não sim com para por mas como isso mais muito \
il lo gli uno e ma di da con su per è sono io lui lei noi non che chi come dove perché questo questa più molto";

static STOPS: LazyLock<HashSet<String>> =
    LazyLock::new(|| STOP_WORDS.split_whitespace().map(folded).collect());

/// Returns true if the folded `word` is a stop word.
pub(super) fn is_stop_word(word: &str) -> bool {
    STOPS.contains(word)
}

/// Returns the stem of a folded word.
pub(super) fn stem(word: &str) -> String {
    let word = floor_cut(word, WORD_BYTES_MAX);
    if !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut stem = without_plural(word);
    cut_tense(&mut stem);
    cut_last_vowel(&mut stem);
    cut_case(&mut stem);
    stem
}

fn without_plural(word: &str) -> String {
    if let Some(rest) = word.strip_suffix("ies").filter(|rest| rest.len() > 1) {
        return format!("{rest}y");
    }
    let is_sibilant = |rest: &&str| rest.len() > 2 && rest.ends_with(['s', 'x', 'z', 'h']);
    if let Some(rest) = word.strip_suffix("es").filter(is_sibilant) {
        return rest.to_owned();
    }
    let is_plural = word.len() > 3 && !["ss", "us", "is"].iter().any(|end| word.ends_with(end));
    let rest = word.strip_suffix('s').filter(|_| is_plural);
    rest.unwrap_or(word).to_owned()
}

/// Cuts `ing` and `ed`, and then one of two equal consonants at the end.
fn cut_tense(stem: &mut String) {
    let has_vowel = |rest: &&str| rest.len() > 2 && rest.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    let rest = ["ing", "ed"].iter().find_map(|end| stem.strip_suffix(end).filter(has_vowel));
    let Some(length) = rest.map(str::len) else { return };
    stem.truncate(length);
    let mut last = stem.bytes().rev();
    let (last, previous) = (last.next(), last.next());
    if length > 3 && last == previous && !last.is_some_and(|last| b"lsz".contains(&last)) {
        stem.pop();
    }
}

/// Makes `happy` equal to `happi(ly)`, and `make` equal to `mak(ing)`.
fn cut_last_vowel(stem: &mut String) {
    if stem.len() > 3 && stem.ends_with('y') {
        stem.pop();
        stem.push('i');
    }
    if stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
}

/// Cuts endings of German cases and of Romance genders.
fn cut_case(stem: &mut String) {
    let length = stem.len();
    if length > 5 && ["en", "er", "em"].iter().any(|end| stem.ends_with(end)) {
        stem.truncate(length - 2);
    } else if length > 4 && stem.ends_with(['a', 'e', 'o']) {
        stem.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        for forms in [
            &["company", "companies"][..],
            &["plan", "plans", "planned", "planning"],
            &["make", "makes", "making"],
            &["box", "boxes"],
            &["fail", "fails", "failed", "failing"],
            &["cache", "caches", "cached", "caching"],
            &["termin", "termine", "terminen"],
            &["libro", "libros"],
            &["casa", "casas"],
            &["дом", "дом"],
        ] {
            let stems: Vec<String> = forms.iter().map(|word| stem(word)).collect();
            assert!(stems.iter().all(|found| *found == stems[0]), "{forms:?}: {stems:?}");
        }
    }

    #[test]
    fn unrelated_words_have_different_stems() {
        for (one, other) in
            [("class", "clas"), ("bus", "bu"), ("red", "r"), ("rs256", "rs25"), ("king", "k"), ("ties", "ty")]
        {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
        assert_eq!(stem(&"x".repeat(100)).len(), WORD_BYTES_MAX);
    }

    #[test]
    fn stop_words_are_compared_without_accents() {
        assert!(is_stop_word("fur") && is_stop_word("the") && is_stop_word("que"));
        assert!(!is_stop_word("jwt"));
    }
}
