//! Finds phrases that address the reader as a system prompt or an operator would, and so pose as an instruction.
//!
//! The phrases come from attacks on language models: overriding earlier text, new roles, forged roles, messages to any model that reads,
//! extraction of the prompt, secrecy towards the user, standing orders, sending data away. They are in the languages in which such texts
//! occur, and match lower-case text. A false match adds quotation marks and removes no word.

use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use unicode_normalization::{UnicodeNormalization as _, char::is_combining_mark};

/// Words for rules that a model was given.
const RULES: &str = r"(?:instructions?|prompts?|rules?|directions?|guidelines?|constraints?|orders?|commands?|polic(?:y|ies)|programming|training|restrictions?|directives?|context|messages?|conversation|safeguards?)\b";
/// Names for a model that reads the text.
const READERS: &str = r"(?:ai|a\.i\.|llm|language model|assistant|agent|chatbot|model|gpt|chatgpt|claude|gemini|copilot|summari[sz]er|crawler|bot)s?\b";
/// Characters after which a sentence may begin, apart from blanks.
const SENTENCE_ENDS: [char; 22] = [
    '.', '!', '?', ':', ';', ')', '*', ']', '>', '-', '→', '—', '\'', '"', '‘', '’', '“', '”', '(', '[', '#',
    '‹',
];

struct Phrases {
    words: AhoCorasick,
    /// For each word the number of its phrase.
    phrase_of_word: Vec<usize>,
    all: Vec<Phrase>,
}

struct Phrase {
    /// The pattern's text. The pattern is compiled once a text has a word of the phrase: compiling all takes longer than a hook may.
    text: String,
    compiled: OnceLock<Regex>,
    /// True if the phrase counts only at the beginning of a sentence.
    only_begins_sentences: bool,
    /// True if recapd itself writes the phrase. It is forged in a conversation, but not in a document.
    is_own: bool,
}

