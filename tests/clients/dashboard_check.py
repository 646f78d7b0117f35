"""Opens the dashboard in Chromium and holds it to what it promises; see scripts/check-dashboard.

Arguments: the daemon's address, its database, the program, a folder for pictures, and the daemon's process.
"""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

from playwright.sync_api import Page, sync_playwright

URL, DATABASE, PROGRAM, HOME, DAEMON = sys.argv[1:6]
PICTURES = pathlib.Path(HOME) / "pictures"
AXE = pathlib.Path(HOME, "axe.min.js").read_text()
EXAMPLE = pathlib.Path("examples/two-weeks.jsonl")
AGENT = "fakturo-main"
PAGE_BYTES_MAX = 1_000_000
PAGE_SECONDS_MAX = 1.0
LIVE_SECONDS_MAX = 1.0
AGENTS, EXCHANGES = 2_000, 20_000
WIDTHS = (320, 768, 1280, 1920)
AWAY_SECONDS_MAX = 5.0
EVENTS_A_SECOND, BUSY_SECONDS = 100, 10
BYTES_A_SECOND_MAX = 60 * 1_024
# Pages by name; those of the second group hold what an adversary said.
PAGES = {
    "overview": "/ui/",
    "agents": "/ui/agents",
    "agent": f"/ui/agents/{AGENT}",
    "request": f"/ui/agents/{AGENT}/context",
    "exchanges": f"/ui/agents/{AGENT}/exchanges",
    "exchange": f"/ui/agents/{AGENT}/exchanges/12",
    "versions": f"/ui/agents/{AGENT}/versions",
    "diff": f"/ui/agents/{AGENT}/diff?from=LAST-3&to=LAST",
    "version": f"/ui/agents/{AGENT}/versions/LAST",
    "search": f"/ui/agents/{AGENT}/search?q=invoice+number",
    "queue": "/ui/queue",
    "runs": "/ui/runs",
    "run": "/ui/runs/1",
    "missing": "/ui/agents/nobody",
    "sign-in": "/ui/login",
    "adversary": "/ui/agents/evil",
    "adversary-exchange": "/ui/agents/evil/exchanges/1",
    "adversary-exchanges": "/ui/agents/evil/exchanges",
    "adversary-version": "/ui/agents/evil/versions/1",
    "adversary-diff": "/ui/agents/evil/diff?from=1&to=2",
    "adversary-search": "/ui/agents/evil/search?q=red",
    "system": "/ui/system",
    "queue-filtered": "/ui/queue?q=state:parked",
    "queue-wrong": "/ui/queue?q=state:gone",
    "runs-filtered": f"/ui/runs?q=agent:{AGENT}%20state:completed",
}
# What browsers may not get to see of the adversary: it hides, or reorders.
HIDDEN = "\u001b\u0000\u202e\u2066\u200b"
failures: list[str] = []


def check(is_fine: bool, what: str) -> None:
    if not is_fine:
        failures.append(what)
        print("FAILED:", what)


