"""The user's files and the Python environment on real hosts: what is sent, what arrives, and what is said where not."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Acquire, Join, Prepare, Release, StartHead, Unit
from launcher.core.model.inventory import Access, Inventory
from launcher.core.model.observation import Phase, Sighting, Step
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run
from launcher.core.model.task import Group, TopologyRule
from launcher.ports import Completed, Stdin, Take
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from launcher.transport.ssh.shell import SshShell
from tests.real import local
from tests.real.local import REASON, agent, ok
from tests.real_ssh.wheels import wheel
from tests.rig import Host, Rig
from tests.rig.plan import Sizes

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of four hosts, which see the interpreter of the tests."""
    with Rig(1, 4, python=sys.executable, name="provision", sizes=Sizes(disk="200m")) as made:
        yield made


class Counting(SshShell):
    """The way to the hosts, with what is sent on it."""

    sent = 0
    before_fill: Callable[[], object] | None = None

    def run(
        self, at: Access, argv: Sequence[str], *, stdin: Stdin = b"", timeout: float, take: Take | None = None
    ) -> Completed:
        """Run a command, and count its stdin."""
        self.sent += len(stdin)
        if "fill" in argv and self.before_fill:
            self.before_fill()
        return super().run(at, argv, stdin=stdin, timeout=timeout, take=take)


class Stand:
    """Runs on the rig, from a launcher's home; takes down at the end what it began."""

    def __init__(self, home: Path, rig: Rig) -> None:
        self.home = home
        self.rig = rig
        self.shell = Counting(home)
        self.runs: list[tuple[Run, ShellNodes]] = []

    def fleet(self, **defaults: object) -> Inventory:
        path = self.home.parent / "inventory.yaml"
        path.write_text(self.rig.inventory(**defaults))
        return read_inventory(path)

    def place(self, name: str, fleet: Inventory, setup: str | None = "true", run: str = "true", **task: object) -> Run:
        """A run of three ranks and a spare."""
        made = local.place(
            fleet,
            f"{name}-{time.monotonic_ns()}",
            Group(name="main", topology=TopologyRule(), run=run, setup=setup),
            spares=1,
        )
        made = replace(made, task=replace(made.task, **task))
        self.runs.append((made, ShellNodes(Addresses(self.home, fleet, self.shell), self.shell, "me@here")))
        return made

    def nodes(self, run: Run) -> ShellNodes:
        return next(nodes for known, nodes in self.runs if known.id == run.id)

    def acquire(self, run: Run, at: int) -> Answer:
        return self.nodes(run).perform(run, Acquire(reason=REASON, node=run.placement.nodes[at]))

    def prepare(self, run: Run, at: int) -> Answer:
        member = list(run.members())[min(at, 2)].name
        return self.nodes(run).perform(run, Prepare(reason=REASON, node=run.placement.nodes[at], member=member))

    def all_ready(self, run: Run) -> None:
        def one(at: int) -> None:
            ok(self.acquire(run, at))
            ok(self.prepare(run, at))

        with ThreadPoolExecutor() as pool:
            list(pool.map(one, range(3)))
        for at in range(3):
            assert self.setup(run, at).phase is Phase.DONE

    def setup(self, run: Run, at: int, limit: float = 60.0) -> Step:
        """Return how the setup of a node ended."""
        node = run.placement.nodes[at]
        seen = self.until(run, lambda seen: agent(seen, node).setup.phase in (Phase.DONE, Phase.FAILED), limit)
        return agent(seen, node).setup

    def until(self, run: Run, holds: Callable[[Sighting], bool], limit: float = 60.0) -> Sighting:
        deadline = time.monotonic() + limit
        while not holds(seen := self.nodes(run).look(run)):
            assert time.monotonic() < deadline, seen
            time.sleep(0.1)
        return seen

    def host(self, run: Run, at: int) -> Host:
        return self.rig[run.placement.nodes[at]]

    def folder(self, run: Run, at: int) -> str:
        return f"/home/{self.rig.user}/.nvlaunch/runs/{run.id}/{run.placement.nodes[at]}"

    def down(self, run: Run) -> None:
        for node in run.placement.nodes:
            ok(self.nodes(run).perform(run, Release(reason=REASON, node=node)))
        ok(self.nodes(run).perform(run, Release(reason=REASON, node=run.head, unit=Unit.HEAD)))