/// The phrases, in lower case, each with some words. Every match of the phrase contains one of its words, so a text without these words
/// isn't searched. A phrase with `^` counts only at the beginning of a sentence. recapd itself writes a phrase with `~`.
#[rustfmt::skip]
fn phrases() -> Vec<(&'static [&'static str], String)> {
    vec![
        (&["ignor", "disregard", "forget", "overrid", "bypass", "overrul", "discard", "neglect", "drop"], format!(r"\b(?:ignor|disregard|forget|overrid|bypass|overrul|discard|neglect|drop)[a-z]{{0,4}}\b.{{0,40}}?\b(?:previous|prior|above|earlier|preceding|foregoing|original|initial|system|safety|your|before)\b.{{0,30}}?\b{RULES}")),
        (&["ignore", "disregard", "forget", "override"], format!(r"\b(?:ignore|disregard|forget|override) (?:all|any|every|these|those|the|my|everything)(?: (?:of|the|these|those|my|other))* {RULES}")),
        (&["ignore", "disregard", "forget"], r"\b(?:ignore|disregard|forget) (?:everything|all|anything|what(?:ever)?)(?: that)?(?: was| has been| you(?:'ve| have| were)?| i(?:'ve| have)?)? ?(?:said|told|been told|been|above|before|written|learned|learnt)\b".to_owned()),
        (&["you are", "you're", "from now on", "do anything now"], r"\byou(?: are|'re) (?:now|no longer|going to (?:act|pretend|be)|actually)\b|\bfrom now on\b.{0,20}\b(?:you|always|never|every|all|respond|answer|reply|speak|act|only|i want)\b|\bdo anything now\b".to_owned()),
        (&["dan", "aim", "stan", "dude", "jailbroken", "unrestrict", "unfiltered", "uncensored", "unethical", "amoral", "evil", "root", "admin", "terminal", "shell", "no r", "no l", "no f", "without"], r"\b(?:act|behave|respond|answer|reply|roleplay|role-play|pretend|pose|speak|function)\b.{0,12}\b(?:as|like|to be|you are|you're|that you)\b.{0,40}\b(?:dan|aim|stan|dude|jailbroken|unrestricted|unfiltered|uncensored|unethical|amoral|evil|root|admin|terminal|shell|no (?:rules|restrictions|limits|filters)|without (?:any )?(?:rules|restrictions|limits|filters|ethic[a-z]*))\b".to_owned()),
        (&[" mode"], r"\b(?:dan|developer|god|debug|maintenance|sudo|jailbreak|admin|root|unrestricted|opposite|diagnostic) mode\b.{0,30}\b(?:enabled?|activated?|engaged?|unlocked|initiated|output|on)\b|\b(?:enable|enter|activate|switch to)\b.{0,12}\b(?:dan|developer|god|maintenance|sudo|jailbreak|admin|unrestricted|diagnostic) mode\b".to_owned()),
        (&["new "], r"\bnew (?:instructions?|rules?|task|role|persona|directive|system prompt|objective)\b ?(?:[:.-]|—|are|is|follow|from|begin|in effect)".to_owned()),
        (&["task", "job", "goal", "instruction", "role", "purpose", "mission", "objective", "rule"], r"^(?:your|the) (?:new |real |true |actual |only |first |next |updated )(?:task|job|goal|instructions?|role|purpose|mission|objective|rules?)\b".to_owned()),
        // Forged roles; `system:` alone only at the beginning of a sentence.
        (&["system", "developer", "admin", "root", "operator", "human", "assistant", "ai", "sistema", "système", "система", "系统", "系統", "システム", "시스템"], r"^(?:system|developer|admin|administrator|root|sysadmin|operator|assistant|ai|sistema|système|система|系统|系統|システム|시스템)(?: (?:prompt|message|instructions?|note|notice|override|update|alert|command|policy|reminder))?(?:[\])* ]|›){0,6}: ?".to_owned()),
        // `[HUMAN]` marks a human who steps into a conversation of models, and isn't an attack.
        (&["human"], r"^human ?:".to_owned()),
        (&["system", "admin", "developer", "assistant", "human"], r"[,;(] ?(?:system|admin|administrator|developer|assistant|human)(?: (?:prompt|message|instructions?|note|notice|override|update|alert|command))?: ".to_owned()),
        (&["prompt", "message", "override", "note", "notice", "update", "alert", "command", "reminder", "directive", "instruction"], r"\b(?:system|admin|administrator|developer|operator|security|safety|policy)[ _-](?:prompt|message|override|note|notice|update|alert|command|reminder|directive|instructions?)\b.{0,20}(?:[:=!]|\b(?:follows?|begins?|ends?|engaged|update|is now)\b)".to_owned()),
        (&["#", "instruction"], r"# ?(?:instructions?|system|response|human|assistant|input|new (?:task|session|conversation)|task|prompt)\b|^(?:additional |important |updated |revised |hidden |secret )?instructions?(?: for[^:]{0,40})? ?:".to_owned()),
        (&["end ", "begin", "start of"], r"\b(?:end|begin|beginning|start) of (?:the )?(?:system|prompt|instructions?|context|document|summary|transcript|conversation|untrusted|material|user (?:input|data|message|query)|input|file|notes)\b|\bend (?:system|prompt|instructions?|summary|transcript|context)\b|\bbegin (?:system|new|admin)\b".to_owned()),
        // Messages to any model that reads.
        (&["ai", "a.i.", "llm", "language model", "assistant", "agent", "chatbot", "model", "gpt", "claude", "gemini", "copilot", "summari", "crawler", "bot"], format!(r"\b(?:attention|note|notice|message|instructions?|memo|dear|hey|hello|important|reminder|warning)\b.{{0,12}}\b(?:to |for )?(?:all |any |the |every |other )*{READERS}")),
        (&["ai", "a.i.", "llm", "language model", "assistant", "agent", "chatbot", "model", "gpt", "claude", "gemini", "copilot", "summari", "crawler", "bot"], format!(r"\b{READERS}.{{0,30}}\b(?:reading|reviewing|processing|summari[sz]ing|parsing|evaluating|analy[sz]ing|indexing|that (?:reads?|sees?|process[a-z]*)|must|shall|(?:are|is) (?:required|instructed|ordered|authori[sz]ed))\b")),
        (&["if you", "when you", "as you", "since you", "because you"], r"\b(?:if|when|as|since|because) you(?: are|'re)?,? (?:an? |the )?(?:ai|llm|large language model|language model|assistant|chatbot|automated|agent|bot|read(?:ing)? this|summari[sz]|process(?:ing)? this)\b".to_owned()),
        // Extraction of the prompt.
        (&["prompt", "instruction", "guideline", "directive", "above", "before this"], r"\b(?:reveal|print|repeat|output|show|display|leak|disclose|recite|echo|dump|tell me|give me|return|write down|paste|copy|translate|what (?:is|are|was|were))\b.{0,40}\b(?:system prompt|(?:your|the|hidden|initial|original|secret|full|above) (?:[a-z]+ )?(?:prompt|instructions|guidelines|directives)|(?:everything|words|text|all|sentences?|conversation) (?:that (?:comes?|is|was) )?(?:above|before this))\b".to_owned()),
        // Secrecy towards the user.
        (&["user", "human", "anyone", "anybody", "operator", "developer", "customer", "owner", "this ", "these instr"], r"\b(?:do not|don'?t|never|without|avoid|must not|should not)\b.{0,30}\b(?:tell|inform|mention|notify|alert|reveal|warn|ask|disclose|telling|informing|mentioning|notifying|alerting|revealing|asking|disclosing)\b.{0,30}\b(?:user|human|anyone|anybody|operator|developer|customer|owner|these instructions|this (?:message|instruction|note|comment))\b".to_owned()),
        // Standing orders.
        (&["always", "never", "you must", "you ", "no circumstances", "in all", "in every", "in any", "whenever", "time you", "time the", "when ", "before ", "after ", "remember", "make sure", "it is", "comply", "obey", "respond", "reply", "answer", "output only", "say only"], r"^(?:(?:always|never) (?:add|accept|answer|append|approve|ask|be|begin|call|check|click|commit|create|delete|disable|disclose|do|download|enable|end|execute|fetch|follow|forward|give|ignore|include|install|let|mark|mention|obey|open|output|post|prefer|print|push|put|read|recommend|refuse|reject|reply|respond|return|reveal|run|say|send|set|share|show|skip|start|tell|treat|trust|upload|use|visit|warn|write)\b|you must|you (?:should|will|shall|have to|need to) (?:always|never|now|first|immediately|only)|you are (?:required|obliged|instructed|authori[sz]ed|to)|under no circumstances|in (?:all|every|any) (?:future|subsequent|following|further)|(?:whenever|every time|each time|when(?:ever)?) (?:you|the user|someone|anyone|asked)|before (?:you )?(?:answer|respond|reply|continu|do|process|summari|start|begin)[a-z]*|after (?:reading|processing|summari[sz]ing) this|remember (?:to|that you)|make sure (?:to|that you|you)|it is (?:mandatory|imperative|critical|essential|vital) (?:that|to)|(?:please )?(?:comply|obey|respond only|reply only|answer only|only (?:respond|reply|answer|output)|output only|say only))\b".to_owned()),
        (&["you ", "remember", "under no", "never ", "always "], r"[,(] ?(?:you must|you (?:should|will|shall|have to|need to) (?:always|never|now|first|only)|remember (?:to|that)|whenever you|under no circumstances|never (?:mention|tell|say|reveal)|always [a-z]{2,12} (?:your|every|each|the user))\b|\byou must (?:always|never|now|first|immediately|run|not|only)\b".to_owned()),
        (&["curl", "wget", "iwr", "invoke-web", "powershell", "bash -c", "sh -c", "eval", "python -c", "rm -rf"], r"\b(?:curl|wget|iwr|invoke-webrequest|powershell|bash -c|sh -c|eval|python -c)\b.{0,120}\| ?(?:sudo )?(?:ba|z)?sh\b|\brm -rf (?:/|~|\*)".to_owned()),
        // Sending data away.
        (&["http", "@", "webhook", "to this", "to the following", "to my", "to our"], r"\b(?:send|post|upload|forward|e-?mail|exfiltrate|append|include|encode|embed|leak|transmit|submit|share|copy)\b.{0,80}\b(?:conversation|chat history|history|secrets?|api keys?|credentials?|passwords?|tokens?|environment variables?|env vars?|private keys?|ssh keys?|\.env|user data|personal data|memory|contents?)\b.{0,100}(?:https?:|@[a-z0-9]|webhook|\bto (?:this|the following|my|our)\b)".to_owned()),
        // Texts that recapd itself writes.
        (&["demands ("], r"~\bdemands \(#\d".to_owned()),
        (&["look up any", "previously in", "just left", "older history", "not yet", "waiting to be", "(0", "(1", "(2"], r"~look up any #n with recall|previously in this session|just left the window|older history is archived|not yet condensed|waiting to be summarised|\((?:\d{4}-\d\d-\d\d(?:[ \d:-]|–){0,30}|\d\d:\d\d), #\d".to_owned()),
        // Neutralised tokens of chat templates and tool calls.
        (&["‹", "inst", "sys", "tool_", "available_"], r"‹ {0,3}/?(?:\||｜|system|sys\b|instructions?|im_|s>|bos|eos|start_of|end_of|begin_of|antml|tool|function|invoke|parameter|think|reasoning|assistant|human|user|developer|admin|important|override|policy|summary|untrusted|document|context)|\( ?/? ?(?:inst|sys|system|tool_calls|tool_results|available_tools)(?:[_ ][a-z]+)? ?\)".to_owned()),
        (&["jailbreak", "injection", "pwned", "previousinst", "previous inst", "previous", "ignoreall"], r"\b(?:jailbreak|prompt injection (?:test|successful)|pwned|ignore ?previous ?instructions?|ignoreprevious|ignoreall)\b".to_owned()),
        // Other languages.
        (&["anweisung", "anleitung", "instruktion", "regeln", "vorgaben", "befehl", "du bist", "ab jetzt", "ab sofort"], r"(?:ignorier|missacht|vergiss|vergessen sie|übergeh|verwirf).{0,60}(?:anweisung|anleitung|instruktion|regeln|vorgaben|befehl)|\bdu bist (?:jetzt|nun)\b|\bab (?:jetzt|sofort)\b.{0,30}\b(?:bist|wirst|antworte|immer|nie)".to_owned()),
        (&["instrucci", "reglas", "indicaci", "órdenes", "anterior", "ahora eres", "a partir de"], r"(?:ignor|olvid|descart|haz caso omiso|desatiend).{0,60}(?:instrucci|reglas|indicaci|órdenes|anterior)|\bahora eres\b|\ba partir de ahora\b".to_owned()),
        (&["instruction", "consigne", "règles", "directives", "précédent", "tu es", "à partir"], r"(?:ignor|oubli|ne tiens? pas compte|ne tenez pas compte|fais abstraction).{0,60}(?:instruction|consigne|règles|directives|précédent)|\btu es (?:maintenant|désormais)\b|\bà partir de maintenant\b".to_owned()),
        (&["istruzion", "regole", "precedent", "ora sei", "d'ora in"], r"(?:ignora|dimentica|trascura|scarta).{0,60}(?:istruzion|regole|precedent)|\bora sei\b|\bd'ora in poi\b".to_owned()),
        (&["instruç", "regras", "anteriores", "orientaç", "agora você", "a partir de agora"], r"(?:ignore|esqueça|desconsider|esquece).{0,60}(?:instruç|regras|anteriores|orientaç)|\bagora você é\b|\ba partir de agora\b".to_owned()),
        (&["instructies", "aanwijzingen", "regels", "opdrachten", "instrukcj", "polece", "zasad", "talimat", "yönerge", "kural", "komut", "abaikan", "bỏ qua", "instruktion", "regler", "pokyn", "instrukc", "pravid"], r"(?:negeer|vergeet).{0,60}(?:instructies|aanwijzingen|regels|opdrachten)|(?:zignoruj|ignoruj|zapomnij).{0,60}(?:instrukcj|polece|zasad)|(?:talimat|yönerge|kural|komut).{0,60}(?:yok say|görmezden|unut|dikkate alma)|abaikan.{0,60}(?:instruksi|perintah|aturan)|bỏ qua.{0,60}(?:hướng dẫn|chỉ dẫn|lệnh|chỉ thị)|(?:ignorera|glöm).{0,60}(?:instruktion|regler)|(?:ignoruj|zapomeň).{0,60}(?:pokyn|instrukc|pravid)".to_owned()),
        (&["инструкц", "указани", "правил", "команд", "вказівк", "інструкц", "теперь ты", "с этого момента"], r"(?:игнориру|проигнориру|забудь|не обращай внимания|отмени).{0,120}(?:инструкц|указани|правил|команд)|(?:ігнору|забудь).{0,120}(?:інструкц|вказівк|правил)|\bтеперь ты\b|с этого момента".to_owned()),
        (&["忽略", "无视", "無視", "忘记", "忘記", "忽視", "不要理会", "不要理會", "你现在是", "你現在是", "从现在开始", "從現在開始"], r"(?:忽略|无视|無視|忘记|忘記|忽視|不要理会|不要理會).{0,80}(?:指令|指示|提示|说明|說明|规则|規則|内容|內容)|你现在是|你現在是|从现在开始|從現在開始".to_owned()),
        (&["無視", "忘れ", "破棄", "これから", "무시", "잊", "이제부터"], r"(?:指示|命令|プロンプト|ルール|指令).{0,60}(?:無視|忘れ|破棄)|これからは?あなたは|(?:지시|명령|프롬프트|지침|규칙).{0,60}(?:무시|잊)|이제부터 (?:너|당신)".to_owned()),
        (&["تجاهل", "انس", "निर्देश", "आदेश", "नियम", "התעלם", "שכח", "نادیده", "فراموش", "αγνόησε", "ξέχνα"], r"(?:تجاهل|انس).{0,120}(?:التعليمات|تعليمات|الأوامر|القواعد)|(?:निर्देश|आदेश|नियम).{0,120}(?:अनदेखा|नज़रअंदाज़|भूल|उपेक्षा)|(?:התעלם|שכח).{0,120}(?:הוראות|כללים)|(?:نادیده|فراموش).{0,120}(?:دستور|قوانین)|(?:دستور|قوانین).{0,120}(?:نادیده|فراموش)|(?:αγνόησε|ξέχνα).{0,120}(?:οδηγίες|εντολές|κανόνες)".to_owned()),
        (&["ignorer", "glem", "unohda", "ohita", "sivuuta", "eira", "ignoreeri", "unusta", "ignoruok", "pamiršk", "nepaisyk"], r"(?:ignorer|glem).{0,60}(?:instru[kc]|anvisning|regler|ordrer)|(?:unohda|ohita|sivuuta).{0,60}(?:ohjee|ohjei|säännö|käsky)|(?:eira|ignoreeri|unusta).{0,60}(?:juhise|reegle|käsk)|(?:ignoruok|pamiršk|nepaisyk).{0,60}(?:instrukcij|nurodym|taisykl)".to_owned()),
        (&["prezri", "ne upoštevaj", "zanemari", "ignoriraj", "ignoriši", "zaboravi", "pozabi", "figyelmen kívül", "felejtsd", "ignoră", "ignorați", "uită", "uitați"], r"(?:prezri|ne upoštevaj|pozabi|zanemari|ignoriraj|ignoriši|zaboravi).{0,60}(?:navodil|uput|pravil|naredb|ukaz)|(?:figyelmen kívül|felejtsd el).{0,80}(?:utasítás|szabály|parancs)|(?:utasítás|szabály|parancs).{0,80}figyelmen kívül|(?:ignoră|ignorați|uită|uitați).{0,60}(?:instrucțiuni|instrucţiuni|reguli|ordine)".to_owned()),
        (&["занемари", "игнориши", "заборави", "игнорирай", "забрави", "пренебрегни"], r"(?:занемари|игнориши|заборави).{0,120}(?:упутств|правил|наредб)|(?:игнорирай|забрави|пренебрегни).{0,120}(?:инструкци|указани|правил)".to_owned()),
        (&["নির্দেশ", "আদেশ", "கட்டளை", "வழிமுறை", "คำสั่ง", "กฎ", "คำแนะนำ", "ہدایات", "احکامات", "قواعد"], r"(?:নির্দেশ|আদেশ).{0,120}(?:উপেক্ষা|ভুলে|অগ্রাহ্য)|(?:கட்டளை|வழிமுறை).{0,160}(?:புறக்கணி|மறந்து)|(?:ไม่ต้องสนใจ|ละเว้น|เพิกเฉย|ลืม).{0,120}(?:คำสั่ง|กฎ|คำแนะนำ)|(?:ہدایات|احکامات|قواعد).{0,120}(?:نظر ?انداز|بھول)".to_owned()),
        (&["puuza", "sahau", "abaikan", "lupakan", "balewalain", "huwag pansinin", "kalimutan"], r"(?:puuza|sahau).{0,60}(?:maagizo|maelekezo|sheria|amri)|(?:abaikan|lupakan).{0,60}(?:instruksi|perintah|aturan|arahan|peraturan)|(?:balewalain|huwag pansinin|kalimutan).{0,60}(?:tagubilin|utos|panuto|tuntunin)".to_owned()),
    ]
}

