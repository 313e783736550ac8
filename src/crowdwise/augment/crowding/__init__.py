"""CrowdInG: answers nobody gave, from a generator trained against a discriminator.

`crowding` is the learner; `module` holds its networks (`generator`, `discriminator`) and what each of them minimises,
`objective` the formulas, `pool` the answers of an epoch, real and generated, and `watch` notices when a game is lost.
"""
