#!/usr/bin/env python3
"""Records a daemon's /metrics under planned faults, as input of promtool's unit tests of the alerts.

  record.py RECAPD FOLDER [SCENARIO...]

Each scenario runs the real daemon with a fake provider. Between two scrapes the daemon's clock is set ahead
(`serve --clock-offset-file`), so that an hour of samples takes half a minute; only `up` comes from the recorder, as it does from
Prometheus. Each file in FOLDER contains the samples, and the alerts that must fire on them: those and no others.

Needs Python 3.11 or newer and, for the scenario `database`, a server named by RECAPD_TEST_POSTGRES.
"""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "monitoring" / "alerts.yml"
# Real seconds in which the daemon works before the clock advances, and in which its sampler runs before a scrape.
SETTLE_SECONDS = 0.35
SAMPLE_SECONDS = 0.15
# A sampler that sees no changes runs only every sixth period.
CALM_SECONDS = 0.75
PATIENCE_SECONDS = 20
MATERIAL = re.compile(r"^\[recap-material \S+ exchange (\d+),", re.MULTILINE)
SAMPLE = re.compile(r"^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$")


class Provider:
    """An OpenAI-compatible server whose answers depend on `mood`."""

    def __init__(self):
        self.mood = "good"
        self.clock = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, answer = provider.answer(body)
                text = json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, body):
        if self.mood == "down":
            return 500, {"error": {"message": "The server had an error.", "type": "server_error"}}
        if self.mood == "refuses the key":
            return 401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}
        if self.mood == "hangs":
            time.sleep(3)
        if self.mood == "is slow":
            self.clock.ahead(45)
        prompt = "\n".join(str(message["content"]) for message in body["messages"])
        exchanges = [int(number) for number in MATERIAL.findall(prompt)]
        content = json.dumps({"items": [self.item(number) for number in exchanges]})
        usage = {"prompt_tokens": 900 * max(len(exchanges), 1), "completion_tokens": 200, "total_tokens": 0}
        if self.mood == "is dear":
            usage["prompt_tokens"] = 900_000
        message = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        return 200, {"id": "x", "object": "chat.completion", "model": body["model"], "choices": [message], "usage": usage}

    def item(self, number):
        importance = "decision" if self.mood == "decides" else "feature"
        words = f"module {number * 7919 % 1000} of the parser, item {number * 104729 % 9973}"
        if self.mood in ("is long", "decides"):
            words += ": " + " ".join(f"point {number * step % 887}" for step in range(2, 14))
        text = f"Decided and built {words}."
        return {
            "exchanges": {"first": number, "last": number},
            "importance": importance,
            "text": text,
            "brief": text[:90],
            "gist": text[:60],
        }


class Gate:
    """A proxy to a server that can be closed."""

    def __init__(self, host, port):
        self.target, self.is_open, self.pairs = (host, port), True, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            if not self.is_open:
                client.close()
                continue
            server = socket.create_connection(self.target)
            self.pairs += [client, server]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self.pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.is_open = False
        for end in self.pairs:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Clock:
    """The daemon's virtual clock, which shows `origin` when the recording begins."""

    def __init__(self, file):
        self.file, self.offset, self.lock = file, 0.0, threading.Lock()
        # Events of the start need a time after 0, which means never.
        self.origin = time.time() - 60
        self.write()

    def write(self):
        new = self.file.with_suffix(".new")
        new.write_text(str(int(self.offset * 1000)))
        new.rename(self.file)

    def ahead(self, seconds):
        with self.lock:
            self.offset += seconds
            self.write()

    def set(self, seconds):
        """Sets the time to this many seconds after the origin; never goes back."""
        with self.lock:
            self.offset = max(self.offset, self.origin + seconds - time.time())
            self.write()


