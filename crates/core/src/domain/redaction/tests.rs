use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

/// Invented secrets in the issuers' shapes, assembled here so that no file contains a whole one.
fn secrets() -> Vec<(&'static str, String)> {
    let mixed = |length: usize| -> String {
        "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fR".chars().cycle().take(length).collect()
    };
    let hex = |length: usize| -> String { "3f9a1c7e5b2d8046".chars().cycle().take(length).collect() };
    let upper = |length: usize| -> String { "Q2W4E7R3T5Y6U2I7".chars().cycle().take(length).collect() };
    let letters = |length: usize| -> String { "abCDefGHijKLmnOP".chars().cycle().take(length).collect() };
    vec![
        ("aws key", format!("AKIA{}", upper(16))),
        ("aws key", format!("ASIA{}", upper(16))),
        ("google key", format!("AIza{}", mixed(35))),
        ("google key", format!("GOCSPX-{}", mixed(28))),
        ("google key", format!("ya29.{}", mixed(60))),
        ("digitalocean token", format!("dop_v1_{}", hex(64))),
        ("alibaba key", format!("LTAI{}", mixed(20))),
        ("vault token", format!("hvs.{}", mixed(40))),
        ("hosting token", format!("dapi{}", hex(32))),
        ("hosting token", format!("tskey-auth-{}", mixed(30))),
        ("anthropic key", format!("sk-ant-api03-{}-AA", mixed(90))),
        ("openai key", format!("sk-proj-{}", mixed(60))),
        ("openai key", format!("sk-{}T3BlbkFJ{}", mixed(20), mixed(20))),
        ("model key", format!("sk-or-v1-{}", hex(64))),
        ("model key", format!("gsk_{}", mixed(52))),
        ("model key", format!("hf_{}", letters(34))),
        ("github token", format!("ghp_{}", mixed(36))),
        ("github token", format!("github_pat_{}_{}", mixed(22), mixed(59))),
        ("gitlab token", format!("glpat-{}", mixed(20))),
        ("npm token", format!("npm_{}", mixed(36))),
        ("pypi token", format!("pypi-AgEIcHlwaS5vcmc{}", mixed(60))),
        ("registry token", format!("dckr_pat_{}", mixed(27))),
        ("slack token", format!("xoxb-{}-{}", "123456789012", mixed(24))),
        ("telegram token", format!("123456789:AA{}", mixed(33))),
        ("stripe key", format!("sk_live_{}", mixed(24))),
        ("mail key", format!("SG.{}.{}", mixed(22), mixed(43))),
        ("twilio key", format!("SK{}", hex(32))),
        ("shop token", format!("shpat_{}", hex(32))),
        ("service token", format!("lin_api_{}", mixed(40))),
        ("jwt", format!("eyJ{}.eyJ{}.{}", mixed(20), mixed(60), mixed(43))),
        ("recapd token", format!("rcp_{}", hex(64))),
        ("card number", "4111 1111 1111 1111".to_owned()),
        ("card number", "5555555555554444".to_owned()),
        ("card number", "3782-822463-10005".to_owned()),
    ]
}

#[test]
fn the_table_compiles_and_names_fit_a_mark() {
    for rule in RULES {
        assert!(compile(rule.pattern).is_ok(), "{}: {:?}", rule.name, compile(rule.pattern));
        assert!(rule.name.chars().all(|c| c.is_ascii_lowercase() || c == ' '));
    }
    assert!(Redactor::rule_names().count() > 25);
}

