"""Events: nothing is published that was not committed, and nothing committed is lost."""
