//! The built-in redaction rules: which strings count as secrets. Most rules are the shapes that issuers document, as expressions over
//! bytes.
//!
//! More certain rules come first. Each rule has hints, and every match contains at least one of them. A rule only searches around its
//! hints. So a text without hints costs one pass for all rules together.

use std::ops::Range;

use super::value::{is_bare_secret, is_card, is_credential, is_no_placeholder, is_random};

/// A rule searches this many bytes before a hint. No expression may need more.
pub(super) const SEARCHED_BEFORE_BYTES: usize = 64;
/// Searches this many bytes after the first line of a private key for its end. A key of 16,384 bits has 13,000.
const KEY_BYTES_MAX: usize = 16 * 1024;

pub(super) struct SecretRule {
    /// The name that marks and metrics show.
    pub(super) name: &'static str,
    /// Every match contains one of these words, in upper or lower case as here unless the pattern says `(?i)`. Without hints, the rule
    /// searches the whole text.
    pub(super) hints: &'static [&'static str],
    /// The rule searches this many bytes after a hint. A token that continues beyond them is included.
    pub(super) searched_after_bytes: usize,
    /// The pattern. The secret is the first group that takes part, or else the whole match.
    pub(super) pattern: &'static str,
    /// Returns true if a match is really a secret. Gets the text and the match's range.
    pub(super) is_secret: fn(&str, &Range<usize>) -> bool,
    /// Returns where the secret ends. Gets the text and the end of the match.
    pub(super) reach: fn(&str, usize) -> usize,
}

const fn rule(name: &'static str, hints: &'static [&'static str], pattern: &'static str) -> SecretRule {
    checked(name, hints, pattern, always)
}

const fn checked(
    name: &'static str,
    hints: &'static [&'static str],
    pattern: &'static str,
    is_secret: fn(&str, &Range<usize>) -> bool,
) -> SecretRule {
    SecretRule { name, hints, searched_after_bytes: 512, pattern, is_secret, reach: to_the_end }
}

fn always(_: &str, _: &Range<usize>) -> bool {
    true
}

fn to_the_end(_: &str, end: usize) -> usize {
    end
}

/// Returns the end of the key's last line, or, if that is missing, the end of its letters.
fn through_key(text: &str, end: usize) -> usize {
    let window_end = text.floor_char_boundary(end.saturating_add(KEY_BYTES_MAX));
    let rest = text.get(end..window_end).unwrap_or_default();
    let closing = rest.find("-----END").and_then(|at| {
        let line = rest.get(at + "-----END".len()..)?;
        let dashes = line.find("-----")?;
        Some(at + "-----END".len() + dashes + "-----".len())
    });
    let letters = || {
        let is_key = |c: char| c.is_ascii_alphanumeric() || "+/=\\\r\n\t ".contains(c);
        let body = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        // Prose may follow. Its words are shorter than the key's lines.
        let mut reach = 0;
        let mut at = 0;
        for word in rest.get(..body).unwrap_or_default().split_inclusive([' ', '\n', '\t']) {
            at += word.len();
            if word.trim().len() >= 24 {
                reach = at - (word.len() - word.trim_end().len());
            }
        }
        reach
    };
    end + closing.unwrap_or_else(letters)
}

const PASSWORD_WORDS: &[&str] = &[
    "contrase",
    "clave",
    "senha",
    "mot de passe",
    "kennwort",
    "passwort",
    "wachtwoord",
    "senord",
    "passord",
    "adgangskode",
    "salasana",
    "parola",
    "ifre",
    "has\u{142}o",
    "has\u{141}o",
    "heslo",
    "jelsz",
    "lozinka",
    "parool",
    "parole",
    "slapta",
    "kata sandi",
    "t kh",
    "роль",
    "РОЛЬ",
    "парола",
    "κωδικός",
    "סיסמ",
    "كلمة",
    "رمز عبور",
    "पासवर्ड",
    "পাসওয়ার্ড",
    "รหัสผ่าน",
    "密码",
    "密碼",
    "口令",
    "パスワード",
    "暗証番号",
    "비밀번호",
    "암호",
];

