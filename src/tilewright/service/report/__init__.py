"""Reports on compilations: what the compiler made of a model, as JSON that the page shows."""

from tilewright.service.report.compilation import compilation, refusal

__all__ = ["compilation", "refusal"]
