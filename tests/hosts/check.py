"""Runs real coding agents through the proxy and with hooks, in scratch homes, against a fake provider on loopback.

  check.py RECAPD NODE_MODULES [HOST[.MODULE]…]

Each scenario has a provider, a proxy and a daemon of its own. What the archive holds is compared with what the host said
and was told, and every request and answer with what passed on the other side of the proxy.
"""

import subprocess
import sys
import time

import adapters
import claude
import codex
import hooks
import others
from rig import rig

# Codex sends recapd's capsule, which the proxy replaces.
IS_CAPSULE = {codex.compacts: lambda body: b"recapd1." in body}
AWAY = {claude.loses_the_daemon}
# These ask the provider themselves.
DIRECT = {hooks.claude, hooks.codex, adapters.pi, adapters.opencode, adapters.openclaw}
SCENARIOS = {
    "claude": [claude.compacts, claude.is_interrupted, claude.delegates, claude.loses_the_daemon, hooks.claude],
    "codex": [codex.compacts, hooks.codex],
    "opencode": [others.opencode, adapters.opencode],
    "gemini": [others.gemini],
    "pi": [others.pi, adapters.pi],
    "aider": [others.aider],
    "openclaw": [adapters.openclaw],
}


def main():
    for word in sys.argv[3:] or ("claude", "codex"):
        host, _, module = word.partition(".")
        for scenario in SCENARIOS[host]:
            if module not in ("", scenario.__module__):
                continue
            began = time.monotonic()
            with rig(has_daemon=scenario not in AWAY) as made:
                version = subprocess.run([host, "--version"], env=made.environment, capture_output=True, text=True, check=True)
                version = (version.stdout or version.stderr).strip().splitlines()[-1]
                scenario(made)
                passed = ""
                if scenario not in DIRECT:
                    passed = f" {made.verbatim(IS_CAPSULE.get(scenario, lambda body: False))} requests passed verbatim,"
            name = f"{scenario.__module__}.{scenario.__name__}"
            print(f"{host} {version}: {name},{passed} {time.monotonic() - began:.0f} s", flush=True)


main()
