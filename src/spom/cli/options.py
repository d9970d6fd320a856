"""The options of the commands: declared in groups, read from the command line, a config file or `--set`.

A group maps the name of a value to an `option`; `takes` turns a function into a command with the options of several
groups, which gets all values as one dict. Names of losses, penalties and templates are written out here, so that
`--help` need not import the objects; tests compare the names with the objects.
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

REQUIRED: Any = inspect.Parameter.empty
# A type annotated for typer, and the default.
Option = tuple[Any, Any]
Group = Mapping[str, Option]
Command = Callable[[dict[str, Any]], None]


def option(usage: str, kind: Any, default: Any, text: str, **more: Any) -> Option:
    """Make an option from its flags and metavar, such as `--model M`; `more` is passed to `typer.Option`."""
    words = usage.split()
    flags = [word for word in words if word.startswith("-")]
    metavar = next((word for word in words if not word.startswith("-")), None)
    return Annotated[kind, typer.Option(*flags, metavar=metavar, help=text, **more)], default


def argument(usage: str, kind: Any, default: Any, text: str, **more: Any) -> Option:
    """Make an argument without a flag; `more` is passed to `typer.Argument`."""
    return Annotated[kind, typer.Argument(metavar=usage, help=text, **more)], default


def completing(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that completes one of these names."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def named(usage: str, names: Sequence[str], text: str, **more: Any) -> Option:
    """Make an option that takes one of some names, and completes them."""
    return option(usage, str | None, None, text, autocompletion=completing(names), **more)


def takes(*groups: Group) -> Callable[[Command], Callable[..., None]]:
    """Turn a function of a dict of values into a command; required options come first in its help."""
    options = {name: option for group in groups for name, option in group.items()}
    ordered = sorted(options.items(), key=lambda item: item[1][1] is not REQUIRED)

    def wrap(run: Command) -> Callable[..., None]:
        def called(**values: Any) -> None:
            run(values)

        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(n, keyword, default=d, annotation=kind) for n, (kind, d) in ordered]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        called.__annotations__ = {name: kind for name, (kind, _) in ordered}
        called.__name__, called.__doc__ = run.__name__, run.__doc__
        return called

    return wrap


# --- values that are checked when they are read -----------------------------------------------------


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Make the file's values the defaults; the command line overrides them."""
    if path is None or context.resilient_parsing:
        return path
    try:
        values = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise DataError("no such file", str(path)) from None
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
            raise DataError(f"unknown option {key!r}; available: {', '.join(sorted(known))}", str(path))
        if isinstance(value, dict):
            value = [f"{k}={v!r}" for k, v in value.items()]
        found[known[name]] = value
    context.default_map = {**(context.default_map or {}), **found}
    return path


def _known_penalty(names: Sequence[str]) -> Callable[[str | None], str | None]:
    """Return a check of the name of a penalty; its error suggests the penalties of the task, not all."""

    def check(name: str | None) -> str | None:
        known = name is None or name in names or ("penalty", name) in registry.ALIASES
        if not known and name not in [entry.name for entry in registry.entries("penalty")]:
            raise Unsupported(f"unknown penalty {name!r}; {registry.suggestion(str(name), names)}")
        return name

    return check


def _check_jobs(jobs: int) -> int:
    if jobs == 0:
        raise typer.BadParameter("expected a number of threads, or -1 for one per core, found 0")
    return jobs


def _check_every(text: str) -> str:
    """Check a time such as `60s`, or a number of epochs."""
    try:
        _ = float(text[:-1]) if text[-1:] in "smh" else int(text)
    except ValueError:
        raise typer.BadParameter(f"expected a time such as 60s, or a number of epochs, found {text!r}") from None
    return text


# --- options of several commands --------------------------------------------------------------------

MODEL = option("--model M", Path, REQUIRED, "The model, as `spom train` wrote it.")
FORMAT = option(
    "--format NAME", str | None, None, "conll, conllu, crfsuite; svmlight, csv, parquet. Default: from the file's name."
)
ENCODING = option("--encoding NAME", str, "utf-8", "Encoding of text files: utf-8, latin-1, cp1252, ...")
COLUMNS = option(
    "--columns NAMES", str | None, None, "Names of the columns of a CoNLL file, separated by commas: w,pos,label."
)
SEED = option("--seed N", int, 0, "The same seed gives the same model, to the bit.")
SETTINGS = option(
    "--set NAME=VALUE",
    list[str] | None,
    None,
    "Any other parameter, such as penalty__l1_ratio=0.9 or step=0.1; may be repeated.",
)
JOBS = option("--jobs N", int, 1, "Number of threads; -1 for one per core.", callback=_check_jobs)
DASK = option("--dask ADDRESS", str | None, None, "Address of a Dask scheduler to work on.")
JSON = option("--json", bool, False, "Print the result as one line of JSON.")
QUIET = option("--quiet -q", bool, False, "No progress and no summary.")
DEBUG = option("--debug", bool, False, "Show the whole traceback of an error.")

