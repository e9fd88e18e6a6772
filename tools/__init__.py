"""What a checkout needs and a unit never imports: set-up, locks, and generated pages."""
