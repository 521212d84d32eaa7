#!/usr/bin/python3
"""Starts a command as systemd starts the command of a unit: with its user, paths, limits and system call filters.

    sandbox.py UNIT ROOT STATE ExecStart
    sandbox.py UNIT ROOT STATE -- COMMAND WORDS

ROOT is a folder with the file system that the command sees. STATE is the folder that the unit may write. systemd itself
expands the sets of system calls, and libseccomp builds the filters, as for systemd. A setting that this program does
not know is an error, so that a test that uses it cannot miss one. Needs root, `systemd-analyze`, and the Python module
`seccomp`.
"""

import ctypes
import errno
import functools
import os
import resource
import shlex
import subprocess
import sys

import seccomp
from seccomp import ALLOW, EQ, ERRNO, GT, KILL_PROCESS, MASKED_EQ, Arg

# Settings that do not restrict the process, and those that are used where they are needed.
OTHER = "Type Restart RestartSec TimeoutStopSec ExecStartPre ExecStart ExecReload Environment EnvironmentFile " \
    "User Group StateDirectory StateDirectoryMode ReadWritePaths WorkingDirectory LimitNOFILE UMask RestrictAddressFamilies " \
    "SystemCallFilter SystemCallErrorNumber".split()
# Settings of which this program knows one value.
ONLY = {
    "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict",
    "ProtectHome": "yes", "ProtectClock": "yes", "ProtectControlGroups": "yes", "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes", "ProtectKernelModules": "yes", "ProtectKernelTunables": "yes",
    "ProtectProc": "invisible", "PrivateDevices": "yes", "PrivateTmp": "yes", "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes", "RestrictNamespaces": "yes", "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes", "SystemCallArchitectures": "native",
}  # fmt: skip
DENIED = ERRNO(errno.EPERM)
UNKNOWN = ERRNO(errno.ENOSYS)

libc = ctypes.CDLL(None, use_errno=True)


def main(unit, root, state, *command):
    settings = read(unit)
    filters = syscall_filters(settings)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    for variable in settings.get("Environment", []):
        environment.update([variable.split("=", 1)])
    enter(settings, root, state)
    for line in environment_files(settings):
        environment.update([line.split("=", 1)])
    words = list(command[1:]) if command[0] == "--" else shlex.split(one(settings, command[0]))
    restrict(settings)
    for default, rules, bad_architecture in filters:
        load(default, rules, bad_architecture)
    os.execve(words[0], words, environment)


def read(unit):
    """The settings of the unit's service, each with all its values."""
    settings, section = {}, None
    with open(unit, encoding="utf-8") as lines:
        for line in map(str.strip, lines):
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and line[0] not in "#;":
                key, equals, value = line.partition("=")
                known = key in OTHER or (key in ONLY and value == ONLY[key])
                if not equals or line.endswith("\\") or not known:
                    sys.exit(f"sandbox.py does not know `{line}`: add what systemd does for it")
                settings.setdefault(key, []).append(value)
    return settings


def one(settings, key):
    (value,) = settings[key]
    return value


# --- the file system


def call(function, *arguments):
    if getattr(libc, function)(*arguments) == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}{arguments}: {os.strerror(number)}")


NAMESPACES = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000,
              "pid": 0x20000000, "net": 0x40000000}  # fmt: skip
READ_ONLY, NO_SUID, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 8, 32, 4096, 16384, 1 << 18


def mount(source, target, kind="none", flags=0, data=""):
    call("mount", *(os.fsencode(text) for text in (source, target, kind)), flags, data.encode())


def bind(source, target, flags=0):
    mount(source, target, flags=BIND)
    if flags:
        mount("none", target, flags=BIND | REMOUNT | flags)


