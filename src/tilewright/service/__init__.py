"""The compile service: jobs that turn a model into an artifact for a device, over HTTP, in confined processes.

`neo` speaks SageMaker's compilation API, so that its clients work unchanged; `jobs` keeps, runs and stops jobs; `app`
puts both together for a web server. Needs the extra [serve].
"""
