"""How good are labels, probabilities and crowds."""