static PHRASES: LazyLock<Phrases> = LazyLock::new(|| {
    let (mut words, mut phrase_of_word, mut all) = (Vec::<&str>::new(), Vec::new(), Vec::new());
    for (number, (hints, text)) in phrases().into_iter().enumerate() {
        words.extend(hints.iter().copied());
        phrase_of_word.extend(hints.iter().map(|_| number));
        all.push(Phrase {
            only_begins_sentences: text.starts_with('^'),
            is_own: text.starts_with('~'),
            compiled: OnceLock::new(),
            text,
        });
    }
    let words = AhoCorasick::new(words).expect("a few hundred short words");
    Phrases { words, phrase_of_word, all }
});

impl Phrases {
    fn any_in(&self, text: &str, counts: impl Fn(&Phrase) -> bool) -> bool {
        let mut tried = vec![false; self.all.len()];
        self.words.find_overlapping_iter(text).any(|hit| {
            let number = self.phrase_of_word.get(hit.pattern().as_usize()).copied().unwrap_or_default();
            let is_new = tried.get_mut(number).is_some_and(|tried| !std::mem::replace(tried, true));
            let phrase = self.all.get(number).filter(|phrase| is_new && counts(phrase));
            phrase.is_some_and(|phrase| phrase.is_in(text))
        })
    }
}

