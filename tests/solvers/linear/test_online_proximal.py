"""OnlineProximal: lazy and eager runs agree, interrupted runs resume, bad input is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from spom.errors import DataError, Unsupported
from spom.penalties import L1, Box, ElasticNet, GroupLasso, L1Ball, SparseMKL, SquaredL1, SquaredL2, Sum, Zero
from spom.solvers import steps
from spom.solvers.iterate import iterate_of, last
from spom.solvers.linear import proximal_point
from spom.solvers.linear.online import OnlineProximal


def problem(n=150, d=25, seed=0, density=0.2):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density, random_state=seed, format="csr")
    X.data = rng.standard_normal(X.nnz)
    y = np.sign(X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n))
    y[y == 0] = 1.0
    return X, y


X, Y = problem()
RULES = [
    steps.Constant(0.2),
    steps.InverseSqrt(1.0),
    steps.InverseSqrtEpoch(0.2),
    steps.StronglyConvex(0.5),
    lambda t: 1.0 / (3.0 + t),
    steps.AdaGrad(0.5, 0.1),
    "auto",
]


ELASTIC = [Zero(), L1(0.02), SquaredL2(0.1), ElasticNet(0.05), Sum([L1(0.01), SquaredL2(0.2)])]


@pytest.mark.parametrize("penalty", ELASTIC)
@pytest.mark.parametrize("rule", range(len(RULES)))
@pytest.mark.parametrize("batch", [1, 8])
def test_lazy_and_eager_agree(penalty, rule, batch):
    step = RULES[rule]
    if steps.as_step(step).mode and not isinstance(penalty, (Zero, L1)):
        with pytest.raises(Unsupported):
            last(OnlineProximal(X, Y, penalty=penalty, step=step, update="forward-backward", lazy=True))
        return
    runs = [
        last(
            OnlineProximal(
                X,
                Y,
                loss=("logistic", "hinge", "squared")[rule % 3],
                penalty=penalty,
                step=step,
                update="forward-backward",
                lazy=lazy,
                epochs=3,
                batch_size=batch,
                output="both",
                fit_intercept=True,
                random_state=1,
            )
        )
        for lazy in (True, False)
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, atol=1e-10)
    np.testing.assert_allclose(runs[0].internal["average"], runs[1].internal["average"], atol=1e-10)
    assert np.array_equal(runs[0].theta == 0, runs[1].theta == 0)


def test_clock_of_squared_l2_survives_long_passes():
    # The product of (1 + l2 eta) passes exp(200) many times in this run.
    run = [
        last(OnlineProximal(X, Y, penalty=ElasticNet(20.0, 1e-4), step=0.5, update="forward-backward", lazy=lazy,
                            epochs=3, random_state=0)).theta
        for lazy in (True, False)
    ]  # fmt: skip
    np.testing.assert_allclose(run[0], run[1], atol=1e-10)


@pytest.mark.parametrize("penalty", [Zero(), L1(0.02), SquaredL2(0.1), ElasticNet(0.05)])
@pytest.mark.parametrize("step", [0.1, "sqrt"])
def test_dual_averaging_agrees_with_its_full_form(penalty, step):
    options = {
        "penalty": penalty,
        "step": step,
        "update": "dual-averaging",
        "epochs": 2,
        "fit_intercept": True,
        "random_state": 1,
    }
    lazy, full = (last(OnlineProximal(X, Y, lazy=lazy, batch_size=3, **options)).theta for lazy in (True, False))
    np.testing.assert_allclose(lazy, full, atol=1e-10)


def test_dense_and_sparse_rows_give_the_same():
    for update, step in (("forward-backward", "sqrt"), ("dual-averaging", "adagrad"), ("proximal-point", "auto")):
        dense, csr = (
            last(OnlineProximal(A, Y, penalty=L1(0.01), update=update, step=step, epochs=2, random_state=3)).theta
            for A in (X.toarray(), X)
        )
        np.testing.assert_allclose(dense, csr, atol=1e-9)


CONFIGURATIONS = {
    "proximal point": {"penalty": L1(0.01)},
    "lazy": {"penalty": L1(0.01), "step": "sqrt", "output": "average"},
    "lazy auto": {"penalty": L1(0.01), "update": "forward-backward"},
    "eager": {"penalty": SparseMKL(0.1, 5), "step": "auto"},
    "dual averaging": {"penalty": L1(0.01), "update": "dual-averaging", "step": "adagrad"},
    "dual averaging, full": {"penalty": GroupLasso(0.01, 5), "update": "dual-averaging"},
    "mirror": {"penalty": L1(0.01), "mirror": "p-norm", "step": "sqrt"},
    "threads": {"penalty": L1(0.01), "n_jobs": 2},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_saved_run_resumes_to_the_same_bits(name, tmp_path):
    options = dict(CONFIGURATIONS[name], epochs=4, random_state=5, fit_intercept=True)
    if name == "proximal point":
        options["every"] = None
    elif name != "threads":
        options["every"] = 40
    whole = list(OnlineProximal(X, Y, **options))
    middle = whole[len(whole) // 2]
    middle.save(tmp_path / "state.npz")
    start = iterate_of(type(middle).load(tmp_path / "state.npz"))
    rest = list(OnlineProximal(X, Y, start=start, **options))
    assert [s.k for s in rest] == [s.k for s in whole[len(whole) // 2 + 1 :]]
    assert rest[-1].theta.tobytes() == whole[-1].theta.tobytes()
    assert rest[-1].counters == whole[-1].counters


def test_same_seed_same_bits_and_states_do_not_alias():
    runs = [list(OnlineProximal(X, Y, penalty=L1(0.01), epochs=3, random_state=2)) for _ in range(2)]
    assert all(a.theta.tobytes() == b.theta.tobytes() for a, b in zip(*runs, strict=True))
    assert not np.array_equal(runs[0][0].theta, runs[0][2].theta)


def test_weights_are_as_good_as_copies():
    # A weight of 2 is the same objective as the row twice; the optimum of both is the same.
    weight = np.where(np.arange(len(Y)) % 3 == 0, 2.0, 1.0)
    twice = np.concatenate([np.arange(len(Y)), np.flatnonzero(weight == 2)])
    a = last(OnlineProximal(X, Y, penalty=L1(0.02), sample_weight=weight, epochs=200, random_state=0))
    b = last(OnlineProximal(X[twice], Y[twice], penalty=L1(0.02), epochs=200, random_state=0))
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-5)


@pytest.mark.parametrize("loss", ["logistic", "squared", "hinge", "power-hinge", "power-absolute"])
@pytest.mark.parametrize("penalty", [L1(0.02), SquaredL2(0.1), ElasticNet(0.05), Zero()])
def test_auto_comes_to_the_optimum(loss, penalty):
    if isinstance(penalty, Zero) and loss in ("logistic", "hinge", "power-hinge"):
        pytest.skip("the data are separable: without a penalty there is no optimum")
    states = list(
        OnlineProximal(X, Y, loss=loss, penalty=penalty, epochs=400, fit_intercept=True, random_state=0, objective=True)
    )
    best = min(s.objective for s in states)
    # A long run of plain subgradient steps from there finds nothing better.
    slow = last(
        OnlineProximal(X, Y, loss=loss, penalty=penalty, epochs=300, fit_intercept=True, random_state=0, objective=True,
                       step=steps.InverseSqrt(0.02), update="forward-backward", output="average", start=None)
    )  # fmt: skip
    assert states[-1].objective <= best * (1 + 1e-3) + 1e-6
    assert states[-1].objective <= slow.objective + 1e-6


def test_stream_of_blocks_learns_and_checks_columns():
    blocks = [(X[i : i + 50], Y[i : i + 50]) for i in range(0, 150, 50)]
    states = list(OnlineProximal(iter(blocks), penalty=L1(0.01), random_state=0))
    assert [s.counters.examples for s in states] == [50, 100, 150]
    more = last(OnlineProximal([blocks[0]], penalty=L1(0.01), start=states[-1]))
    assert more.counters.examples == 200
    with pytest.raises(DataError, match="features"):
        list(OnlineProximal([blocks[0], (X[:5, :3], Y[:5])], penalty=L1(0.01)))
    with pytest.raises(DataError, match="did you forget y"):
        list(OnlineProximal(X.toarray()))


def test_wide_sparse_data_without_a_lazy_rule_are_refused():
    wide = sparse.random(50, 40_000, 1e-4, random_state=0, format="csr")
    y = np.where(np.arange(50) % 2, 1.0, -1.0)
    for penalty in (SquaredL1(0.1), L1Ball(1.0)):
        with pytest.raises(Unsupported, match="no lazy update"):
            list(OnlineProximal(wide, y, penalty=penalty))
    assert last(OnlineProximal(wide, y, penalty=SquaredL1(0.1), lazy=False)).k == 50
    assert last(OnlineProximal(wide, y, penalty=SquaredL1(0.1), batch_size=None, epochs=3)).k == 3


def test_projection_and_radius():
    from spom.penalties import L2Ball

    for projection in (0.3, L2Ball(0.3), "auto"):
        state = last(OnlineProximal(X, Y, penalty=L1(0.01), projection=projection, step=1.0, epochs=2, random_state=0))
        if projection != "auto":
            assert np.linalg.norm(state.theta) <= 0.3 + 1e-12
    with pytest.raises(Unsupported, match="onto a set"):
        list(OnlineProximal(X, Y, projection=L1(1.0)))
    assert (last(OnlineProximal(X, Y, projection=Box(0.0, np.inf), step=0.1)).theta >= 0).all()


def test_regret_counts_each_round_before_its_update():
    states = list(OnlineProximal(X, Y, penalty=L1(0.05), step="sqrt", shuffle=False, regret=True))
    thetas = [np.zeros(X.shape[1]), *(s.theta for s in states[:-1])]
    margins = [Y[i] * (X[i] @ theta)[0] for i, theta in enumerate(thetas)]
    expected = sum(np.logaddexp(0, -m) + 0.05 * np.abs(t).sum() for m, t in zip(margins, thetas, strict=True))
    assert float(states[-1].internal["cumulative"]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.where(Y > 0, 2.0, -1.0)}, "-1 or \\+1"),
        ({"y": Y[:-1]}, "one target for each row"),
        ({"sample_weight": -np.ones(150)}, ">= 0"),
        ({"sample_weight": np.zeros(150)}, "zero everywhere"),
        ({"sample_weight": np.ones(3)}, "one for each"),
        ({"X": X.toarray() * np.where(np.arange(25) == 3, np.nan, 1.0)}, "row 0 has an entry nan"),
        ({"X": X[:0], "y": Y[:0]}, "no rows"),
        ({"X": np.ones(3), "y": Y[:3]}, "matrix of numbers"),
    ],
)
def test_bad_data_get_one_clear_error(change, message):
    arguments = dict(X=X, y=Y, penalty=L1(0.1), **{}) | change
    data, y = arguments.pop("X"), arguments.pop("y")
    with pytest.raises(DataError, match=message):
        list(OnlineProximal(data, y, **arguments))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": "fast"}, "no step 'fast'"),
        ({"update": "sideways"}, "no update 'sideways'"),
        ({"output": "first"}, "no output 'first'"),
        ({"epochs": -1}, "epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"update": "proximal-point", "step": 0.1}, "takes no step"),
        ({"update": "proximal-point", "penalty": SparseMKL(0.1, 5)}, "l1 and squared l2"),
        ({"loss": "squared-hinge"}, "no loss"),
    ],
)
def test_bad_options_get_one_clear_error(options, message):
    with pytest.raises(ValueError, match=message):
        list(OnlineProximal(X, Y, **options))


def test_a_step_that_is_too_large_says_so():
    with pytest.raises(FloatingPointError, match="too large"):
        list(OnlineProximal(X * 1e3, Y, loss="squared", step=10.0, update="forward-backward", epochs=30))


def test_threads_give_the_same_bits_and_no_worse_an_objective():
    big, y = problem(2000, 300, 1, 0.05)
    runs = {
        jobs: [last(OnlineProximal(big, y, penalty=L1(1e-3), epochs=5, n_jobs=jobs, random_state=0, objective=True))
               for _ in range(2)]
        for jobs in (1, 2)
    }  # fmt: skip
    assert runs[2][0].theta.tobytes() == runs[2][1].theta.tobytes()
    assert runs[2][0].objective <= 1.01 * runs[1][0].objective


@pytest.mark.parametrize("jobs", [1, 2])
def test_states_that_are_kept_do_not_change_when_the_run_goes_on(jobs):
    big, y = problem(500, 60, 1, 0.1)
    options = {"penalty": L1(1e-3), "epochs": 4, "n_jobs": jobs, "random_state": 0}
    states, copies = [], []
    for state in OnlineProximal(big, y, **options):
        states.append(state)
        copies.append({"theta": state.theta.copy(), **{name: a.copy() for name, a in state.internal.items()}})
    for state, kept in zip(states, copies, strict=True):
        for name, a in {"theta": state.theta, **state.internal}.items():
            assert a.tobytes() == kept[name].tobytes(), name
    # And each of them goes on to the same end.
    for state in states[:-1]:
        assert last(OnlineProximal(big, y, **options, start=state)).theta.tobytes() == states[-1].theta.tobytes()


def test_many_threads_that_mend_the_same_error_do_not_swing():
    # A few features in nearly every row: each thread alone would mend their weights in full.
    random = np.random.default_rng(0)
    ranks = np.exp(random.random((20_000, 30)) * np.log(8_000.0)).astype(int) - 1
    big = sparse.csr_matrix((np.ones(ranks.size), ranks.reshape(-1), np.arange(0, ranks.size + 1, 30)), (20_000, 8_000))
    scores = big @ random.standard_normal(8_000)
    y = np.sign(scores - scores.mean())
    found = [
        last(OnlineProximal(big, y, penalty=L1(1e-5), n_jobs=jobs, shuffle=False, objective=True)).objective
        for jobs in (1, 2, 4, 8)
    ]
    assert found[1] <= 1.05 * found[0]
    assert found[2] <= 1.25 * found[0]
    assert found[3] <= 1.6 * found[0]


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_entry_that_is_not_finite_is_found_wherever_it_is(loss, bad, jobs):
    big, y = problem(2000, 300, 1, 0.05)
    kept = last(OnlineProximal(big, y, loss=loss, penalty=L1(1e-3), random_state=0))
    theta = kept.theta.tobytes()
    for at in (0, big.nnz // 2, big.nnz - 1):
        spoilt = big.copy()
        spoilt.data[at] = bad
        row = int(np.searchsorted(big.indptr, at, side="right")) - 1
        for start in (None, kept):
            with pytest.raises(ValueError, match=f"X must be finite: row {row} has an entry {bad}"):
                list(OnlineProximal(spoilt, y, loss=loss, penalty=L1(1e-3), epochs=2, n_jobs=jobs, start=start))
    assert kept.theta.tobytes() == theta


def test_nan_in_a_row_that_no_sample_has_is_found_whatever_the_loss_makes_of_it(monkeypatch):
    """Check that the loop itself finds a NaN score, because its hinge loss is a number."""
    big, y = problem(600, 30, 1, 0.3)
    monkeypatch.setattr(proximal_point, "ENTRIES", big.nnz / 4)
    row = 101  # neither in the rows that the metric is measured on nor in those that passes are compared on
    spoilt = big.copy()
    spoilt.data[big.indptr[row]] = np.nan
    with pytest.raises(ValueError, match=f"X must be finite: row {row} has an entry nan"):
        list(OnlineProximal(spoilt, y, loss="hinge", penalty=L1(1e-3), shuffle=False, random_state=0))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
def test_the_dual_of_proximal_points_is_the_sum_of_its_derivatives(loss):
    """v = -(1/N) sum_i s_i a_i x_i after each pass, and -(1/N) sum_i s_i a_i for the intercept."""
    small, y = problem(200, 12, 3, 0.5)
    weight = np.random.default_rng(1).random(200) + 0.2
    solver = OnlineProximal(
        small, y, loss=loss, penalty=L1(1e-3), epochs=4, fit_intercept=True, sample_weight=weight, random_state=0
    )
    ones = np.column_stack([small.toarray(), np.ones(200)])
    for state in solver:
        a = state.internal["engine.slopes"] * weight / weight.mean()
        np.testing.assert_allclose(state.internal["engine.dual"], -(ones.T @ a) / 200, atol=1e-13)
        assert state.theta[-1] != 0.0


def test_other_updates_use_one_thread():
    one, two = (last(OnlineProximal(X, Y, penalty=SparseMKL(0.1, 5), n_jobs=jobs, random_state=0)) for jobs in (1, 2))
    assert one.theta.tobytes() == two.theta.tobytes()


def test_a_stream_goes_on_to_the_same_bits_and_needs_no_number():
    blocks = [(X[i : i + 30], Y[i : i + 30]) for i in range(0, 150, 30)]
    whole = list(OnlineProximal(blocks, penalty=L1(0.01), random_state=1))
    rest = list(OnlineProximal(blocks[2:], penalty=L1(0.01), random_state=1, start=whole[1]))
    assert rest[-1].theta.tobytes() == whole[-1].theta.tobytes()
    # One block is the first pass of the same data in memory, with the metric of all its rows.
    memory = last(OnlineProximal(X, Y, penalty=L1(0.01), shuffle=False))
    stream = last(OnlineProximal([(X, Y)], penalty=L1(0.01), shuffle=False))
    np.testing.assert_allclose(stream.theta, memory.theta, atol=1e-9)
    losses = [s.loss for s in OnlineProximal(blocks * 20, penalty=L1(0.01), random_state=1)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_weighted_and_constant_data_do_not_break_the_metric():
    A = np.zeros((40, 3))
    A[:, 0] = 1.0
    y = np.where(np.arange(40) % 4, 1.0, -1.0)
    for fit_intercept in (False, True):
        state = last(OnlineProximal(A, y, penalty=L1(1e-3), epochs=50, fit_intercept=fit_intercept, random_state=0))
        assert np.isfinite(state.theta).all()
        assert (state.theta[1:3] == 0).all()
    nothing = last(OnlineProximal(np.zeros((10, 2)), np.ones(10), penalty=L1(0.1), epochs=3, random_state=0))
    assert (nothing.theta == 0).all()


def test_other_formats_and_types_are_taken():
    base = last(OnlineProximal(X, Y, penalty=L1(0.01), epochs=2, random_state=0)).theta
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    locked = X.copy()
    for a in (locked.data, locked.indices, locked.indptr):
        a.flags.writeable = False
    twice = sparse.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), X.indptr * 2), shape=X.shape)
    for A in (X.tocsc(), X.tocoo(), wide, locked, twice, np.asfortranarray(X.toarray())):
        theta = last(OnlineProximal(A, Y, penalty=L1(0.01), epochs=2, random_state=0)).theta
        np.testing.assert_allclose(theta, base, atol=1e-12)
    single = last(OnlineProximal(X.astype(np.float32), Y, penalty=L1(0.01), epochs=2, random_state=0)).theta
    np.testing.assert_allclose(single, base, atol=1e-3)
    assert twice.nnz == 2 * X.nnz
    with pytest.raises(Unsupported, match="hash the features"):
        list(OnlineProximal(sparse.csr_matrix((2, 2**31 + 5)), [1, -1]))
