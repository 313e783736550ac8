"""What tests ask of that which stands beside answers."""


def known(answers, beside):
    """(task, worker) -> seconds."""
    ids = zip(answers.tasks[answers.task], answers.workers[answers.worker], strict=True)
    assert beside.seconds.shape == (answers.n_answers,)
    return {pair: seconds for pair, seconds in zip(ids, beside.seconds.tolist(), strict=True) if seconds == seconds}


def said(beside, word):
    return [note for note in beside.notes if word in note]