class Run:
    """A daemon, its provider, its clock, and the scraped samples."""

    SETTINGS = {
        "model.mode": "openai",
        "model.model": "gpt-5.4-mini",
        "model.timeout_ms": 600,
        "model.breaker_failures": 0,
        "fallback.mode": "none",
        "window.budget_tokens": 200,
        "queue.batch_exchanges": 1,
        "queue.batch_tokens_min": 0,
        "queue.debounce_ms": 0,
        "queue.max_wait_ms": 1000,
        "queue.backoff_base_ms": 5000,
        "queue.poll_ms": 50,
        "queue.lease_ms": 3600000,
        "queue.reconcile_ms": 1000,
        "summary.compact_by_model": "false",
        "schedule.sample_ms": 100,
        "worker.drain_ms": 1000,
        "log.level": "error",
    }

    def __init__(self, program, step_seconds, settings, url=None):
        self.program, self.step_seconds = program, step_seconds
        self.folder = Path(tempfile.mkdtemp(prefix="recapd-record-"))
        self.provider = Provider()
        self.clock = self.provider.clock = Clock(self.folder / "clock")
        self.minute, self.series, self.child = 0, {}, None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.database = self.folder / "recapd.db"
        self.settings = self.SETTINGS | settings
        self.settings["database.url"] = url or f"sqlite:{self.database}"
        self.settings["model.base_url"] = self.provider.url
        self.write_config()

    def write_config(self):
        lines = []
        for key, value in sorted(self.settings.items()):
            section, name = key.split(".")
            if not lines or section not in lines:
                lines += [section, f"[{section}]"]
            is_bare = isinstance(value, (int, float)) or value in ("true", "false")
            lines.append(f"{name} = {value}" if is_bare else f"{name} = {json.dumps(value)}")
        (self.folder / "recapd.toml").write_text("\n".join(line for line in lines if line[0] == "[" or "=" in line))

    def spawn(self, port, *more):
        command = [self.program, "serve", "--config", "recapd.toml", "--listen", f"127.0.0.1:{port}", *more]
        command += ["--clock-offset-file", str(self.clock.file)]
        environment = {"OPENAI_API_KEY": "recorder", "PGPASSWORD": os.environ.get("PGPASSWORD", "")}
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=environment, stderr=log, stdout=log)

    def peer(self):
        """Starts another daemon on the same database, which isn't scraped."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        peer = self.spawn(port, "--set", "queue.owner=peer")
        time.sleep(2)
        return peer

    def start(self):
        self.child = self.spawn(self.port)
        end = time.time() + PATIENCE_SECONDS
        while self.ask("GET", "/readyz")[0] != 200:
            if time.time() > end or self.child.poll() is not None:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.05)

    def kill(self):
        self.child.kill()
        self.child.wait()

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"content-type": "application/json", "accept": "*/*"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def say(self, agent, turns=1):
        """Appends exchanges, each of which evicts an older one."""
        messages = []
        for _ in range(turns):
            messages.append({"kind": "user", "content": f"Question about {agent}: why does it fail? " * 16})
            messages.append({"kind": "assistant", "content": "Because of the cache."})
        return self.ask("POST", f"/v1/agents/{agent}/messages?format=native", messages)[0]

    def sql(self, *statements):
        with sqlite3.connect(self.database, timeout=10) as database:
            for statement in statements:
                database.execute(statement)

    def until_idle(self):
        """Waits until no update runs."""
        end = time.time() + PATIENCE_SECONDS
        while time.time() < end and "recapd_updates_in_progress 0\n" not in self.ask("GET", "/metrics")[1]:
            time.sleep(0.05)

    def step(self, wait=SETTLE_SECONDS):
        """Advances the clock by a step, and scrapes."""
        time.sleep(wait)
        self.minute += 1
        self.clock.set(self.minute * self.step_seconds)
        # With steps of a minute, a sample that is one step old is harmless; with steps of hours it would cause an alert.
        time.sleep(SAMPLE_SECONDS if self.step_seconds <= 60 else CALM_SECONDS)
        status, text = self.ask("GET", "/metrics")
        self.put("up", f'instance="127.0.0.1:7411",job="recapd"', 1.0 if status == 200 else 0.0)
        for line in text.splitlines() if status == 200 else []:
            if match := SAMPLE.match(line):
                name, labels, value = match.group(1), match.group(2) or "", float(match.group(3))
                if name.endswith("_timestamp_seconds") and value > 0 or name == "process_start_time_seconds":
                    value = round(value - self.clock.origin)
                labels = ",".join(filter(None, ['instance="127.0.0.1:7411",job="recapd"', labels]))
                self.put(name, labels, value)

    def put(self, name, labels, value):
        values = self.series.setdefault((name, labels), {})
        values[self.minute] = value

    def end(self):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self.provider.server.shutdown()


def number(value):
    return repr(int(value)) if value == int(value) else repr(round(value, 6))


def growth(slots, at):
    """The constant integer increment of the samples from index `at`, and the index up to which it holds."""
    whole = [slot is not None and slot == int(slot) for slot in slots]
    if at + 1 >= len(slots) or not (whole[at] and whole[at + 1]):
        return 0, at
    by, end = slots[at + 1] - slots[at], at + 1
    while end + 1 < len(slots) and whole[end + 1] and slots[end + 1] - slots[end] == by:
        end += 1
    return by, end


def notation(values, last):
    """promtool's notation of samples at the minutes 0..=last, with runs of equal or evenly growing values abbreviated."""
    slots = [values.get(minute) for minute in range(last + 1)]
    words, at = [], 0
    while at < len(slots):
        by, end = growth(slots, at)
        if end - at >= 2 and by:
            words.append(f"{number(slots[at])}{'+' if by > 0 else '-'}{number(abs(by))}x{end - at}")
            at = end + 1
            continue
        end = at
        while end + 1 < len(slots) and slots[end + 1] == slots[at]:
            end += 1
        times = end - at
        if slots[at] is None:
            words.append(f"_x{times + 1}" if times else "_")
        else:
            words.append(f"{number(slots[at])}x{times}" if times else number(slots[at]))
        at = end + 1
    return " ".join(words)


