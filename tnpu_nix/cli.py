"""The command line: tnpu-nix and its verbs, and how failures reach users."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import click

from tnpu_nix import __version__
from tnpu_nix.commands.lazy import LazyGroup
from tnpu_nix.commands.options import say
from tnpu_nix.errors import TnpuError

# Verb → module of tnpu_nix.commands, and the command in it.
_COMMANDS = {
    "build": ("build", "build"),
    "bump": ("bump", "bump"),
    "cache": ("cache", "cache"),
    "check": ("reading", "check"),
    "demo": ("demo", "demo"),
    "doctor": ("reading", "doctor"),
    "generate": ("generate", "generate"),
    "image": ("image", "image"),
    "import": ("importing", "import_"),
    "init-ci": ("ci", "init_ci"),
    "outdated": ("reading", "outdated"),
    "plan": ("plan", "plan"),
    "schema": ("schema", "schema"),
    "show": ("reading", "show"),
    "upgrade": ("schema", "upgrade"),
    "verify": ("reading", "verify"),
}


class _Group(LazyGroup):
    """Turns every failure into two lines and exit status 1; --debug shows the traceback."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            # Whoever read us has had enough. Python would complain once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (Exception, KeyboardInterrupt) as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
                say(getattr(error, "said", ""))
            say(_as_tnpu_error(error).render())
            sys.exit(1)


def _as_tnpu_error(error: BaseException) -> TnpuError:
    match error:
        case TnpuError():
            return error
        case KeyboardInterrupt():
            return TnpuError("stopped by the user", "run the command again to go on")
        case OSError():
            named = error.filename or "standard output"
            hint = "check the rights and the room there, then run the command again"
            return TnpuError(f"{named}: {error.strerror or error}", hint)
        case _:
            return TnpuError(
                f"a fault of tnpu-nix itself: {type(error).__name__}: {error}",
                "please report it with what it prints with --debug",
            )


@click.group(cls=_Group, table=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tnpu-nix")
@click.option(
    "--project",
    "named",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder that holds pins.toml; by default the nearest one at or above this folder.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def main(context: click.Context, named: Path | None, debug: bool) -> None:
    """Turn one pin per upstream into Nix derivations and an OCI image."""
    context.obj = named
    # Whoever ends us has what we started ended too, in a way that lets it clean up.
    for kind in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.default_int_handler)
    # A terminal that cannot show a character of some file must not end the command.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
