"""Whether the model files of a worker take the batches it asks for, by what they declare: no engine is loaded for it."""

from pathlib import Path

from cloud.config import WorkerConfig
from pipelines.detectors.model_file import read_model
from pipelines.detectors.signature import read_signature
from pipelines.errors import ConfigError, Problem, Rejected


def must_take_batches(config: WorkerConfig, file: Path) -> None:
    """Raises ConfigError with every model whose file takes one picture at a time and is to run more."""
    problems = []
    for name, model in config.models.items():
        batch = model.batch or config.batch
        path = getattr(model.detector, "model", None)
        if batch.max == 1 or path is None:
            continue
        try:
            signature = read_signature(read_model(path))
        except Rejected:  # what it is the worker says, which looks closer
            continue
        if signature.one_at_a_time:
            key = "batch.max" if model.batch is None else f"models.{name}.batch.max"
            words = f"{batch.max} pictures at once, but {path} {signature.batch_words}; or leave batch out"
            problems.append(Problem(words, key, str(file)))
    if problems:
        raise ConfigError(*problems)
