"""The entry point. Ctrl-C during imports ends the process in silence."""


def main() -> int:
    """Run the command that was typed; return its exit code."""
    try:
        from launcher.drive.collector import collect_seldom

        collect_seldom()
        from launcher.cli.main import main as run
    except KeyboardInterrupt:
        return 130  # ExitCode.INTERRUPTED, which may not be imported yet
    return run()
