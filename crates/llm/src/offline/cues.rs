//! Small tables of everyday words in several languages. They only adjust the weights; the topic of a batch is learned from the
//! batch. Words are in lower case. Each table says whether it is matched by whole words or by the beginning of a text.

use std::{collections::HashSet, sync::LazyLock};

use recapd_core::domain::recall::STOP_WORDS;

/// Words that are matched whole.
type Words = LazyLock<HashSet<&'static str>>;

/// Phrases, tried in this order.
type Phrases = LazyLock<Vec<&'static str>>;

fn words(table: &'static str) -> HashSet<&'static str> {
    table.split_whitespace().collect()
}

fn phrases(table: &'static str) -> Vec<&'static str> {
    table.split('|').collect()
}

pub(super) fn demands(text: &str) -> bool {
    let lower = text.to_lowercase();
    says(text, &DEMANDS) || DEMANDS_FIRST.iter().any(|cue| begins(&lower, cue))
}

fn begins(text: &str, cue: &str) -> bool {
    text.strip_prefix(cue).is_some_and(ends_word)
}

/// Returns true if a word ends before `rest`. Always true in scripts without blanks, where words have no visible ends.
fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() && c < '\u{2e80}')
}

/// Returns true if `text` contains one of `cues` as whole words, in any context.
pub(super) fn says(text: &str, cues: &[&str]) -> bool {
    occurrences(&text.to_lowercase(), cues).any(stands_alone)
}

/// Returns true if `text` contains one of `cues` as whole words and doesn't negate it.
pub(super) fn holds(text: &str, cues: &[&str]) -> bool {
    occurrences(&text.to_lowercase(), cues).filter(is_affirmed).any(stands_alone)
}

/// Returns true if `text` contains one of `cues`, even within a word, and doesn't negate it.
pub(super) fn mentions(text: &str, cues: &[&str]) -> bool {
    occurrences(&text.to_lowercase(), cues).any(|occurrence| is_affirmed(&occurrence))
}

/// Returns true if the text around a cue makes it a whole word.
fn stands_alone((before, after): (&str, &str)) -> bool {
    !before.ends_with(|c: char| c.is_alphanumeric() && c < '\u{2e80}') && ends_word(after)
}

/// Returns true unless the text around a cue negates it: `no errors`, `failed: 0`.
fn is_affirmed((before, after): &(&str, &str)) -> bool {
    !ends_in_negation(before) && !is_zero_count(after)
}

/// Returns the text before and after each occurrence of `cues`.
fn occurrences<'a>(lower: &'a str, cues: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
    let around = move |cue: &'a str| {
        lower.match_indices(cue).map(move |(index, _)| {
            let before = lower.get(..index).unwrap_or_default();
            (before, lower.get(index + cue.len()..).unwrap_or_default())
        })
    };
    cues.iter().flat_map(move |&cue| around(cue))
}

/// Returns true if the last word before a cue negates it.
fn ends_in_negation(before: &str) -> bool {
    let last = before.strip_suffix(' ').and_then(|text| text.rsplit(' ').next());
    last.is_some_and(|word| NONE.contains(word))
}

/// Returns true if the text after a word says that there are zero of it: `: 0`, ` tests: 0`.
pub(super) fn is_zero_count(rest: &str) -> bool {
    let is_zero = |count: &str| {
        let count = count.trim_start();
        let after_zeros = count.trim_start_matches('0');
        after_zeros.len() < count.len()
            && !after_zeros.trim_start_matches('.').starts_with(char::is_alphanumeric)
    };
    let labelled = rest.split_once([':', '=']);
    // A number isn't a label: 12:00 is a time of day.
    let is_label =
        |label: &str| label.split_whitespace().count() <= 1 && !label.contains(|c: char| c.is_ascii_digit());
    let is_labelled_zero = |(label, count): (&str, &str)| is_label(label) && is_zero(count);
    is_zero(rest) || labelled.is_some_and(is_labelled_zero)
}

