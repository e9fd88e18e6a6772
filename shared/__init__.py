"""What every unit agrees on. Imports nothing from `services`."""
