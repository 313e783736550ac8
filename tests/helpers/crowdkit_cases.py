"""Cases to run with crowd-kit (generate_expected.py) and with our drop-in (test_crowdkit.py).

A case has a class or metric, a frame, the constructor's arguments, a method to call and its arguments.
"""

import numpy as np
import pandas as pd

# One string per task: the answers of workers w1, w2, ..., "." where one did not answer.
BINARY = ["yynyy", "nnyn.", "yyny.", "nnyyn", "y.nyy", ".nynn", "yynyn", "nnn.n", "yyyyy", "n.ynn"]
THREE = ["aabaa", "bbbc.", "ccac.", "aa.ab", "bcbbb", ".ccca", "aabba", "bb.bc", "ccccb", "abaa.", "cb.cc", "bbab."]
TIED = ["ab..", "ba..", "abba", "aab.", "b.ba", "bbb."]


def long_frame(rows, seed):
    """Return a long frame of string ids; rows are shuffled, so that first appearance is not the sorted order."""
    triples = [
        (f"t{t:02d}", f"w{w + 1}", label) for t, row in enumerate(rows) for w, label in enumerate(row) if label != "."
    ]
    frame = pd.DataFrame(triples, columns=["task", "worker", "label"])
    return frame if seed is None else frame.sample(frac=1, random_state=seed).reset_index(drop=True)


def numbered(frame, label):
    """Return the same answers with integer ids, and labels mapped by a function."""
    numbers = {"task": frame["task"].str[1:].astype(int), "worker": frame["worker"].str[1:].astype(int)}
    return pd.DataFrame({**numbers, "label": frame["label"].map(label)})


README = pd.DataFrame(
    [["t1", "p1", 0], ["t1", "p2", 0], ["t1", "p3", 1], ["t2", "p1", 1], ["t2", "p2", 0], ["t2", "p3", 1]],
    columns=["task", "worker", "label"],
)
FRAMES = {
    "readme": README,
    "words": long_frame(THREE, seed=1),
    "numbers": numbered(long_frame(THREE, seed=2), {"a": 1, "b": 2, "c": 3}.get),
    "flags": numbered(long_frame(BINARY, seed=3), lambda label: label == "y"),
    "binary": long_frame(BINARY, seed=None),
    "three": long_frame(THREE, seed=None),
    "tied": long_frame(TIED, seed=4),
    "empty": pd.DataFrame([], columns=["task", "worker", "label"]),
}
SKILLS = {
    "readme": pd.Series({"p1": 0.5, "p2": 0.7, "p3": 0.4}),
    "words": pd.Series({"w1": 0.9, "w2": 0.6, "w3": 0.3, "w4": 0.8, "w5": 0.7}),
    "numbers": pd.Series({1: 0.9, 2: 0.6, 3: 0.3, 4: 0.8, 5: 0.7}),
    "flags": pd.Series({5: 0.9, 4: 0.6, 3: 0.3, 2: 0.8, 1: 0.7}),
    "some": pd.Series({"w2": 0.6, "w4": 0.8, "w1": 0.9}),
}
TRUTH = {
    "readme": pd.Series({"t1": 0}),
    "words": pd.Series({"t03": "b", "t00": "a", "elsewhere": "a", "t05": "c"}),
    "numbers": pd.Series({3: 2, 0: 1, 5: 3}),
    "flags": pd.Series({0: True, 3: True, 5: False}),
}
HISTORY = pd.DataFrame(
    [[8, 1, 1], [1, 6, 2], [1, 3, 7]] * 5,
    index=pd.MultiIndex.from_product([[f"w{i}" for i in range(1, 6)], list("abc")], names=["worker", "label"]),
    columns=list("abc"),
)

CLASSES = (
    "MajorityVote", "DawidSkene", "OneCoinDawidSkene", "GLAD", "MACE", "KOS", "MMSR", "Wawa", "ZeroBasedSkill",
    "GoldMajorityVote",
)  # fmt: skip
LABELS = ("labels_",)
VOTE = ("labels_", "probas_", "skills_")
EM = ("labels_", "probas_", "priors_", "errors_")


