"""Patterns of names and addresses.

They are regular expressions that JSON Schema understands too.
"""

from launcher.config.schema.scalars import Text

# sky/task.py, _VALID_NAME_REGEX
TASK_NAME = r"[a-zA-Z0-9]+([._-]{1,2}[a-zA-Z0-9]+)*"
NAME_LENGTH = 62

# sky/utils/schemas.py, envs
ENV_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"

# What Ray 2.60 accepts as the value of a label; `ray start` fails for others without naming the reason.
LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,60}[a-zA-Z0-9])?"

# A leading `-` would be an option of ssh, and a space or a quote would begin a second argument.
HOST = r"[a-zA-Z0-9_:]([a-zA-Z0-9_.:%-]{0,251}[a-zA-Z0-9_])?"
USER = r"[a-zA-Z0-9_][a-zA-Z0-9_.@-]*"
JUMP = rf"({USER}@)?(\[[0-9a-fA-F:]+\]|[a-zA-Z0-9_][a-zA-Z0-9_.-]*)(:\d{{1,5}})?"

LABEL_HINT = "use at most 62 letters, digits, `-`, `_` and `.`; begin and end with a letter or a digit"

label = Text(expected="a valid label", pattern=LABEL, numbers=True, hint=LABEL_HINT)
node_name = Text(expected="a valid node name", pattern=LABEL, hint=LABEL_HINT)
task_name = Text(
    expected="a name such as `train`, `train-8b` or `train_v1.2`",
    pattern=TASK_NAME,
    hint="use letters and digits, with single `-`, `_` or `.` between them",
)
group_name = Text(
    expected="a valid group name",
    pattern=r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?",
    hint="use at most 30 lower-case letters, digits and `-`; begin and end with a letter or a digit",
)
env_name = Text(
    expected="a valid variable name",
    pattern=ENV_NAME,
    hint="use letters, digits and `_`; do not begin with a digit",
)
host = Text(
    expected="a host name or an address",
    pattern=HOST,
    hint="use letters, digits, `.`, `:`, `%`, `_` and `-`; write IPv6 without brackets, and the port as `port`",
)

user = Text(expected="a user name", pattern=USER, hint="do not begin with `-`; use no spaces")
jump = Text(
    expected="a jump host such as `bastion.example` or `user@bastion:2222`",
    pattern=rf"{JUMP}(,{JUMP})*",
    hint="separate several jump hosts by commas, without spaces",
)
path = Text(expected="a path", pattern=r"[^-\s\x00-\x1f][^\x00-\x1f]*", hint="do not begin with `-` or a space")
absolute_path = Text(expected="an absolute path", pattern=r"/[^\x00-\x1f]*", hint="begin with `/`")
