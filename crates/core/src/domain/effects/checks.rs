//! Finds the checks in a shell command: tests, builds, linters. Looks through what only runs another command: `timeout 60`, `uv run`,
//! `nix-shell --run "…"`.

use std::{borrow::Cow, sync::LazyLock};

use regex::bytes::Regex;

use super::{pattern::pattern, shell};

/// A name has this many words.
const NAME_WORDS: usize = 3;
/// Programs whose subcommand says what they check.
const RUNNERS: [&str; 16] = [
    "npm", "npx", "pnpm", "yarn", "bun", "deno", "cargo", "go", "dotnet", "mvn", "gradle", "make", "just",
    "flutter", "forge", "anchor",
];
/// Unwraps at most this many commands that run another one.
const WRAPPERS_MAX: usize = 4;

/// One check of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The program and its subcommand: `cargo test`.
    pub(super) name: String,
    /// True if the exit code of the whole command says nothing about this check: its output goes through a pipe, or another command
    /// follows whatever happens.
    pub(super) is_masked: bool,
}

/// Commands that run tests, a build or another check.
static CHECKS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:(?:npx|pnpm|npm|yarn|bun|deno|uv|poetry|python3?|\./\S*|make|just|cargo|go|dotnet|mvn|gradle|bundle|composer|flutter|swift|mix|forge|anchor|cmake|zig|bazel)\s.*?\b(?:test|tests|build|check|lint|clippy|typecheck|tsc|pytest|jest|vitest|ruff|mypy|compile|verify)\b|(?:pytest|pylint|ruff|mypy|tsc|eslint|flake8|jest|vitest|tox|ctest|rspec|phpunit|phpstan|pyright|make|ninja|unittest|black|\./(?:\S*/)?[^\s/]*(?:test|check|build|lint|verify)[^\s/]*(?:\s|$)|cargo (?:test|build|check|clippy|fmt)|go (?:test|build|vet))\b)",
    )
});
/// Commands that name a check but run none.
static OTHERS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^\S+ (?:install|i|ci|add|remove|uninstall|init|create|new)\b|^\S*python\S*\s(?:.*\s)?-c\b|\s(?:--no-run|--help|--version)\b",
    )
});
/// A shell that runs the command in quotation marks.
static SHELL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"\b(?:nix-shell\b[^"'\n|;&]*--run|nix develop\b[^"'\n|;&]*(?:-c|--command)(?: (?:ba|z)?sh -l?c)?|(?:ba|z)?sh -\w*c)\s+(?:"((?:[^"\\]|\\.)*)"|'([^']*)')"#,
    )
});
/// What stands before the command that it runs.
static WRAPPER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"^(?:\w+=\S*|env|sudo|time|nice|nohup|exec|xvfb-run(?: -\S+)*|timeout(?: -\S+)* \S+|(?:uv|poetry|pipenv|hatch|rye) run|(?:pnpm|yarn) exec|docker(?:-compose| compose)?(?: -\S+(?: \S+\.ya?ml)?)* exec(?: -\S+)* \S+)\s+",
    )
});
/// A program of Python by its module, which is how it is called otherwise.
static MODULE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\S*python[\d.]*\s+(?:-[^m\s]\S*\s+)*-m\s+"));

