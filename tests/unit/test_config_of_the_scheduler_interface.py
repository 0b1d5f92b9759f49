"""The YAML that was written for the scheduler interface loads unchanged; what is named differently today says so."""

# ruff: noqa: RUF001, W293 -- the blocks are kept letter by letter, with their wide brackets and trailing blanks

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rota import Config, load_config
from rota.clock import DAY, HOUR, MINUTE, SECOND
from rota.core.task_type import TaskType, TriggerMode
from rota.errors import InvalidConfig
from rota.keys import UserKeyConfig

GENERAL_PLAN = """
```yaml
scheduler:
  user_key_config:
    use_user_id: true      # 必须为 true
    use_device_id: true    # 是否使用 device_id
    use_agent_id: true     # 是否使用 agent_id
    default_device_id: "default"
    default_agent_id: "default"
```

```yaml
# config/config_mysql.yaml

scheduler:
  enabled: true
  check_interval: 10          # 任务检查间隔（秒）
  
  # 用户 Key 配置
  user_key_config:
    use_user_id: true         # 必须为 true
    use_device_id: true       # 是否使用 device_id
    use_agent_id: true        # 是否使用 agent_id
    default_device_id: "default"
    default_agent_id: "default"
  
  # 任务类型配置
  tasks:
    memory_compression:
      enabled: true
      trigger_mode: "user_activity"  # 用户活动触发
      interval: 1800                  # 30分钟后执行
      timeout: 300                    # 5分钟超时
      task_ttl: 7200                  # 任务状态保留2小时
      max_retries: 3
      
    data_cleanup:
      enabled: true
      trigger_mode: "periodic"        # 固定周期执行
      interval: 86400                 # 每24小时执行一次
      timeout: 600                    # 10分钟超时
      
    embedding_refresh:
      enabled: false
      trigger_mode: "user_activity"
      interval: 3600                  # 1小时后执行
      timeout: 120
```

```yaml
# 使用 3 个 key（默认）
scheduler:
  user_key_config:
    use_user_id: true
    use_device_id: true
    use_agent_id: true

# 切换到 2 个 key
scheduler:
  user_key_config:
    use_user_id: true
    use_device_id: true
    use_agent_id: false  # 禁用 agent_id
```
"""

FIRST_PLAN = """
```yaml
# config/config_mysql.yaml

processing:
  # ... 其他配置 ...
  
  # 记忆压缩配置
  memory_compression:
    enabled: true
    interval: 1800          # 压缩间隔（秒），默认30分钟
    task_ttl: 7200          # 任务状态 TTL（秒），默认2小时
    check_interval: 10      # 任务检查间隔（秒），默认10秒
    lock_timeout: 300       # 分布式锁超时（秒），默认5分钟
    batch_size: 100         # 每次压缩处理的上下文数量
```
"""


def blocks(document: str) -> list[str]:
    return re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)


def load(folder: Path, text: str, **environ: str) -> Config:
    path = folder / "config_mysql.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ=environ)


def test_the_user_key_block(tmp_path: Path) -> None:
    config = load(tmp_path, blocks(GENERAL_PLAN)[0])
    assert (config.user_key, config.warnings) == (UserKeyConfig(), ())


def test_the_general_plan(tmp_path: Path) -> None:
    config = load(tmp_path, blocks(GENERAL_PLAN)[1])
    assert (config.enabled, config.check_interval_ms, config.max_concurrent) == (True, 10 * SECOND, 5)
    assert dict(config.tasks) == {
        "memory_compression": TaskType(name="memory_compression"),
        "data_cleanup": TaskType(
            name="data_cleanup", trigger_mode=TriggerMode.PERIODIC, interval_ms=DAY, timeout_ms=10 * MINUTE
        ),
        "embedding_refresh": TaskType(name="embedding_refresh", enabled=False, interval_ms=HOUR, timeout_ms=2 * MINUTE),
    }
    (warning,) = config.warnings
    old, new = "scheduler.check_interval (file config_mysql.yaml:5)", "scheduler.executor.check_interval"
    assert warning == f"{old} is now {new}; taken as the newer name. Rename it."