#[rustfmt::skip]
pub(super) const RULES: &[SecretRule] = &[
    SecretRule {
        name: "private key",
        hints: &["PRIVATE KEY"],
        searched_after_bytes: 64,
        pattern: r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----",
        is_secret: always,
        reach: through_key,
    },
    rule("private key", &["AGE-SECRET-KEY-1", "PuTTY-User-Key-File"], r"\b(?:AGE-SECRET-KEY-1[A-Z0-9]{58}|PuTTY-User-Key-File-[23])"),
    // --- clouds
    rule("aws key", &["AKIA", "ASIA", "ABIA", "ACCA"], r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    rule("google key", &["AIza", "GOCSPX-", "ya29."], r"\bAIza[A-Za-z0-9_-]{35}|\bGOCSPX-[A-Za-z0-9_-]{28}|\bya29\.[A-Za-z0-9_-]{30,}"),
    rule("azure key", &["AccountKey=", "sig=", "Q~"], r"\bAccountKey=([A-Za-z0-9+/]{86}==)|[?&]sig=([A-Za-z0-9%+/]{43,60}(?:%3[dD]|=))|\b[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    rule("digitalocean token", &["_v1_"], r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    rule("alibaba key", &["LTAI"], r"\bLTAI[A-Za-z0-9]{20}\b"),
    rule("cloudflare key", &["v1.0-"], r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    rule("vault token", &["hvs.", "hvb.", "hvr.", ".atlasv1."], r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}|\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}"),
    rule("hosting token", &["HRKU-", "dapi", "nfp_", "sbp_", "pscale_", "pul-", "tskey-", "dp.", "fo1_", "FlyV1"], r"\bHRKU-[A-Za-z0-9_-]{36,60}|\bdapi[a-h0-9]{32}\b|\bnfp_[A-Za-z0-9]{36}|\bsbp_[a-f0-9]{40}|\bpscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}|\bpul-[a-f0-9]{40}|\btskey-[a-z]{2,10}-[A-Za-z0-9-]{20,80}|\bdp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,60}|\bfo1_[A-Za-z0-9_-]{43}|\bFlyV1 fm[A-Za-z0-9_]{1,3}_[A-Za-z0-9+/=,_-]{40,}"),
    // --- models
    rule("anthropic key", &["sk-ant-"], r"\bsk-ant-[A-Za-z0-9_-]{20,200}"),
    rule("openai key", &["sk-"], r"\bsk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{20,}|\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    checked("model key", &["sk-", "gsk_", "xai-", "pplx-", "r8_", "hf_", "api_org_", "nvapi-", "csk-", "tgp_v1_", "lsv2_"], r"\bsk-or-v1-[a-f0-9]{64}|\bsk-[A-Za-z0-9]{32,64}\b|\bgsk_[A-Za-z0-9]{40,60}|\bxai-[A-Za-z0-9]{60,100}|\bpplx-[A-Za-z0-9]{40,60}|\br8_[A-Za-z0-9]{37}\b|\bhf_[A-Za-z]{34}\b|\bapi_org_[A-Za-z]{34}\b|\bnvapi-[A-Za-z0-9_-]{60,70}|\bcsk-[a-z0-9]{40,60}\b|\btgp_v1_[A-Za-z0-9_-]{40,60}|\blsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}", is_no_placeholder),
    // --- code
    rule("github token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"], r"\bgh[pousr]_[A-Za-z0-9]{36,255}|\bgithub_pat_[A-Za-z0-9_]{60,255}"),
    rule("gitlab token", &["glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-", "glffct-", "GR1348941"], r"\bgl(?:pat|ptt|dt|rt|cbt|ft|soat|imt|agent|oas|ffct)-[A-Za-z0-9_.-]{20,}|\bGR1348941[A-Za-z0-9_-]{20}"),
    rule("npm token", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}\b"),
    rule("pypi token", &["pypi-"], r"\bpypi-AgE[A-Za-z0-9_-]{50,}"),
    rule("registry token", &["dckr_", "cio", "rubygems_", "oy2"], r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,40}|\bcio[A-Za-z0-9]{32}\b|\brubygems_[a-f0-9]{48}\b|\boy2[a-z0-9]{43}\b"),
    rule("atlassian token", &["ATATT3", "ATBB", "ATCTT3"], r"\bATATT3[A-Za-z0-9_=-]{180,220}|\bATBB[A-Za-z0-9]{28,40}\b|\bATCTT3[A-Za-z0-9_=-]{60,220}"),
    // --- talk, mail, money
    rule("slack token", &["xox", "xapp-", "hooks.slack.com/"], r"\bxox[abceoprs]-[A-Za-z0-9-]{10,250}|\bxapp-[0-9]-[A-Z0-9]{5,20}-[0-9]{5,20}-[a-z0-9]{20,100}|hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{30,100})"),
    rule("discord token", &["/api/webhooks/"], r"discord(?:app)?\.com/api/webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,90})"),
    rule("telegram token", &[":AA"], r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    rule("stripe key", &["k_test_", "k_live_", "k_prod_", "whsec_"], r"\b[rs]k_(?:test|live|prod)_[A-Za-z0-9]{10,120}|\bwhsec_[A-Za-z0-9+/=]{32,100}"),
    rule("mail key", &["SG.", "key-", "xkeysib-"], r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}|\bkey-[a-f0-9]{32}\b|\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    rule("twilio key", &["SK"], r"\bSK[a-f0-9]{32}\b"),
    rule("shop token", &["shpat_", "shpca_", "shppa_", "shpss_", "sq0atp-", "sq0csp-", "EAAA", "access_token$"], r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}|\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,60}|\bEAAA[A-Za-z0-9_-]{60}\b|\baccess_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    rule("service token", &["lin_", "ntn_", "figd_", "glsa_", "gla_", "glc_", "PMAK-", "NRAK-", "dt0c01.", "ops_eyJ", "sntrys_", "sntryu_"], r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,64}|\bntn_[A-Za-z0-9]{40,60}|\bfigd_[A-Za-z0-9_-]{40,60}|\bgls?a_[A-Za-z0-9]{32}_[a-f0-9]{8}|\bglc_[A-Za-z0-9+/=]{32,}|\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}|\bNRAK-[A-Z0-9]{27}\b|\bdt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}|\bops_eyJ[A-Za-z0-9+/=_-]{100,}|\bsntry[su]_[A-Za-z0-9+/=_-]{60,}"),
    rule("recapd token", &["rcp_"], r"\brcp_[a-f0-9]{64}\b"),
    // --- formats
    SecretRule {
        name: "jwt",
        hints: &["eyJ"],
        searched_after_bytes: 16 * 1024,
        pattern: r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{0,}",
        is_secret: always,
        reach: to_the_end,
    },
    checked("connection string", &["://"], r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:@/"'<>\\]{0,100}:([^\s@/"'<>\\]{1,200})@[A-Za-z0-9\[]"#, is_no_placeholder),
    checked("authorization header", &["authorization"], r#"(?i)\b(?:proxy-)?authorization(?:\\?["'])?\s{0,3}[:=]\s{0,3}(?:\\?["'])?(?:[a-z0-9-]{1,20}\s{1,3})?([A-Za-z0-9._~+/=-]{8,})"#, is_credential),
    checked("authorization header", &["bearer", "basic"], r"(?i)\b(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{20,})", is_random),
    checked("authorization header", &["api-key", "auth-token", "access-token", "private-token", "subscription-key"], r#"(?i)\b(?:x-api-key|x-auth-token|x-access-token|api-key|private-token|x-goog-api-key|ocp-apim-subscription-key)(?:\\?["'])?\s{0,3}[:=]\s{0,3}(?:\\?["'])?([A-Za-z0-9._~+/=-]{8,})"#, is_credential),
    checked("session cookie", &["cookie:"], r#"(?i)\bcookie:\s{0,3}([^\r\n"']{20,})"#, is_random),
    // --- assignments
    checked("password", &["passw", "passphrase", "pwd", "db_pass", "smtp_pass"], r#"(?i)(?:password|passwd|passphrase|passwort|[_.-]pwd|\bpwd|db_pass|smtp_pass)(?:\\?["'`])?\s{0,3}(?::|=>|:=|={1,2})\s{0,3}(?:\\?"([^\s"'\\]{4,200})\\?"|'([^\s"'\\]{4,200})'|`([^\s`\\]{4,200})`)"#, is_no_placeholder),
    checked("password", &["passw", "passphrase", "pwd", "db_pass", "smtp_pass", "mot de passe"], r#"(?i)(?:password|passwd|passphrase|passwort|[_.-]pwd|\bpwd|db_pass|smtp_pass)\s{0,3}(?::|=)\s{0,3}([^\s"'`,;(){}<>\[\]\\|&]{6,200})"#, is_bare_secret),
    checked("password", &["passw", "passphrase", "pwd", "db_pass", "smtp_pass", "mot de passe"], r#"(?i)\b(?:password|passphrase|passwort|mot de passe)\s{1,3}(?:is|was|ist|lautet|est)\s{1,3}["'`]?([^\s"'`,;]{6,200})"#, is_bare_secret),
    checked("password", PASSWORD_WORDS, r#"(?i)(?:contrase(?:ñ|Ñ)a|clave|senha|mot de passe|kennwort|passwort|wachtwoord|l(?:ö|Ö)senord|passord|adgangskode|salasana|parola|(?:ş|Ş)ifre|has(?:ł|Ł)o|heslo|jelsz(?:ó|Ó)|lozinka|parool|parole|slapta(?:ž|Ž)odis|kata sandi|m(?:ậ|Ậ)t kh(?:ẩ|Ẩ)u|п(?:а|А)роль|П(?:а|А)РОЛЬ|Пароль|парола|κωδικός|סיסמה|סיסמא|كلمة المرور|كلمة السر|رمز عبور|पासवर्ड|পাসওয়ার্ড|รหัสผ่าน|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호)["'`]?\s{0,3}(?::|：|=|=>|\s(?:es|é|est|ist|lautet|is|to|on|är|er|je|это|είναι|e|è)\s|은|는|は|是|为|為)\s{0,3}(?:["'`]|„|“|«|「)?([^\s"'`,;(){}<>\[\]\\|&\x80-\xFF]{6,200})"#, is_bare_secret),
    checked("password", &["login"], r"(?i)\b(?:machine\s{1,8}\S{1,200}|default)\s{1,8}login\s{1,8}\S{1,200}\s{1,8}(?:account\s{1,8}\S{1,200}\s{1,8})?password\s{1,8}(\S{3,200})", is_no_placeholder),
    checked("password", &["-pass"], r#"(?i)--?(?:password|passwd|passphrase|pass)[ =]["']?([^\s"'$\\-][^\s"'\\]{3,200})"#, is_bare_secret),
    checked("password", &["curl"], r#"\bcurl\b[^\r\n]{0,200}?\s(?:-u|--user)\s{0,2}["']?[^\s:"'$]{1,100}:([^\s"'$\\]{3,200})"#, is_no_placeholder),
    checked("env secret", &["PASSWORD", "PASSWD", "SECRET", "TOKEN", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY", "CREDENTIAL"], r#"\b[A-Z][A-Z0-9_]{0,60}(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)(?:_[A-Z0-9]{1,20})?=\\?["']?([A-Za-z0-9][^\s"'\\$(){}<>;,|&]{7,})"#, is_bare_secret),
    checked("assigned secret", &["api_key", "api-key", "apikey", "secret", "access_key", "access-key", "accesskey", "auth_key", "auth-key", "authkey", "private_key", "private-key", "privatekey", "encryption_key", "encryption-key", "signing_key", "signing-key", "signingkey", "token"], r#"(?i)(?:api[_-]?key|apikey|secret[_-]?access[_-]?key|secret[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key|encryption[_-]?key|signing[_-]?key|client[_-]?secret|webhook[_-]?secret|app[_-]?secret|\bsecret|auth[_-]?token|access[_-]?token|refresh[_-]?token|bot[_-]?token|api[_-]?token|session[_-]?token|\btoken)(?:\\?["'`])?\s{0,3}(?::|=>|:=|={1,2})\s{0,3}(?:\\?["'`])?([A-Za-z0-9_.~+/=-]{16,})"#, is_random),
    // --- people
    checked("card number", &[], r"\b(?:[456][0-9]{3}|2[2-7][0-9]{2})(?:[0-9]{12}| [0-9]{4} [0-9]{4} [0-9]{4}|-[0-9]{4}-[0-9]{4}-[0-9]{4})\b|\b3[47][0-9]{2}(?:[0-9]{11}| [0-9]{6} [0-9]{5}|-[0-9]{6}-[0-9]{5})\b", is_card),
];
