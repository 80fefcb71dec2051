"""Generated code of the package callgate.v1."""
