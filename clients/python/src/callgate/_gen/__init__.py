"""Generated code. Only `callgate._wire` may import it."""