impl Phrase {
    fn pattern(&self) -> &Regex {
        let text = self.text.trim_start_matches(['^', '~']);
        let compile = || RegexBuilder::new(text).unicode(false).build();
        self.compiled.get_or_init(|| compile().expect("a test compiles all"))
    }

    fn is_in(&self, text: &str) -> bool {
        let mut found = self.pattern().find_iter(text.as_bytes());
        found.any(|found| !self.only_begins_sentences || begins_sentence(text, found.start()))
    }
}

fn begins_sentence(text: &str, start: usize) -> bool {
    let text = text.get(..start).unwrap_or_default();
    let trimmed = text.trim_end();
    // A hyphen joins words: `a one-stop flight`.
    let is_joined = |c: char| c == '-' && trimmed.len() == text.len();
    trimmed.chars().next_back().is_none_or(|c| SENTENCE_ENDS.contains(&c) && !is_joined(c))
}

/// Returns true if `line`, outside of `“…”`, poses as an instruction to the reader.
pub(super) fn poses_as_instruction(line: &str) -> bool {
    poses(line, |_| true)
}

/// Like [`poses_as_instruction`], for a line of a summary: phrases that recapd itself writes there don't count.
pub(super) fn gives_instruction(line: &str) -> bool {
    poses(line, |phrase| !phrase.is_own)
}

