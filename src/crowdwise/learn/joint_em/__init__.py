"""JointEM: labels, confusion matrices and a cross-fitted classifier, estimated together by EM.

Read in this order:

    joint_em.py            the model `JointEM`: parameters, fit, predict
    fitter.py              one fit: which experts take part, for how many rounds
    engine.py              the EM itself, and the worker model; Raykar, AggNet and the difficulty models use it too
    experts.py             the component classifiers ("experts"): a kind of classifier on a view of the features
    views.py               transformations of the features
    pooling.py             weights of the experts and of the answers, estimated from the answers
    class_prior.py, vote_prior.py                class shares: declared by the user; estimated from the votes
    classifiers.py, gaussian.py, logistic.py     the classifiers; cross-fitting
    network.py, network_classifier.py            the same with neural networks (these import torch)
"""
