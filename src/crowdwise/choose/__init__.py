"""Rank methods and settings without ground truth, by how well they predict answers they have not seen.

Answers are split into folds. Each candidate is fitted on all folds but one and says how likely the answers of that one
are; all candidates see the same folds, so that differences are paired. For a held-out answer l of worker w to task t:

    "common"   log sum_c belief[t, c] confusion[w, c, l]    belief: the candidate's `proba_`, from the answers kept (and
               features); confusion: ONE worker model for all, estimated from that belief and the answers kept: five
               answers of the whole crowd, and what the worker said
    "own"      log P(l | x_t, w) under the candidate's own worker model: `answer_proba` of a learner; of a truth model
               `proba_` and `confusion_`, or the common worker model where it has none
    "tasks"    log sum_c belief[t, c] prod over the answers to t of confusion[w, c, l], in equal parts to each answer:
               all answers of a task are held out together, and belief is the classifier's, from features alone; a truth
               model is asked through the classifier trained on its labels (`Aggregated`)

Majority vote, whose shares are no probabilities, gets the best chance: its shares, or votes as odds (each vote adds the
same log odds, of several sizes), whichever predicts the held-out answers best. So a method has to know something of
workers or tasks to beat it, not only how sure a vote is. Under "tasks" it is the classifier trained on its labels.

Which answers are held out: for "common" and "own" each answer of a task that has two or more, exactly once; a task's
answers are spread over the folds, so it always keeps one. A task's only answer is never held out, for the task would be
left without. For "tasks" every answer is, once. Answers made by a model (`pseudo`) are never held out and stay in every
fit; where that model saw the answers now held out, candidates see them through it: choose before adding any.

Standard errors take tasks as independent, and hold the fits fixed: they do not tell how much a network's own seed moves
its score. A candidate takes the place of a simpler one only when its lead over that one is greater than the standard
error of the lead; the order of the candidates is the order of simplicity, and majority vote comes first. Where a
`default` is named, the rule begins there and not with the simplest: the default is taken among those that held-out
answers cannot tell apart. With features that is JointEM: held-out answers rank good classifiers poorly
(`benchmarks/choose_criteria.py`).

The same held-out answers say how sure each candidate may be: `Choice.temperatures`, see `choose.temperature`. With
`checkpoint`, a choice that was killed goes on where it was (`keeping`); with `time_budget`, the slowest candidates are
left out (`fitting`).

What this cannot do: it measures how well answers are predicted, which is not how often labels are right. It weeds out
bad settings, and ranks good ones poorly where workers err together: there, imitating the crowd is rewarded.
"""

from __future__ import annotations

from crowdwise.choose.choice import CandidateScore, Choice
from crowdwise.choose.comparison import choose

__all__ = ["CandidateScore", "Choice", "choose"]
