"""A page cache under publications and requests (delivery), compiled and live."""
