"""Foreword's window: Qt lives here, MLX does not."""
