"""What the broker decides: who may do what, which rows go where, and in which order. No transport, no SQL."""
