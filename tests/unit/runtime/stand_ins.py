"""Stand-ins for enroot and Apptainer, which no package repository of the tests has: they are not these engines.

Each writes its arguments to `said` beside it, one JSON list a line, and does in a simple way what nvlaunch needs of the
engine: it makes files for images and folders for containers, and runs programs on the machine itself.
"""

import sys
from pathlib import Path

_BEGIN = f"""#!{sys.executable}
# A stand-in for tests, not the engine itself.
import json, os, shutil, sys
from pathlib import Path
HERE = Path(__file__).parent
words = sys.argv[1:]
with open(HERE / "said", "a") as said:
    said.write(json.dumps(words) + "\\n")
verb, rest = words[0], words[1:]

def take(flags, values):
    # Options, and what comes after them.
    found = []
    while rest and rest[0].startswith("-"):
        one = rest.pop(0)
        if one == "--":
            break
        if one not in flags + values:
            sys.exit("unknown option " + one)
        found.append((one, rest.pop(0) if one in values else ""))
    return found

def run(env, argv):
    os.execvpe(argv[0], argv, {{"PATH": os.environ["PATH"], "OF_THE_IMAGE": "1", **env}})

def pairs(options):
    return dict(value.split("=", 1) for name, value in options if name == "--env")
"""

ENROOT = (
    _BEGIN
    + """
containers = HERE / "containers"
if verb == "version":
    print("4.0.1")
elif verb == "digest":
    print((HERE / "digest").read_text())
elif verb == "import":
    options = dict(take([], ["--output"]))
    print("[INFO] Fetching image manifest list", file=sys.stderr)
    Path(options["--output"]).write_text(rest[0])
elif verb == "create":
    options = dict(take(["--force"], ["--name"]))
    (containers / options["--name"]).mkdir(parents=True)
    shutil.copy(rest[0], containers / options["--name"] / "image")
elif verb == "list":
    print("\\n".join(sorted(os.listdir(containers))))
elif verb == "remove":
    take(["--force"], [])
    shutil.rmtree(containers / rest[0])
elif verb == "start":
    options = take(["--rw", "--root"], ["--rc", "--mount", "--env"])
    if not (containers / rest[0]).is_dir():
        sys.exit("[ERROR] No such file or directory: " + rest[0])
    if (containers / rest[0] / "image").read_text() == "empty":
        sys.exit("[ERROR] /bin/sh: no such file")
    run(pairs(options), ["sh", dict(options)["--rc"], *rest[1:]])
elif verb == "exec":
    options = take([], ["--env"])
    os.kill(int(rest[0]), 0)
    run(pairs(options), rest[1:])
else:
    sys.exit("unknown command " + verb)
"""
)

APPTAINER = (
    _BEGIN
    + """
if verb == "version":
    print("1.4.0")
elif verb == "pull":
    take(["--force"], [])
    Path(rest[0]).write_text(rest[1])
elif verb == "build":
    take(["--sandbox"], [])
    Path(rest[0]).mkdir()
    (Path(rest[0]) / "usr/bin").mkdir(parents=True)
    image = Path(rest[1]).read_text()
    (Path(rest[0]) / "image").write_text(image)
    if " -> " in image:
        os.symlink(image.split(" -> ")[1], Path(rest[0]) / image.split(" -> ")[0])
elif verb == "exec":
    flags = ["--writable", "--cleanenv", "--no-home", "--nv", "--fakeroot"]
    options = take(flags, ["--no-mount", "--mount", "--env"])
    if not Path(rest[0]).is_dir():
        sys.exit("FATAL:   could not open image " + rest[0])
    if (Path(rest[0]) / "image").read_text() == "empty":
        sys.exit("FATAL:   /bin/sh: no such file")
    run(pairs(options), rest[1:])
else:
    sys.exit("unknown command " + verb)
"""
)


def put(folder: Path, name: str) -> None:
    """Write the stand-in of this name into a folder."""
    program = folder / name
    program.write_text({"enroot": ENROOT, "apptainer": APPTAINER}[name])
    program.chmod(0o755)