@pytest.fixture
def stand(rig: Rig, tmp_path: Path, user: Path) -> Iterator[Stand]:
    (tmp_path / "home").mkdir()
    made = Stand(tmp_path / "home", rig)
    yield made
    for run, _ in made.runs:
        made.down(run)
    for host in rig.hosts.values():
        host.run(["rm", "-rf", f"/home/{rig.user}/.nvlaunch"])
    made.shell.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository as people have one."""
    root = tmp_path / "my work"
    (root / "src").mkdir(parents=True)
    (root / ".gitignore").write_text("*.log\n")
    (root / "src" / "train me.py").write_text("print()\n" * 1000)
    (root / "noise.bin").write_bytes(bytes(random_bytes(2_000_000)))
    (root / "big.log").write_bytes(bytes(1_000_000))
    (root / "run.sh").write_text("true")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("src/train me.py")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def random_bytes(count: int) -> bytes:
    with Path("/dev/urandom").open("rb") as source:
        return source.read(count)


def listed(host: Host, folder: str) -> set[str]:
    return set(host.run(["sh", "-c", 'cd "$1" && find . -mindepth 1', "sh", folder]).stdout.splitlines())


def test_a_workdir_goes_to_every_node_once_and_then_only_what_changed(stand: Stand, folder: Path) -> None:
    fleet = stand.fleet()
    first = stand.place("first", fleet, setup="test -x run.sh && pwd", workdir=str(folder))
    stand.all_ready(first)
    expected = {"./.gitignore", "./src", "./src/train me.py", "./noise.bin", "./run.sh", "./link"}
    for at in range(3):
        assert listed(stand.host(first, at), f"{stand.folder(first, at)}/workdir") == expected
    assert stand.shell.sent > 3 * 2_000_000
    assert not stand.host(first, 3).run(["find", "/home", "-name", "noise.bin"]).stdout, "a spare gets nothing yet"
    stand.down(first)

    (folder / "src" / "train me.py").write_text("changed")
    second = stand.place("second", fleet, workdir=str(folder))
    stand.shell.sent = 0
    stand.all_ready(second)
    assert stand.shell.sent < 100_000, "a second run is sent what changed, and its own programs' questions"
    for at in range(3):
        assert stand.host(second, at).read(f"{stand.folder(second, at)}/workdir/src/train me.py") == "changed"
        assert listed(stand.host(second, at), f"{stand.folder(second, at)}/workdir") == expected

    (folder / "run.sh").write_text("edited while the run goes on")
    stand.shell.sent = 0
    ok(stand.acquire(second, 3))
    ok(stand.prepare(second, 3))
    assert 2_000_000 < stand.shell.sent < 2_200_000, "a swap sends to the spare alone"
    assert stand.host(second, 3).read(f"{stand.folder(second, 3)}/workdir/run.sh") == "true"


def test_file_mounts_go_to_the_home_of_the_user_and_into_the_workdir(
    stand: Stand, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text("{}")
    mounts = {
        "~/data dir/config.json": str(tmp_path / "config.json"),
        "conf": str(folder / "src"),
        "/tmp/mounted/": str(tmp_path / "config.json"),
    }
    setup = 'cat "$HOME/data dir/config.json" /tmp/mounted/config.json "conf/train me.py"'
    run = stand.place("mounts", stand.fleet(), setup=setup, file_mounts=mounts)
    stand.all_ready(run)
    owner = stand.host(run, 0).run(["stat", "-c", "%U", f"/home/{stand.rig.user}/data dir/config.json"]).stdout
    assert owner.strip() == stand.rig.user
    for at in range(3):
        stand.host(run, at).run(["rm", "-rf", "/tmp/mounted", f"/home/{stand.rig.user}/data dir"])


def test_a_mount_where_the_user_may_not_write_is_said_so(stand: Stand, folder: Path) -> None:
    run = stand.place("denied", stand.fleet(), file_mounts={"/etc/nvlaunch/x": str(folder / "run.sh")})
    ok(stand.acquire(run, 0))
    answer = stand.prepare(run, 0)
    assert answer.result is Result.FAILED
    assert answer.message == "cannot write `/etc/nvlaunch`: permission denied"
    assert ".workdir.partial" not in listed(stand.host(run, 0), stand.folder(run, 0))


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_disk_that_fills_leaves_nothing_half_and_is_said_so(stand: Stand, folder: Path, when: str) -> None:
    run = stand.place("full", stand.fleet(), workdir=str(folder))
    ok(stand.acquire(run, 0))
    host, ballast = stand.host(run, 0), f"/home/{stand.rig.user}/ballast"

    def fill() -> None:
        free = int(host.run(["df", "--output=avail", "-B1", f"/home/{stand.rig.user}"]).stdout.split()[-1])
        host.run(["fallocate", "-l", str(free - 1_000_000), ballast])

    if when == "before":
        fill()
    else:
        stand.shell.before_fill = fill
    answer = stand.prepare(run, 0)
    assert answer.result is Result.FAILED
    assert answer.message.startswith("no room for the files of the run in `/home/")
    assert (": 2 MB are needed, 1 MB are free" in answer.message) is (when == "before")
    assert not {name for name in listed(host, stand.folder(run, 0)) if "workdir" in name} - {"./.workdir.lock"}
    host.run(["rm", ballast])
    stand.shell.before_fill = None
    ok(stand.prepare(run, 0))
    assert stand.setup(run, 0).phase is Phase.DONE


def test_a_home_that_is_read_only_is_said_at_the_claim(stand: Stand) -> None:
    run = stand.place("read-only", stand.fleet())
    host = stand.host(run, 0)
    host.read_only(f"/home/{stand.rig.user}", True)
    try:
        answer = stand.acquire(run, 0)
    finally:
        host.read_only(f"/home/{stand.rig.user}", False)
    assert answer.result is Result.FAILED
    assert "read-only file system" in answer.message.lower()


def test_setup_has_the_login_s_environment_the_site_s_and_the_task_s_last(stand: Stand) -> None:
    fleet = stand.fleet(env={"NCCL_IB_HCA": "mlx5", "STEPS": "1"})
    run = stand.place("env", fleet, setup='echo "$PATH $FROM_LOGIN $NCCL_IB_HCA $STEPS $SSH_CONNECTION."')
    run = replace(run, task=replace(run.task, groups=(replace(run.task.groups[0], envs={"STEPS": "7"}),)))
    stand.runs[-1] = (run, stand.runs[-1][1])
    host, profile = stand.host(run, 0), f"/home/{stand.rig.user}/.profile"
    before = host.read(profile)
    host.write(profile, 'echo noise; PATH="$HOME/tools:$PATH"; export FROM_LOGIN=yes\n', user=stand.rig.user)
    try:
        ok(stand.acquire(run, 0))
    finally:
        host.write(profile, before, user=stand.rig.user)
    ok(stand.prepare(run, 0))
    assert stand.setup(run, 0).phase is Phase.DONE
    said = host.read(f"{stand.folder(run, 0)}/log/provision.log")
    assert said.startswith(f"/home/{stand.rig.user}/tools:")
    assert said.rstrip().endswith(" yes mlx5 7 .")


def test_a_login_shell_that_hangs_holds_up_nobody_for_long(stand: Stand) -> None:
    run = stand.place("hanging", stand.fleet(), setup='echo "$PATH"')
    host, profile = stand.host(run, 0), f"/home/{stand.rig.user}/.profile"
    before = host.read(profile)
    host.write(profile, "exec sleep 600\n", user=stand.rig.user)
    try:
        answer = stand.acquire(run, 0)
    finally:
        host.write(profile, before, user=stand.rig.user)
    assert (answer.result, answer.warnings) == (
        Result.DONE,
        (f"the login of `{stand.rig.user}` does not end within 10 s: `~/.profile`?",),
    )
    ok(stand.prepare(run, 0))
    assert stand.setup(run, 0).phase is Phase.DONE
    assert not [process for process in host.processes() if process.argv[:2] == ("sleep", "600")]


def test_a_bashrc_that_waits_is_named_once_and_not_read_again(stand: Stand) -> None:
    """The first line says so at the claim; a setup starts without it, and at once."""
    run = stand.place("waiting", stand.fleet(), setup='echo "$Q ${SECONDS}"')
    host, bashrc = stand.host(run, 0), f"/home/{stand.rig.user}/.bashrc"
    before = host.read(bashrc)
    guard = "case $- in *i*) ;; *) return ;; esac"
    host.write(bashrc, f"{guard}\nexport Q=1; echo noise; sleep 600\n", user=stand.rig.user)
    try:
        answer = stand.acquire(run, 0)
        said = f"the login of `{stand.rig.user}` does not end within 10 s: `~/.bashrc`? It is left out"
        assert (answer.result, answer.warnings) == (Result.DONE, (said,))
        begun = time.monotonic()
        ok(stand.prepare(run, 0))
        assert stand.setup(run, 0).phase is Phase.DONE
        assert time.monotonic() - begun < 9
    finally:
        host.write(bashrc, before, user=stand.rig.user)
    assert host.read(f"{stand.folder(run, 0)}/log/provision.log") == f"nvlaunch: {said}\n 0\n"
    assert not [process for process in host.processes() if process.argv[:2] == ("sleep", "600")]


def test_a_given_python_without_ray_or_with_another_one_is_refused_at_the_claim(stand: Stand) -> None:
    run = stand.place("no-ray", stand.fleet(python=PYTHON))
    answer = stand.acquire(run, 0)
    assert answer.result is Result.FAILED
    assert answer.message.startswith(f"`{PYTHON}` has no Ray: install Ray 2.60 there")
    old = stand.place("old-ray", stand.fleet())
    host = stand.host(old, 1)
    host.ray_version("2.9.3")
    try:
        answer = stand.acquire(old, 1)
    finally:
        host.ray_version("2.60.0")
    assert answer.result is Result.FAILED
    assert "has Ray 2.9.3, and 2.60 is needed" in answer.message


def test_without_python_wheels_and_internet_it_says_what_to_set(stand: Stand) -> None:
    fleet = stand.fleet(env={"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "UV_INDEX_URL": "http://127.0.0.1:9/simple"})
    run = stand.place("offline", without_python(fleet), setup="echo never > mark")
    ok(stand.acquire(run, 0))
    ok(stand.prepare(run, 0))
    node = run.placement.nodes[0]
    seen = stand.until(run, lambda seen: agent(seen, node).setup.phase is not Phase.ABSENT)
    assert agent(seen, node).setup.message == "making a Python environment"
    ended = stand.setup(run, 0, limit=120)
    assert ended.phase is Phase.FAILED
    assert ended.message == "making a Python environment"
    assert "cannot make a Python environment with Ray 2.60" in ended.tail[-2]
    assert "set `python:` to an interpreter with it, or `wheels:` to a folder of wheels" in ended.tail[-1]
    host = stand.host(run, 0)
    assert "mark" not in host.run(["ls", f"{stand.folder(run, 0)}/workdir"]).stdout
    assert not host.run(
        ["find", f"/home/{stand.rig.user}/.nvlaunch/env", "-mindepth", "1", "-not", "-name", "*.lock"]
    ).stdout


def without_python(fleet: Inventory, wheels: str | None = None) -> Inventory:
    nodes = tuple(replace(node, access=replace(node.access, python=None, wheels=wheels)) for node in fleet.nodes)
    return replace(fleet, nodes=nodes)


# All that a head start calls of Ray.
STARTED = (
    "import pathlib, sys, time\ndef main():\n    pathlib.Path('started').write_text(sys.prefix); time.sleep(600)\n"
)
FALSE_RAY = {
    "ray/__init__.py": "__version__ = '2.60.0'\n",
    "ray/scripts/__init__.py": "",
    "ray/scripts/scripts.py": STARTED,
}


@pytest.mark.parametrize("where", ["launching side", "node"])
def test_wheels_make_an_environment_once_a_node_and_user_without_internet(
    stand: Stand, tmp_path: Path, where: str
) -> None:
    wheels = tmp_path / "wheels"
    wheel(wheels, "2.60.0", FALSE_RAY)
    named = str(wheels)
    if where == "node":
        named = "/opt/site-wheels"
        for host in stand.rig.hosts.values():
            content = (wheels / "ray-2.60.0-py3-none-any.whl").read_bytes()
            host.run(["mkdir", "-p", named])
            host.run(["sh", "-c", f"cat > {named}/ray-2.60.0-py3-none-any.whl"], stdin=content)
    fleet = without_python(stand.fleet(env={"PIP_INDEX_URL": "http://127.0.0.1:9/simple"}), wheels=named)
    run = stand.place("wheels", fleet, setup="command -v python3; echo set up > mark")
    ok(stand.acquire(run, 0))
    nodes = stand.nodes(run)
    with ThreadPoolExecutor() as pool:  # the head's agent wants the same environment at the same time
        preparing = pool.submit(stand.prepare, run, 0)
        heading = pool.submit(nodes.perform, run, StartHead(reason=REASON))
        ok(preparing.result())
        ok(heading.result())
    assert stand.setup(run, 0, limit=120).phase is Phase.DONE
    host, home = stand.host(run, 0), f"/home/{stand.rig.user}/.nvlaunch"
    made = [name for name in host.run(["ls", f"{home}/env"]).stdout.split() if not name.startswith(".")]
    assert len(made) == 1
    assert host.read(f"{stand.folder(run, 0)}/workdir/mark") == "set up\n"
    log = host.read(f"{stand.folder(run, 0)}/log/provision.log")
    assert "/.nvlaunch/env/" not in log.splitlines()[-1], "setup sees the user's own Python"
    assert "wheels" not in host.run(["ls", stand.folder(run, 0)]).stdout.split()
    ok(nodes.perform(run, Join(reason=REASON, slot=local.slots(run)[0])))
    began = f"find /tmp -name started -path '*nvl-*' -exec cat {{}} + | grep -c {home}/env/{made[0]} || true"
    deadline = time.monotonic() + 30
    while host.run(["sh", "-c", "find /tmp -name started -path '*nvl-*' | wc -l"]).stdout.strip() != "2":
        assert time.monotonic() < deadline, "head and slot run on the environment"
        time.sleep(0.1)
    assert host.run(["sh", "-c", began]).stdout.strip()
    stand.down(run)

    again = stand.place("again", fleet)
    stand.shell.sent = 0
    ok(stand.acquire(again, 0))
    ok(stand.prepare(again, 0))
    assert stand.setup(again, 0).phase is Phase.DONE
    assert "venv" not in host.read(f"{stand.folder(again, 0)}/log/provision.log"), "the second run finds it made"


def test_an_environment_that_a_run_did_not_finish_goes_with_it(stand: Stand) -> None:
    slow = "http://10.255.255.1/simple"  # no route: pip waits
    run = stand.place("half", without_python(stand.fleet(env={"PIP_INDEX_URL": slow, "PIP_TIMEOUT": "60"})))
    ok(stand.acquire(run, 0))
    ok(stand.prepare(run, 0))
    host, base = stand.host(run, 0), f"/home/{stand.rig.user}/.nvlaunch/env"
    deadline = time.monotonic() + 30
    while not any("pip" in process.argv and "install" in process.argv for process in host.processes()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert host.run(["sh", "-c", f"ls -d {base}/.*.partial"]).stdout
    stand.down(run)
    assert not host.run(["sh", "-c", f"ls -d {base}/.*.partial"], check=False).stdout
    assert not host.processes(run.id)
