"""JointEM: labels, workers and a rigid, cross-fitted, calibrated classifier together. The default of `crowdwise run`.

    T[t, c]  proportional to  f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]^answer_weight
    f(x)[c]  proportional to  share[c] * prod over experts e of f_e(x)[c]^weight[e]

An expert is a component classifier: a kind of classifier on a view of the features, cross-fitted (`experts`). The
method is our own. It is Raykar's EM with five changes, each of which can be turned off:

    rigid           Gaussian classes (LDA, RDA, QDA) cannot memorise single wrong answers (`classifier`)
    cross-fitted    f(x_t) comes from tasks outside the fold of t, so that no task is judged by a classifier trained on
                    its own answers (`cross_fit`)
    calibrated      each round chooses the weights of the experts by the likelihood of the answers (`calibrate`,
                    `pooling`): this tempers them, and selects views and kinds of classifier
    hierarchical    the confusion matrix of a worker is shrunk towards that of the crowd (`prior`); with `leave_one_out`
                    an answer is judged by its worker's answers to other tasks
    answer weight   each answer is weighted as predicts held-out answers best (`answer_weight`, `pooling`): workers who
                    err together are worth less than independent ones

If the votes, corrected for errors, are spread roughly evenly over the classes, all classes are taken to be equally
likely (`vote_prior`), unless the answers contradict it. Shares learned in EM drift: a class that is often mistaken for
another one slowly loses its tasks to it. Before the first round workers are judged by the features, so that their own
votes do not confirm them; if EM then predicts the answers less well than from the labels of Dawid-Skene, it starts from
these. After the rounds, features and answers get the weights in the labels that predict answers best (`labels`).
Features that do not predict the answers are left out of the labels (`features_used_`).

Without cross-fitting, calibration, answer weights and leaving out, EM with one LDA or logistic regression maximises the
likelihood that `engine` states, and `bounds_` never falls. Each of the four breaks that, since a task's likelihood then
rewards other classifiers than those that judge it. EM then stops when the posteriors hardly change.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import ModelFileError
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.beliefs import current_beliefs
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.class_prior import (
    ClassPrior,
    check_class_prior,
    compare_evidence,
    parse_class_prior,
    parse_shares,
    pull_to_shares,
    replace_shares,
    warn_if_contradicted,
)
from crowdwise.learn.joint_em.engine import JointEMEngine, label_proba
from crowdwise.learn.joint_em.experts import check_experts, is_network, list_views, predict_experts
from crowdwise.learn.joint_em.fitter import EMProblem, JointEMFitter, compare_shares
from crowdwise.learn.joint_em.labels import label_posterior, weigh_labels
from crowdwise.learn.joint_em.views import fit_view, restore_view, view_parameters
from crowdwise.learn.joint_em.vote_prior import has_balanced_classes
from crowdwise.learn.methods.raykar import answered_weights, check_em
from crowdwise.truth.base import fix_gold
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, check_prior


class JointEM(CrowdClassifier):
    """A rigid, cross-fitted, calibrated classifier and confusion matrices, by joint EM.

    Parameters
    ----------
    classifier : {"auto", "lda", "rda", "qda", "logistic", "mlp"}, scikit-learn classifier, or torch module
        The classifier of the features. "auto" pools the three Gaussian ones, and logistic regression if there are many
        answers. "mlp" or a module is a network, trained a little in each round, one per fold side by side; the
        attributes below from `experts_` on are then missing.
    features : {"auto", "plain", "root", "standard", "rank", "kernel"}, sequence of these, or scikit-learn transformer
        Views of the features (`views`). Several are weighted by the answers. For networks "auto" leaves them unchanged.
    cross_fit : int or None
        Number of folds. The classifier that judges a task is never trained on its answers.
    calibrate : bool
        Choose the weights of the classifiers in each round by the likelihood of the answers; needs `cross_fit`.
    prior : as `DawidSkene` takes
        Pseudo-counts of the confusion matrices.
    class_prior : "balanced", mapping of class to share, or None
        How frequent the classes are among the answered tasks. Declare only what you know.
    class_prior_strength : float
        How far posteriors are pulled towards `class_prior`, from 0 (ignore it) to 1 (match it).
    new_class_prior : "balanced", mapping of class to share, or None
        How frequent the classes are among the tasks to predict, if that differs from the answered tasks. It affects
        only `predict` and `predict_proba`, and may be set after the fit (`set_params`).
    leave_one_out : bool
        Judge an answer by its worker's answers to other tasks.
    answer_weight : "auto" or float
        Weight of each answer, from 0 to 1; less than 1 if workers err together. "auto" chooses the weight that best
        predicts held-out answers, in each round, and for the labels finds those of features and answers together;
        without `calibrate` it is 1.
    max_iter : int or None
        Maximum number of rounds. None is 20, or 100 if no setting breaks the bound.
    tol : float
        Increase of the bound per answer below which EM stops, if no setting breaks the bound; otherwise EM stops when
        the posteriors hardly change. 0 runs all rounds.
    random_state : int
        Seed of the folds and of networks.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c).
    answer_weight_, feature_weight_ : float
        Weight of each answer, and of the classifier's log probabilities, in the labels.
    features_used_ : bool
        Whether features enter the labels: they do if they predict the answers better than other answers alone do.
    class_share_ : (classes,) array or None
        Class shares, if they are estimated apart from the classifier; otherwise None.
    taught_share_ : (classes,) array
        Class shares that `predict_proba` assumes, unless `new_class_prior` is given.
    named_ : (classes,) bool array
        Classes that occur in answers or gold; the others get no probability.
    experts_ : list of dict
        The classifiers that received weight, with "view", "kind" and "weight".
    even_ : bool
        Whether all classes are taken to be equally likely.
    bounds_, converged_ : array and bool
        The bound of each round, and whether EM stopped before `max_iter`.

    Examples
    --------
    >>> from crowdwise import JointEM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = JointEM().fit(X, answers)
    >>> model.predict(X[:2]).shape, {expert["kind"] for expert in model.experts_}
    ((2,), {'qda'})
    """

    history_: list[dict[str, Any]]
    proba_: Array

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
    feature_weight_: float
    features_used_: bool
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
        # without a prior, a label that a worker gave once would have a count of 0
        undefined = self.prior is None and self.leave_one_out
        require(not undefined, "prior", None, "another prior, such as 'hierarchical', or add leave_one_out=False")
        check_class_prior(self.class_prior, self.class_prior_strength)
        check_class_prior(self.new_class_prior, name="new_class_prior")
        check_em(self.cross_fit, self.calibrate, self.max_iter, self.tol)
        weight = self.answer_weight
        valid = weight == "auto" if isinstance(weight, str) else is_number(weight) and 0 <= weight <= 1
        require(valid, "answer_weight", weight, "'auto' or a number from 0 to 1")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer, 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        self._network = None
        answers, weight, gold = (
            inputs.answers,
            answered_weights(inputs.answers, inputs.weight, inputs.gold),
            inputs.gold,
        )
        self.named_ = np.bincount(answers.label, minlength=answers.n_classes) > 0
        if gold is not None:
            self.named_[gold[gold >= 0]] = True
        self._new_shares()  # raises before the fit if new_class_prior names other classes
        if is_network(self.classifier):
            self._fit_network(inputs)
            return
        x = inputs.features.matrix()
        fitter = JointEMFitter(self, self.named_)
        problem = EMProblem(answers, gold, weight, equal_shares=has_balanced_classes(answers, weight, self.named_))
        experts = fitter.make_experts(x, problem, _rows_with_weight(inputs.weight))
        declared = parse_class_prior(self.class_prior, self.class_prior_strength, answers.classes, self.named_)
        callback = inputs.callback if declared is None else None
        alone, result = fitter.fit_both(problem, experts, callback, self._resume_from)
        if problem.equal_shares and self.calibrate:  # the votes look balanced: do features and answers contradict it?
            unequal = problem._replace(equal_shares=False)
            learned_alone, learned = fitter.fit_both(unequal, result.experts, None, self._resume_from)
            if compare_shares(result, learned).contradicts:
                problem, alone, result = unequal, learned_alone, learned
        if declared is not None:  # comparing fits with and without the prior tells whether the answers contradict it
            problem = problem._replace(declared_shares=declared)
            alone, with_prior = fitter.fit_both(problem, experts, inputs.callback, self._resume_from)
            warn_if_contradicted(compare_shares(with_prior, result), stacklevel=4)
            result = with_prior
        self.features_used_ = fitter.use_features(alone, result)
        if alone is not None and not self.features_used_:
            result = fitter.add_experts(problem, experts, alone)
        engine, self.even_ = result.engine, problem.equal_shares
        self.bounds_, self.converged_ = np.array(result.bounds), result.converged
        self.history_ = [{"iteration": i + 1, "bound": float(bound)} for i, bound in enumerate(self.bounds_)]
        self.feature_weight_, self.answer_weight_ = float(self.features_used_), float(engine.answer_weights[0])
        if fitter.answer_weight == "auto":
            self._weigh_labels(engine)
        self.proba_, self.confusion_ = engine.proba[0], engine.workers[0].confusion()
        self.class_share_ = engine.share[0] if fitter.separate_shares else None
        self.taught_share_ = _training_shares(self.class_share_, self.proba_, weight)
        engine.classifier.fit(engine.proba)  # the saved classifiers are fitted to the final labels
        self.experts_ = [expert.to_dict(float(w)) for expert, w in zip(result.experts, engine.weights[0], strict=True)]

    def _weigh_labels(self, engine: JointEMEngine) -> None:
        """Infer the final labels of a fit, with new weights of features and answers."""
        answers, share, answer_log_proba = engine.answers, engine.share[0], engine.workers[0].answer_log_proba()
        assert share is not None
        log_f = engine.log_f() * self.features_used_
        weight = np.ones(answers.n_tasks) if engine.weight is None else engine.weight
        if engine.gold is not None:
            weight = weight * (engine.gold < 0)  # answers to gold tasks need no prediction
        self.feature_weight_, self.answer_weight_ = weigh_labels(
            log_f, answer_log_proba, answers, share=share, start=(self.feature_weight_, self.answer_weight_),
            weight=weight, seed=self.random_state,
        )  # fmt: skip
        log_answers = engine.workers[0].log_likelihood(np.ones_like(log_f), None)
        proba = label_posterior(log_f, log_answers, (self.feature_weight_, self.answer_weight_), share)
        if engine.declared_shares is not None:
            proba = pull_to_shares(proba, *engine.declared_shares, engine.gold, engine.weight)
        engine.proba[0] = fix_gold(proba, engine.gold)

    def _find_start(self, features: Features, answers: Answers) -> Array | None:
        return None if is_network(self.classifier) else current_beliefs(self, features, answers)

    def _fit_network(self, inputs: FitInput) -> None:
        """Fit with networks, which the training loop trains between the E-steps."""
        X: Any = inputs.features
        if self.features != "auto":
            (view,) = list_views(self.features)
            x, rows = np.asarray(X.matrix(), np.float64), _rows_with_weight(inputs.weight)
            transformer, X = fit_view(view, x if rows is None else x[rows])
            X = X if rows is None else transformer.transform(x)
            self.view_ = {"view": view, "transformer": view_parameters(transformer)}
        options = {"sample_weight": inputs.weight, "gold": inputs.gold}
        without = None
        if self.class_prior is not None:
            without = self._make_network(None).fit(X, inputs.answers, **options)
        network = self._make_network(self.class_prior).fit(X, inputs.answers, callback=inputs.callback, **options)
        if without is not None:
            evidence = compare_evidence(without.evidence, network.evidence, without.evidence_without_features)
            warn_if_contradicted(evidence, stacklevel=5)
        self._network, self.proba_, self.confusion_ = network, network.proba_, network.confusion_
        self.class_share_, self.answer_weight_ = None, network.answer_weight_
        weight = answered_weights(inputs.answers, inputs.weight, inputs.gold)
        self.taught_share_ = _training_shares(None, self.proba_, weight)
        self.history_ = network.history_

    def _make_network(self, class_prior: ClassPrior) -> Any:
        from crowdwise.learn.joint_em.network import JointNetwork  # imports torch

        rounds = {} if self.max_iter is None else {"epochs": self.max_iter}
        declared, answer_weight = (
            (class_prior, self.class_prior_strength),
            JointEMFitter(self, self.named_).answer_weight,
        )
        return JointNetwork(
            declared, self.leave_one_out, answer_weight, self.named_, network=self.classifier, prior=self.prior,
            cross_fit=self.cross_fit, calibrate=self.calibrate, random_state=self.random_state, **rounds,
        )  # fmt: skip

    def _predict_proba(self, features: Features) -> Array:
        proba = np.concatenate([self._classify(lines) for lines in features.matrix_blocks()])
        new = self._new_shares()
        return proba if new is None else replace_shares(proba, self.taught_share_, new)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        return label_proba(self._classify(features.rows(rows)), self.confusion_, row, worker)

    def _classify(self, x: Array) -> Array:
        """Return class probabilities (rows, classes) from rows of features in their original shape."""
        if self._network is None:
            out = predict_experts(self.experts_, x.reshape(len(x), -1), self.class_share_)
        else:
            out = self._network.predict_proba(self._network_input(x))
        if self.named_.all():
            return out
        out = np.maximum(out, FLOOR) * self.named_
        return np.asarray(out / out.sum(axis=1, keepdims=True))

    def _network_input(self, x: Array) -> Array:
        """Return rows of features as the network takes them."""
        if not hasattr(self, "view_"):
            return x.reshape(len(x), *self.shape_in_)
        return np.asarray(restore_view(**self.view_).transform(np.asarray(x.reshape(len(x), -1), np.float64)))

    def _new_shares(self) -> Array | None:
        """Return the declared class shares (classes,) of tasks to predict, or None."""
        if self.new_class_prior is None:
            return None
        return parse_shares(self.new_class_prior, self.classes_, self.named_, name="new_class_prior", least=0.0)

    def _tensors(self) -> dict[str, Array]:
        return {} if self._network is None else self._network._tensors()

    def _restore(self, tensors: dict[str, Array]) -> None:
        if not hasattr(self, "class_share_"):  # the first version, whose experts included the class shares
            message = "This JointEM was saved by an earlier version of the method. Fit it again."
            raise ModelFileError(message)
        self._network = None
        if tensors:
            self._network = self._make_network(self.class_prior)
            shape = self._network_input(np.zeros((1, *self.shape_in_))).shape[1:]
            self._network.restore(self.answers_, shape, tensors)


def _rows_with_weight(weight: Array | None) -> Array | None:
    """Return the rows of tasks whose weight is not zero; None if that is all of them."""
    return None if weight is None or weight.all() else np.flatnonzero(weight)


def _training_shares(share: Array | None, proba: Array, weight: Array | None) -> Array:
    """Return the class shares (classes,) that the classifier assumes: separate ones, or those of its labels."""
    return np.asarray(np.average(proba, axis=0, weights=weight) if share is None else share)
