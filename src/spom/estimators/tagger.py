"""SequenceTagger: label sequences learnt online, with the templates that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from spom.core.arrays import Floats, Ints
from spom.core.callbacks import Callbacks
from spom.decoders.schemes import Constraints, tag_constraints
from spom.errors import DataError, Unsupported
from spom.estimators.checking import all_or_nothing, operator
from spom.estimators.tagger_input import Source, make_source
from spom.estimators.tagger_labels import Names, label_codes, metric, recode, split_labels
from spom.estimators.tagger_model import TaggerModel
from spom.estimators.tagger_pruning import Pruning, kept_rows
from spom.estimators.tagger_saving import SavingTagger
from spom.estimators.tagger_training import Run, Watch, train
from spom.features.rows import Blocks, Rows
from spom.penalties import L1
from spom.solvers.chains.choose import LinearDecay
from spom.solvers.chains.data import as_blocks, as_tokens
from spom.solvers.chains.online import OnlineChain, block_norms, forbidden_scores
from spom.solvers.chains.predict import compacted
from spom.solvers.chains.select import select
from spom.solvers.iterate import saved
from spom.solvers.steps import InverseSqrtEpoch


class SequenceTagger(SavingTagger, TaggerModel):
    r"""argmax over y of sum_t <w_{y_t}, x_t> + sum_t c_{y_(t-1) y_t}: a label for each token of a sentence.

    The weights minimise Omega(w) + (1/N) sum_i L(w; x_i, y_i), sentence by sentence. With the defaults that is a
    conditional random field under an l1 penalty, by dual averaging with AdaGrad's rates: most weights are exactly
    zero, and features without a weight are left out of the model. The defaults were chosen on a held-out part of
    CoNLL-2000's training sentences; the guide's page on tagging has the measurements.

    Parameters
    ----------
    templates : the name of a ready set (`"chunking"`, `"pos"`, `"entities"`), a `Templates`, a list of templates, the
        path of a file (CRF++'s format too), or None: chosen by what the sentences look like, see `fit`. For vectors, a
        `Blocks` that says which columns belong together.
    kernels : kernels on vectors, next to templates; not there yet.
    transitions : the block of label pairs, first and last labels is `"fixed"` (always on), `"learnt"` (penalised as the
        other blocks are), or None: labels do not depend on each other.
    loss : `"log"`, `"hinge"`, `"perceptron"`, `"softmax-margin"`.
    penalty : of single weights (`L1`, `ElasticNet`, `SquaredL2`), or of templates (`SparseMKL`, `GroupLasso`, `LqMKL`,
        `ElasticNetMKL`), as an object or a registered name; None is `L1(3e-5)`. Losses are means over sentences.
    solver : `"online"`.
    epochs : passes over the sentences.
    update, step, average, cost, shuffle : see `spom.solvers.chains.OnlineChain`.
    prune : choose templates first and learn with what was kept: `"auto"`, a number of templates, or a strength (a
        float). `pruning_` tells which went, and why.
    constraints : `"BIO"`, `"IOB1"`, `"BIOES"`, `"BILOU"`, `Constraints`, or None: any label may follow any other.
    patience : with `dev=` in `fit`, stop after that many epochs without a better score there; None makes all epochs.
    scoring : what `score` and `dev` measure: `"f1"` of phrases, `"accuracy"` of tokens, or `"auto"`: F1 where labels
        are those of a scheme such as BIO.
    random_state, verbose, callbacks : as everywhere; see `spom.core.callbacks`.

    Attributes
    ----------
    classes_ : the labels. weights_, chain_ : the weights of the features that are left, padded; those of the chain.
    blocks_ : the names of the templates. block_weights_ : their shares of the norm. selected_ : those that are not off.
    pruning_ : what `prune` did, a table when printed; None without it.
    history_ : one dict an epoch. converged_ : whether early stopping ended the run.

    Examples
    --------
    >>> from spom import SequenceTagger
    >>> X = [[("the", "DT"), ("cat", "NN"), ("sleeps", "VBZ")], [("dogs", "NNS"), ("bark", "VBP")]] * 10
    >>> y = [["B-NP", "I-NP", "B-VP"], ["B-NP", "B-VP"]] * 10
    >>> tagger = SequenceTagger(templates="chunking", random_state=0).fit(X, y)
    >>> tagger.predict([[("the", "DT"), ("dogs", "NNS"), ("bark", "VBP")]])
    [['B-NP', 'I-NP', 'B-VP']]
    """

    def __init__(
        self,
        templates: Any = None,
        kernels: Any = None,
        transitions: str | None = "fixed",
        loss: str = "log",
        penalty: Any = None,
        solver: str = "online",
        epochs: int = 8,
        *,
        update: str = "auto",
        step: Any = "auto",
        average: bool | str = "auto",
        cost: float = 1.0,
        prune: Any = None,
        constraints: Any = None,
        shuffle: bool = True,
        patience: int | None = 3,
        scoring: str = "auto",
        random_state: Any = None,
        verbose: int = 1,
        callbacks: Any = None,
    ) -> None:
        self.templates = templates
        self.kernels = kernels
        self.transitions = transitions
        self.loss = loss
        self.penalty = penalty
        self.solver = solver
        self.epochs = epochs
        self.update = update
        self.step = step
        self.average = average
        self.cost = cost
        self.prune = prune
        self.constraints = constraints
        self.shuffle = shuffle
        self.patience = patience
        self.scoring = scoring
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    pruning_: Pruning | None

    # --- learning ----------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        classes: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int | float | str = "60s",
        resume: bool = False,
    ) -> Self:
        """Learn from sentences.

        X is `Columns` (y may be left out: the last column; or name a column), or a list of sentences, whose tokens are
        words, tuples of fields, feature dicts, lists of feature strings, or rows of a matrix (dense or CSR); or `Rows`.
        y has a list of labels a sentence. `dev` is (X, y), or `Columns`: the epoch with the best score there is kept.
        `checkpoint` is a file for the state of the run; with `resume` it goes on from there, to the same bits.
        """
        self._check()
        with all_or_nothing(self):
            X, y = split_labels(X, y)
            source = make_source(self.templates, X)
            rows = source.fit(X)
            codes, labels = self._labels(y, rows.offsets, classes)
            if len(rows) == 0 or rows.n_tokens == 0:
                raise DataError("there are no tokens to learn from: X has no sentence with one")
            self.classes_, self.blocks_ = labels, tuple(source.blocks.names)
            callbacks = Callbacks(self.callbacks, type(self).__name__)
            path = None if checkpoint is None else Path(checkpoint)
            try:
                rows, source, kept = self._pruned(rows, source, codes)
                start = saved(path) if resume and path is not None else None
                solver = self._solver(rows, codes, source.blocks, self.epochs, start)
                watch = Watch(self._dev(dev, source), self.patience, callbacks, self.verbose, path, checkpoint_every)
                watch.label = type(self).__name__
                run = train(solver, watch)
            except BaseException:
                callbacks.end("error")
                raise
            self._keep(run, solver, source, kept, compact=True)
            if self.pruning_ is not None:
                self.pruning_.refit_seconds = solver.seconds
            self._going: OnlineChain | None = None
            callbacks.end(run.stopped)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, classes: ArrayLike | None = None) -> Self:
        """One more pass, over these sentences; `classes` announces labels, at the first call and at any later one.

        The features are those of the first call (of `fit`, those that have a weight): with templates that hash,
        `Templates(..., table=2**20)`, every feature has a place from the beginning.
        """
        self._check()
        if self.prune is not None:
            raise Unsupported("prune= needs all sentences at once: use fit, or set prune=None")
        with all_or_nothing(self):
            X, y = split_labels(X, y)
            first = not hasattr(self, "classes_")
            source: Source = make_source(self.templates, X) if first else self._source
            rows = source.fit(X) if first else source.transform(X)
            before = None if first else self.classes_
            codes, labels = self._labels(y, rows.offsets, classes, before)
            if rows.n_tokens == 0:
                if first:
                    raise DataError("there are no tokens to learn from: X has no sentence with one")
                return self
            self.classes_ = labels
            if first:
                self.blocks_ = tuple(source.blocks.names)
                self.pruning_ = None
            solver = self._going_on(rows, codes, source, before)
            callbacks = Callbacks(self.callbacks, type(self).__name__)
            past = [] if first else self.history_
            run = train(solver, Watch(None, None, callbacks, self.verbose, label=type(self).__name__), past)
            kept = np.arange(len(self.blocks_)) if first else self._kept
            self._keep(run, solver, source, kept, compact=False)
            self._going = solver
            callbacks.end(run.stopped)
        return self

    # --- parts of it -------------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.kernels is not None:
            raise Unsupported("SequenceTagger has no kernels= yet: take templates, feature dicts or vectors")
        if self.solver != "online":
            raise Unsupported(f"there is no solver {self.solver!r} for taggers; there is: online")
        metric(self.scoring, [])
        how = self.prune
        number = isinstance(how, (int, float, np.number)) and not isinstance(how, bool) and how > 0
        if how is not None and how != "auto" and not number:
            raise ValueError(f"prune must be 'auto', a number of templates, a strength (a float) or None, not {how!r}")

    def _labels(
        self, y: Any, offsets: Ints, classes: ArrayLike | None, before: Names | None = None
    ) -> tuple[Ints, Names]:
        """(numbers of labels, all classes): those that were there come first, in their order, then what is new."""
        codes, labels = label_codes(y, offsets)
        if classes is None and before is None:
            return codes, labels
        known = [] if before is None else before.tolist()
        announced = [] if classes is None else np.unique(np.asarray(classes)).tolist()
        every = np.array([*known, *(label for label in announced if label not in set(known))])
        return recode(codes, labels, every, offsets), every

    def _allowed(self) -> Constraints | None:
        given = self.constraints
        if isinstance(given, str):
            return tag_constraints([str(label) for label in self.classes_.tolist()], given)
        if given is None or isinstance(given, Constraints):
            return given
        raise ValueError(f"constraints must be the name of a scheme, Constraints or None; it is {given!r}")

    def _solver(self, rows: Rows, codes: Ints, blocks: Blocks, epochs: int, start: Any = None) -> OnlineChain:
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31))
        self._forbidden = forbidden_scores(self._allowed(), self.classes_.size)
        return OnlineChain(
            rows,
            codes,
            self.classes_.size,
            blocks=blocks,
            loss=self.loss,
            penalty=operator("penalty", self.penalty, L1(3e-5)),
            update=self.update,
            step=self.step,
            transitions=self.transitions,
            constraints=self._allowed(),
            cost=self.cost,
            average=self.average,
            epochs=epochs,
            shuffle=self.shuffle,
            random_state=seed,
            start=start,
        )

    def _pruned(self, rows: Rows, source: Source, codes: Ints) -> tuple[Rows, Source, Ints]:
        """The rows and features of the templates that are kept, and which these are."""
        blocks = source.blocks
        self.pruning_ = None
        if self.prune is None:
            return rows, source, np.arange(len(blocks))
        if not isinstance(self.prune, (str, float)) and self.prune > len(blocks):
            raise ValueError(f"prune={self.prune} is more than the {len(blocks)} templates there are")
        found = select(
            as_tokens(rows, blocks.total),
            codes,
            as_blocks(blocks),
            forbidden_scores(self._allowed(), self.classes_.size),
            self.prune,
            transitions=self.transitions,
            random_state=self.random_state if isinstance(self.random_state, (int, np.integer)) else 0,
        )
        if found.kept.size == 0:
            raise ValueError(f"prune={self.prune!r} leaves no template: give a smaller strength")
        self.pruning_ = Pruning(tuple(blocks.names), blocks.sizes, found)
        return kept_rows(rows, blocks, found.kept), source.keep(found.kept), found.kept

    def _dev(self, dev: Any, source: Source) -> Any:
        if dev is None:
            return None
        X, y = split_labels(*dev) if isinstance(dev, tuple) and len(dev) == 2 else split_labels(dev, None)
        rows = source.transform(X)
        tokens, gold = as_tokens(rows, source.blocks.total), label_codes(y, rows.offsets)
        return lambda weights: self._measure(tokens, gold, weights)

    def _going_on(self, rows: Rows, codes: Ints, source: Source, before: Names | None) -> OnlineChain:
        """A solver for one more pass that goes on where the last call ended."""
        going = getattr(self, "_going", None)
        solver = self._solver(rows, codes, source.blocks, 1)
        if isinstance(solver.step, LinearDecay):
            # There is no last call that a step could fall to zero for.
            solver.step = InverseSqrtEpoch(solver.step.eta0)
        if before is None:
            return solver
        place = np.arange(before.size)
        if going is not None:
            solver.engine.take(going.engine, place)
            solver.rounds, solver.random = going.rounds, going.random
        else:
            W = np.zeros((source.blocks.total, solver.weights()[0].shape[1]), dtype=np.float32)
            W[:, place] = self.weights_[:, : before.size]
            chain = np.zeros((self.classes_.size + 2, self.classes_.size))
            chain[np.append(place, [self.classes_.size, self.classes_.size + 1])[:, None], place] = self.chain_
            solver.start_at(W, chain)
        return solver

    def _keep(self, run: Run, solver: OnlineChain, source: Source, kept: Ints, compact: bool) -> None:
        """Store the model; with `compact` only features that have a weight."""
        W, chain = run.weights
        norms = np.zeros(len(self.blocks_))
        norms[kept] = block_norms(W, solver.blocks.starts)
        self.block_norms_: Floats = norms
        self._kept = kept
        if compact:
            used, W = compacted(W)
            self._kept = kept[np.unique(source.blocks.of(used))]
            source = source.compact(used)
        self.weights_, self.chain_, self._source = W, chain, source
        self.penalty_, self.step_ = solver.penalty, solver.step
        self.history_, self.converged_ = run.history, run.stopped == "converged"
        self.n_epochs_ = len(run.history)
