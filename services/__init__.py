"""The deployable units. Units never import one another; HTTP and `shared.wire` are the only bridge."""
