"""Does what docs/tutorial.md and README.md tell a newcomer to do, with the commands and the code that stand there.

It has a home of its own, the program RECAPD_PROGRAM, and a fake model. Python's packages are those of this interpreter,
Node's those of the folder NODE_MODULES. Prints what differs from the pages, and exits with 1.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from pathlib import Path

from model import KEY, Model
from page import Block, blocks

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:7411"
# What was installed before: lines that begin so aren't run.
INSTALLS = ("cargo install ", ".venv/bin/pip install ", "npm ")
RULE = "never use a library that isn't part of Python"
# Keeps variables and the folder from one block to the next, as a terminal does.
SHELL = 'set -aeuo pipefail; source "$HOME/state"; cd "$PWD"\n{}\nexport -p >"$HOME/state"'
PATIENCE_S = 60


class Different(Exception):
    """What a page says and what happens are not the same."""


def demand(is_so: object, what: str) -> None:
    if not is_so:
        raise Different(what)


class Newcomer:
    """A home, a shell, and the daemon once it is started."""

    def __init__(self, home: Path, model: Model) -> None:
        self.home = home
        self.model = model
        self.daemon: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (home / "bin").mkdir()
        (home / "bin/recapd").symlink_to(os.environ["RECAPD_PROGRAM"])
        (home / "bin/python3").symlink_to(os.path.realpath(sys.executable))
        (home / "node_modules").symlink_to(os.environ["NODE_MODULES"])
        self.environment = {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "PWD": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{ROOT / 'clients/python/src'}:{sysconfig.get_path('purelib')}",
            "OPENAI_API_KEY": KEY,
            "OPENAI_BASE_URL": model.url,
            "RECAPD__HTTP__LISTEN": self.address,
            "RECAPD_SERVER": f"http://{self.address}",
        }
        (home / "state").touch()

    def type(self, commands: str) -> str:
        """Runs a block of commands and returns what it prints."""
        lines = [line for line in commands.replace(ADDRESS, self.address).splitlines() if not line.startswith(INSTALLS)]
        script = SHELL.format("\n".join(lines))
        done = subprocess.run(["bash", "-c", script], env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S)
        demand(done.returncode == 0, f"this fails:\n{commands}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def serve(self, command: str) -> None:
        """Starts the daemon as in a terminal of its own, and waits until it is ready."""
        with (self.home / "log").open("wb") as log:
            self.daemon = subprocess.Popen(command.split(), env=self.environment, executable=self.home / "bin/recapd", stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while not self.is_ready():
            demand(self.daemon.poll() is None and time.monotonic() < deadline, f"no daemon: {(self.home / 'log').read_text()}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"http://{self.address}/readyz", timeout=PATIENCE_S).close()
        except OSError:
            return False
        return True

    def leave(self) -> None:
        if self.daemon:
            self.daemon.terminate()
            self.daemon.wait(PATIENCE_S)


def follow(newcomer: Newcomer, page: list[Block]) -> None:
    """Saves the files, runs the commands, and compares their output with the page's."""
    output = ""
    for block in page:
        if block.file:
            (newcomer.home / "tutorial" / block.file).write_text(block.text)
        elif block.language == "text":
            missing = [line for line in block.lines() if line not in output]
            demand(not missing, f"the page shows {missing}; the output is\n{output}")
        elif block.text.startswith("recapd serve"):
            newcomer.serve(block.text)
        else:
            check_before(newcomer, block)
            output = newcomer.type(block.text)


def check_before(newcomer: Newcomer, block: Block) -> None:
    """Before the conversation is forgotten: every program has asked with a context, and its answer is stored."""
    if not block.text.startswith("recapd forget"):
        return
    asked = newcomer.model.contexts()
    demand(len(asked) == 12, f"the model was asked {len(asked)} times: ten by Python, then by TypeScript and curl")
    for context in asked[-2:]:
        summary, _, window = context.partition("</summary>")
        demand(RULE in summary, f"a summary without the rule:\n{summary}")
        demand("with statement" not in window, f"a window with what has left:\n{window}")
    window = newcomer.type("recapd window teacher")
    for number in (11, 12):
        demand(f"Answer {number}." in window, f"answer {number} isn't stored:\n{window}")


def run_examples(newcomer: Newcomer, page: list[Block]) -> None:
    """The functions `ask` of the README, each asked once."""
    code = {block.language: block.text for block in page}
    asked = len(newcomer.model.contexts())
    folder = newcomer.home / "readme"
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "agent.py").write_text(f'{code["python"]}\nprint(ask("Add JWT auth"))\n')
    (folder / "agent.ts").write_text(f'{code["ts"]}\nconsole.log(await ask("And refresh tokens"));\n')
    options = "--strict --noUncheckedIndexedAccess --target es2022 --module nodenext --skipLibCheck --types node"
    for command in ("~/tutorial/.venv/bin/python agent.py", f"~/node_modules/.bin/tsc {options} agent.ts; node agent.js"):
        answer = newcomer.type(f"cd ~/readme; {command}")
        asked += 1
        demand(f"Answer {asked}." in answer, f"`{command}` prints {answer}")
    demand("Add JWT auth" in newcomer.model.contexts()[-1], "the second example doesn't continue the first one")


def main() -> None:
    model = Model()
    with tempfile.TemporaryDirectory() as home:
        newcomer = Newcomer(Path(home), model)
        try:
            follow(newcomer, list(blocks(ROOT / "docs/tutorial.md")))
            run_examples(newcomer, list(blocks(ROOT / "README.md")))
        except Different as different:
            sys.exit(f"{different}")
        finally:
            newcomer.leave()
            model.close()
    print("the tutorial and the README's examples run as they stand")


if __name__ == "__main__":
    main()