/// A redirection and its target: `2>&1`, `> test.log`.
static REDIRECTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\d?>&\d|(?:\d|&)?>>?\s*[^\s|;&<>]+"));
/// A quoted text, after the shells that run one were unwrapped.
static QUOTED: LazyLock<Regex> = LazyLock::new(|| pattern(r#"'[^']*'|"(?:[^"\\]|\\.)*""#));
/// A line that goes on in the next one.
const CONTINUATION: &str = "\\\n";
/// A longer chain isn't read to its end.
const CHECKS_MAX: usize = 4;

/// Returns the checks of `command` in order, each name once; none of a command of more than [`shell::COMMAND_BYTES_MAX`].
pub(super) fn of(command: &str) -> Vec<Check> {
    if command.len() > shell::COMMAND_BYTES_MAX {
        return Vec::new();
    }
    let command = shell::outside_documents(&command.replace(CONTINUATION, " ")).join("\n");
    let command = SHELL.replace_all(command.as_bytes(), b"$1$2".as_slice());
    let command = QUOTED.replace_all(&command, b"''".as_slice());
    let command = REDIRECTION.replace_all(&command, b"".as_slice());
    let command = String::from_utf8_lossy(&command);
    let mut checks: Vec<Check> = Vec::new();
    let mut rest = command.as_ref();
    while !rest.is_empty() && checks.len() < CHECKS_MAX {
        let end = rest.find(['\n', ';', '|', '&']).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let (separator, next) = separator_of(after);
        if let Some(name) = name_of(part) {
            checks.retain(|check| check.name != name);
            checks.push(Check { name, is_masked: false });
        }
        if separator == "&" || !matches!(separator, "" | "&&") && !next.trim().is_empty() {
            // Another command decides about the exit code.
            for check in &mut checks {
                check.is_masked = true;
            }
        }
        rest = next;
    }
    checks
}

/// Splits off the operator between two commands.
fn separator_of(rest: &str) -> (&str, &str) {
    let operators = ["&&", "||", "\n", ";", "|", "&"];
    let operator = operators.iter().find(|operator| rest.starts_with(**operator));
    operator.map_or(("", ""), |operator| rest.split_at(operator.len()))
}

/// Returns the name of a command that checks something.
fn name_of(command: &str) -> Option<String> {
    let command = unwrapped(command.trim());
    if !CHECKS.is_match(command.as_bytes()) || OTHERS.is_match(command.as_bytes()) {
        return None;
    }
    let mut words = command.split_whitespace();
    let program = words.next().and_then(file_name)?;
    // For a runner such as cargo, options before the subcommand are skipped. Otherwise the name ends at the first option.
    let needs_subcommand = RUNNERS.contains(&program);
    let is_python = program.starts_with("python");
    let mut name = vec![program];
    for word in words {
        let has_subcommand = name.iter().any(|word| *word != program && *word != "run");
        let is_option = word.starts_with('-');
        if name.len() == NAME_WORDS || is_option && (has_subcommand || !needs_subcommand) {
            break;
        }
        let is_script = word.starts_with("./") || is_python && word.contains(".py");
        let is_named =
            !is_option && !word.contains(['=', '>', '"', '\'']) && (is_script || !word.contains('/'));
        name.extend(file_name(word).filter(|_| is_named));
    }
    Some(name.join(" "))
}

/// Returns the last part of a path, if it has letters or digits.
fn file_name(path: &str) -> Option<&str> {
    path.rsplit('/').next().filter(|file| file.contains(char::is_alphanumeric))
}

fn unwrapped(command: &str) -> Cow<'_, str> {
    let mut command = command;
    for _ in 0..WRAPPERS_MAX {
        let Some(wrapper) = WRAPPER.find(command.as_bytes()) else {
            break;
        };
        command = command.get(wrapper.end()..).unwrap_or_default();
    }
    match MODULE.find(command.as_bytes()) {
        Some(module) => command.get(module.end()..).unwrap_or_default().into(),
        None => command.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_found_with_their_names() {
        for (command, expected) in [
            ("cd /garden && cargo test --lib 2>&1", "cargo test"),
            ("cargo test -p gate 2>&1 | tail -5", "cargo test?"),
            ("cargo --locked test gate", "cargo test gate"),
            ("npm run --silent build", "npm run build"),
            ("pytest -m unit tests/a.py && go test ./...", "pytest, go test"),
            (r#"cd w && nix-shell --run "pytest -q && pylint ." 2>&1 | tail -8"#, "pytest?, pylint?"),
            ("bash -lc 'npm run build'", "npm run build"),
            ("timeout 60 env A=1 uv run pytest tests/gate.py -v", "pytest"),
            ("python3 -m pytest tests/ -x; echo done", "pytest?"),
            ("python tests/test_gate.py", "python test_gate.py"),
            ("docker compose exec -T web npm test || true", "npm test?"),
            ("npx tsc --noEmit | findstr \"error TS\"", "npx tsc?"),
            ("cargo fmt --check && cargo clippy && cargo test --no-run", "cargo fmt, cargo clippy"),
            ("npm install --save-dev jest && npm ci", ""),
            ("python -c 'import test'", ""),
            ("./scripts/check gate", "check gate"),
            ("ls tests && cat build.log", ""),
            ("tsc --noEmit && echo OK || echo BAD", "tsc?"),
            ("npm run lint; npm test", "npm run lint?, npm test"),
            ("npm run build > build.log 2>&1 &", "npm run build?"),
            ("cargo test > out.log 2>&1", "cargo test"),
            (r#"grep -E "pytest|jest" package.json"#, ""),
            ("git commit -m 'Fix\n\nmake the gate quiet'", ""),
            ("cat > t.sh <<'EOF'\ncargo test\nEOF", ""),
            ("cargo test \\\n  --workspace", "cargo test"),
            ("cargo test -p a && cargo test -p b", "cargo test"),
            ("./build/gate --port 1", ""),
            ("eslint -c .eslintrc src", "eslint"),
            ("python -m unittest tests.gate", "unittest tests.gate"),
        ] {
            let found: Vec<String> = of(command)
                .into_iter()
                .map(|check| format!("{}{}", check.name, if check.is_masked { "?" } else { "" }))
                .collect();
            assert_eq!(found.join(", "), expected, "{command}");
        }
    }
}