def enter(settings, root, state):
    """Mounts what the service sees in a namespace of its own, and changes into it."""
    call("unshare", NAMESPACES["mount"])
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    inside = functools.partial(os.path.join, root)
    writable = settings.get("ReadWritePaths", []) + [f"/var/lib/{name}" for name in settings.get("StateDirectory", [])]
    (writable,) = writable
    os.makedirs(inside(writable[1:]), exist_ok=True)
    bind(root, root, READ_ONLY if "ProtectSystem" in settings else 0)
    if "ProtectProc" in settings:
        mount("proc", inside("proc"), "proc", NO_SUID | NO_EXEC, "hidepid=invisible")
    elif os.path.isdir(inside("proc")):
        mount("proc", inside("proc"), "proc", NO_SUID | NO_EXEC)
    if "ProtectKernelTunables" in settings:
        for name in ("proc/sys", "proc/irq", "proc/bus", "proc/fs"):
            if os.path.isdir(inside(name)):
                bind(inside(name), inside(name), READ_ONLY)
        bind("/sys", inside("sys"), READ_ONLY)
    if os.path.isdir(inside("dev")):
        mount("dev", inside("dev"), "tmpfs", NO_SUID | NO_EXEC, "mode=755")
        for name in ("null", "zero", "full", "random", "urandom", "tty"):
            open(inside("dev", name), "w", encoding="utf-8").close()
            bind(f"/dev/{name}", inside("dev", name))
    for name in ("tmp", "var/tmp") if "PrivateTmp" in settings else ():
        mount("tmp", inside(name), "tmpfs", NO_SUID, "mode=1777")
    for name in ("home", "root", "run/user") if "ProtectHome" in settings else ():
        if os.path.isdir(inside(name)):
            mount("home", inside(name), "tmpfs", READ_ONLY, "mode=000")
    bind(state, inside(writable[1:]))
    os.chroot(root)
    os.chdir(one(settings, "WorkingDirectory"))
    uid, gid = account(settings)
    os.chown(writable, uid, gid)
    os.chmod(writable, int(settings.get("StateDirectoryMode", ["0700"])[0], 8))


def environment_files(settings):
    for name in settings.get("EnvironmentFile", []):
        try:
            with open(name.lstrip("-"), encoding="utf-8") as file:
                yield from (line.strip() for line in file if line.strip() and line[0] not in "#;")
        except FileNotFoundError:
            if not name.startswith("-"):
                raise


# --- the process


def account(settings):
    """The user and the group by name, as the machine that the service sees knows them, or by number."""

    def find(file, name):
        if name.isdecimal():
            return int(name)
        with open(file, encoding="utf-8") as lines:
            return next(int(line.split(":")[2]) for line in lines if line.startswith(name + ":"))

    return find("/etc/passwd", one(settings, "User")), find("/etc/group", one(settings, "Group"))


