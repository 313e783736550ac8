"""Small run folders for tests of the report and of feedback; any text in them may be hostile."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from crowdwise import Answers, DawidSkene, simulate
from crowdwise._core.json_schema import Field
from crowdwise.evaluate.summary import summarise
from crowdwise.io import write
from crowdwise.io.csv_escaping import escape
from crowdwise.report.source import VERDICTS
from crowdwise.run import schema, stored_files
from crowdwise.run.folder import Run
from crowdwise.run.tables.labels import GOLD, Labelling, label_table
from crowdwise.run.tables.tasks import Disagreement, task_table
from crowdwise.run.tables.workers import rate_workers

HOSTILE = [
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror=window.hacked=2>",
    '"><svg onload=window.hacked=3>',
    "{{7*7}}{% raw %}",
    "javascript:window.hacked=4",
    "=HYPERLINK(1)",
    "<!--<script>\u2028\u2029&amp;",
    "a.b[0]['c']\\",
    "__proto__",
    "constructor",
    "\u202egnihtemos",
    "</style><style>body{display:none}</style>",
    "</title><script>window.hacked=6</script>",
    "</textarea></template></noscript><script>window.hacked=7</script>",
    "data:text/html,<script>window.hacked=8</script>",
    "'-(window.hacked=9)-'",
    "`${window.hacked=10}`",
    "datum['x']; window.hacked=11",
    '{"signal": "window.hacked=12", "expr": "hacked"}',
    "]]><iframe srcdoc='<script>parent.hacked=13</script>'>",
    "<a href=javascript:window.hacked=14>press</a>",
    "<math><mtext><style><img title='</style><img src=x onerror=window.hacked=15>'>",
    "&lt;script&gt;&#60;b&#62;",
]
FILE = '"><img src=x onerror=window.hacked=16>{{7*7}}'  # a valid name of a file or folder


def build(
    path: Path, *, tasks: int = 120, workers: int = 9, classes: int = 3, truth: bool = True, hostile: bool = False,
    images: int = 4, history: bool = True, long_text: bool = False, gold: int = 0, old: bool = False, **changes: Any,
) -> Run:  # fmt: skip
    """Write a complete folder and return its run; `changes` replace figures of metrics.json.

    The first `gold` tasks have gold labels. An `old` folder is one of format 1: no trust, flags and reasons.
    """
    path.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    answers = _answers(tasks, workers, classes, hostile=hostile)
    answers = answers if truth else replace(answers, truth=None)
    model = DawidSkene(max_iter=20, tol=1e-3).fit(answers)
    model.save(path / "model.safetensors")
    proba, names = model.proba_, [str(name) for name in answers.classes.tolist()]
    order = np.argsort(-proba, axis=1, kind="stable")
    label, sure = order[:, 0], proba.max(axis=1)
    verdict = np.where(sure > 0.9, 0, np.where(sure > 0.7, 1, np.where(sure > 0.5, 2, 3)))
    verdict[:4] = [3, 2, 1, 0]
    votes = np.zeros_like(proba)
    np.add.at(votes, (answers.task, answers.label), 1)
    count = votes.sum(axis=1)
    agreed = votes[np.arange(tasks), label] / np.maximum(count, 1)
    rank = np.argsort(sure, kind="stable")
    ambiguity = np.empty(tasks)
    ambiguity[rank] = np.linspace(1, 0, tasks)
    labels = {
        "task": answers.task_ids,
        "label": answers.class_ids.take(pa.array(label)),
        "confidence": pa.array(sure),
        "runner_up": answers.class_ids.take(pa.array(order[:, 1])),
        "agreement": pa.array(np.where(count > 0, agreed, np.nan), from_pandas=True),
        "answers": pa.array(count.astype(np.int64)),
        "ambiguity": pa.array(ambiguity),
        "verdict": pa.array([VERDICTS[v] for v in verdict]),
    }
    if not old:
        labels["reason"] = pa.array([GOLD if t < gold else None for t in range(tasks)], pa.string())
    table = pa.table({**labels, **{f"proba_{name}": pa.array(proba[:, c]) for c, name in enumerate(names)}})
    pq.write_table(table, (path / "labels.parquet").resolve())
    _csv(pa.table(labels), path / "labels.csv")
    rated = _workers(answers, names, rng)
    _csv(rated.drop_columns("flag") if old else rated, path / "workers.csv")
    _csv(_tasks(answers, rank, sure, images, hostile=hostile, long_text=long_text), path / "tasks.csv")
    _csv(_next(answers, rank, names, sure, label), path / "next.csv")
    if images:
        (path / "images").mkdir(exist_ok=True)
        for place in range(images):
            (path / "images" / f"{place}{FILE if hostile else ''}.png").write_bytes(
                png(rng.integers(0, 255, (16, 16), np.uint8))
            )
    counts = {name: int((verdict == v).sum()) for v, name in enumerate(VERDICTS)}
    metrics = _metrics(
        answers, names, counts, sure, agreed, proba, votes, truth=truth, history=history, hostile=hostile
    )
    if old:
        del metrics["trust"]
        metrics["alike"] = [{"workers": ["w1", "w2"], "agreement": 0.97, "expected": 0.81}]
    (path / "metrics.json").write_text(json.dumps({**metrics, **changes}, allow_nan=False), "utf-8")
    inputs = [{"role": "answers", "path": "answers.csv", "bytes": 12345, "sha256": "ab" * 32}]
    config = {"format": 1, "crowdwise": "0.1.0", "inputs": inputs, "options": {"method": "auto"}, "seed": 0}
    if hostile:
        config["inputs"][0]["path"], config["options"]["method"] = HOSTILE[0], HOSTILE[1]
    (path / "config.json").write_text(json.dumps(config), "utf-8")
    return Run(path)


def build_for_feedback(path: Path, answers: Answers, texts: list[str] | None = None) -> Run:
    """Write the files that feedback reads, labelled by Dawid-Skene, and return the run."""
    path.mkdir()
    model = DawidSkene().fit(answers)
    labelling = Labelling(answers, model.proba_, model.codes_)
    workers = rate_workers(*labelling)
    ranking = Disagreement(labelling, workers.column("quality").fill_null(0.5).to_numpy())
    write(label_table(labelling, ranking, 0.9), path / stored_files.LABELS)
    write(workers, path / stored_files.WORKERS)
    write(task_table(ranking, texts, {}), path / stored_files.TASKS)
    model.save(path / stored_files.MODEL)
    (path / stored_files.METRICS).write_text(json.dumps(stored_files.seal_metrics(_empty_metrics(), path)))
    return Run(path)


def _empty_metrics() -> dict[str, Any]:
    """The required fields of metrics.json, each with an empty value."""
    histogram = {"edges": [0.0], "counts": []}
    return {**_empty(schema.METRICS), "confidence": histogram, "agreement": histogram}


def _empty(fields: Mapping[str, Field]) -> dict[str, Any]:
    needed = {name: field for name, field in fields.items() if field.needed and name != "format"}
    return {name: _empty_value(field) for name, field in needed.items()}


def _empty_value(field: Field) -> Any:
    kinds = field.kind if isinstance(field.kind, tuple) else (field.kind,)
    if schema.NONE in kinds:
        return None
    return _empty(field.inside) if isinstance(field.inside, Mapping) and kinds == (dict,) else kinds[0]()


def png(grey: np.ndarray) -> bytes:
    """A grey image in PNG format, made without a library."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = grey.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in grey)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _answers(tasks: int, workers: int, classes: int, *, hostile: bool) -> Answers:
    answers = simulate.simulate(tasks, n_workers=workers, n_classes=classes, answers_per_task=3, seed=3)
    names = ["bird", "cat", "dog", "fish", "horse", "owl", "pig", "ram", "seal", "wolf"]
    evil = [f"{HOSTILE[c % len(HOSTILE)]}{c if c >= len(HOSTILE) else ''}" for c in range(max(classes, workers, tasks))]
    plain = names[:classes] if classes <= len(names) else [f"class {c:03}" for c in range(classes)]
    ids = {
        "task_ids": pa.array(evil[:tasks] if hostile else [f"task-{t}" for t in range(tasks)]),
        "worker_ids": pa.array([*evil[11:], *evil[:11]][:workers] if hostile else [f"w{w}" for w in range(workers)]),
        "class_ids": pa.array(evil[:classes] if hostile else plain),
    }
    return replace(answers, **ids)