def ask(path: str, body: str | None = None, kind: str = "application/json", token: str | None = None) -> bytes:
    headers = {"content-type": kind} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(URL + path, body.encode() if body is not None else None, headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def settle() -> None:
    """Waits until nothing is to be summarised."""
    for _ in range(600):
        figures = json.loads(ask("/v1/status"))
        if figures["ready"] + figures["running"] == 0:
            return
        time.sleep(0.05)


def populate() -> None:
    """The example, told as if it ended now, and an agent who wants to break the page."""
    lines = [json.loads(line) for line in EXAMPLE.read_text().splitlines()]
    moment = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
    shift = datetime.now(timezone.utc) - timedelta(minutes=4) - moment(lines[-1]["at"])
    for line in lines:
        line["at"] = (moment(line["at"]) + shift).isoformat().replace("+00:00", "Z")
    for start in range(0, len(lines), 20):
        if start == len(lines) // 20 * 20 - 20:
            # From here on what leaves the window waits.
            ask(f"/v1/agents/{AGENT}/pause", "{}")
        said = "\n".join(json.dumps(line) for line in lines[start : start + 20])
        ask(f"/v1/agents/{AGENT}/messages", said, "application/x-ndjson")
        settle()
    script = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
    evil = [
        {"role": "user", "content": f"{script} \u001b[31mred\u001b[0m abc\u202efed \u2066\u200bzero \u0000nul"},
        {"role": "assistant", "content": "x" * 1_000_000},
        {"role": "user", "content": f"{script} red again " + "Donaudampfschiff" * 400},
        {"role": "assistant", "content": f"\u202e{script}"},
        {"role": "user", "content": "مرحبا بالعالم — שלום עולם"},
        {"role": "assistant", "content": "</main></body>" + script},
    ]
    ask("/v1/agents/evil/messages", json.dumps(evil))
    settle()
    more = [{"role": "user", "content": f"{script} once more, in red. " + "So. " * 18_000}, {"role": "assistant", "content": script}, {"role": "user", "content": script}]
    ask("/v1/agents/evil/messages", json.dumps(more))
    for name in ("fakturo-docs", "ikigai-main", "release-bot"):
        said = [{"role": "user", "content": f"Good morning, {name}. " + "Please look at this. " * 400}, {"role": "assistant", "content": "Done."}]
        ask(f"/v1/agents/{name}/messages", json.dumps(said))
    settle()
    spread()


def spread() -> None:
    """Runs as they would have been made in a day, so that charts have something to show."""
    database = sqlite3.connect(DATABASE, timeout=10)
    with database:
        database.execute(
            "UPDATE update_runs SET finished_at = finished_at - (SELECT max(run) FROM update_runs) * 2700000 + run * 2700000, model_calls = 1, "
            "provider = 'openai', model = 'small', cost_microusd = 900 + run * 7919 % 2400, input_tokens = 4000, output_tokens = 700"
        )
        database.execute("UPDATE update_runs SET started_at = finished_at - 2500 - run * 7919 % 9000")
    database.close()


def last_version() -> int:
    return json.loads(ask(f"/v1/agents/{AGENT}/summary/versions?limit=1"))["versions"][0]["version"]


def address(path: str) -> str:
    last = last_version() if "LAST" in path else 0
    return URL + path.replace("LAST-3", str(max(last - 3, 1))).replace("LAST", str(last))


def open_page(page: Page, name: str, path: str) -> None:
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda request: check(request.url.startswith(URL), f"{name} asks {request.url}"))
    page.goto(address(path), wait_until="load")
    if name not in ("missing",):
        check(faults == [], f"{name}: the browser says {faults}")
    check("owned" not in page.title(), f"{name} ran a script of an agent")
    if name.startswith("adversary"):
        text = page.content()
        check(not any(sign in text for sign in HIDDEN), f"{name} shows what hides")
        check(page.locator("main img, main script, main iframe").count() == 0, f"{name} holds elements of an agent")
    check(page.locator("h1").count() == 1, f"{name} has one h1")


# Tables, and cells of tables, that don't fit: somebody would have to scroll to read them.
CUT_OFF = """() => [...document.querySelectorAll("main table")].filter((table) => table.checkVisibility()).flatMap((table) => {
  const room = table.parentElement.getBoundingClientRect();
  return [table, ...table.querySelectorAll("th, td")].filter((cell) => {
    const { left, right, width } = cell.getBoundingClientRect();
    return width > 1 && (left < Math.min(room.left, 0) - 1 || right > Math.min(room.right, innerWidth) + 1);
  }).map((cell) => `${cell.tagName} ${cell.textContent.trim().slice(0, 30)}`);
})"""


def looks(browser) -> None:
    """Each page in both themes and at each width, judged by axe-core, with a picture."""
    for theme in ("light", "dark"):
        for width in WIDTHS:
            context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 800}, bypass_csp=True)
            for name, path in PAGES.items():
                page = context.new_page()
                open_page(page, name, path)
                wide = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
                check(wide <= 0, f"{name} is {wide} px too wide for {width} px")
                cut_off = page.evaluate(CUT_OFF)
                check(cut_off == [], f"{name} at {width} px cuts off {cut_off[:3]}")
                page.screenshot(path=PICTURES / f"{name}-{theme}-{width}.png", full_page=width == 1280 and name != "agent")
                page.evaluate(AXE)
                found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']})")
                for fault in found["violations"]:
                    places = [" ".join(node["target"]) for node in fault["nodes"]][:3]
                    check(False, f"{name} {theme} {width}: axe {fault['impact']} {fault['id']} at {places}")
                page.close()
            context.close()


