"""PAVE and the policies that it is compared with; each plugs into the town's step interface."""
