//! Python's tiktoken, for comparison: a child process that counts tokens with the same ranks.

use std::{
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use tempfile::TempDir;
use tiktoken_rs::CoreBPE;

/// The name of tiktoken's cache file with o200k's ranks: the SHA-1 of the ranks' URL.
const RANKS_FILE: &str = "fb374d419588a4632f3f557e76b4b70aebbca790";
/// The tokens of o200k, without special tokens.
const RANKS: u32 = 199_998;
/// Writes the ranks to tiktoken's cache file, then counts. Reads a length on a line and that many bytes of text; prints
/// a count and nanoseconds.
const PROGRAM: &str = r#"
import base64, os, sys, time
folder = os.environ["TIKTOKEN_CACHE_DIR"]
with open(folder + "/ranks") as ranks, open(folder + "/" + sys.argv[1], "wb") as file:
    for rank, line in enumerate(ranks):
        file.write(base64.b64encode(bytes.fromhex(line)) + b" %d\n" % rank)
import tiktoken
encoding = tiktoken.get_encoding("o200k_base")
encoding.encode_ordinary("Hello")
print(tiktoken.__version__, flush=True)
for line in sys.stdin.buffer:
    text = sys.stdin.buffer.read(int(line)).decode()
    start = time.perf_counter_ns()
    try:
        count = len(encoding.encode_ordinary(text))
    except BaseException:
        count = -1
    print(count, time.perf_counter_ns() - start, flush=True)
"#;

pub(crate) struct PythonTiktoken {
    child: Child,
    texts: ChildStdin,
    counts: BufReader<ChildStdout>,
    pub(crate) version: String,
    _folder: TempDir,
}

impl PythonTiktoken {
    /// Starts `interpreter`, which needs tiktoken, with the ranks of `oracle`.
    pub(crate) fn start(interpreter: &str, oracle: &CoreBPE) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        write_ranks(oracle, &folder.path().join("ranks"))?;
        let mut child = Command::new(interpreter)
            .args(["-c", PROGRAM, RANKS_FILE])
            .env("TIKTOKEN_CACHE_DIR", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (texts, counts) = pipes.ok_or_else(|| anyhow::anyhow!("Python has no pipes"))?;
        let mut counts = BufReader::new(counts);
        let mut version = String::new();
        counts.read_line(&mut version)?;
        anyhow::ensure!(!version.is_empty(), "Python has no tiktoken");
        Ok(Self { child, texts, counts, version: version.trim().to_owned(), _folder: folder })
    }

    /// Returns the number of tokens of `text` and the time to count them; `None` if tiktoken refuses.
    pub(crate) fn count(&mut self, text: &str) -> anyhow::Result<Option<(i64, Duration)>> {
        writeln!(self.texts, "{}", text.len())?;
        self.texts.write_all(text.as_bytes())?;
        self.texts.flush()?;
        let mut line = String::new();
        self.counts.read_line(&mut line)?;
        let mut numbers = line.split_whitespace().map(str::parse::<i64>);
        let (Some(Ok(count)), Some(Ok(nanoseconds))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("Python stopped");
        };
        let took = Duration::from_nanos(u64::try_from(nanoseconds)?);
        Ok((count >= 0).then_some((count, took)))
    }
}

impl Drop for PythonTiktoken {
    fn drop(&mut self) {
        // The process ends when its input ends, but a bench doesn't wait for that.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Writes each token's bytes on a line, in hexadecimal.
fn write_ranks(oracle: &CoreBPE, path: &Path) -> anyhow::Result<()> {
    let mut lines = String::new();
    for rank in 0..RANKS {
        for byte in oracle.decode_bytes(&[rank])? {
            write!(lines, "{byte:02x}")?;
        }
        lines.push('\n');
    }
    fs::write(path, lines)?;
    Ok(())
}
