"""What makes the items of a batch: a model over HTTP, LiteLLM, or word material without any network."""
