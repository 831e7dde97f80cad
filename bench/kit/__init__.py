"""What the benches on a whole stack share: the stack, its models, load, and sums over samples."""
