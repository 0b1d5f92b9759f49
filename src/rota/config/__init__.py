"""Configuration: one YAML file, the environment over it, flags over both."""

from rota.config.load import read_config
from rota.config.model import Config, SettingRow
from rota.config.section import Entries, Rule, Section, Setting, TypeOption

__all__ = ["Config", "Entries", "Rule", "Section", "Setting", "SettingRow", "TypeOption", "read_config"]
