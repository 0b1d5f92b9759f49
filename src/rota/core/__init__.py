"""The engine's rules, pure: no I/O, no clock, no chance. `lifecycle` is the heart."""
