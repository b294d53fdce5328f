"""The gamma process factor model: its parameters, their priors, and the Gaussian algebra."""