def test_the_first_plan(tmp_path: Path) -> None:
    config = load(tmp_path, blocks(FIRST_PLAN)[0].replace("check_interval: 10 ", "check_interval: 20 "))
    assert dict(config.tasks) == {
        "memory_compression": TaskType(name="memory_compression", options={"batch_size": 100}),
    }
    assert config.check_interval_ms == 20 * SECOND
    assert len(config.warnings) == 6
    told = "\n".join(config.warnings)
    for name in ("enabled", "interval", "task_ttl", "batch_size"):
        assert f"processing.memory_compression.{name} (file" in told
        assert f"is now scheduler.tasks.memory_compression.{name}; taken" in told
    assert "is now scheduler.executor.check_interval; taken" in told
    assert re.search(
        r"processing.memory_compression.lock_timeout \(file [^)]*:12\) is ignored: a lock is now a lease", told
    )


def test_the_two_alternatives_in_one_block_are_two_files(tmp_path: Path) -> None:
    """The block shows two ways under one key each. As one file it is ambiguous: YAML would drop the first silently."""
    both = blocks(GENERAL_PLAN)[2]
    with pytest.raises(InvalidConfig, match="scheduler is given twice"):
        load(tmp_path, both)
    three, two = (f"scheduler:{half}" for half in both.split("scheduler:")[1:])
    assert load(tmp_path, three).user_key.use_agent_id
    assert not load(tmp_path, two).user_key.use_agent_id


def test_the_older_name_gives_way_to_the_newer(tmp_path: Path) -> None:
    config = load(tmp_path, "scheduler: {check_interval: 20, executor: {check_interval: 30, lock_timeout: 300}}")
    assert config.check_interval_ms == 30 * SECOND
    assert any("ignored, since the newer name is there too" in warning for warning in config.warnings)
    assert any("scheduler.executor.lock_timeout" in warning and "ignored" in warning for warning in config.warnings)


def test_the_environment_beats_the_file_under_either_name(tmp_path: Path) -> None:
    config = load(tmp_path, "scheduler: {check_interval: 20}", ROTA_SCHEDULER__EXECUTOR__CHECK_INTERVAL="30")
    assert config.check_interval_ms == 30 * SECOND
    config = load(tmp_path, "scheduler: {executor: {check_interval: 20}}", ROTA_SCHEDULER__CHECK_INTERVAL="30")
    assert config.check_interval_ms == 30 * SECOND
    config = load(tmp_path, "", ROTA_PROCESSING__MEMORY_COMPRESSION__INTERVAL="60")
    assert config.tasks["memory_compression"].interval_ms == MINUTE


def test_the_configuration_of_the_built_system(tmp_path: Path) -> None:
    """The shape that the module grew into: an executor section, options beside the settings, texts from variables."""
    config = load(
        tmp_path,
        """
scheduler:
  enabled: "${SCHEDULER_ENABLED:true}"
  executor: {check_interval: 10, max_concurrent: 5, lock_timeout: 300}
  tasks:
    memory_compression: {interval: 30, task_ttl: 7200}
    data_cleanup: {enabled: false, trigger_mode: periodic, interval: 60, timeout: 3600, retention_days: 30}
    hierarchy_summary: {interval: 86400, timeout: 600, task_ttl: 172800, backfill_days: 7}
    agent_profile_update: {interval: "${PROFILE_INTERVAL:86400}", timeout: 300, task_ttl: 14400}
""",
    )
    assert list(config.tasks) == ["memory_compression", "data_cleanup", "hierarchy_summary", "agent_profile_update"]
    assert config.tasks["agent_profile_update"].interval_ms == DAY
    assert config.tasks["hierarchy_summary"].options == {"backfill_days": 7}
    assert len(config.warnings) == 1