# Groups of the training commands.
FILES: Group = {
    "train": option("--train F", str, REQUIRED, "File to learn from; - is standard input."),
    "model": option(
        "--model M", Path, REQUIRED, "File to write the model to; the record of the run goes to M.run.json."
    ),
    "dev": option("--dev F", str | None, None, "Held-out file: scored after each epoch, and the best epoch is kept."),
}
PRUNE: Group = {
    "prune": option(
        "--prune auto|N|S", str | None, None, "Choose templates first: automatically, this many, or by a strength."
    )
}
LEARNING: Group = {
    "strength": option("--strength S", float | None, None, "Strength of the penalty. Default: from the data."),
    "seed": SEED,
    "settings": SETTINGS,
}
RUNNING: Group = {
    "checkpoint": option(
        "--checkpoint PATH", Path | None, None, "Write checkpoints here while training; see --resume."
    ),
    "checkpoint_every": option(
        "--checkpoint-every 60s|N",
        str,
        "60s",
        "How often to write a checkpoint: a time (60s, 5m, 2h) or a number of epochs.",
        callback=_check_every,
    ),
    "resume": option("--resume", bool, False, "Resume from the checkpoint at --checkpoint, or M.checkpoint."),
    "keep_checkpoint": option("--keep-checkpoint", bool, False, "Keep the checkpoint after a run that succeeds."),
    "jobs": JOBS,
    "shards": option(
        "--shards N", int | None, None, "Learn from N parts at once; --jobs and --dask do not change the model.", min=1
    ),
    "dask": DASK,
    "config": option(
        "--config FILE",
        Path | None,
        None,
        "TOML file with options by name; the command line takes precedence.",
        callback=_load_config,
        is_eager=True,
    ),
    "json": JSON,
    "quiet": QUIET,
    "debug": DEBUG,
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
# The default comes first, except as DEFAULT_LOSS says.
LOSSES = {
    "tagger": ("softmax-margin", "log", "hinge", "perceptron"),
    "parser": ("mira", "hinge", "perceptron", "log"),
    "classifier": ("logistic", "hinge", "power-hinge"),
    "regressor": ("squared", "power-absolute"),
}
DEFAULT_LOSS = {"classifier": "logistic, or the squared hinge if it is better for several classes"}
EPOCHS = {
    "tagger": "6, or 12 for phrases; up to 20 if there are few sentences",
    "parser": "6 for arcs, 4 for relations",
    "classifier": "10, or 20 for more than 1,000 dense rows of more than two classes",
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
DEFAULT_TEMPLATES = {"tagger": "from the labels and columns", "parser": "default"}
SCHEMES = ("BIO", "IOB1", "BIOES", "BILOU", "none")
SOLVERS = ("online", "proximal")


def names_of(task: str) -> Group:
    """Return the options of a task that take names, and `--epochs`."""
    names = FORMATS[task]
    found = {
        "format": named(
            "--format NAME", names, f"Format of the files: {', '.join(names)}. Default: from the file's name."
        )
    }
    if task in TEMPLATES:
        text = f"A set ({', '.join(TEMPLATES[task])}), or a file. Default: {DEFAULT_TEMPLATES[task]}."
        found["templates"] = named("--templates T", TEMPLATES[task], text)
    if task in PENALTIES:
        penalties, losses = (*PENALTIES[task], "none"), LOSSES[task]
        text = f"{', '.join(PENALTIES[task])}; or none. Default: {DEFAULT_PENALTY[task]}."
        found["penalty"] = named("--penalty NAME", penalties, text, callback=_known_penalty(penalties))
        found["loss"] = named(
            "--loss NAME", losses, f"{', '.join(losses)}. Default: {DEFAULT_LOSS.get(task, losses[0])}."
        )
        text = f"Passes over the data. Default: {EPOCHS[task]}."
        found["epochs"] = option("--epochs N", int | None, None, text, min=1)
    return found


# --- formats of files -------------------------------------------------------------------------------

Formats = Mapping[str, tuple[str, ...]]
# File name endings by format; a file with another ending is of the first format.
SENTENCES: Formats = {"conll": (), "conllu": (".conllu",), "items": (".items", ".crfsuite")}
TREES: Formats = {"conllu": ()}
TEXTS: Formats = {"text": (), "words": (), "conllu": (".conllu",)}
VECTORS: Formats = {"svmlight": (), "csv": (".csv", ".tsv"), "parquet": (".parquet", ".pq")}
# Names of formats in other tools.
ALIASES = {"crfsuite": "items", "crf++": "conll", "crfpp": "conll", "columns": "conll"}


def format_of(path: str, given: str | None, formats: Formats) -> str:
    """Return the requested format, or the one that the file's name implies.

    >>> format_of("train.conllu.gz", None, SENTENCES), format_of("train.txt", "crfsuite", SENTENCES)
    ('conllu', 'items')
    """
    if given is None:
        name = path.lower().removesuffix(".gz").removesuffix(".zst")
        return next((found for found, ends in formats.items() if name.endswith(ends)), next(iter(formats)))
    found = ALIASES.get(given, given)
    if found not in formats:
        known = [*formats, *(alias for alias, name in ALIASES.items() if name in formats)]
        raise Unsupported(f"format {given!r} is not supported here; available: {', '.join(known)}")
    return found


# --- meaning of values ------------------------------------------------------------------------------


def parsed(settings: list[str] | None, option: str = "--set") -> dict[str, Any]:
    """Parse `--set name=value` into a dict: numbers, None, True and quoted text as in Python, all else as text.

    `true` and `false` mean True and False, as in a file of options.

    >>> parsed(["step=0.1", "penalty__l1_ratio=1e-3", "update=auto", "shuffle=false"])
    {'step': 0.1, 'penalty__l1_ratio': 0.001, 'update': 'auto', 'shuffle': False}
    """
    found: dict[str, Any] = {}
    for text in settings or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{option} expects NAME=VALUE, found {text!r}")
        try:
            found[name.strip()] = ast.literal_eval({"true": "True", "false": "False"}.get(value, value))
        except (ValueError, SyntaxError):
            found[name.strip()] = value
    return found


def set_parameters(model: Any, settings: list[str] | None) -> None:
    """Set the parameters that `--set` names; an unknown name is an error that lists the known ones."""
    found, known = parsed(settings), set(model.get_params(deep=False)) - {"callbacks", "verbose"}
    for name in found:
        outer, inner, _ = name.partition("__")
        if outer not in known:
            raise Unsupported(f"--set: unknown parameter {name!r}; {registry.suggestion(name, sorted(known))}")
        value = found.get(outer, getattr(model, outer))
        if inner and outer != "penalty" and not hasattr(value, "set_params"):
            raise Unsupported(f"--set: {outer} is {value!r} and has no parameters: set it as a whole, {outer}=VALUE")
    model.set_params(**found)


def comma_separated(text: str | None) -> tuple[str, ...]:
    """Split names at commas.

    >>> comma_separated("age, job"), comma_separated(None)
    (('age', 'job'), ())
    """
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def yes_or_no(text: str, option: str) -> bool | None:
    """Return `yes` and `no` as truth values, and `auto` as None."""
    known = {"yes": True, "true": True, "no": False, "false": False, "auto": None}
    if text.lower() not in known:
        raise ValueError(f"{option} expects auto, yes or no, found {text!r}")
    return known[text.lower()]


def expanded(sources: list[str] | None) -> list[str]:
    """Return the given files with patterns expanded; no file means standard input."""
    import glob

    found: list[str] = []
    for source in sources or ["-"]:
        if glob.has_magic(source) and not Path(source).exists():
            matches = sorted(glob.glob(source))
            if not matches:
                raise DataError("no file matches this pattern", source)
            found += matches
        else:
            found.append(source)
    return found


def penalty_of(
    name: str | None, strength: float | None, default: Any, groups: str | None = None, choose: bool = True
) -> Any:
    """Return the penalty of the options: None, a name or "auto", whose strength the estimator chooses, or an object.

    Options of an object that are not given are those of `default`. Without `choose` a name always becomes an object.

    >>> from spom.penalties import L1
    >>> penalty_of("group-lasso", None, L1(0.5)), penalty_of("group-lasso", None, L1(0.5), "rows")
    ('group-lasso', GroupLasso(strength=0.5, groups='rows'))
    """
    if name == "none":
        return None
    if strength is None and groups is None and (choose or name is None):
        return "auto" if name is None else name
    base = default.get_params(deep=False)
    cls: Any = type(default) if name is None else registry.find("penalty", name).cls
    known = cls._defaults()
    params: dict[str, Any] = dict(base) if name is None else {}
    if "strength" in known:
        params["strength"] = base["strength"] if strength is None else strength
    elif "radius" in known:
        params["radius"] = 1.0 if strength is None else strength
    elif strength is not None:
        raise Unsupported(f"the penalty {name} has no strength")
    if groups is not None:
        if "groups" not in known:
            raise Unsupported(f"the penalty {name or 'l1'} has no groups")
        params["groups"] = int(groups) if groups.isdigit() else groups
    return cls(**params)


def pruning_of(text: str | None) -> Any:
    """Parse `--prune`: auto, a number of templates, or a strength or share (a number with a decimal point).

    >>> pruning_of("auto"), pruning_of("12"), pruning_of("0.02")
    ('auto', 12, 0.02)
    """
    if text is None or text == "auto":
        return text
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ValueError(
            f"--prune expects auto, a number of templates, or a strength such as 0.02, found {text!r}"
        ) from None


def given(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named options that were given: parameters of an estimator have the same names."""
    return {name: options[name] for name in names if options[name] is not None}


def print_json(values: dict[str, Any]) -> None:
    """Print one line of JSON to standard output."""
    from spom.models.run import plain

    print(json.dumps(plain(values), ensure_ascii=False, allow_nan=False))
