"""A Docker daemon of the tests' own, and an image that is made of programs of this machine."""

import contextlib
import os
import shutil
import signal
import subprocess
import tarfile
import time
from io import BytesIO
from pathlib import Path

OS_RELEASE = 'PRETTY_NAME="Box Linux 7"\nID=box\n'
PROGRAMS = (
    *("bash", "sh", "cat", "env", "sleep", "sort", "grep", "ls", "id", "touch", "head", "mkdir", "rm", "stat", "od"),
    *("wc", "md5sum", "setsid", "kill", "true"),
)
BEGIN_S = 30.0


def rootfs(path: Path, mark: str = "one", *, bash: bool = True) -> Path:
    """Write a small root file system as a tar: shell and tools with their libraries. `mark` is in `/mark`."""
    files: dict[str, str] = {}
    for name in PROGRAMS if bash else [one for one in PROGRAMS if one != "bash"]:
        found = shutil.which(name)
        assert found, name
        files[f"usr/bin/{name}"] = os.path.realpath(found)
        told = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for word in told.split():
            if word.startswith("/"):
                files[word.lstrip("/")] = os.path.realpath(word)
    texts = {
        "etc/os-release": OS_RELEASE,
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
        "etc/group": "root:x:0:\n",
        "mark": f"{mark}\n",
    }
    with tarfile.open(path, "w") as tar:
        for folder in ("root", "tmp", "proc", "sys", "dev", "run", "var", "home"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(made)
        link = tarfile.TarInfo("bin")
        link.type, link.linkname = tarfile.SYMTYPE, "usr/bin"
        tar.addfile(link)
        for name, source in files.items():
            tar.add(source, name)
        for name, text in texts.items():
            made = tarfile.TarInfo(name)
            made.size, made.mode = len(text), 0o644
            tar.addfile(made, BytesIO(text.encode()))
    return path


def overlays(folder: Path) -> bool:
    """Whether a folder can hold layers: a machine of CI may be in one itself. Else each container is a whole copy."""
    parts = {name: folder / "try" / name for name in ("lower", "upper", "work", "merged")}
    for part in parts.values():
        part.mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={parts['lower']},upperdir={parts['upper']},workdir={parts['work']}"
    tried = ["mount", "-t", "overlay", "-o", options, "overlay", str(parts["merged"])]
    works = subprocess.run(tried, check=False, capture_output=True).returncode == 0
    if works:
        subprocess.run(["umount", str(parts["merged"])], check=True)
    shutil.rmtree(folder / "try")
    return works


class Docker:
    """A daemon with a folder of its own, and its client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "docker.sock"
        self.env = {"DOCKER_HOST": f"unix://{self.socket}"}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the daemon, and wait until it answers."""
        driver = "overlay2" if overlays(self.folder) else "vfs"
        argv = [
            *("dockerd", "--storage-driver", driver, "--iptables=false", "--bridge=none"),
            *("--exec-opt", "native.cgroupdriver=cgroupfs", "-H", f"unix://{self.socket}"),
            *("--data-root", str(self.folder / "data"), "--exec-root", str(self.folder / "exec")),
            *("--pidfile", str(self.folder / "pid"), "--live-restore"),
        ]
        (self.folder / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)  # of one that was killed
        path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
        env = {**os.environ, "PATH": path}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, start_new_session=True)
        deadline = time.monotonic() + BEGIN_S
        while self.client("version", check=False).returncode != 0:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    def client(
        self, *argv: str, check: bool = True, stdin: bytes | None = None
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run the client."""
        env = {**os.environ, **self.env}
        command = ["/usr/bin/docker", *argv]
        return subprocess.run(command, env=env, check=check, capture_output=True, input=stdin, timeout=120)

    def said(self, *argv: str) -> str:
        """Return what the client writes."""
        return self.client(*argv).stdout.decode().strip()

    def kill(self) -> None:
        """Kill the daemon at once; containers go on."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Remove all containers, and end the daemon and what it started."""
        if self.process is None:
            return
        if self.process.poll() is not None:
            self.start()
        os.kill(self.process.pid, signal.SIGCONT)
        if found := self.said("ps", "-aq").split():
            self.client("rm", "-f", *found, check=False)
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        for mount in ("netns/default",):
            subprocess.run(["umount", str(self.folder / "exec" / mount)], check=False, capture_output=True)