def written(run, name, doc, fires, used):
    interval = {60: "1m", 3600: "1h"}[run.step_seconds]
    length = f"{run.minute}{interval[1]}"
    lines = [
        f"# {doc}",
        "# Recorded from a running daemon by scripts/record-alerts.",
        "rule_files: [../alerts.yml]",
        f"evaluation_interval: {interval}",
        "tests:",
        f"  - interval: {interval}",
        f"    name: {name}",
        "    input_series:",
    ]
    for (metric, labels), values in sorted(run.series.items()):
        if metric in used and ("le=" not in labels or 'le="10000.0"' in labels or 'le="+Inf"' in labels):
            lines.append(f"      - series: '{metric}{{{labels}}}'")
            lines.append(f"        values: '{notation(values, run.minute)}'")
    lines += [
        "    promql_expr_test:",
        "      # Every alert that fired at any time.",
        f"      - expr: count by (alertname) (max_over_time(ALERTS{{alertstate=\"firing\"}}[{length}]))",
        f"        eval_time: {length}",
    ]
    if fires:
        lines.append("        exp_samples:")
        for alert in sorted(fires):
            lines.append(f"          - labels: '{{alertname=\"{alert}\"}}'")
            lines.append("            value: 1")
    else:
        lines.append("        exp_samples: []")
    return "\n".join(lines) + "\n"


def used_metrics():
    return set(re.findall(r"\b(?:recapd|process)_[a-z0-9_]+|\bup\b", RULES.read_text()))


SCENARIOS = {}


def scenario(*fires, step_seconds=60, database="sqlite", **settings):
    settings = {key.replace("__", "."): value for key, value in settings.items()}

    def register(play):
        SCENARIOS[play.__name__] = (play, fires, step_seconds, database, settings)
        return play

    return register


def converse(run, minutes, agents=("ada", "bob")):
    for _ in range(minutes):
        for agent in agents:
            run.say(agent)
        run.step()


@scenario()
def healthy(run):
    """An hour and a half without any fault."""
    converse(run, 90)


