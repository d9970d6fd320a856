"""The options that mean the same in every command, and what fills them: a config file, `--set`."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from spom.errors import DataError


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """The file's values become defaults, so that what is on the command line wins."""
    if path is None or context.resilient_parsing:
        return path
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise DataError("there is no such file", str(path)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"expected TOML: {error}", str(path)) from None
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror})", str(path)) from None
    known = {}
    for parameter in context.command.params:
        flags = [flag.lstrip("-") for flag in parameter.opts if flag.startswith("--")]
        known.update({flag: parameter.name for flag in flags if flag not in ("config", "help")})
    found = {}
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in known:
            raise DataError(f"there is no option {key!r}; the options are: {', '.join(sorted(known))}", str(path))
        if isinstance(value, dict):
            value = [f"{k}={v!r}" for k, v in value.items()]
        found[known[name]] = value
    context.default_map = {**(context.default_map or {}), **found}
    return path


TrainFile = Annotated[str, typer.Option("--train", metavar="F", help="File to learn from; - is standard input.")]
DevFile = Annotated[
    str | None,
    typer.Option("--dev", metavar="F", help="Held-out file: scored after each epoch, and the best epoch is kept."),
]
ModelOut = Annotated[
    Path,
    typer.Option("--model", metavar="M", help="File to write the model to; the record of the run goes to M.run.json."),
]
ModelIn = Annotated[Path, typer.Option("--model", metavar="M", help="The model, as `spom train` wrote it.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", metavar="NAME", help="conll, conllu, crfsuite; svmlight, csv, parquet. Default: by the file's name."
    ),
]
Encoding = Annotated[
    str, typer.Option("--encoding", metavar="NAME", help="Encoding of text files: utf-8, latin-1, cp1252, ...")
]
ColumnNames = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Names of the columns of a CoNLL file, with commas: w,pos,label."),
]
CsvHeader = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether line 1 of a CSV file has the names of the columns.")
]
ZeroBased = Annotated[
    str,
    typer.Option("--zero-based", metavar="auto|yes|no", help="Whether the indices of an svmlight file start at 0."),
]
Strength = Annotated[
    float | None, typer.Option("--strength", metavar="S", help="Strength of the penalty. Default: from the data.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same model, to the bit.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="PATH", help="Write checkpoints here while training; see --resume."),
]
CheckpointEvery = Annotated[
    str,
    typer.Option("--checkpoint-every", metavar="60s|N", help="How often: a time (60s, 5m, 2h) or a number of epochs."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume from the checkpoint: that of --checkpoint, or M.checkpoint.")
]
KeepCheckpoint = Annotated[
    bool, typer.Option("--keep-checkpoint", help="Keep the checkpoint after a run that ended well.")
]
Jobs = Annotated[int, typer.Option("--jobs", metavar="N", help="Threads; -1 takes one for each core.")]
Dask = Annotated[str | None, typer.Option("--dask", metavar="ADDRESS", help="Address of a Dask scheduler to work on.")]
Shards = Annotated[
    int | None,
    typer.Option("--shards", metavar="N", help="Learn from N parts at once, with --jobs or --dask: the same model."),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML file with options by their names; the command line wins.",
        callback=_load_config,
        is_eager=True,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other parameter, as penalty__l1_ratio=0.9 or step=0.1; may be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
Output = Annotated[str, typer.Option("--output", "-o", metavar="F", help="File to write; - is standard output.")]


def parsed(settings: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """`--set name=value` as a dict: numbers, None, True and quoted text as in Python, all else as text.

    >>> parsed(["step=0.1", "penalty__l1_ratio=1e-3", "update=auto"])
    {'step': 0.1, 'penalty__l1_ratio': 0.001, 'update': 'auto'}
    """
    found = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{option} takes NAME=VALUE, not {text!r}")
        try:
            found[name.strip()] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name.strip()] = value
    return found


def comma_separated(text: str | None) -> tuple[str, ...]:
    """Names with commas between them.

    >>> comma_separated("age, job"), comma_separated(None)
    (('age', 'job'), ())
    """
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def yes_or_no(text: str, option: str) -> bool | None:
    """`yes` and `no` as truth values, `auto` as None."""
    known = {"yes": True, "true": True, "no": False, "false": False, "auto": None}
    if text.lower() not in known:
        raise ValueError(f"{option} takes auto, yes or no; not {text!r}")
    return known[text.lower()]


def check_jobs(jobs: int) -> int:
    """`--jobs`, checked: a number of threads, or minus one for all cores (minus two for all but one, ...)."""
    if jobs == 0:
        raise ValueError("--jobs takes a number of threads, or -1 for one per core; not 0")
    return jobs


def check_epochs(epochs: int | None) -> None:
    """`--epochs`, checked."""
    if epochs is not None and epochs < 1:
        raise ValueError(f"--epochs takes a number >= 1; not {epochs}")


def expanded(sources: list[str] | None) -> list[str]:
    """The files that were named, with patterns filled in; nothing is standard input."""
    import glob

    found: list[str] = []
    for source in sources or ["-"]:
        if glob.has_magic(source) and not Path(source).exists():
            matches = sorted(glob.glob(source))
            if not matches:
                raise DataError("no file has a name of this pattern", source)
            found += matches
        else:
            found.append(source)
    return found


def check_every(text: str) -> int | float | str:
    """`--checkpoint-every`, checked before any work: `60s`, or a number of epochs."""
    try:
        return text if text[-1:] in "smh" and float(text[:-1]) >= 0 else int(text)
    except ValueError:
        raise ValueError(f"--checkpoint-every takes a time such as 60s, or a number of epochs; not {text!r}") from None
