"""Runs the installed service as systemd would, and checks it against the unit: manager.py STATE PORT COMMAND…

STATE is the service's folder as seen from here, PORT is its port, and `recapd serve …` is appended to COMMAND. The service must
report READY only once it serves, write a summary, stop its WATCHDOG when the worker is stuck although HTTP answers, follow
RELOADING by READY, allow a backup, and after STOPPING end well within the unit's limit.
"""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request

STATE, PORT, COMMAND = sys.argv[1], sys.argv[2], sys.argv[3:]
WATCHDOG_S, PATIENCE_S, STOP_S = 4.0, 60.0, 45.0
STARVE_TRIES = 50
# Unique to this run: the state may be from an earlier one.
AGENT = f"/v1/agents/managed-{os.getpid()}"
SETTINGS = ["window.budget_tokens=200", "database.busy_timeout_ms=600000"]


def ask(path: str, body: object = None) -> str:
    """Returns the service's answer; a problem is an error."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def turns(count: int) -> None:
    for turn in range(count):
        ask(
            f"{AGENT}/messages",
            [
                {"role": "user", "content": f"Why does build {turn} of the parser fail in the module of guards? " * 3},
                {"role": "assistant", "content": f"Because the brace of guard {turn} is missing. " * 3},
            ],
        )


def until_summarised() -> None:
    end = time.monotonic() + PATIENCE_S
    while "brace of guard" not in ask(f"{AGENT}/summary"):
        if time.monotonic() > end:
            sys.exit("no summary is written")
        time.sleep(0.1)
    print("   a summary is written")


class Manager:
    """The receiving end of the notify socket."""

    def __init__(self) -> None:
        self.path = os.path.join(STATE, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        os.chmod(self.path, 0o777)

    def heard(self, wait_s: float) -> str | None:
        self.socket.settimeout(max(wait_s, 0.001))
        try:
            return self.socket.recv(4096).decode()
        except TimeoutError:
            return None

    def until(self, sign: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if sign in (self.heard(end - time.monotonic()) or "").splitlines():
                print(f"   {sign}")
                return
        sys.exit(f"{sign} was never said")

    def signs_of_life(self, span_s: float) -> int:
        end, signs = time.monotonic() + span_s, 0
        while time.monotonic() < end:
            signs += "WATCHDOG=1" in (self.heard(end - time.monotonic()) or "")
        return signs


def starve(manager: Manager) -> None:
    """Holds the database's lock while work becomes due, as another program might."""
    other = sqlite3.connect(os.path.join(STATE, "recapd.db"), timeout=PATIENCE_S, isolation_level=None)
    for _ in range(STARVE_TRIES):
        turns(12)
        other.execute("BEGIN IMMEDIATE")
        if other.execute("SELECT 1 FROM summary_update_queue").fetchone():
            break
        # The worker was done before the lock was taken.
        other.execute("ROLLBACK")
    else:
        sys.exit("the worker never has anything to do")
    end = time.monotonic() + PATIENCE_S
    while manager.signs_of_life(WATCHDOG_S) > 0:
        if time.monotonic() > end:
            sys.exit("the watchdog is fed although the worker is stuck")
    if ask("/livez") != "ok\n":
        sys.exit("HTTP doesn't answer")
    print("   no WATCHDOG=1 while the worker is stuck, although HTTP answers")
    other.execute("ROLLBACK")
    other.close()
    manager.until("WATCHDOG=1")


def main() -> None:
    manager = Manager()
    told = ["env", "NOTIFY_SOCKET=/var/lib/recapd/notify", f"WATCHDOG_USEC={int(WATCHDOG_S * 1e6)}"]
    serve = ["recapd", "serve", "--config", "/etc/recapd/config.toml", "--listen", f"127.0.0.1:{PORT}"]
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    service = subprocess.Popen([*COMMAND, *told, *serve, *settings])
    try:
        manager.until("READY=1")
        ask("/readyz")
        turns(12)
        until_summarised()
        starve(manager)
        # With a sandbox, the service is a child of the sandbox's own process.
        inside = subprocess.run(["pgrep", "--parent", str(service.pid), "--exact", "recapd"], capture_output=True, text=True)
        pid = int(inside.stdout or service.pid)
        os.kill(pid, signal.SIGHUP)
        manager.until("RELOADING=1")
        manager.until("READY=1")
        subprocess.run([*COMMAND, "recapd", "backup", "backup.db"], check=True)
        os.unlink(os.path.join(STATE, "backup.db"))
        os.kill(pid, signal.SIGTERM)
        manager.until("STOPPING=1")
        if service.wait(STOP_S) != 0:
            sys.exit(f"it ended with {service.returncode}")
    finally:
        service.kill()
        os.unlink(manager.path)


main()
