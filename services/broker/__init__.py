"""The hub of a hive: durable state, rules, notices. The only unit with a database."""
