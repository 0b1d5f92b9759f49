"""The agents of batches: which of them makes what, and how they are asked."""
