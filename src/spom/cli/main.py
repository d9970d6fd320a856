"""The command: its subcommands, and how it reports errors.

An error is one line on standard error, with exit status 2, and no traceback unless `--debug` is given. Exit status 130
or 143 means that SIGINT or SIGTERM stopped the run, and 1 an unexpected error.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer

from spom.cli import data, demo, evaluate, inspect, predict, report, warmup
from spom.cli import train_parser as trees
from spom.cli import train_vectors as vectors
from spom.cli.train_tagger import tagger
from spom.cli.training import Stopped, end_on_sigterm

ABOUT = """Learn taggers, parsers, pipelines, classifiers and regressors, and the features they need.

\b
Examples:
  spom demo
  spom train tagger --train train.txt --dev dev.txt --model chunker.spom
  spom predict --model chunker.spom new.txt -o tagged.txt
  spom evaluate --model chunker.spom test.txt
  spom inspect chunker.spom

Files may be compressed with gzip or zstd, and - is standard input or output. `spom COMMAND --help` says more, with
examples.
"""


def build(argv: Sequence[str]) -> typer.Typer:
    """Build the command. The help is plain text, because rich help would double the time of `spom --help`."""
    app = typer.Typer(name="spom", rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(help=ABOUT)(_about)
    train = typer.Typer(help="Learn a model from a file.", no_args_is_help=True, rich_markup_mode=None)
    for learn in (tagger, trees.pipeline, trees.parser, vectors.classifier, vectors.regressor):
        train.command()(learn)
    app.add_typer(train, name="train", short_help="Learn a tagger, parser, pipeline, classifier or regressor.")
    for name, command, short in (
        ("demo", demo.demo, "Show the whole idea in a minute, on data that needs no download."),
        ("predict", predict.predict, "Write the input with one more column: the predictions."),
        ("evaluate", evaluate.evaluate, "Score a model on a file with the right answers."),
        ("inspect", inspect.inspect, "Show what a model kept, and the weight of each part."),
        ("report", report.report, "Write one self-contained page about a training run."),
        ("warmup", warmup.warmup, "Compile ahead of time what the first run would compile."),
        ("reproduce", _reproduce(argv), "Show a table or figure of a paper beside ours."),
    ):
        app.command(name, short_help=short)(command)
    app.add_typer(data.app, name="data")
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        from spom import __version__

        print(f"spom {__version__}")
        raise typer.Exit


def _about(
    version: bool = typer.Option(
        False, "--version", help="Print the version and stop.", is_eager=True, callback=_print_version
    ),
) -> None:
    """Handle the options before the subcommand."""


def _reproduce(argv: Sequence[str]) -> Any:
    """Return the function of `spom reproduce`, imported only when needed: it imports every experiment."""
    if "reproduce" in argv:
        try:
            from spom.papers.command import reproduce
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("spom.papers"):
                raise
        else:
            return reproduce
    return _no_experiments


def _no_experiments() -> None:
    raise typer.BadParameter("this install has no experiments of the papers")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    arguments = [word for word in given if word != "--debug"] or ["--help"]
    if not debug:
        warnings.simplefilter("ignore")
    end_on_sigterm()
    try:
        status = build(arguments)(arguments, prog_name="spom", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BaseException as error:
        if debug and not hasattr(error, "exit_code"):
            raise
        return _failed(error)


def _failed(error: BaseException) -> int:
    """Print the error in one line, and return the exit status."""
    from spom.errors import SpomError

    if isinstance(error, BrokenPipeError):
        # The reader has closed our output; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, Stopped):
        return _say(f"stopped by {signal.Signals(error.number).name}; nothing was written", 128 + error.number)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "Abort":
        return _say("stopped; nothing was written", 130)
    if type(error).__name__ == "NoArgsIsHelpError" and hasattr(error, "format_message"):
        print(error.format_message(), file=sys.stderr)
        return 2
    if hasattr(error, "format_message"):
        return _say(f"{error.format_message()}{_help_for(error)}", 2)
    if isinstance(error, (SpomError, ValueError)):
        return _say(str(error), 2)
    if isinstance(error, OSError):
        return _say(_of_the_system(error), 2)
    if isinstance(error, (ImportError, MemoryError)):
        return _say(f"{type(error).__name__}: {error}", 2)
    return _say(f"{type(error).__name__}: {error} (this should not happen; --debug shows where)", 1)


def _of_the_system(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    what = error.strerror or str(error)
    todo = {
        errno.ENOSPC: "; nothing was left half-written: free some space and run again",
        errno.EDQUOT: "; nothing was left half-written: free some space and run again",
        errno.EACCES: "; check who may read and write there",
        errno.ENOENT: "; check the name",
    }
    # Our own errors already say what to do.
    return f"{where}{what}{'' if ';' in what else todo.get(error.errno or 0, '')}"


def _help_for(error: Any) -> str:
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", None)
    return f" (`{path} --help` says more)" if path else ""


def _say(text: str, status: int) -> int:
    line = " ".join(text.split())
    print(f"spom: {line}", file=sys.stderr)
    return status