def _workers(answers: Answers, names: list[str], rng: np.random.Generator) -> pa.Table:
    n = answers.n_workers
    quality = rng.uniform(0.4, 0.95, n)
    return pa.table(
        {
            "worker": answers.worker_ids,
            "answers": np.diff(answers.worker_starts),
            "quality": quality,
            "quality_low": np.maximum(quality - 0.1, 0),
            "quality_high": np.minimum(quality + 0.05, 1),
            "agreement_with_consensus": quality - 0.02,
            "informativeness": rng.uniform(0, 1, n),
            "worst_class": pa.array([names[w % len(names)] for w in range(n)]),
            "worst_confusion": pa.array([f"{names[0]} -> {names[1]}" if w else None for w in range(n)]),
            "worst_confusion_share": rng.uniform(0, 0.5, n),
            "spammer": pa.array((quality < 0.45).tolist()),
            "flag": pa.array([f"always answers {names[0]}" if each < 0.45 else None for each in quality], pa.string()),
            "seconds": pa.array([None if w % 2 else 3.5 + w for w in range(n)]),
        }
    )


def _tasks(
    answers: Answers, rank: np.ndarray, sure: np.ndarray, images: int, *, hostile: bool, long_text: bool
) -> pa.Table:
    workers, labels = answers.workers[answers.worker].tolist(), answers.classes[answers.label].tolist()
    trust = np.round(0.3 + 0.07 * (answers.worker % 9), 2).tolist()
    starts = answers.task_starts.tolist()
    said = [slice(starts[t], starts[t + 1]) for t in rank.tolist()]
    texts = [f"what is in picture {t}? " + "word " * (40 if long_text else 1) for t in rank]
    if hostile:
        texts = [HOSTILE[t % len(HOSTILE)] for t in rank]
    return pa.table(
        {
            "task": answers.task_ids.take(pa.array(rank)),
            "rank": np.arange(1, len(rank) + 1),
            "score": 1 - sure[rank],
            "answers": np.diff(answers.task_starts)[rank],
            "workers": [json.dumps(workers[rows]) for rows in said],
            "labels": [json.dumps(labels[rows]) for rows in said],
            "trust": [json.dumps(trust[rows]) for rows in said],
            "text": texts,
            "image": pa.array(
                [f"images/{n}{FILE if hostile else ''}.png" if n < images else None for n in range(len(rank))]
            ),
        }
    )