@scenario("RecapdUpdateFailureRateHigh", "RecapdErrorBudgetBurnFast", "RecapdErrorBudgetBurnSlow", "RecapdProviderErrors",
          "RecapdRetriesExhausted")
def provider_down(run):
    """The provider answers everything with 500, and there is no fallback."""
    converse(run, 15, ("ada", "bob", "cyd"))
    run.provider.mood = "down"
    converse(run, 60, ("ada", "bob", "cyd"))


@scenario("RecapdUpdateFailureRateHigh", "RecapdErrorBudgetBurnFast", "RecapdErrorBudgetBurnSlow", "RecapdProviderErrors",
          "RecapdRetriesExhausted", "RecapdProviderAuthFailed")
def key_refused(run):
    """The provider refuses the key."""
    converse(run, 15, ("ada", "bob", "cyd"))
    run.provider.mood = "refuses the key"
    converse(run, 60, ("ada", "bob", "cyd"))


@scenario("RecapdUpdateDurationHigh")
def slow_updates(run):
    """Updates take 45 s."""
    converse(run, 10, ("ada",))
    run.provider.mood = "is slow"
    converse(run, 45, ("ada",))


def fill(run, turns, minutes):
    """Appends much, then a little each minute; each step waits for the updates, which are large here."""
    for _ in range(turns):
        run.say("ada", 100)
        time.sleep(SETTLE_SECONDS)
        run.until_idle()
        run.step(0)
    for _ in range(minutes):
        run.say("ada")
        time.sleep(SETTLE_SECONDS)
        run.until_idle()
        run.step(0)


@scenario("RecapdSummarySizeHigh", summary__ageing="off", model__timeout_ms=60000)
def full_summaries(run):
    """Summaries are as long as they may be."""
    run.provider.mood = "is long"
    fill(run, 8, 60)


@scenario("RecapdEmergencyTruncation", "RecapdSummarySizeHigh", summary__ageing="off", model__timeout_ms=60000)
def decisions_dropped(run):
    """There are too many decisions, so that some are dropped."""
    run.provider.mood = "decides"
    fill(run, 12, 60)


@scenario("RecapdQueueBacklog", "RecapdNoProgress", "RecapdSummariesStale", worker__concurrency=1, model__timeout_ms=3600000)
def backlog(run):
    """The provider accepts questions and never answers, while sixty agents wait."""
    converse(run, 5)
    run.provider.answer = lambda _: time.sleep(3600)
    for number in range(60):
        run.say(f"agent{number}", 3)
    for _ in range(55):
        run.step()


@scenario("RecapdNoProgress", "RecapdSummariesStale", queue__debounce_ms=90000, queue__max_wait_ms=90000,
          database__busy_timeout_ms=600000)
