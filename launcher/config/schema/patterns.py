"""Patterns of names. Each is a plain regular expression that JSON Schema understands as well."""

from launcher.config.schema.shapes import Text

# sky/task.py, _VALID_NAME_REGEX
TASK_NAME = r"[a-zA-Z0-9]+([._-]{1,2}[a-zA-Z0-9]+)*"
NAME_LENGTH = 62

# sky/utils/schemas.py, envs
ENV_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"

# What Ray 2.60 takes for the value of a label; `ray start` fails on others without saying why.
LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,60}[a-zA-Z0-9])?"

# A leading `-` would be an option to ssh, and a space or a quote a second word.
HOST = r"[a-zA-Z0-9_:]([a-zA-Z0-9_.:%-]{0,251}[a-zA-Z0-9_])?"
USER = r"[a-zA-Z0-9_][a-zA-Z0-9_.@-]*"
JUMP = rf"({USER}@)?(\[[0-9a-fA-F:]+\]|[a-zA-Z0-9_][a-zA-Z0-9_.-]*)(:\d{{1,5}})?"

_PLAIN = "letters, digits, `-`, `_` and `.`, at most 62 of them, with a letter or a digit at both ends"

label = Text(word="a name that Ray takes as a label", pattern=LABEL, numbers=True, hint=f"use {_PLAIN}")
task_name = Text(
    word="a name such as `train`, `train-8b` or `train_v1.2`",
    pattern=TASK_NAME,
    hint="use letters and digits, with single `-`, `_` or `.` between them",
)
group_name = Text(
    word="the name of a group",
    pattern=r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?",
    hint="use at most 30 lower-case letters, digits and `-`, with a letter or a digit at both ends",
)
env_name = Text(
    word="the name of an environment variable",
    pattern=ENV_NAME,
    hint="use letters, digits and `_`, not beginning with a digit",
)
host = Text(word="a host name or an address", pattern=HOST, hint="it may not begin with `-`, nor hold spaces")
user = Text(word="the name of a user", pattern=USER, hint="it may not begin with `-`, nor hold spaces")
jump = Text(
    word="a jump host such as `bastion.example` or `user@bastion:2222`",
    pattern=rf"{JUMP}(,{JUMP})*",
    hint="several are separated by commas, without spaces",
)
path = Text(word="a path", pattern=r"[^-\s\x00-\x1f][^\x00-\x1f]*", hint="it may not begin with `-` or a space")
absolute_path = Text(word="an absolute path", pattern=r"/[^\x00-\x1f]*", hint="begin it with `/`")
