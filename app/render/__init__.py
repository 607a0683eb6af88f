"""Growing text on its way to the screen: segments, prose, code."""