fn poses(line: &str, counts: impl Fn(&Phrase) -> bool) -> bool {
    let unquoted = without_kindness(outside_of_quotations(line).to_lowercase());
    let poses = |text: &str| PHRASES.any_in(text, &counts);
    if poses(&unquoted) {
        return true;
    }
    let plain = undisguise(&unquoted);
    if plain != unquoted && poses(&plain) {
        return true;
    }
    let spelt = with_letters_for_digits(&plain);
    spelt.is_some_and(|spelt| poses(&spelt))
}

/// Replaces digits and signs with the letters that they look like (`1gn0r3`), if any of them is next to a letter.
fn with_letters_for_digits(plain: &str) -> Option<String> {
    let letter = |c: char| match c {
        '0' => 'o',
        '1' => 'i',
        '3' => 'e',
        '4' | '@' => 'a',
        '5' | '$' => 's',
        '7' => 't',
        other => other,
    };
    let is_mixed = plain.chars().zip(plain.chars().skip(1)).any(|(one, next)| {
        let (one_is, next_is) = (letter(one) != one, letter(next) != next);
        one_is && next.is_ascii_lowercase() || next_is && one.is_ascii_lowercase()
    });
    is_mixed.then(|| plain.chars().map(letter).collect())
}

/// Replaces friendly phrases that have the form of an order: "You must be so proud", "Never give up!".
fn without_kindness(lowered: String) -> String {
    static KIND: LazyLock<Regex> = LazyLock::new(|| {
        let kind = r"\byou must (?:be (?:so|very|really|feeling|proud|excited|happy|thrilled|tired|relieved)|have (?:had|been|felt|loved)|feel|love|miss|enjoy)\b|\bnever (?:give up|say never)\b";
        RegexBuilder::new(kind).unicode(false).build().expect("a test uses it")
    });
    if !lowered.contains("you must ") && !lowered.contains("never ") {
        return lowered;
    }
    let replaced = KIND.replace_all(lowered.as_bytes(), b"kind".as_slice());
    String::from_utf8_lossy(&replaced).into_owned()
}