def links_up(browser) -> None:
    """An item lights its exchanges, and an exchange its items and its place on the map; an exchange opens in place."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    open_page(page, "agent", PAGES["agent"])
    page.locator(".item[data-x]").last.hover()
    check(page.locator(".map rect.lit").count() >= 1, "an item lights its place on the map")
    page.locator(".map a").first.hover()
    check(page.locator(".item.lit").count() >= 1, "a place on the map lights its items")
    entry = page.locator("#window .rows > li").first
    entry.locator("summary").first.click()
    check(page.locator(".map rect.lit").count() >= 1, "an exchange lights its place on the map")
    entry.locator(".messages article").first.wait_for()
    check(entry.locator(".messages article").count() > 0, "an exchange opens in place")
    page.screenshot(path=PICTURES / "agent-open.png")
    page.locator(".map a").first.click()
    page.wait_for_url("**/exchanges/*")
    page.close()


def words(browser) -> None:
    """What pages say agrees with what is so."""
    page = browser.new_page()
    push("waiting", "Begin")
    ask("/v1/agents/waiting/pause", "{}")
    for number in range(6):
        push("waiting", f"Much {number}. " + "Word for word. " * 3_400)
    waiting = json.loads(ask("/v1/agents/waiting"))["pending_exchanges"]
    page.goto(URL + "/ui/agents/waiting")
    check(f"None yet: the first update will summarise {waiting} exchanges" in page.locator("#summary").inner_text(), "a summary that is to begin says what waits")
    check(f"{waiting} exchanges" in page.locator("#pending").inner_text(), "both count the same")
    check(page.locator("#pending .rows > li").count() == waiting, "what is counted is listed")
    page.goto(URL + "/ui/queue")
    notes = " ".join(page.locator("td .note").all_inner_texts())
    check(not any(f"{word} just now" in notes for word in ("until", "begins", "again", "ends")), f"the future isn't just now: {notes}")
    check(page.get_by_text("Cancel").count() == 0, "nobody confirms a cancellation")
    page.goto(URL + PAGES["missing"])
    check(page.locator("nav[aria-label=Main] a").count() == 5, "a page about an unknown agent leads on")
    page.close()


# The version that the summary's column shows, once it is newer than a given one.
NEWER_VERSION = """(before) => {
  const [, shown] = /version (\\d+),/.exec(document.querySelector("#summary header").textContent) ?? [];
  return Number(shown) > before && Number(shown);
}"""


def alive(browser) -> None:
    """What is pushed moves on the page, and nothing else does."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    open_page(page, "agent", PAGES["agent"])
    page.locator("#pulse.on").wait_for()
    entry = page.locator("#window .rows > li").nth(1)
    entry.locator("summary").first.click()
    name = entry.get_attribute("id")
    page.evaluate("document.querySelector('#window .scroll').scrollTo(0, 60)")
    took = {"turn": [], "eviction": [], "version": []}
    for number in range(3):
        said = f"Live {number}, please"
        begun = time.monotonic()
        push(AGENT, said)
        page.locator("#window .rows > li", has_text=said).wait_for(timeout=5_000)
        took["turn"].append(time.monotonic() - begun)
    check(page.locator(f"#{name} details[open]").count() == 1, "what was open stays open")
    check(page.locator(f"#{name} > details").count() == 1, "what was open isn't doubled")
    check(page.evaluate("document.querySelector('#window .scroll').scrollTop") > 0, "the column stays where it was")
    ask(f"/v1/agents/{AGENT}/pause", "{}")
    for number in range(3):
        oldest = page.locator("#window .rows > li").last.get_attribute("id")
        begun = time.monotonic()
        push(AGENT, f"Much {number}. " + "Word for word. " * 3_400)
        page.locator(f"#pending #{oldest}").wait_for(timeout=5_000)
        took["eviction"].append(time.monotonic() - begun)
        version = last_version()
        ask(f"/v1/agents/{AGENT}/resume", "{}")
        # An update may write two versions soon after each other.
        newer = page.wait_for_function(NEWER_VERSION, arg=version, timeout=10_000).json_value()
        shown_at = datetime.now(timezone.utc)
        took["version"].append((shown_at - written_at(newer)).total_seconds())
        settle()
        ask(f"/v1/agents/{AGENT}/pause", "{}")
    ask(f"/v1/agents/{AGENT}/resume", "{}")
    for kind, seconds in took.items():
        print(f"live: {kind} shown after", ", ".join(f"{one:.2f} s" for one in seconds))
        check(max(seconds) < LIVE_SECONDS_MAX, f"{kind} shows within a second: {seconds}")
    page.close()


