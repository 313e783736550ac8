"""JointEM: truth, workers and a rigid, cross-fitted, calibrated classifier together. Our own, and the default of `run`.

    T[t, c]  proportional to  f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]^count
    f(x)[c]  proportional to  share[c] * prod over experts e of f_e(x)[c]^weight[e]    cross-fitted, on a view of x each

Raykar's EM with five changes, each of which can be turned off:

    rigid         Gaussian classes (LDA, RDA, QDA) cannot learn single wrong answers by heart (`classifier`, `experts`)
    cross-fitted  f(x_t) comes from tasks outside the fold of t: nobody confirms what he was taught (`cross_fit`)
    calibrated    weights of the experts in each round by how likely they make the answers (`calibrate`, `pooling`):
                  this tempers them, and picks the view of the features and the kind of classifier
    hierarchical  a worker's confusion is drawn towards that of the whole crowd (`prior`), and with `leave_one_out` his
                  answer to a task is judged by what he said to the others
    counted       an answer counts for as much of one as foretells the next answer best (`answer_weight`, `pooling`):
                  workers who err together are not as many as they are

Where votes, freed of errors, are spread over the classes about evenly, all classes are held for equally likely
(`shares`), unless the answers speak against it: shares learned in EM drift, as a class that is often mistaken for
another one is slowly swallowed by it. Workers are judged by features before their own votes can confirm them.

Without cross-fitting, calibration, counting and leaving out, EM with one LDA or logistic regression climbs the
likelihood that `em` states, and `bounds_` never fall. Each of the four breaks that: a task's likelihood then rewards
others than those who judge it. Then EM goes on until posteriors hardly change.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.errors import ModelFileError
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.class_prior import (
    ClassPrior,
    check_class_prior,
    declared_shares,
    judged,
    moved,
    shares_of,
    warn_against,
)
from crowdwise.learn.joint_em.engine import answers_given_truth
from crowdwise.learn.joint_em.experts import check_experts, is_network, predict_experts, views_of
from crowdwise.learn.joint_em.fitter import FitterInput, JointEMFitter, judge
from crowdwise.learn.joint_em.views import fit_view, numbers_of, view_from
from crowdwise.learn.joint_em.vote_prior import held_even
from crowdwise.learn.methods.raykar import answered, check_em
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, check_prior


class JointEM(CrowdClassifier):
    """A rigid classifier, cross-fitted and calibrated by the answers, and confusion matrices by joint EM.

    Parameters
    ----------
    classifier : {"auto", "lda", "rda", "qda", "logistic", "mlp"}, scikit-learn classifier, or torch module
        What judges the features. "auto" hears the Gaussian three, and logistic regression where answers are many; "mlp"
        or a module is a network, trained a little in each round, as many side by side as there are folds; it lacks the
        last ones of the attributes below, from `experts_` on.
    features : {"auto", "plain", "root", "standard", "rank", "kernel"}, sequence of these, or scikit-learn transformer
        Views of the features (`views`); of several, the answers pick. Networks take them as they come with "auto".
    cross_fit : int or None
        Folds: a task's own answers never train the classifier that judges it.
    calibrate : bool
        Choose in each round, by the likelihood of the answers, how far to trust the classifiers; needs `cross_fit`.
    prior : as `DawidSkene` takes
        Pseudo-counts of the confusion matrices.
    class_prior : "balanced", mapping of class to share, or None
        What is known of how frequent the classes are among the tasks: a statement of yours, never a guess.
    class_prior_strength : float
        How far posteriors are drawn to it, from 0, not at all, to 1.
    new_class_prior : "balanced", mapping of class to share, or None
        How frequent the classes are among the tasks that `predict` is asked about, if not as among those that were
        answered: say, a class is rare here and is not there. Labels of the tasks that were answered, and
        `answer_proba`, do not hang on it, so that it may be set after the fit, too (`set_params`).
    leave_one_out : bool
        Judge an answer by what its worker said to other tasks.
    answer_weight : "auto" or float
        For how much of an answer each one counts, from 0 to 1: less than 1 where workers err together. "auto" finds
        what foretells answers best, in each round; without `calibrate` it is 1.
    max_iter, tol, random_state
        Rounds at most (None: 20, or 100 where nothing breaks the bound); rise of the bound per answer that ends them,
        where nothing breaks it (else posteriors that hardly change do; with 0, nothing does); seed of the folds, and of
        networks.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c).
    answer_weight_ : float
        For how much of an answer each one counted at last.
    class_share_ : (classes,) array or None
        Shares of the classes, where they stand apart from the classifier; None where it has its own.
    taught_share_ : (classes,) array
        Shares of the classes behind what `predict_proba` says, unless `new_class_prior` tells others.
    named_ : (classes,) bool array
        Classes that somebody named; of the others nothing is believed.
    experts_ : list of dict
        The classifiers that were heard, with "view", "kind" and "weight".
    even_ : bool
        Whether all classes are held for equally likely.
    bounds_, converged_ : array and bool
        The bound of each round, and whether rounds ended before there were too many.

    Examples
    --------
    >>> from crowdwise import JointEM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = JointEM().fit(X, answers)
    >>> model.predict(X[:2]).shape, {expert["kind"] for expert in model.experts_}
    ((2,), {'qda'})
    """

    def __init__(
        self,
        classifier: Literal["auto", "lda", "rda", "qda", "logistic", "mlp"] | ClassifierMixin | Any = "auto",
        *,
        features: Any = "auto",
        cross_fit: int | None = 5,
        calibrate: bool = True,
        prior: Prior = "hierarchical",
        class_prior: ClassPrior = None,
        class_prior_strength: float = 1.0,
        new_class_prior: ClassPrior = None,
        leave_one_out: bool = True,
        answer_weight: Literal["auto"] | float = "auto",
        max_iter: int | None = None,
        tol: float = 1e-5,
        random_state: int = 0,
    ) -> None:
        self.classifier = classifier
        self.features = features
        self.cross_fit = cross_fit
        self.calibrate = calibrate
        self.prior = prior
        self.class_prior = class_prior
        self.class_prior_strength = class_prior_strength
        self.new_class_prior = new_class_prior
        self.leave_one_out = leave_one_out
        self.answer_weight = answer_weight
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    confusion_: Array
    experts_: list[dict[str, Any]]
    answer_weight_: float
    class_share_: Array | None
    taught_share_: Array
    even_: bool
    named_: Array
    view_: dict[str, Any]
    bounds_: Array
    converged_: bool
    _network: Any

    def _check_parameters(self) -> None:
        check_experts(self.classifier, self.features, self.calibrate)
        check_prior(self.prior)
        alone = self.prior is None and self.leave_one_out  # a label that a worker gave once has no other count
        require(not alone, "prior", None, "leave_one_out=False with it, or another prior, such as 'hierarchical'")
        check_class_prior(self.class_prior, self.class_prior_strength)
        check_class_prior(self.new_class_prior, name="new_class_prior")
        check_em(self.cross_fit, self.calibrate, self.max_iter, self.tol)
        weight = self.answer_weight
        fits = weight == "auto" if isinstance(weight, str) else is_number(weight) and 0 <= weight <= 1
        require(fits, "answer_weight", weight, "'auto' or a number from 0 to 1")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "a whole number, 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        self._network = None
        answers, weight, gold = inputs.answers, answered(inputs.answers, inputs.weight, inputs.gold), inputs.gold
        self.named_ = np.bincount(answers.label, minlength=answers.n_classes) > 0
        if gold is not None:
            self.named_[gold[gold >= 0]] = True
        self._new_shares()  # refuses, before the work, what names other classes
        if is_network(self.classifier):
            self._fit_network(inputs)
            return
        x = inputs.features.matrix()
        climber = JointEMFitter(self, self.named_)
        crowd = FitterInput(answers, gold, weight, even=held_even(answers, weight, self.named_))
        experts = climber.experts(x, crowd, _counted(inputs.weight))
        declared = declared_shares(self.class_prior, self.class_prior_strength, answers.classes, self.named_)
        climb = climber.climb(crowd, experts, inputs.callback if declared is None else None)
        if crowd.even and self.calibrate:  # votes were for that; are the answers against it, given all?
            learned = climber.climb(crowd._replace(even=False), climb.experts, None)
            if judge(climb, learned).against:
                crowd, climb = crowd._replace(even=False), learned
        if declared is not None:  # whether answers speak against it is a matter of both
            told = climber.climb(crowd._replace(declared=declared), experts, inputs.callback)
            warn_against(judge(told, climb), stacklevel=4)
            climb = told
        joint, self.even_ = climb.joint, crowd.even
        self.bounds_, self.converged_ = np.array(climb.bounds), climb.converged
        self.history_ = [{"iteration": i + 1, "bound": float(bound)} for i, bound in enumerate(self.bounds_)]
        self.proba_, self.confusion_ = joint.proba[0], joint.workers[0].confusion()
        self.class_share_, self.answer_weight_ = (joint.share[0] if climber.apart else None), float(joint.counts[0])
        self.taught_share_ = taught(self.class_share_, self.proba_, weight)
        joint.classifier.fit(joint.proba)  # what is kept has learned from the labels that are kept
        self.experts_ = [expert.saved(float(w)) for expert, w in zip(climb.experts, joint.weights[0], strict=True)]

    def _fit_network(self, inputs: FitInput) -> None:
        """The same engine, with networks that the training loop trains between the E-steps."""
        X: Any = inputs.features
        if self.features != "auto":
            (view,) = views_of(self.features)
            x, shown = np.asarray(X.matrix(), np.float64), _counted(inputs.weight)
            transformer, X = fit_view(view, x if shown is None else x[shown])
            X = X if shown is None else transformer.transform(x)
            self.view_ = {"view": view, "transformer": numbers_of(transformer)}
        options = {"sample_weight": inputs.weight, "gold": inputs.gold}
        without = None
        if self.class_prior is not None:
            without = self._made_network(None).fit(X, inputs.answers, **options)
        network = self._made_network(self.class_prior).fit(X, inputs.answers, callback=inputs.callback, **options)
        if without is not None:
            warn_against(judged(without.evidence, network.evidence, without.blind), stacklevel=5)
        self._network, self.proba_, self.confusion_ = network, network.proba_, network.confusion_
        self.class_share_, self.answer_weight_ = None, network.count_
        self.taught_share_ = taught(None, self.proba_, answered(inputs.answers, inputs.weight, inputs.gold))
        self.history_ = network.history_

    def _made_network(self, class_prior: ClassPrior) -> Any:
        from crowdwise.learn.joint_em.network import JointNetwork  # which imports torch

        rounds = {} if self.max_iter is None else {"epochs": self.max_iter}
        declared, count = (class_prior, self.class_prior_strength), JointEMFitter(self, self.named_).count
        return JointNetwork(
            declared, self.leave_one_out, count, self.named_, network=self.classifier, prior=self.prior,
            cross_fit=self.cross_fit, calibrate=self.calibrate, random_state=self.random_state, **rounds,
        )  # fmt: skip

    def _predict_proba(self, features: Features) -> Array:
        proba, new = np.concatenate([self._says(lines) for lines in features.matrix_blocks()]), self._new_shares()
        return proba if new is None else moved(proba, self.taught_share_, new)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        return answers_given_truth(self._says(features.rows(rows)), self.confusion_, row, worker)

    def _says(self, x: Array) -> Array:
        """Class probabilities (rows, classes) from rows of features in their own shape."""
        if self._network is None:
            out = predict_experts(self.experts_, x.reshape(len(x), -1), self.class_share_)
        else:
            out = self._network.predict_proba(self._seen(x))
        if self.named_.all():
            return out
        named = np.maximum(out, FLOOR) * self.named_
        return np.asarray(named / named.sum(axis=1, keepdims=True))

    def _seen(self, x: Array) -> Array:
        """Rows of features as the network takes them."""
        if not hasattr(self, "view_"):
            return x.reshape(len(x), *self.shape_in_)
        return np.asarray(view_from(**self.view_).transform(np.asarray(x.reshape(len(x), -1), np.float64)))

    def _new_shares(self) -> Array | None:
        """Shares of the classes (classes,) among tasks to come, where they are declared."""
        if self.new_class_prior is None:
            return None
        return shares_of(self.new_class_prior, self.classes_, self.named_, name="new_class_prior", least=0.0)

    def _tensors(self) -> dict[str, Array]:
        return {} if self._network is None else self._network._tensors()

    def _restore(self, tensors: dict[str, Array]) -> None:
        if not hasattr(self, "class_share_"):  # of the first form, whose experts knew the shares of the classes
            message = "this JointEM was saved by an earlier form of the method: fit it again."
            raise ModelFileError(message)
        self._network = None
        if tensors:
            self._network = self._made_network(self.class_prior)
            shape = self._seen(np.zeros((1, *self.shape_in_))).shape[1:]
            self._network.restored(self.answers_, shape, tensors)


def _counted(weight: Array | None) -> Array | None:
    """Rows of the tasks that are not left out by a weight of zero; None where none is."""
    return None if weight is None or weight.all() else np.flatnonzero(weight)


def taught(share: Array | None, proba: Array, weight: Array | None) -> Array:
    """Shares of the classes (classes,) behind a classifier: those that stand apart, or of what it was taught."""
    return np.asarray(np.average(proba, axis=0, weights=weight) if share is None else share)
