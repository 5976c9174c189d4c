"""Real servers on one machine, for developers and tests: Kafka, PostgreSQL, MariaDB, S3, Spark.

Installs what is missing, starts each on a free loopback port with data of its own, and stops it by
process id. Nothing of Tocsin itself knows of this package: a service is given addresses.
"""
