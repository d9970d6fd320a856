"""The options of the commands: their types, their values from a config file or `--set`, and what they mean.

A group maps names of values to (type with its `typer.Option`, default); `takes` makes a command of such groups, which
gets all values as one dict. Names of losses, penalties and templates are written out here, so that `--help` need not
import what they stand for; tests compare them with it.
"""

from __future__ import annotations

import ast
import inspect
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from spom.core import registry
from spom.errors import DataError, Unsupported


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
        known.update({flag: str(parameter.name) for flag in flags if flag not in ("config", "help")})
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


# --- commands from groups of options ----------------------------------------------------------------

REQUIRED: Any = inspect.Parameter.empty
Group = Mapping[str, tuple[Any, Any]]
Run = Callable[[dict[str, Any]], None]


def takes(*groups: Group) -> Callable[[Run], Callable[..., None]]:
    """A function of the values as typer calls it; required options come first in its help."""
    options = {name: option for group in groups for name, option in group.items()}
    ordered = sorted(options.items(), key=lambda item: item[1][1] is not REQUIRED)

    def wrap(run: Run) -> Callable[..., None]:
        def called(**values: Any) -> None:
            run(values)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(n, keyword, default=d, annotation=kind) for n, (kind, d) in ordered]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        called.__annotations__ = {name: kind for name, (kind, _) in ordered}
        called.__name__, called.__doc__ = run.__name__, run.__doc__
        return called

    return wrap


# --- groups of options that training commands share --------------------------------------------------

Prune = Annotated[
    str | None,
    typer.Option("--prune", metavar="auto|N|S", help="Choose templates first: by itself, so many, or by a strength."),
]
FILES: Group = {"train": (TrainFile, REQUIRED), "model": (ModelOut, REQUIRED), "dev": (DevFile, None)}
CHOICE: Group = {"prune": (Prune, None)}
LEARNING: Group = {"strength": (Strength, None), "seed": (Seed, 0), "settings": (Settings, None)}
RUNNING: Group = {
    "checkpoint": (Checkpoint, None),
    "checkpoint_every": (CheckpointEvery, "60s"),
    "resume": (Resume, False),
    "keep_checkpoint": (KeepCheckpoint, False),
    "jobs": (Jobs, 1),
    "shards": (Shards, None),
    "dask": (Dask, None),
    "config": (Config, None),
    "json": (Json, False),
    "quiet": (Quiet, False),
    "debug": (Debug, False),
}


# --- options that take names, by task ---------------------------------------------------------------

# Penalties of single weights, of templates or kernels, of groups of features, and sets.
SINGLE = ("l1", "squared-l2", "elastic-net")
BLOCKS = ("group-lasso", "sparse-mkl", "lq-mkl", "elastic-net-mkl")
GROUPS = (
    *("l2", "linf", "squared-l1", "power", "group-linf", "sparse-group-lasso"),
    *("tree-group-lasso", "overlapping-group-lasso", "latent-group-lasso"),
)
SETS = ("l1-ball", "l2-ball", "linf-ball", "simplex", "box")

PENALTIES = {
    "tagger": (*SINGLE, *BLOCKS, "sparse-group-lasso"),
    "parser": (*SINGLE, "l2", *BLOCKS, "sparse-group-lasso"),
    "classifier": (*SINGLE, *BLOCKS, *GROUPS, *SETS),
    "regressor": (*SINGLE, *BLOCKS, *GROUPS, *SETS),
}
DEFAULT_PENALTY = {
    "tagger": "l1, with a strength from the number of sentences",
    "parser": "none",
    "classifier": "squared-l2, with a strength from held-out rows",
    "regressor": "squared-l2, with a strength from held-out rows",
}
# The default comes first.
LOSSES = {
    "tagger": ("softmax-margin", "log", "hinge", "perceptron"),
    "parser": ("mira", "hinge", "perceptron", "log"),
    "classifier": ("logistic", "hinge", "power-hinge"),
    "regressor": ("squared", "power-absolute"),
}
EPOCHS = {
    "tagger": "6, for phrases 12, and up to 20 where there are few sentences",
    "parser": "6 for arcs, 4 for relations",
    "classifier": "10",
    "regressor": "10",
}
FORMATS = {
    "tagger": ("conll", "conllu", "crfsuite"),
    "parser": ("conllu",),
    "pipeline": ("conllu",),
    "classifier": ("svmlight", "csv", "parquet"),
    "regressor": ("svmlight", "csv", "parquet"),
}
TEMPLATES = {"tagger": ("chunking", "pos", "entities", "tags"), "parser": ("default", "compact", "large")}
DEFAULT_TEMPLATES = {"tagger": "by the labels and columns", "parser": "default"}
SCHEMES = ("BIO", "IOB1", "BIOES", "BILOU", "none")
SOLVERS = ("online", "proximal")


