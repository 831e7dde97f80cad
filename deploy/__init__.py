"""The tools, the local stack and everything needed to put the jobs on a cluster."""