def cases():
    """Return name -> (class, frame, arguments, method, arguments of the method, attributes to compare)."""
    out = {}

    def add(cls, frame, compared, call="fit_predict", call_arguments=None, **arguments):
        options = ", ".join(f"{k}={v}" for k, v in arguments.items())
        name = f"{cls}({options}).{call} {frame} {' '.join(call_arguments or ())}"
        out[name.strip()] = (cls, frame, arguments, call, call_arguments or {}, compared)

    for frame in ("readme", "words", "numbers", "flags", "tied"):
        add("MajorityVote", frame, VOTE)
        add("DawidSkene", frame, EM, n_iter=10, tol=0)
        add("OneCoinDawidSkene", frame, (*EM, "skills_"), n_iter=10, tol=0)
        add("Wawa", frame, VOTE)
        add("ZeroBasedSkill", frame, VOTE)
        add("alpha_krippendorff", frame, ())
    for frame in ("readme", "words", "numbers", "flags"):
        add("DawidSkene", frame, LABELS)
        add("OneCoinDawidSkene", frame, LABELS)
        add("MACE", frame, LABELS)
        add("MajorityVote", frame, VOTE, call_arguments={"skills": SKILLS[frame]})
        add("GoldMajorityVote", frame, VOTE, call_arguments={"true_labels": TRUTH[frame]})
        add("DawidSkene", frame, EM, call_arguments={"true_labels": TRUTH[frame]}, n_iter=5, tol=0)
    for frame in ("readme", "words", "numbers", "tied"):  # crowd-kit fails on booleans
        add("consistency", frame, ())
        add("consistency", frame, (), by_task=True)
        add("uncertainty", frame, ())
        for by in ("task", "worker"):
            add("uncertainty", frame, (), compute_by=by, aggregate=False)
    for n_iter in (0, 1):
        add("DawidSkene", "words", EM, "fit_predict_proba", n_iter=n_iter, tol=0)
        add("OneCoinDawidSkene", "words", (*EM, "skills_"), "fit_predict_proba", n_iter=n_iter, tol=0)
    for vote in ("Wawa", "ZeroBasedSkill"):
        add(vote, "words", ("skills_",), "fit")
        add(vote, "words", VOTE, "fit_predict_proba")
    add("ZeroBasedSkill", "words", VOTE, n_iter=7, lr_init=0.5, lr_steps_to_reduce=2, lr_reduce_factor=0.8, eps=0.1)
    add("GoldMajorityVote", "words", VOTE, "fit_predict_proba", call_arguments={"true_labels": TRUTH["words"]})
    add("MajorityVote", "words", VOTE, call_arguments={"skills": SKILLS["some"]}, on_missing_skill="ignore")
    add(
        "MajorityVote",
        "words",
        VOTE,
        call_arguments={"skills": SKILLS["some"]},
        on_missing_skill="value",
        default_skill=0.1,
    )
    add("uncertainty", "words", (), call_arguments={"workers_skills": SKILLS["words"]})
    add("consistency", "words", (), call_arguments={"workers_skills": SKILLS["words"]}, by_task=True)
    add(
        "DawidSkene",
        "words",
        EM,
        call_arguments={"initial_error": HISTORY},
        n_iter=6,
        tol=0,
        initial_error_strategy="assign",
    )
    for frame in ("binary", "flags"):
        add("KOS", frame, LABELS, n_iter=10)
    for frame in ("words", "numbers", "binary"):
        add("GLAD", frame, LABELS)
    for frame in ("words", "numbers", "flags", "binary", "three"):  # with the others, crowd-kit returns NaN
        add("MMSR", frame, ("labels_", "scores_", "skills_"))
    for frame in ("words", "binary"):
        add("MMSR", frame, ("labels_", "scores_", "skills_"), "fit_predict_score", n_iter=0, random_state=3)
        add("ZeroBasedSkill", frame, VOTE, n_iter=0)
        add("GLAD", frame, ("labels_", "probas_", "alphas_", "betas_"), n_iter=0)
    add(
        "DawidSkene",
        "words",
        EM,
        call_arguments={"initial_error": HISTORY / HISTORY.groupby("worker").sum()},
        n_iter=0,
        initial_error_strategy="assign",
    )
    for vote in ("MajorityVote", "Wawa"):
        add(vote, "empty", VOTE)
    add("GoldMajorityVote", "empty", VOTE, call_arguments={"true_labels": pd.Series(dtype=float)})
    for model in ("DawidSkene", "OneCoinDawidSkene"):
        add(model, "empty", EM)
    add("KOS", "empty", LABELS)
    return out


# With enough iterations, both reach the same values of GLAD and MACE; a negative tol keeps crowd-kit's GLAD from
# stopping too soon.
SPAM = ("labels_", "probas_", "spamming_", "thetas_", "theta_priors_", "strategy_priors_", "smoothing_")
SETTLED = {
    "GLAD": ("GLAD", "three", {"n_iter": 60, "tol": -1e9, "m_step_tol": 1e-9}, {"n_iter": 5000, "tol": 1e-14}, 1e-5,
             ("labels_", "probas_", "alphas_", "betas_")),
    "GLAD with priors": (
        "GLAD", "three",
        {"n_iter": 60, "tol": -1e9, "m_step_tol": 1e-9, "labels_priors": pd.Series({"b": 0.2, "a": 0.5, "c": 0.3}),
         "alphas_priors_mean": pd.Series({f"w{i}": i / 3 for i in range(1, 6)}),
         "betas_priors_mean": pd.Series({f"t{i:02d}": i / 12 for i in range(12)})},
        {"n_iter": 5000, "tol": 1e-14}, 1e-5, ("labels_", "probas_", "alphas_", "betas_"),
    ),
    "MACE vb": ("MACE", "three", {"n_restarts": 1, "n_iter": 500}, {}, 1e-6, SPAM),
    "MACE em": ("MACE", "three", {"n_restarts": 1, "n_iter": 500, "method": "em"}, {}, 1e-6, SPAM[:4]),
}  # fmt: skip


def run(namespace, cls, frame, arguments, call, call_arguments, compared):
    """Return the described results by attribute (or the value of a metric)."""
    if not cls[0].isupper():
        return describe(getattr(namespace, cls)(FRAMES[frame], **call_arguments, **arguments))
    model = getattr(namespace, cls)(**arguments)
    returned = getattr(model, call)(FRAMES[frame].copy(), **{k: v.copy() for k, v in call_arguments.items()})
    results = {name: describe(getattr(model, name)) for name in compared}
    if call != "fit":  # the returned object is one of the attributes, not a copy
        results["returned"] = next(name for name, value in vars(model).items() if value is returned)
    return results


def describe(value):
    """Return the values of a result with its names, dtypes and order of rows."""
    if isinstance(value, pd.Series):
        return {"series": value.name, "dtype": str(value.dtype), "index": _index(value.index), "values": value.tolist()}
    if isinstance(value, pd.DataFrame):
        return {
            "columns": _index(value.columns),
            "dtype": sorted({str(dtype) for dtype in value.dtypes}),
            "index": _index(value.index),
            "values": value.to_numpy().tolist(),
        }
    return np.asarray(value).tolist()


def _index(index):
    ids = [list(i) if isinstance(i, tuple) else i for i in index.tolist()]
    return {"names": list(index.names), "dtype": str(index.dtype), "ids": ids}