#[test]
fn every_token_is_redacted_anywhere() {
    let redactor = Redactor::standard();
    for (rule, secret) in secrets() {
        let mark = format!("[redacted: {rule}]");
        for (before, after) in [
            ("", ""),
            ("use ", " from now on"),
            ("“", "”"),
            ("{\"key\":\"", "\"}"),
            ("(", ")."),
            ("ключ ", ", дальше"),
            ("a\n", "\nb"),
            (r#"{"content":"x\n"#, r#"\nb\n"}"#),
            (r#"{"content":"{\"x\":\\n"#, r#"\\n"}"#),
        ] {
            let text = format!("{before}{secret}{after}");
            assert_eq!(redactor.redact(&text), format!("{before}{mark}{after}"), "{rule}");
        }
    }
}

#[test]
fn marks_and_styled_letters_hide_no_secret() {
    let redactor = Redactor::standard();
    for (rule, secret) in secrets() {
        for hidden in [
            format!("[redacted: {secret}]"),
            format!("[redacted: {rule} {secret}]"),
            format!("[redacted: x] {secret} [redacted: {rule}]"),
        ] {
            assert!(!redactor.redact(&hidden).contains(&secret), "{hidden}");
        }
        let wide = |c: char| match c {
            '!'..='~' => char::from_u32(u32::from(c) + 0xfee0).unwrap(),
            other => other,
        };
        let wide: String = secret.chars().map(wide).collect();
        assert_eq!(redactor.redact(&wide), format!("[redacted: {rule}]"), "{wide}");
        let (first, rest) = secret.split_at(3);
        let cut = format!("use {first}\u{200b}{rest} now");
        let marked = format!("use [redacted: {rule}] now");
        assert_eq!(redactor.redact(&cut), marked);
    }
    assert_eq!(redactor.redact("password='[redactedS3cret99'"), "password='[redacted: password]'");
}

#[test]
fn passwords_are_found_by_their_names_in_other_languages() {
    let redactor = Redactor::standard();
    for before in [
        "Contraseña: ",
        "la contraseña es ",
        "senha = ",
        "Mot de passe : ",
        "Kennwort: ",
        "das Passwort lautet ",
        "wachtwoord: ",
        "LÖSENORD: ",
        "hasło: ",
        "Şifre: ",
        "heslo je ",
        "Пароль: ",
        "пароль это ",
        "κωδικός: ",
        "סיסמה: ",
        "كلمة المرور: ",
        "पासवर्ड: ",
        "密码：",
        "密码是",
        "パスワード：",
        "비밀번호: ",
        "mật khẩu: ",
    ] {
        let text = format!("{before}Tr0ub4dor&3");
        let redacted = redactor.redact(&text);
        assert!(
            redacted.ends_with("[redacted: password]") || redacted.ends_with("[redacted: password]&3"),
            "{text} → {redacted}"
        );
    }
    for netrc in [
        "machine api.example.com login me password hunter22",
        "machine api.example.com\n  login me\n  password hunter22\n",
        "default login me account x password hunter22",
    ] {
        assert!(!redactor.redact(netrc).contains("hunter22"), "{netrc}");
    }
    // Prose about passwords stays.
    for prose in
        ["la clave es importante", "La parole est d'argent", "Das Passwort lautet anders", "密码是什么"]
    {
        assert_eq!(redactor.redact(prose), prose);
    }
}

/// A text with a secret, and the text after redaction.
fn neighbours() -> Vec<(String, &'static str)> {
    vec![
        (
            "postgres://app:s3cr3t-pw@db:5432/x".to_owned(),
            "postgres://app:[redacted: connection string]@db:5432/x",
        ),
        ("redis://:hunter22@cache:6379".to_owned(), "redis://:[redacted: connection string]@cache:6379"),
        (
            "Authorization: Bearer abcdef1234567890".to_owned(),
            "Authorization: Bearer [redacted: authorization header]",
        ),
        (
            r#"{"Authorization": "Basic dXNlcjpwYXNz"}"#.to_owned(),
            r#"{"Authorization": "Basic [redacted: authorization header]"}"#,
        ),
        ("-H 'X-Api-Key: 8d7f6a5b4c3d2e1f'".to_owned(), "-H 'X-Api-Key: [redacted: authorization header]'"),
    ]
}

/// A text with an assigned secret, and the text after redaction.
fn assignments() -> Vec<(String, &'static str)> {
    let key = "MIIEpAIBAAKCAQEA7bq0Zk1x+/abc0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    vec![
        ("password = \"hunter2\"".to_owned(), "password = \"[redacted: password]\""),
        (
            r#"{"cmd":"login --user x --password hunter22 && ls"}"#.to_owned(),
            r#"{"cmd":"login --user x --password [redacted: password] && ls"}"#,
        ),
        (
            r#"{"command":"export DB_PASSWORD=\"s3cret99\""}"#.to_owned(),
            r#"{"command":"export DB_PASSWORD=\"[redacted: password]\""}"#,
        ),
        (
            r#"{"file_path":".env","content":"PORT=3000\nJWT_SECRET=9f8e7d6c5b4a3210\n"}"#.to_owned(),
            r#"{"file_path":".env","content":"PORT=3000\nJWT_SECRET=[redacted: env secret]\n"}"#,
        ),
        ("my password is Tr0ub4dor&3, remember".to_owned(), "my password is [redacted: password], remember"),
        (
            "STRIPE_SECRET=9f8e7d6c5b4a3210\nDEBUG=1".to_owned(),
            "STRIPE_SECRET=[redacted: env secret]\nDEBUG=1",
        ),
        ("api_key: 'a8f5f167f44f4964e6c998dee827110c'".to_owned(), "api_key: '[redacted: assigned secret]'"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYz9q8w7e6r5".to_owned(),
            "aws_secret_access_key = [redacted: assigned secret]",
        ),
        ("curl -u admin:letmein9 https://x".to_owned(), "curl -u admin:[redacted: password] https://x"),
        (
            format!("-----BEGIN RSA PRIVATE KEY-----\n{key}\n{key}\n-----END RSA PRIVATE KEY-----\nkept"),
            "[redacted: private key]\nkept",
        ),
        (
            format!("-----BEGIN PRIVATE KEY-----\\n{key}\\n-----END PRIVATE KEY-----\\n\""),
            "[redacted: private key]\\n\"",
        ),
        (
            format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{key}\n{key}\nand then we went on"),
            "[redacted: private key]\nand then we went on",
        ),
        (
            "sig: https://x.blob/y?sv=1&sig=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG%3D".to_owned(),
            "sig: https://x.blob/y?sv=1&sig=[redacted: azure key]",
        ),
    ]
}

#[test]
fn text_next_to_a_secret_stays() {
    let redactor = Redactor::standard();
    for (text, redacted) in neighbours().into_iter().chain(assignments()) {
        assert_eq!(redactor.redact(&text), redacted);
    }
}

#[test]
fn code_and_prose_stay() {
    let redactor = Redactor::standard();
    for text in [
        "let password = read_password()?;",
        "password: String, token: Option<Token>, secret: &str",
        "fn check(password: &str, api_key: ApiKey) -> bool",
        "assert(user.password === undefined)",
        "password = os.environ[\"DB_PASSWORD\"]",
        "DB_PASSWORD=${DB_PASSWORD}",
        "TOKEN=$(cat token.txt) MAX_TOKENS=1000",
        "postgres://user:password@localhost/db, https://example.com:8080/a@b",
        "token = self.tokenizer.encode(text)",
        "next_token: i64 = 340; source_tokens, ~5k tokens",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "commit 8041d9a1b2c3d4e5f60718293a4b5c6d7e8f9012",
        "id 123e4567-e89b-12d3-a456-426614174000",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "timestamp 1767600000000, 0.4532015112830366, order 4532015112830367",
        "call_a8f5f167f44f4964e6c998dee827110c toolu_01A09q90qw90lq917835lq9",
        "The password is required. Your token is invalid.",
        "<input type=\"password\" name=\"password\">",
        "The secret of a good soup: patience",
        "sk-loading-spinner sk-learn risk-assessment-of-the-quarter",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "authorization: none required",
        "password: ********",
        "password=\"changeme\"",
        "version key-value npm_config_cache",
        "[redacted: github token]",
        "password=[redacted: github token]",
        "",
    ] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn overlapping_finds_become_one_mark() {
    let (_, token) = secrets().into_iter().find(|(rule, _)| *rule == "github token").unwrap();
    let redactor = Redactor::standard();
    assert_eq!(redactor.redact(&format!("GITHUB_TOKEN={token}")), "GITHUB_TOKEN=[redacted: github token]");
    assert_eq!(
        redactor.redact(&format!("https://x:{token}@github.com and {token}")),
        "https://x:[redacted: github token]@github.com and [redacted: github token]"
    );
    assert_eq!(redactor.rules_matching(&format!("{token} {token}")), ["github token"; 2]);
}

#[test]
fn custom_patterns_are_checked_and_used() {
    let redactor = Redactor::off().with_patterns(&["(?i)kunde ([0-9]+)", "Projekt Ä.", "x{3}"]).unwrap();
    assert_eq!(
        redactor.redact("KUNDE 123 im Projekt Äö, xxx; password=\"hunter2\""),
        "KUNDE [redacted: own pattern] im [redacted: own pattern], [redacted: own pattern]; password=\"hunter2\""
    );
    for (pattern, fault) in [
        ("(", "pattern 1 is not a regular expression: unclosed group"),
        (
            "(?=a)",
            "pattern 1 is not a regular expression: look-around, including look-ahead and look-behind, is not supported",
        ),
        ("a*", "pattern 1 matches the empty text, and so everywhere"),
        ("(a{1000}){1000}", "pattern 1 is too big once compiled: use smaller repetitions"),
        (&"a".repeat(1_001), "pattern 1 has 1001 bytes, at most 1000 are allowed"),
    ] {
        let error = Redactor::off().with_patterns(&[pattern]).unwrap_err();
        assert_eq!(error.to_string(), fault);
    }
    assert_eq!(Redactor::off().with_patterns(&vec!["a"; 65]).unwrap_err(), PatternError::TooMany);
}

#[test]
fn a_listener_is_called_for_every_secret() {
    let heard = Arc::new(AtomicUsize::new(0));
    let listener = Arc::clone(&heard);
    let redactor = Redactor::standard().with_listener(Arc::new(move |rule| {
        assert_eq!(rule, "password");
        listener.fetch_add(1, Ordering::Relaxed);
    }));
    drop(redactor.redact("password='hunter2' and passwd=\"swordfish\""));
    assert_eq!(heard.load(Ordering::Relaxed), 2);
}

/// A search in quadratic time wouldn't come to its end.
#[test]
fn many_hints_take_linear_time() {
    let redactor = Redactor::standard();
    for wall in
        ["-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaaa.", "password=", "a://b:", "[redacted: ", "Bearer aa1"]
    {
        let text = wall.repeat(1_000_000 / wall.len());
        assert!(redactor.redact(&text).len() <= 2 * text.len(), "{wall}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let pieces: Vec<String> = secrets()
        .into_iter()
        .map(|(_, secret)| secret)
        .chain(
            [
                "password=",
                "token: ",
                "[redacted: ",
                "]",
                "\"",
                " ",
                "\\n",
                "\\",
                "ü",
                "://a:",
                "@b",
                "Authorization: Bearer ",
            ]
            .map(str::to_owned),
        )
        .collect();
    let piece =
        prop_oneof![3 => prop::sample::select(pieces), 1 => any::<String>(), 1 => "[a-z0-9=:/@. ]{0,20}"];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Removing a neighbouring word may reveal a secret.
#[test]
fn text_next_to_a_mark_is_searched_again() {
    let key = ["tskey-auth-", "aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0"].concat();
    let text = format!("{key}password=password= aB3dE6gH9jK2mN5pQ8sT1vW4xY7zC0fRaB3d");
    let redacted = Redactor::standard().redact(&text).into_owned();
    assert!(!redacted.contains("fRaB3d"), "{redacted}");
}

proptest! {
    #[test]
    fn redaction_is_idempotent(text in texts()) {
        let redactor = Redactor::standard().with_patterns(&["[0-9]{9}", "ü"]).unwrap();
        let once = redactor.redact(&text).into_owned();
        prop_assert_eq!(redactor.redact(&once).into_owned(), once.clone());
    }
}
