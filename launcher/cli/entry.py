"""Where the command begins: Ctrl-C while its modules are still read ends it in silence, as later."""


def main() -> int:
    """Run the command that was typed; return its exit code."""
    try:
        from launcher.cli.main import main as run
    except KeyboardInterrupt:
        return 130  # ExitCode.INTERRUPTED, of which nothing is read yet
    return run()
