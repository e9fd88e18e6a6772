"""The tools of the `hyperhive` surface, a module a family; `app` puts them together."""
