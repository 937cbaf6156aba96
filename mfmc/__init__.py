"""mfmc: Monte Carlo, mean field and exact theory of KV-cache hit ratios for multi-turn conversations."""
