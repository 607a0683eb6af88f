"""Models: what a folder can do, how it is loaded, and how text becomes tokens and back."""