def restrict(settings):
    """Limits, user, capabilities."""
    if "LimitNOFILE" in settings:
        # A container's root may not raise the limit that it has.
        files = min(int(one(settings, "LimitNOFILE")), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.umask(int(settings.get("UMask", ["0022"])[0], 8))
    if "CapabilityBoundingSet" in settings:
        drop_from_bounding_set, last = 24, "/proc/sys/kernel/cap_last_cap"
        with open(last, encoding="utf-8") as file:
            last = int(file.read())
        for capability in range(last + 1):
            call("prctl", drop_from_bounding_set, capability, 0, 0, 0)
    uid, gid = account(settings)
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if "NoNewPrivileges" in settings:
        call("prctl", 38, 1, 0, 0, 0)


# --- the filters of system calls


@functools.cache
def members(name):
    """The system calls of a set, as this machine's systemd knows them."""
    command = ["systemd-analyze", "syscall-filter", name]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    names = [line.strip() for line in text.splitlines()[1:]]
    return expand(name for name in names if name and name[0] != "#")


def expand(names):
    return frozenset().union(*(members(name) if name[0] == "@" else {name} for name in names))


def syscall_filters(settings):
    """Each filter: what happens to a call without a rule, the rules, and what happens to calls of other ABIs."""

    def deny(*rules):
        return ALLOW, [(DENIED, *rule) for rule in rules], ALLOW

    def others(name, allowed, answer=DENIED):
        """Refuses a call unless its first argument is one of these."""
        allowed = sorted(allowed)
        rules = [(EQ, number) for number in range(allowed[-1]) if number not in allowed] + [(GT, allowed[-1])]
        return ALLOW, [(answer, name, Arg(0, how, number)) for how, number in rules], ALLOW

    def calls(*sets):
        return deny(*((name,) for name in expand(sets)))

    execute, write = 4, 2
    set_id = [(mode, mode) for mode in (0o4000, 0o2000)]
    mode_of = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "mkdir": 1, "mkdirat": 2, "mknod": 1, "mknodat": 2, "creat": 1}
    ways = {
        "ProtectClock": [calls("@clock")],
        "ProtectHostname": [calls("sethostname", "setdomainname")],
        "ProtectKernelLogs": [calls("syslog")],
        "ProtectKernelModules": [calls("@module")],
        "PrivateDevices": [calls("@raw-io")],
        "LockPersonality": [others("personality", {libc.personality(0xFFFFFFFF)})],
        "MemoryDenyWriteExecute": [
            deny(
                ("mmap", Arg(2, MASKED_EQ, execute | write, execute | write)),
                ("mprotect", Arg(2, MASKED_EQ, execute, execute)),
                ("pkey_mprotect", Arg(2, MASKED_EQ, execute, execute)),
                ("shmat", Arg(2, MASKED_EQ, 0o100000, 0o100000)),
            )
        ],
        "RestrictNamespaces": [
            (ALLOW, [(UNKNOWN, "clone3"), (DENIED, "setns")], ALLOW),
            deny(
                *(
                    (name, Arg(0, MASKED_EQ, flag, flag))
                    for flag in NAMESPACES.values()
                    for name in ("clone", "unshare")
                )
            ),
        ],
        # Without 0, 3 and 5: the policies of ordinary processes.
        "RestrictRealtime": [deny(*(("sched_setscheduler", Arg(1, EQ, policy)) for policy in (1, 2, 4, 6)))],
        "RestrictSUIDSGID": [
            deny(*((name, Arg(at, MASKED_EQ, *mode)) for name, at in mode_of.items() for mode in set_id)),
            (ALLOW, [(UNKNOWN, "openat2")], ALLOW),
        ],
        "SystemCallArchitectures": [(ALLOW, [], KILL_PROCESS)],
    }
    filters = [found for key, found in ways.items() if key in settings]
    filters = [each for found in filters for each in found]
    if "RestrictAddressFamilies" in settings:
        families = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
        allowed = {families[name] for name in one(settings, "RestrictAddressFamilies").split()}
        filters.append(others("socket", allowed, ERRNO(errno.EAFNOSUPPORT)))
    if "SystemCallFilter" in settings:
        filters.append(allow_list(settings))
    return filters


def allow_list(settings):
    """`SystemCallFilter` that begins with what is allowed. Calls that systemd does not know do not exist."""
    lines = settings["SystemCallFilter"]
    if lines[0].startswith("~"):
        sys.exit("sandbox.py does not know a SystemCallFilter that begins with what is refused")
    allowed = expand(["@default"])
    for line in lines:
        names = expand(line.lstrip("~").split())
        allowed = allowed - names if line.startswith("~") else allowed | names
    number = settings.get("SystemCallErrorNumber")
    refused = ERRNO(getattr(errno, one(settings, "SystemCallErrorNumber"))) if number else KILL_PROCESS
    rules = [(ALLOW, name) for name in allowed] + [(refused, name) for name in members("@known") - allowed]
    return UNKNOWN, rules, ALLOW


def load(default, rules, bad_architecture):
    calls = seccomp.SyscallFilter(default)
    calls.set_attr(seccomp.Attr.ACT_BADARCH, bad_architecture)
    for action, name, *arguments in rules:
        number = seccomp.resolve_syscall(seccomp.Arch(), name)
        # Others do not exist on this processor.
        if number >= 0:
            calls.add_rule_exactly(action, number, *arguments)
    calls.load()


main(*sys.argv[1:])