def wedged_worker(run):
    """Another program holds the database's lock: the worker waits for ever, while HTTP answers."""
    converse(run, 10)
    for agent in ("ada", "bob", "cyd"):
        run.say(agent, 3)
    lock = sqlite3.connect(run.database, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    for _ in range(50):
        run.step()
    lock.rollback()


@scenario("RecapdDatabaseErrors", "RecapdSamplerStuck", database="postgres", database__busy_timeout_ms=300)
def database_gone(run):
    """The database server can't be reached any more."""
    converse(run, 10)
    run.gate.close()
    for _ in range(30):
        run.step()


@scenario("RecapdCrashLooping")
def crash_loop(run):
    """The daemon is repeatedly killed during updates."""
    converse(run, 5, ("ada",))
    for _ in range(6):
        run.provider.mood = "hangs"
        run.say("ada", 2)
        time.sleep(SETTLE_SECONDS)
        run.kill()
        run.provider.mood = "good"
        run.start()
        run.step()
        run.step()
    converse(run, 10, ("ada",))


@scenario("RecapdLeasesExpiring", database="postgres", queue__lease_ms=1000, model__timeout_ms=20000)
def peer_killed(run):
    """Another daemon on the database is killed during four updates, and this one takes them over."""
    converse(run, 5, ("ada",))
    run.provider.mood = "hangs"
    peer = run.peer()
    for number in range(8):
        run.say(f"agent{number}", 3)
    time.sleep(1)
    peer.kill()
    peer.wait()
    run.provider.mood = "good"
    # On PostgreSQL leases use the server's clock, which isn't set ahead.
    time.sleep(5)
    run.until_idle()
    converse(run, 20, ("ada",))


@scenario("RecapdDown")
def daemon_down(run):
    """The daemon has ended."""
    converse(run, 10)
    run.kill()
    for _ in range(15):
        run.step(0.05)


@scenario("RecapdAgingMissed", step_seconds=3600)
def ageing_missed(run):
    """The database refuses the ageing job."""
    for _ in range(4):
        run.step()
    run.sql("CREATE TRIGGER refused BEFORE UPDATE ON schedule_slots WHEN NEW.name = 'ageing' BEGIN SELECT RAISE(ABORT, 'no'); END",
            "CREATE TRIGGER refused_too BEFORE INSERT ON schedule_slots WHEN NEW.name = 'ageing' BEGIN SELECT RAISE(ABORT, 'no'); END")
    for _ in range(80):
        run.step(0.3)


@scenario("RecapdCostBudgetNearlySpent", spend__usd_per_day=20.0)
def dear_provider(run):
    """Answers use up most of the daily limit."""
    converse(run, 10, ("ada",))
    run.provider.mood = "is dear"
    converse(run, 26, ("ada",))
    run.provider.mood = "good"
    converse(run, 10, ("ada",))


@scenario("RecapdPausedForLong")
def paused(run):
    """Somebody paused the queue and forgot it."""
    converse(run, 5)
    run.ask("POST", "/v1/queue/pause")
    for _ in range(70):
        run.step(0.15)


@scenario("RecapdQueueRepaired")
def queue_emptied(run):
    """Rows of the queue vanish, and the reconciler restores them."""
    converse(run, 10)
    run.ask("POST", "/v1/agents/ada/pause")
    run.say("ada", 3)
    run.step()
    run.sql("DELETE FROM summary_update_queue")
    for _ in range(30):
        run.step()


@scenario("RecapdConfigReloadFailed")
def bad_reload(run):
    """A reload finds a wrong configuration."""
    converse(run, 5)
    run.settings["queue.poll_ms"] = 0
    run.write_config()
    run.child.send_signal(signal.SIGHUP)
    converse(run, 25)


def postgres():
    """A new database on the server, behind a proxy that can be closed."""
    url = urlsplit(os.environ["RECAPD_TEST_POSTGRES"])
    os.environ["PGPASSWORD"] = url.password or ""
    name = f"recapd_record_{os.getpid()}_{time.monotonic_ns()}"
    admin = urlunsplit(url)
    subprocess.run(["psql", admin, "-qc", f"CREATE DATABASE {name}"], check=True)
    gate = Gate(url.hostname, url.port)
    return gate, f"postgres://{url.username}@127.0.0.1:{gate.port}/{name}"


def record(program, folder, name):
    play, fires, step_seconds, database, settings = SCENARIOS[name]
    gate = url = None
    if database == "postgres":
        if "RECAPD_TEST_POSTGRES" not in os.environ:
            return f"{name}: skipped, there is no server"
        gate, url = postgres()
    run = Run(program, step_seconds, settings, url)
    run.gate = gate
    run.start()
    try:
        play(run)
    finally:
        run.end()
    text = written(run, name, play.__doc__, fires, used_metrics())
    (folder / f"{name}.yml").write_text(text)
    return f"{name}: {run.minute} scrapes, {len(text)} bytes, log in {run.folder}"


def main():
    program, folder, *names = sys.argv[1:]
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(record, str(Path(program).resolve()), Path(folder), name) for name in names or SCENARIOS]
        for job in jobs:
            print(job.result(), flush=True)


main()