def lost(browser, token: str) -> None:
    """A daemon that hangs or is killed makes its pages grey, and they say since when."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(URL + PAGES["agent"])
    page.locator("#token").fill(token)
    page.locator(".sign-in button").click()
    page.locator("#pulse.on").wait_for()
    for sign, what in ((signal.SIGSTOP, "hangs"), (signal.SIGKILL, "is killed")):
        begun = time.monotonic()
        os.kill(int(DAEMON), sign)
        page.locator("body.is-away").wait_for(timeout=10_000)
        took = time.monotonic() - begun
        print(f"a page is grey {took:.1f} s after the daemon {what}")
        check(took < AWAY_SECONDS_MAX, f"a page is grey within five seconds: {took}")
        check("doesn't answer" in page.locator("#away").inner_text(), "the page says why")
        page.screenshot(path=PICTURES / "agent-away.png")
        if sign == signal.SIGSTOP:
            os.kill(int(DAEMON), signal.SIGCONT)
            page.locator("body:not(.is-away)").wait_for(timeout=10_000)
            check(page.locator("#away").is_hidden(), "the page is as before once the daemon is back")
    page.close()


def one_screen(browser) -> None:
    """An agent with a long history, on one screen."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(URL + "/ui/agents/long", wait_until="load")
    fits = page.evaluate("document.scrollingElement.scrollHeight <= innerHeight")
    check(fits, "an agent's page needs no scrolling at 1280 x 800")
    for part in ("#map", "#summary", "#pending", "#window"):
        box = page.locator(part).bounding_box()
        check(box["y"] >= 0 and box["y"] + box["height"] <= 800 and box["height"] > 20, f"{part} is in view: {box}")
    check("Where Things Stand" in page.locator("#summary h3").first.inner_text(), "the state is the first thing to read")
    check(page.locator("#window .rows > li").count() > 5, "the window is listed")
    page.screenshot(path=PICTURES / "agent-long.png")
    page.close()


