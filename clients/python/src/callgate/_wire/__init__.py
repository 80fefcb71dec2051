"""Knows protobuf and transport, so that nothing else has to.

Everything in here runs on one event loop on a thread of its own
(`loop.WireLoop`), which no handler and no orchestrator code can block.
"""
