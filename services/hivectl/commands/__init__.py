"""The commands, one module each: parse, one or two calls, print."""