/// Words without content: [`STOP_WORDS`], and others that a summary can leave out.
pub(super) static FUNCTION_WORDS: Words = LazyLock::new(|| {
    let more = words(
        "\
after before am doing done him us them mine yours whose yes really because while during any all both each few i'm \
i've i'd i'll you're you've you'll it's that's there's he's she's we're we've we'll they're don't isn't aren't didn't \
doesn't can't couldn't won't wouldn't let let's get gets got getting one ones go going make makes made now like even \
still ever much many lot lots thing things something anything everything someone way bit yet though well since",
    );
    &words(STOP_WORDS) | &more
});

/// Words of courtesy and applause: frequent and uninformative.
pub(super) static COURTESY: Words = LazyLock::new(|| {
    words(
        "\
hi hello hey hiya greetings dear thanks thank thx please sorry apologies apologize apologise welcome bye goodbye \
cheers ok okay sure alright yeah yep yup nope great awesome amazing wonderful fantastic cool nice wow woah whoa haha \
lol glad happy certainly absolutely definitely totally exactly indeed perfect excellent good oh ah um hmm congrats \
congratulations appreciate sounds understand help assist assistance today further anything else question questions \
know feel free let \
hallo danke bitte gern gerne tschüss entschuldigung klar genau super toll bonjour salut merci désolé oui d'accord \
parfait hola gracias claro vale perdón adiós olá obrigado obrigada ciao grazie prego certo",
    )
});

/// One-word answers that open a sentence.
pub(super) static ANSWERS: Words = LazyLock::new(|| words("yes no well yeah ja nein oui non sí sì sim não"));

/// Words that turn a polite opening into a condition or an exception: `If all is good, …`.
pub(super) static CONDITIONS: Words = LazyLock::new(|| {
    words(
        "\
if unless when whenever while until till before after once except but not without than although though because since \
other wenn falls sobald bis bevor nachdem ausser außer aber nicht ohne als si sauf mais pas sans quand avant après \
cuando hasta sin excepto pero antes se quando até sem exceto mas senza finché tranne ma prima dopo",
    )
});

/// Phrases that open a conversation, matched at the beginning of a text.
pub(super) static GREETINGS: Phrases = LazyLock::new(|| {
    phrases(
        "\
long time no see|how are you|how have you been|what's up|\
hi|hello|hey|hiya|good morning|good afternoon|good evening|greetings|dear|hallo|guten tag|guten morgen|\
moin|bonjour|salut|bonsoir|hola|buenos días|buenas|olá|oi|ciao|buongiorno|привет|здравствуйте|你好|您好|\
こんにちは|안녕하세요|مرحبا|שלום|नमस्ते",
    )
});

/// Phrases that demand or forbid, matched at the beginning of a sentence.
pub(super) static DEMANDS_FIRST: Phrases = LazyLock::new(|| {
    phrases(
        "\
never|always|don't|do not|please don't|please do not|please never|please always|make sure|be sure|\
only use|avoid|remember to|from now on|no longer|stop using|niemals|immer|bitte nie|bitte immer|\
verwende nur|ab jetzt|jamais|toujours|n'utilise|ne jamais|nunca|siempre|no uses|sempre|mai|никогда|\
всегда|不要|必须|请勿|绝不|絶対に|必ず",
    )
});

/// Phrases that demand or forbid, matched anywhere in a sentence.
pub(super) static DEMANDS: Phrases = LazyLock::new(|| {
    phrases(
        "\
must|must not|mustn't|should never|should always|is required|not allowed to|muss|müssen|darf nicht|\
dürfen nicht|doit|ne doit pas|debe|no debe|deve|должен|нельзя",
    )
});

pub(super) static DECISIONS: Phrases = LazyLock::new(|| {
    phrases(
        "\
decided|decide to|decision|let's use|let's go with|go with|we'll use|i'll use|agreed|we agree|\
settled on|confirmed that|entschieden|beschlossen|wir nehmen|wir verwenden|einigen|décidé|on utilise|\
choisi|d'accord pour|decidido|decidimos|usemos|elegimos|deciso|scelto|решили|выбрали|决定|采用|に決め",
    )
});

/// Words for something broken or its repair.
pub(super) static FIXES: Phrases = LazyLock::new(|| {
    phrases(
        "\
fix|fixed|fixes|bug|bugs|error|errors|broken|crash|crashes|traceback|exception|regression|failing|fails|\
failed|not working|doesn't work|refactor|lint|fehler|kaputt|behoben|absturz|erreur|corriger|corrigé|\
panne|fallo|corregir|arreglar|errore|correggere|ошибка|исправ|错误|修复|バグ|修正",
    )
});

