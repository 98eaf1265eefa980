"""A stub model server and scripted replies, for tests of anything that calls a model."""