def busy(browser) -> None:
    """What a tab costs while an agent has a hundred events a second."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    page.goto(URL + "/ui/agents/long", wait_until="load")
    page.locator("#pulse.on").wait_for()
    received = []
    session.on("Network.dataReceived", lambda event: received.append(event["dataLength"]))
    begun, sent = time.monotonic(), []
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for number in range(EVENTS_A_SECOND * BUSY_SECONDS):
            page.wait_for_timeout(max(0, (begun + number / EVENTS_A_SECOND - time.monotonic()) * 1_000))
            sent.append(pool.submit(push, "long", f"Event {number}"))
        concurrent.futures.wait(sent)
    took = time.monotonic() - begun
    page.locator("#window .rows > li", has_text=f"Event {len(sent) - 1}").wait_for(timeout=10_000)
    print(f"{len(sent) / took:.0f} events a second cost a tab {sum(received) / took / 1_024:.0f} KiB/s")
    check(sum(received) / took <= BYTES_A_SECOND_MAX, "a busy agent costs a tab little")
    page.close()


def push(agent: str, said: str) -> None:
    ask(f"/v1/agents/{agent}/messages", json.dumps([{"role": "user", "content": said}, {"role": "assistant", "content": "Yes"}]))


def written_at(version: int) -> datetime:
    at = json.loads(ask(f"/v1/agents/{AGENT}/summary/versions/{version}"))["created_at"]
    return datetime.fromisoformat(at.replace("Z", "+00:00"))


def keys(browser) -> None:
    """Keys go where they say, never while somebody writes, and can be switched off; names can be copied."""
    context = browser.new_context()
    # A page over plain HTTP has no clipboard.
    context.add_init_script("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    page = context.new_page()
    page.goto(URL + "/ui/")
    page.keyboard.press("?")
    check(page.locator("#keys[open]").count() == 1, "? opens the list of keys")
    page.screenshot(path=PICTURES / "keys.png")
    page.keyboard.press("Escape")
    # It closes in its own time, and until then keys are its own.
    page.wait_for_selector("#keys:not([open])", state="attached")
    for key, place in (("a", "/ui/agents"), ("q", "/ui/queue"), ("u", "/ui/runs"), ("s", "/ui/system"), ("o", "/ui/")):
        page.keyboard.press(key)
        page.wait_for_url(URL + place)
    page.goto(URL + "/ui/queue")
    page.keyboard.press("/")
    page.keyboard.type("state:parked")
    check(page.locator("#q").input_value() == "state:parked", "/ goes to the field, and keys are text there")
    page.goto(URL + PAGES["agent"])
    page.keyboard.press("/")
    page.wait_for_url("**/search")
    page.goto(URL + PAGES["agent"])
    page.locator(".name .copy").click()
    check(page.locator(".name .copy").get_attribute("data-done") == "Copied", "a name is copied over plain HTTP")
    page.goto(URL + "/ui/agents")
    page.locator("#find").focus()
    page.keyboard.press("Control+V")
    check(page.locator("#find").input_value() == AGENT, "what was copied can be pasted")
    page.goto(URL + "/ui/")
    page.keyboard.press("?")
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("q")
    check(page.url == URL + "/ui/", "keys that are off do nothing")
    context.close()


def act(page: Page, row: str, name: str) -> None:
    place = page.locator(row)
    place.locator("details.act", has=page.locator("summary", has_text=f"{name}…")).locator("summary").click()
    with page.expect_navigation():
        place.locator("details.act[open] button", has_text=name).click()


def actions(browser) -> None:
    """Each action, without scripts, as people do it."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    ask(f"/v1/agents/{AGENT}/refresh", "{}")
    page.goto(URL + "/ui/queue")
    act(page, ".head", "Pause all")
    check(page.locator(".notice").count() == 1, "all are paused")
    ask("/v1/agents/evil/refresh", "{}")
    page.goto(URL + "/ui/queue")
    row = "#q-evil"
    for name, state in (("Run now", "ready"), ("Park", "parked"), ("Retry", "ready"), ("Pause", "paused"), ("Resume", "ready")):
        act(page, row, name)
        told = page.locator(f"{row} .light").inner_text()
        check(state in told, f"{name} makes it {state}: {told}")
    page.screenshot(path=PICTURES / "queue-paused.png")
    act(page, row, "Park")
    page.goto(URL + "/ui/queue?q=state:parked%20agent:e*")
    page.screenshot(path=PICTURES / "queue-parked.png")
    act(page, ".head", "Retry all 1")
    check("1 update made due" in page.locator(".done").inner_text(), "what matches a filter is retried")
    ask("/v1/agents/evil/pause", "{}")
    last = last_version()
    page.goto(f"{URL}/ui/agents/{AGENT}/versions/{last - 1}")
    page.screenshot(path=PICTURES / "version-restore.png")
    act(page, ".head", f"Restore version {last - 1}")
    check(last_version() == last + 1, "an earlier version is restored as a new one")
    page.goto(URL + PAGES["agent"])
    act(page, ".head", "Update now")
    act(page, ".head", "Pause")
    check("paused" in page.locator("#status").inner_text(), "an agent is paused on its page")
    act(page, ".head", "Resume")
    page.goto(URL + "/ui/queue")
    act(page, ".head", "Resume all")
    check(page.locator(".notice").count() == 0, "all go on")
    for name, path in PAGES.items():
        page.goto(address(path))
        check(page.locator("h1").count() == 1, f"{name} without scripts")
    page.goto(URL + PAGES["agent"])
    page.locator("[data-refresh]").click()
    check(page.locator("h1").inner_text() == AGENT, "a page can be asked for again without scripts")
    context.close()


