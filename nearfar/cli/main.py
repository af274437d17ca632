"""The `nearfar` command: a table of subcommands, each imported only when it is called.

`nearfar --help` and a mistyped word cost no cv2, pydantic or zmq; unknown commands name the nearest one.
"""

import sys
from difflib import get_close_matches
from importlib import import_module
from typing import cast

import click

from nearfar import __version__
from nearfar.process import main_guard

COMMANDS = {
    "demo": ("nearfar.cli.demo:command", "The main job in one command: worker, agent, a link that goes bad."),
    "edge": ("nearfar.cli.edge:command", "Run the agent of one gateway."),
    "cloud": ("nearfar.cli.cloud:command", "Run a worker."),
    "check": ("nearfar.cli.check:command", "Say what is wrong with a pipeline or worker file."),
    "doctor": ("nearfar.cli.doctor:command", "Try what a pipeline needs here, and say what to mend."),
    "schema": ("nearfar.cli.schema:command", "Print the JSON Schema of a pipeline or worker file."),
    "list": ("nearfar.cli.list:command", "List the kinds a file may name, and what they need."),
    "report": ("nearfar.cli.report:command", "Write one page about a run: was the promise kept, and why."),
    "records": ("nearfar.cli.records:command", "Show what the cloud keeps: one record per frame."),
    "outbox": ("nearfar.cli.outbox:command", "Look into the outbox of a gateway."),
    "simulate": (
        "nearfar.cli.simulate:command",
        "Run the scheduler in virtual time over recorded links.",
    ),
    "calibrate": (
        "nearfar.cli.calibrate:command",
        "Measure what near and far see in a clip, into the file.",
    ),
    "relay": ("nearfar.cli.relay:command", "Rehearse a bad link: delay, rate, stall, reset."),
    "health": ("nearfar.cli.health:command", "Ask a health page once; the exit code is the answer."),
}


class LazyCommands(click.Group):
    """A group that knows its commands by name and imports one when it is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        return cast("click.Command", getattr(import_module(module), name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = get_close_matches(name, COMMANDS, n=1)
            hint = f"; did you mean `nearfar {close[0]}`?" if close else f"; there is {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command `{name}`{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nearfar", message="%(prog)s %(version)s")
def nearfar() -> None:
    """Edge-cloud inference: every frame answered by its deadline.

    Far (the cloud's better model) when the link allows, near (on the gateway) when it does not.
    """


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line (None: this process's own)."""

    def command() -> int | None:
        try:
            code = nearfar.main(arguments, prog_name="nearfar", standalone_mode=False)
        except click.Abort as error:
            raise KeyboardInterrupt from error
        except click.ClickException as error:
            error.show()
            return error.exit_code
        return code if isinstance(code, int) else None

    return main_guard(command)


def main() -> None:
    """The console script."""
    sys.exit(run())