/// Words before a cue that negate it.
static NONE: Words = LazyLock::new(|| {
    words("no 0 zero without kein keine keinen ohne sans aucun aucune sin ningún sem nenhum senza nessun")
});

/// Openings of a result that reports a failure although it isn't marked as failed.
pub(super) static FAILURES: Phrases = LazyLock::new(|| {
    phrases(
        "\
error|errors|[error|err:|traceback|exception|failed|failure|failures|fatal|panic|npm err!|permission denied|command not found|\
not found|no such file|invalid|unauthorized|forbidden|timeout|timed out|fehler|erreur|错误|エラー",
    )
});

pub(super) static FIRST_PERSON: Phrases = LazyLock::new(|| {
    phrases(
        "\
i|my|we|our|me|ich|mein|meine|wir|unser|unsere|je|j|mon|ma|mes|nous|notre|yo|mi|mis|nosotros|eu|meu|\
minha|nós|io|mio|mia|noi|я|мой|моя|мы",
    )
});

pub(super) static COORDINATORS: Words =
    LazyLock::new(|| words("and but so or yet und aber doch oder et mais ou y pero mas e ma o"));

/// First words of a main clause, up to an apostrophe.
pub(super) static SUBJECTS: Words = LazyLock::new(|| {
    words(
        "\
i we he she it they you my our his her their the this that there ich wir er sie es ihr mein meine unser unsere der die \
das je j nous il elle ils elles on mon ma mes notre c yo mi mis nosotros él ella ellos eu nós ele ela meu minha io noi \
lui lei mio mia",
    )
});

/// Openings of the model's sentences that offer or ask for something instead of reporting an outcome.
pub(super) static OFFERS_FIRST: Phrases = LazyLock::new(|| {
    phrases(
        "\
if you|let me|i need|i'll need|to start|to get started|first,|i can help|i'll help|i’ll help|i understand|i appreciate|to proceed|once|wenn sie|falls|\
si vous|si necesita|se precisar|se hai",
    )
});

/// Like [`OFFERS_FIRST`], but matched anywhere in a sentence.
pub(super) static OFFERS: Phrases = LazyLock::new(|| {
    phrases(
        "\
please|let me know|feel free|would you like|happy to|bitte|gerne|s'il vous plaît|n'hésitez|por favor|\
avísame|per favore|fammi sapere",
    )
});

pub(super) static TIME_WORDS: Words = LazyLock::new(|| {
    words(
        "\
today tonight yesterday tomorrow ago monday tuesday wednesday thursday friday saturday sunday january february march \
april june july august september october november december morning evening weekend week month year last next \
heute gestern morgen montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli \
oktober dezember woche monat jahr hier demain lundi mardi mercredi jeudi vendredi samedi dimanche semaine mois année \
ayer mañana lunes martes miércoles jueves viernes sábado domingo semana mes año ontem amanhã ieri domani settimana",
    )
});

/// Openings of a request that are removed; longer ones come before their prefixes.
pub(super) static REQUEST_FORMULAS: Phrases = LazyLock::new(|| {
    phrases(
        "\
i would like to|i'd like to|i would like|i'd like|i want to|i need to|i need help with|i'm trying to|\
can you please|could you please|can you|could you|can we|would you|please|ich möchte|kannst du bitte|\
kannst du|können sie|bitte|je voudrais|j'aimerais|peux-tu|pouvez-vous|quiero|quisiera|me gustaría|\
puedes|podrías|gostaria de|vorrei|puoi",
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_none_is_no_failure() {
        for text in [
            "Failed: 0",
            "The suite ends with 0 failed, so add the next test.",
            "errors: 0",
            "There are no errors left in the ledger.",
            "It runs without failures.",
            "Failed tests: 0 of 12",
        ] {
            assert!(!mentions(text, &FAILURES) && !holds(text, &FIXES), "{text}");
        }
        for text in [
            "Failed: 10",
            "There are 3 errors left.",
            "failed after 0.5 seconds",
            "No, errors are left.",
            "no errors, but one test failed",
        ] {
            assert!(mentions(text, &FAILURES) && holds(text, &FIXES), "{text}");
        }
    }
}
