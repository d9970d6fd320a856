"""The list of experiments. A new one takes a line here and a file."""

from __future__ import annotations

from spom.errors import Unsupported
from spom.papers.experiment import Experiment

_IMAGES = ("landsat", "mnist")
_ALL: tuple[Experiment, ...] = (
    Experiment("spom-table1", "SPOM", "Table 1", "handwriting: single, average, summed and learnt kernels", ("ocr",)),
    Experiment("spom-fig1", "SPOM", "Figure 1", "test accuracy against training time", ("ocr",)),
    Experiment("spom-fig2", "SPOM", "Figure 2", "SPOM against wrapper methods, with the true optimum", ("ocr",)),
    Experiment(
        "spom-fig3", "SPOM", "Figure 3", "parsing: template weights, and parsers with the templates kept", ("ewt",)
    ),
    Experiment("spom-regret", "SPOM", "Proposition 3", "regret against its bounds for three step rules"),
    Experiment("fobos-fig1", "FOBOS", "Figure 1", "FOBOS against Pegasos, with and without projection"),
    Experiment("fobos-fig2", "FOBOS", "Figure 2", "FOBOS, subgradient and interior point on l1-logistic regression"),
    Experiment("fobos-fig3", "FOBOS", "Figure 3", "error and row sparsity against the number of gradients", _IMAGES),
    Experiment("fobos-table1", "FOBOS", "Table 1", "error against row sparsity for l1, l1/l2 and l1/l-inf", _IMAGES),
    Experiment("ocmd-rates", "OCMD", "Theorem 2", "excess risk of the last iterate against the theorem's rate"),
    Experiment("ocmd-dimension", "OCMD", "Remark 1", "p-norm and Euclidean map as the dimension grows"),
    Experiment("ocmd-bregman", "OCMD", "Corollary 6", "online smoothed linearised Bregman iteration against eps"),
    Experiment("gpm-fig1", "GPM", "Figure 1", "the lasso by proximal gradients in the Euclidean and the l1 norm"),
    Experiment("gpm-table1", "GPM", "Table 1", "time of the two proxes of the l-inf latent group lasso"),
    Experiment("gpm-fig2", "GPM", "Figure 2", "latent group lasso learning: FISTA against accGPM"),
)


def list_experiments() -> list[Experiment]:
    """Return all experiments, in the order of the papers.

    >>> [experiment.paper for experiment in list_experiments()][-1]
    'GPM'
    """
    return list(_ALL)


def find(name: str) -> Experiment:
    """Return the experiment with this id."""
    for experiment in _ALL:
        if experiment.id == name:
            return experiment
    raise Unsupported(f"there is no experiment {name!r}; the ids are: {', '.join(e.id for e in _ALL)}")
