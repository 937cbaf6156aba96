"""Configuration: typed settings (`schema`, `workload`), their conversion and messages (`convert`), Hydra
(`compose`) and the process that a run wants (`machine`).

Studies may import `schema` and `workload`; the rest belongs to the application.
"""
