"""CrowdInG: generates missing answers with a generator trained against a discriminator.

`crowding` is the learner; `module` holds its networks (`generator`, `discriminator`) and their losses, `objective`
the formulas, `pool` the real and generated answers of an epoch, and `divergence` the warnings when training fails.
"""
