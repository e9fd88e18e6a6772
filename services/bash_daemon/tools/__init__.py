"""The tools of the bash surface, in the order in which they are listed. None is in a tool group."""

from services.bash_daemon.tools.shell import build_shell_tools

__all__ = ["build_shell_tools"]