def _next(answers: Answers, rank: np.ndarray, names: list[str], sure: np.ndarray, label: np.ndarray) -> pa.Table:
    first = rank[:40]
    n = len(first)
    return pa.table(
        {
            "task": answers.task_ids.take(pa.array(first)),
            "worker": answers.worker_ids.take(pa.array(np.arange(n) % answers.n_workers)),
            "gain": np.linspace(0.4, 0.1, n),
            "lift": np.linspace(0.2, 0.02, n),
            "belief": [names[label[t]] for t in first],
            "confidence": sure[first],
            "answers": np.diff(answers.task_starts)[first],
            "expected": [names[label[t]] for t in first],
            "right": np.full(n, 0.8),
        }
    )


def _metrics(
    answers: Answers, names: list[str], counts: dict[str, int], sure: np.ndarray, agreed: np.ndarray,
    proba: np.ndarray, votes: np.ndarray, *, truth: bool, history: bool, hostile: bool,
) -> dict[str, Any]:  # fmt: skip
    edges = np.linspace(0, 1, 21)
    summary = summarise(answers)
    known = np.bincount(answers.truth, minlength=len(names)) / len(answers) if answers.truth is not None else None
    bins = [
        {"low": b / 10, "high": (b + 1) / 10, "confidence": b / 10 + 0.05, "accuracy": b / 10 + 0.02, "count": 10 + b}
        for b in range(3, 10)
    ]
    over = [{**b, "accuracy": b["accuracy"] - 0.08} for b in bins]
    scores = {"accuracy": 0.91, "balanced_accuracy": 0.88, "macro_f1": 0.87, "log_loss": 0.31, "ece": 0.03}
    method = {"warnings": [], "failure": None, "standard_error": 0.01, "to_vote_error": 0.008}
    method["scores"] = scores if truth else None
    keys = ("name", "chosen", "rank", "log_likelihood", "to_vote", "same_labels")
    rows = [
        ("majority-vote", False, 2, -0.8, 0.0, 0.93),
        ("dawid-skene", True, 1, -0.7, 0.1, 1.0),
        ("glad", False, 3, -0.9, -0.1, 0.9),
    ]
    methods = [dict(zip(keys, row, strict=True)) for row in rows]
    failed = {
        "name": "kos", "chosen": False, "rank": None, "log_likelihood": None, "standard_error": None, "to_vote": None,
        "to_vote_error": None, "same_labels": None, "scores": None, "warnings": ["slow <b>going</b>"],
        "failure": HOSTILE[0] if hostile else "needs two classes",
    }  # fmt: skip
    left_out = failed | {"name": "crowdlab", "warnings": [], "failure": "left out: over the time budget"}
    return {
        "format": 1,
        "method": "dawid-skene",
        "why": HOSTILE[1] if hostile else "It predicts held-out answers best.",
        "beats_vote": True,
        "words": [HOSTILE[0]] if hostile else ["About 9 in 10 of these labels should be right.", "A few need work."],
        "counts": counts,
        "expected_accuracy": float(sure.mean()),
        "expected_accepted": 0.97,
        "truth": {
            "tasks": len(answers), "accuracy": 0.91, "low": 0.88, "high": 0.94, "accepted_accuracy": 0.66,
            "accepted_tasks": counts["accept"], "vote_accuracy": 0.87, "scores": scores,
        } if truth else None,
        "summary": {**summary.as_dict(), "reading": summary.reading},
        "balance": {
            "classes": names,
            "answered": (votes.sum(axis=0) / votes.sum()).tolist(),
            "inferred": proba.mean(axis=0).tolist(),
            "truth": None if known is None else known.tolist(),
        },
        "choice": {
            "criterion": "answers", "folds": 5, "repeats": 1, "best": "dawid-skene", "n_tasks": len(answers),
            "n_never": 0, "n_answers": answers.n_answers, "words": "dawid-skene leads by 0.1.",
        },
        "methods": [*({**method, **each} for each in methods), failed, left_out],
        "calibration": {
            "temperature": 1.3,
            "words": "Confidences were lowered a little.",
            "before": {"ece": 0.09, "bins": over} if truth else None,
            "after": {"ece": 0.03, "bins": bins} if truth else None,
        },
        "confidence": {"edges": edges.tolist(), "counts": np.histogram(sure, edges)[0].tolist()},
        "agreement": {"edges": edges.tolist(), "counts": np.histogram(agreed, edges)[0].tolist()},
        "ambiguity": {"by": "answers", "words": "By how evenly the answers are split."},
        "history": [{"iteration": i, "R": 3.0 - 0.4 * i, "added": 40 * (i > 0)} for i in range(5)] if history else [],
        "curve": [
            {
                "share": share, "answers": round(share * answers.n_answers), "expected": 0.6 + 0.3 * share,
                "accuracy": 0.58 + 0.3 * share if truth else None,
            }
            for share in (0.25, 0.5, 0.75, 1.0)
        ],
        "curve_method": "majority-vote",
        "forecast": [{"bought": b, "expected": 0.9 + 0.001 * b} for b in (10, 20, 40)],
        "trust": {
            "basis": "held-out answers", "assumes": "This assumes that workers err independently.", "n_gold": 0,
            "answers_per_task": 3.0, "effective_votes": 2.1, "background_rho": 0.1, "ambiguous": False, "strong": False,
            "families": [{"workers": [HOSTILE[2], "w2", "w3"] if hostile else ["w1", "w2", "w3"], "rho": 0.62}],
            "range": None, "gold_needed": 140, "estimates": None,
        },
        "spammers": 1,
        "verdict_rules": {"accept": 0.9},
        "verdict_words": dict.fromkeys(VERDICTS, "What this verdict means, in plain words."),
    }  # fmt: skip


def _csv(table: pa.Table, path: Path) -> None:
    for place, column in enumerate(table.columns):
        if pa.types.is_string(column.type):
            distinct = pc.unique(column)
            escaped = escape(distinct).take(pc.index_in(column, distinct))
            table = table.set_column(place, table.column_names[place], escaped)
        elif pa.types.is_boolean(column.type):
            words = pa.array([str(value) for value in column.to_pylist()])
            table = table.set_column(place, table.column_names[place], words)
    pyarrow.csv.write_csv(table, path)


class Page(HTMLParser):
    """Tags, attributes and texts of a page, parsed as a browser does."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.inside = ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.texts).append(data)

    def data(self) -> dict:
        return json.loads(self.scripts[0])


def values(spec: dict, field: str = "") -> list[dict]:
    """Rows that a chart draws; of several tables the one with this field."""
    return next(rows for rows in spec["datasets"].values() if not field or field in rows[0])
