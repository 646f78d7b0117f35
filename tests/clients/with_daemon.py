"""Runs a command with a daemon of its own, whose address stands in RECAPD_URL."""

import os
import subprocess
import sys

from daemon import Daemon

daemon = Daemon()
try:
    ended = subprocess.run(sys.argv[1:], env=os.environ | {"RECAPD_URL": daemon.url}).returncode
finally:
    daemon.close()
sys.exit(ended)
