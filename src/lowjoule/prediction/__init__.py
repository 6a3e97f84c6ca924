"""The offline predictor."""
