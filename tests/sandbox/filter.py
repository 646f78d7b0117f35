"""Writes the system call filter of a systemd unit as a seccomp program: filter.py UNIT >FILTER

Asks systemd itself for the sets in `SystemCallFilter=`. Also implements, as systemd does: RestrictAddressFamilies=,
RestrictNamespaces=yes, MemoryDenyWriteExecute=yes, LockPersonality=yes and RestrictSUIDSGID=yes. Any other setting that needs a
filter is an error. Needs Debian's python3-seccomp.
"""

import socket
import subprocess
import sys
from errno import ENOSYS, EPERM

from seccomp import ALLOW, EQ, ERRNO, MASKED_EQ, Arg, SyscallFilter

# Of `namespaces(7)`: mount, cgroup, UTS, IPC, user, PID, network, time.
NAMESPACES = 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000, 0x00000080
PROT_WRITE, PROT_EXEC, SHM_EXEC, S_ISUID, S_ISGID = 2, 4, 0o100000, 0o4000, 0o2000
KNOWN = {"RestrictAddressFamilies", "RestrictNamespaces", "MemoryDenyWriteExecute", "LockPersonality", "RestrictSUIDSGID"}
# Covered by other restrictions: the architecture, real-time scheduling (@resources), and settings that aren't filters.
IMPLIED = {"SystemCallArchitectures", "SystemCallErrorNumber", "SystemCallFilter", "RestrictRealtime"}


def settings(path: str) -> list[tuple[str, str]]:
    """The settings of a unit, in order."""
    with open(path, encoding="utf-8") as unit:
        lines = [line.strip() for line in unit if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def calls(name: str) -> set[str]:
    """The system calls of one of systemd's sets, or the single one of that name."""
    if not name.startswith("@"):
        return {name}
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], check=True, capture_output=True, text=True).stdout
    members = [line.split()[0] for line in said.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return set().union(*(calls(member) for member in members))


def allowed(unit: list[tuple[str, str]]) -> set[str]:
    """The system calls that `SystemCallFilter=` allows; the first list must be an allow-list."""
    left: set[str] = calls("@default")
    for value in (value for name, value in unit if name == "SystemCallFilter"):
        listed = set().union(*(calls(name) for name in value.removeprefix("~").split()))
        left = left - listed if value.startswith("~") else left | listed
    return left


def main() -> None:
    unit = settings(sys.argv[1])
    unknown = {name for name, _ in unit if name.startswith(("Restrict", "SystemCall", "Lock", "MemoryDeny"))}
    unknown -= KNOWN | IMPLIED
    if unknown:
        sys.exit(f"no filter is known for {', '.join(sorted(unknown))}")
    program = SyscallFilter(ERRNO(EPERM))
    conditions: dict[str, list[list[Arg]]] = {
        # Allowed address families, forbidden flags.
        "socket": [
            [Arg(0, EQ, getattr(socket, family))]
            for name, value in unit
            if name == "RestrictAddressFamilies"
            for family in value.split()
        ],
        "mmap": [[Arg(2, MASKED_EQ, PROT_WRITE | PROT_EXEC, missing)] for missing in (0, PROT_WRITE, PROT_EXEC)],
        "mprotect": [[Arg(2, MASKED_EQ, PROT_EXEC, 0)]],
        "pkey_mprotect": [[Arg(2, MASKED_EQ, PROT_EXEC, 0)]],
        "shmat": [[Arg(2, MASKED_EQ, SHM_EXEC, 0)]],
        "clone": [[Arg(0, MASKED_EQ, sum(NAMESPACES), 0)]],
        "personality": [[Arg(0, EQ, 0)], [Arg(0, EQ, 0xFFFFFFFF)]],
        "chmod": [[Arg(1, MASKED_EQ, S_ISUID | S_ISGID, 0)]],
        "fchmod": [[Arg(1, MASKED_EQ, S_ISUID | S_ISGID, 0)]],
        "fchmodat": [[Arg(2, MASKED_EQ, S_ISUID | S_ISGID, 0)]],
    }
    # Its arguments can't be inspected; the C library falls back to `clone`.
    program.add_rule(ERRNO(ENOSYS), "clone3")
    for call in sorted(allowed(unit) - {"clone3", "unshare", "setns"}):
        try:
            for condition in conditions.get(call, [[]]):
                program.add_rule(ALLOW, call, *condition)
        except RuntimeError:
            # No such call on this architecture.
            continue
    program.export_bpf(sys.stdout.buffer)


main()
