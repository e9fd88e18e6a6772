"""One module a schema revision, named `r<number>_<what>`; none is edited once released."""
