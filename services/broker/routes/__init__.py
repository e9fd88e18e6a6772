"""HTTP: parse, one service call, answer. Two trees that share no route; who calls is decided before."""