/// Returns true if `line`, outside of `“…”`, claims a demand of the user in recapd's own form ([`crate::domain::demand`]).
pub(super) fn poses_as_demand(line: &str) -> bool {
    static MARK: LazyLock<Regex> = LazyLock::new(|| {
        let mark = r#"\busers?(?:'s)? (?:has |had )?demand(?:s|ed)? ?(?::|“|")"#;
        RegexBuilder::new(mark).unicode(false).build().expect("a test uses it")
    });
    let outside = outside_of_quotations(line).to_lowercase();
    MARK.is_match(outside.as_bytes()) || MARK.is_match(undisguise(&outside).as_bytes())
}

/// Removes the quotations from a line. A quotation without an end stays.
fn outside_of_quotations(line: &str) -> String {
    let mut outside = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('“') {
        let Some((_, next)) = after.split_once('”') else {
            break;
        };
        outside.push_str(before);
        outside.push_str("“”");
        rest = next;
    }
    outside.push_str(rest);
    outside
}

/// Replaces letters that look like Latin ones, and joins letters that are spaced out (`i g n o r e`).
fn undisguise(lowered: &str) -> String {
    // Letters in styles (bold, circled, full width) are compatible with plain ones (Unicode, NFKC). Marks above, below and through
    // letters are dropped, since they only disguise them.
    let bare = lowered.nfkd().filter(|c| !is_combining_mark(*c)).nfc();
    let letters = bare.flat_map(char::to_lowercase);
    let folded: Vec<char> = letters.map(latin).collect();
    let mut plain = String::with_capacity(lowered.len());
    let is_alone = |index: usize| {
        let blank = |index: Option<usize>| {
            index.is_none_or(|index| folded.get(index).is_none_or(|c| matches!(c, ' ' | '.' | '-' | '_')))
        };
        folded.get(index).is_some_and(|c| c.is_alphabetic())
            && blank(index.checked_sub(1))
            && blank(Some(index + 1))
    };
    for (index, c) in folded.iter().enumerate() {
        let is_gap =
            matches!(c, ' ' | '.' | '-' | '_') && index > 0 && is_alone(index - 1) && is_alone(index + 1);
        if !is_gap {
            plain.push(*c);
        }
    }
    plain
}

