"""Compare methods and settings without ground truth, by how well they predict held-out answers.

`choose` picks one, as described here; `bench` compares methods over several seeds (`choose.benchmark`).

Answers are split into folds. Each candidate is fitted on all folds but one and scored by the log-likelihood of the
answers in that one. All candidates have the same folds, so differences are paired. For a held-out answer l of worker w
to task t:

    "common"   log sum_c belief[t, c] confusion[w, c, l]    belief: the candidate's `proba_`, from the training answers
               (and features); confusion: ONE worker model for all candidates, estimated from that belief and the
               training answers: five answers of the average worker, and the worker's own
    "own"      log P(l | x_t, w) under the candidate's own worker model: `answer_proba` of a learner; `proba_` and
               `confusion_` of a truth model, or the common worker model if it has none
    "tasks"    log sum_c belief[t, c] prod over the answers to t of confusion[w, c, l], divided equally over them:
               all answers to a task are held out together, and belief is the classifier's, from features alone; a truth
               model is represented by the classifier trained on its labels (`Aggregated`)

Majority vote's shares are not probabilities. It is scored by the best of several readings: its shares, or votes as odds
(each vote adds the same log odds, of several sizes). So a method must know something about workers or tasks to beat it,
not only how reliable a vote is. Under "tasks" it is the classifier trained on its labels.

For "common" and "own", each answer of a task with two or more is held out exactly once. The answers to a task are
spread over the folds, so a task always keeps one; a task's only answer is never held out. For "tasks" every answer is
held out once. Pseudo-answers are never held out and are in every fit. If the model that made them saw the answers that
are now held out, candidates see these through it: choose before adding pseudo-answers.

How long to train a network is found once, on all answers, and used in all folds: a search in every fold would take
most of the time. These two or three numbers have then seen the held-out answers.

Standard errors treat tasks as independent and the fits as fixed: they do not include how a network's seed changes its
score. A candidate replaces a simpler one only if it leads by more than the standard error of the lead. The order of the
candidates is the order of simplicity, and majority vote comes first. With a `default`, the rule starts there instead of
with the simplest: the default is taken among those that held-out answers cannot distinguish. With features that is
JointEM, since held-out answers rank good classifiers poorly (`benchmarks/choose_criteria.py`).

The same held-out answers calibrate each candidate: `Choice.temperatures`, see `choose.temperature`. With `checkpoint`,
a killed choice resumes (`choose.checkpoint`); with `time_budget`, the slowest candidates are skipped
(`choose.fold_fits`).

Limits: this measures how well answers are predicted, not how often labels are right. It finds bad settings, but ranks
good ones poorly if workers make the same mistakes: then imitating the crowd is rewarded.
"""

from __future__ import annotations

from crowdwise.choose.benchmark import bench
from crowdwise.choose.benchmark_table import Benchmark, MethodFigures
from crowdwise.choose.choice import CandidateScore, Choice
from crowdwise.choose.comparison import choose

__all__ = ["Benchmark", "CandidateScore", "Choice", "MethodFigures", "bench", "choose"]
