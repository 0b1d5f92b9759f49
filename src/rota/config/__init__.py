"""Configuration: one file in the seeds' shape, the environment over it, flags over both."""

from rota.config.load import load_config
from rota.config.model import Config, Row

__all__ = ["Config", "Row", "load_config"]
