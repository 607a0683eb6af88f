"""Foreword without a window: models, speculative decoding and the worker that runs them. No Qt."""
