"""A replacement for the parts of Spark that the engine's EM uses, on lists in this process: fast enough for many cases.

Fits go through `_fit_parameters`, which computes all sums. Reading and writing tables is tested on a real session.
"""

import pickle
import shutil
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from crowdwise.engines.spark import results, worker_tables
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.partitions import column, from_bytes, pack


class Shared:
    def __init__(self, value):
        self.value = value

    def destroy(self):
        self.value = None  # later use fails, as on Spark


class Context:
    master = "local"

    def broadcast(self, value):
        return Shared(pickle.loads(pickle.dumps(value)))

    def parallelize(self, rows, n_parts):
        return ListRDD(rows)


class ListRDD:
    """An RDD as a list; every operation runs at once."""

    def __init__(self, rows):
        self.rows, self.context, self.map = list(rows), Context(), lambda f: ListRDD(map(f, self.rows))

    def mapValues(self, f):
        return ListRDD((key, f(value)) for key, value in self.rows)

    def flatMap(self, f):
        return ListRDD(row for each in self.rows for row in f(each))

    def groupByKey(self, n_parts):
        groups = defaultdict(list)
        for key, value in reversed(self.rows):  # the engine must not rely on the order
            groups[key].append(value)
        return ListRDD(groups.items())

    def cogroup(self, other, n_parts):
        mine, theirs = dict(self.groupByKey(1).rows), dict(other.groupByKey(1).rows)
        return ListRDD((key, (mine.get(key, []), theirs.get(key, []))) for key in mine | theirs)

    def join(self, other, n_parts):
        return self.cogroup(other, 1).flatMap(lambda row: [(row[0], (a, b)) for a in row[1][0] for b in row[1][1]])

    def treeReduce(self, f):
        first, *others = self.rows
        for row in others:
            first = f(first, row)
        return first

    def collect(self):
        return self.rows[::-1]

    def partitionBy(self, n_parts):
        return self

    def persist(self, level=None):
        return self

    def unpersist(self):
        pass

    def localCheckpoint(self):
        pass


class Session:
    """A session that writes rows to pickle files; write number `dies_at` is interrupted halfway."""

    def __init__(self):
        self.sparkContext, self.writes, self.dies_at = Context(), 0, None
        self.read = SimpleNamespace(parquet=lambda path: SimpleNamespace(rdd=ListRDD(load(path))))

    def createDataFrame(self, rdd, schema):
        def parquet(path):
            self.writes += 1
            shutil.rmtree(path[7:], ignore_errors=True)  # as Spark does before it writes the first row
            Path(path[7:]).mkdir(parents=True)
            if self.writes == self.dies_at:
                raise KeyboardInterrupt
            (Path(path[7:]) / "_SUCCESS").write_bytes(pickle.dumps(rdd.rows))

        return SimpleNamespace(write=SimpleNamespace(mode=lambda mode: SimpleNamespace(parquet=parquet)))


def load(path):
    return pickle.loads((Path(path[7:]) / "_SUCCESS").read_bytes())


def data_of(answers, gold=None, parts=3, seed=0):
    """Return answers (and known labels by task) as packed parts; tasks are assigned and rows ordered at random."""
    rng = np.random.default_rng(seed)
    part = rng.integers(0, parts, answers.n_tasks)
    rows = {
        "part": part[answers.task].astype(np.int32), "task": answers.tasks[answers.task], "worker": answers.worker,
        "label": answers.label, "weight": answers.weight if answers.weight is not None else np.ones(answers.n_answers),
        "row": np.arange(answers.n_answers),
    }  # fmt: skip
    table = pa.table(rows).take(rng.permutation(answers.n_answers))
    if gold is not None:
        codes = answers.codes_of_truth(gold)
        at = np.flatnonzero(codes >= 0)
        known = {"part": part[at].astype(np.int32), "task": answers.tasks[at], "label": codes[at]}
        table = pa.concat_tables([table, pa.table(known)], promote_options="default")
    options = answers.n_classes, "error", answers.weight is not None, gold is not None
    packed = [
        pack(table.filter(pa.array(table["part"].to_numpy() == number)), *options).to_pylist()[0]
        for number in np.unique(part)
    ]
    parts_rdd, ids = (ListRDD((row["part"], row[name]) for row in packed) for name in ("packed", "ids"))
    sizes = parts, answers.n_tasks, answers.n_workers, answers.n_answers, 0
    workers = SimpleNamespace(sparkSession=Session())
    return PackedAnswers(parts_rdd, ids, workers, answers.class_ids, "string", None, {}, *sizes, ())


def learn(model, data, *, limit=10**6, folder=None, resume=False, callback=None):
    """Fit on the lists; return the posteriors (tasks, classes), sorted by task id, and the extra label column."""
    model._check()
    model._limit, model._cached = limit, []
    result = model._fit_parameters(data, None if folder is None else folder / "state.safetensors", resume, callback)
    inputs = data.parts.mapValues(lambda packed: (packed, None)) if result.inputs is None else result.inputs
    result = result._replace(message=Shared(result.message))
    proba, extra, tasks = [], [], []
    ids = dict(data.ids.rows)
    for number, value in inputs.rows:
        proba.append(results._posterior(value, result, data.n_classes)[1])
        extra.append(np.empty(0) if result.extra is None else result.extra[1](value[1]))
        tasks += column(from_bytes(ids[number]), "task").to_pylist()
    order = np.argsort(np.array(tasks))
    extra = np.concatenate(extra)
    return np.concatenate(proba)[order], extra[order] if len(extra) else None


def matrices(model):
    """Return the confusion matrices (workers, truth, label) of a model, from its blocks."""
    blocks = sorted(model.blocks.rows, key=lambda block: block[0])
    return np.concatenate([dense for block in blocks for _, dense in worker_tables._matrices(block)])
