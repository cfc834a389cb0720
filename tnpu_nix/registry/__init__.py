"""A client of image registries: what is there, and writing to it.

reference, credentials ──▶ http (requests, log-in, retries) ──▶ client ──▶ upload, known_layers
                             answers (what a refusal means) ─┘
"""