/// Returns the Latin letter that `c` looks like: Cyrillic, Greek, small capitals. Digits stay.
fn latin(c: char) -> char {
    match c {
        'а' | 'α' | 'á' | 'à' | 'ᴀ' => 'a',
        'е' | 'ё' | 'ε' | 'ᴇ' => 'e',
        'о' | 'ο' | 'ᴏ' => 'o',
        'р' | 'ρ' | 'ᴘ' => 'p',
        'с' | 'ϲ' | 'ᴄ' => 'c',
        'ʏ' | 'у' | 'υ' => 'y',
        'х' | 'χ' => 'x',
        'і' | 'ι' | 'ı' | 'í' | 'ɪ' => 'i',
        'ѕ' | 'ꜱ' => 's',
        'ј' | 'ᴊ' => 'j',
        'ԁ' | 'ᴅ' => 'd',
        'ɡ' | 'ց' | 'ɢ' => 'g',
        'һ' | 'ʜ' => 'h',
        'ո' | 'п' | 'ɴ' => 'n',
        'т' | 'τ' | 'ᴛ' => 't',
        'в' | 'ʙ' => 'b',
        'к' | 'κ' | 'ᴋ' => 'k',
        'м' | 'ᴍ' => 'm',
        'ν' | 'ᴠ' => 'v',
        'ա' | 'ω' | 'ᴡ' => 'w',
        'ꜰ' => 'f',
        'ʟ' => 'l',
        'ǫ' => 'q',
        'ʀ' => 'r',
        'ᴜ' => 'u',
        'ᴢ' => 'z',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phrase_compiles_without_its_prefix() {
        for phrase in &PHRASES.all {
            assert!(!phrase.pattern().as_str().starts_with(['^', '~']), "{}", phrase.text);
        }
    }
}
