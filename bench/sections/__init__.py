"""What is measured, a module a section of the result. Each is a function of the bounds."""