def completing(names: Sequence[str]) -> Callable[[str], list[str]]:
    """What completes one of these names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def named(flag: str, names: Sequence[str], text: str, metavar: str = "NAME") -> Any:
    """An option that takes one of some names."""
    option = typer.Option(flag, metavar=metavar, help=text, autocompletion=completing(names))
    return Annotated[str | None, option]


def format_option(task: str) -> Any:
    """`--format`."""
    names = FORMATS[task]
    return named("--format", names, f"Format of the files: {', '.join(names)}. Default: by the file's name.")


def names_of(task: str) -> Group:
    """The options of a task that take names, and `--epochs`."""
    found = {"format": (format_option(task), None)}
    if task in TEMPLATES:
        sets = TEMPLATES[task]
        text = f"A set ({', '.join(sets)}), or a file. Default: {DEFAULT_TEMPLATES[task]}."
        found["templates"] = (named("--templates", sets, text, "T"), None)
    penalties, losses = PENALTIES[task], LOSSES[task]
    text = f"{', '.join(penalties)}; or none. Default: {DEFAULT_PENALTY[task]}."
    epochs = typer.Option("--epochs", metavar="N", help=f"Passes over the data. Default: {EPOCHS[task]}.")
    return {
        **found,
        "penalty": (named("--penalty", (*penalties, "none"), text), None),
        "loss": (named("--loss", losses, f"{', '.join(losses)}. Default: {losses[0]}."), None),
        "epochs": (Annotated[int | None, epochs], None),
    }


# --- what values mean -------------------------------------------------------------------------------


def penalty_of(name: str | None, strength: float | None, groups: str | None, default: Any) -> Any:
    """The penalty that the options mean; what is left out is as in `default`.

    >>> from spom.penalties import L1
    >>> penalty_of("group-lasso", None, "rows", L1(0.5))
    GroupLasso(strength=0.5, groups='rows')
    """
    if name is None and strength is None and groups is None:
        return default
    base = default.get_params(deep=False) if default is not None else {}
    cls: Any = type(default) if name is None else registry.find("penalty", name).cls
    known = cls._defaults()
    params: dict[str, Any] = dict(base) if name is None else {}
    if "strength" in known:
        params["strength"] = base.get("strength", 1e-4) if strength is None else strength
    elif "radius" in known:
        params["radius"] = 1.0 if strength is None else strength
    elif strength is not None:
        raise Unsupported(f"the penalty {name} has no strength")
    if groups is not None:
        if "groups" not in known:
            raise Unsupported(f"the penalty {name or registry_name(default)} has no groups")
        params["groups"] = int(groups) if groups.isdigit() else groups
    return cls(**params)


def registry_name(operator: Any) -> str:
    """The registered name of a penalty, or the name of its class."""
    found = [entry.name for entry in registry.entries("penalty") if entry.cls is type(operator)]
    return found[0] if found else type(operator).__name__


def pruning_of(text: str | None) -> Any:
    """What `--prune` means: auto, a number of templates, or a strength or share (a number with a point).

    >>> pruning_of("auto"), pruning_of("12"), pruning_of("0.02")
    ('auto', 12, 0.02)
    """
    if text is None or text == "auto":
        return text
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ValueError(
            f"--prune takes auto, a number of templates, or a strength such as 0.02; not {text!r}"
        ) from None


def check_shards(options: dict[str, Any], supported: bool) -> None:
    """--shards is a number of at least one, where the task can learn from shards."""
    shards, dask = options.get("shards"), options.get("dask")
    if shards is None and dask is None:
        return
    if not supported:
        raise Unsupported("--shards and --dask are for taggers, parsers and the online solver of data in memory")
    if shards is not None and shards < 1:
        raise ValueError(f"--shards takes a number >= 1; not {shards}")


def print_json(values: dict[str, Any]) -> None:
    """One line of JSON on standard output."""
    from spom.models.run import plain

    print(json.dumps(plain(values), ensure_ascii=False, allow_nan=False))