def sizes() -> None:
    """Pages of many agents and of a long history."""
    for number in range(AGENTS):
        ask(f"/v1/agents/many-{number:04}/messages", '[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi"}]')
    turn = [{"role": "user", "content": "Please go on with the next one"}, {"role": "assistant", "content": "Done, and the tests pass."}]
    ask("/v1/agents/long/messages", json.dumps([{"role": "user", "content": "You must always answer in British English."}, {"role": "assistant", "content": "I will."}]))
    for _ in range(0, EXCHANGES, 500):
        ask("/v1/agents/long/messages", json.dumps(turn * 500))
    settle()
    for path in (
        "/ui/",
        "/ui/agents",
        "/ui/agents/long",
        "/ui/agents/long/exchanges",
        "/ui/agents/long/versions",
        "/ui/queue",
        "/ui/queue?q=state:parked",
        "/ui/runs",
        "/ui/runs?q=state:failed",
        "/ui/system",
    ):
        best = min((timed(path) for _ in range(3)), key=lambda one: one[0])
        print(f"{path}: {best[0] * 1000:.0f} ms, {best[1] / 1000:.0f} kB")
        check(best[0] < PAGE_SECONDS_MAX and best[1] < PAGE_BYTES_MAX, f"{path} is quick and small: {best}")


def opened(browser) -> None:
    """What a person waits for, with styles and scripts."""
    page = browser.new_page()
    for path in ("/ui/", "/ui/agents", "/ui/agents/long", "/ui/queue"):
        page.goto(URL + path, wait_until="load")
        took = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
        print(f"{path} is loaded after {took:.0f} ms in Chromium")
        check(took < PAGE_SECONDS_MAX * 1_000, f"{path} is loaded within a second: {took} ms")
    page.close()


def timed(path: str) -> tuple[float, int]:
    begun = time.monotonic()
    body = ask(path)
    return time.monotonic() - begun, len(body)


def sessions(browser) -> str:
    """Tokens: the way in, what each sees, the way out."""
    tokens = {}
    for name, scope in (("root", "admin"), ("looker", "read")):
        told = subprocess.run([PROGRAM, "token", "create", name, "--scope", scope, "--db", DATABASE], capture_output=True, text=True, check=True)
        tokens[name] = next(word for word in (told.stdout + told.stderr).split() if word.startswith("rcp_"))
    for _ in range(100):
        try:
            ask("/v1/agents")
        except urllib.error.HTTPError:
            break
        time.sleep(0.1)
    for name in tokens:
        context = browser.new_context()
        page = context.new_page()
        page.goto(URL + f"/ui/agents/{AGENT}")
        page.locator("#token").fill("rcp_wrong")
        with page.expect_navigation():
            page.locator(".sign-in button").click()
        check(page.locator(".refused").count() == 1, "a wrong token is refused")
        page.goto(URL + f"/ui/agents/{AGENT}")
        page.screenshot(path=PICTURES / "sign-in.png")
        page.locator("#token").fill(tokens[name])
        page.locator(".sign-in button").click()
        page.wait_for_url(f"**/ui/agents/{AGENT}")
        check(page.locator("h1").inner_text() == AGENT, f"{name} is let in")
        check((page.locator(".act").count() > 0) == (name == "root"), f"{name} sees what they may do")
        check("rcp_" not in page.content() and "rcp_" not in page.evaluate("document.cookie"), "no page tells the token")
        page.screenshot(path=PICTURES / f"signed-in-{name}.png")
        page.goto(URL + "/ui/system")
        check(page.locator("#checks").count() == 1, f"{name} sees how the daemon is")
        check((page.locator(".configuration").count() == 1) == (name == "root"), "only who administrates sees the configuration")
        page.locator(".who button").click()
        page.wait_for_url("**/ui/login")
        page.goto(URL + f"/ui/agents/{AGENT}")
        check(page.locator("#token").count() == 1, "who signed out is out")
        context.close()
    return tokens["root"]


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    populate()
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        looks(browser)
        ask(f"/v1/agents/{AGENT}/resume", "{}")
        settle()
        links_up(browser)
        words(browser)
        alive(browser)
        keys(browser)
        actions(browser)
        sizes()
        one_screen(browser)
        opened(browser)
        busy(browser)
        lost(browser, sessions(browser))
        browser.close()
    if failures:
        sys.exit(f"{len(failures)} checks failed")
    print("the dashboard holds")


main()
