"""The local API: other programs on this computer talk to the loaded model as they would to OpenAI's.

It runs in a thread of its own and knows the engine by commands and events alone. Read `server.py` first.
"""
